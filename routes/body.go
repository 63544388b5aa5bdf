package routes

import (
	"io"
	"slices"

	"github.com/valyala/fasthttp"

	"amplifier-agent/pipeline"
	"amplifier-agent/routes/chat"
)

const (
	// firstBody is how much memory a body gets before more than that has come, whatever length it claims; minBody how much it
	// gets at least if it claims none.
	firstBody = 64 << 10
	minBody   = 4 << 10
)

// read replaces the stream of a request's body by the whole body. After an error the connection is of no more use.
func (s *Server) read(ctx *fasthttp.RequestCtx) error {
	b, err := readBody(ctx.RequestBodyStream(), ctx.Request.Header.ContentLength(), s.cfg.MaxBody)
	if err == nil {
		ctx.Request.SetBodyRaw(b)
		return nil
	}
	ctx.SetConnectionClose()
	if c, ok := ctx.Conn().(*conn); ok && c.late {
		return s.tooSlow()
	}
	return err
}

// readBody reads a body of length bytes, or of any length up to limit if that is negative. The result is not nil.
func readBody(r io.Reader, length, limit int) ([]byte, error) {
	most, first := length, min(length, firstBody)
	if length < 0 {
		most, first = limit+1, minBody
	}
	b := make([]byte, 0, first)
	for {
		if len(b) == cap(b) {
			b = slices.Grow(b, min(len(b), most-len(b)))
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > limit:
			return nil, chat.TooLarge(limit)
		case err == io.EOF && len(b) >= length:
			return b, nil
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, &pipeline.Error{Code: pipeline.CodeInvalidRequest, Origin: pipeline.OriginClient, Message: "read the request body", Err: err}
		}
	}
}
