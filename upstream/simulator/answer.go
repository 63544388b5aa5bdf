package simulator

import (
	"bytes"
	"net/http"
	"time"
)

// Forever, as the length of a pause, lasts until the client leaves or the server is closed.
const Forever time.Duration = -1

// Coalesce, as Answer.WriteSize, sends everything between two pauses in one write.
const Coalesce = -1

// End is how an exchange ends once its body is sent.
type End int

const (
	EndEOF   End = iota // the clean end of the body
	EndReset            // a TCP reset
	EndCut              // the connection is closed without the end of the chunked body
	EndHang             // nothing more, until the client leaves
)

// Pause is a silence in front of the byte at an offset of Answer.Body.
type Pause struct {
	At  int           // bytes; len(Body) is before the end. See LineOffset
	For time.Duration // or Forever
}

// Answer is one scripted response. The zero value is an empty 200. The server only reads it, so one Answer may serve many
// exchanges at once.
type Answer struct {
	Fault Fault // not empty: this fault, applied to the default answer; the other fields are ignored

	Status      int         // 0 is 200
	Header      http.Header // added to the response
	ContentType string      // "" is text/event-stream for 200, which is what the gateway says about its NDJSON, else application/json
	Body        []byte
	// Filler is the number of bytes without a newline that follow Body.
	Filler   int64
	Encoding string // Content-Encoding: "", gzip, deflate, zstd or br. Pauses and sizes count bytes before compression

	HeaderDelay time.Duration // silence before the headers, or Forever
	WriteSize   int           // bytes in one write; 0 is one line in one write; or Coalesce. Each write is flushed
	Every       time.Duration // silence between two writes
	Pauses      []Pause       // ordered by At

	// End is how it ends. EndReset with neither Status nor Body resets before the headers.
	End End
}

// LineOffset is the offset of line n of body, counted from 0, for Pause.At; len(body) if there are not so many lines.
func LineOffset(body []byte, n int) int {
	at := 0
	for ; n > 0; n-- {
		i := bytes.IndexByte(body[at:], '\n')
		if i < 0 {
			return len(body)
		}
		at += i + 1
	}
	return at
}

func (a *Answer) status() int {
	if a.Status == 0 {
		return http.StatusOK
	}
	return a.Status
}

func (a *Answer) contentType() string {
	switch {
	case a.ContentType != "":
		return a.ContentType
	case a.status() == http.StatusOK:
		return "text/event-stream"
	default:
		return "application/json"
	}
}

// streams tells an answer that must leave in pieces from one that net/http may send with a Content-Length.
func (a *Answer) streams() bool {
	return a.contentType() == "text/event-stream" || a.Filler > 0 || a.End != EndEOF || a.Every != 0 || len(a.Pauses) > 0 || a.WriteSize >= 0
}

// next is the end of the write that starts at pos, not beyond limit.
func (a *Answer) next(pos, limit int) int {
	end := limit
	switch {
	case a.WriteSize > 0:
		end = pos + a.WriteSize
	case a.WriteSize == 0:
		if i := bytes.IndexByte(a.Body[pos:limit], '\n'); i >= 0 {
			end = pos + i + 1
		}
	}
	return min(end, limit)
}
