package routes

import (
	"bytes"

	"amplifier-agent/pipeline"
)

// framing refuses the shapes of a header whose end, or whose body's end, another server might see elsewhere: whoever stands in
// front of this one would then take a part of one client's request for the next one's (RFC 9112, sections 2.2, 5.2, 6.1 and
// 11.2). raw is the header behind its first line. What is malformed beyond that never gets here: fasthttp refuses it.
func framing(raw []byte) error {
	length, chunked := false, false
	for len(raw) > 0 {
		end := bytes.IndexByte(raw, '\n')
		if end < 1 || raw[end-1] != '\r' {
			return badFraming("a line of the request header does not end in CR LF")
		}
		line := raw[:end-1]
		raw = raw[end+1:]
		if len(line) == 0 {
			break
		}
		if line[0] == ' ' || line[0] == '\t' {
			return badFraming("a line of the request header is folded")
		}
		name, value, _ := bytes.Cut(line, colon)
		switch {
		case bytes.EqualFold(name, contentLength):
			length = true
		case bytes.EqualFold(name, transferEncoding):
			if !bytes.EqualFold(bytes.Trim(value, " \t"), chunkedCoding) {
				return badFraming("the only transfer encoding of a request is chunked")
			}
			chunked = true
		}
	}
	if length && chunked {
		return badFraming("the request has both a Content-Length and a Transfer-Encoding")
	}
	return nil
}

func badFraming(message string) error {
	return &pipeline.Error{Code: pipeline.CodeInvalidRequest, Origin: pipeline.OriginClient, Message: message}
}

var (
	colon            = []byte(":")
	contentLength    = []byte("Content-Length")
	transferEncoding = []byte("Transfer-Encoding")
	chunkedCoding    = []byte("chunked")
)
