package chat

import (
	"bytes"
	"fmt"
	"net"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

const (
	// writeStall is how long a client may leave a write blocked.
	writeStall = 30 * time.Second
	// writeSlack is how much of writeStall may be used up before the deadline is set anew.
	writeSlack = 10 * time.Second
)

// Conn is a client's connection on which a handler may answer by itself. On any other, an answer that it streams is the last one.
type Conn interface {
	net.Conn
	// Mute drops the answer that the server itself writes next, which must have no body.
	Mute()
	// Closing reports whether the server closes the connection after the answer that is made now.
	Closing() bool
}

// response is an answer that is written while it is made, on the connection itself and on the goroutine that makes it: each frame is
// one HTTP chunk in one write, the first one behind the header, the last one before the end of the body. The HTTP server goes on with
// the connection afterwards.
type response struct {
	conn  net.Conn
	plain bool      // the client knows no chunks
	ended bool      // the whole body has been written
	armed time.Time // when the write deadline was set
	out   []byte    // what is to be written: at first the header
}

// stream answers with the frames of a turn. An error in place of the first one becomes a status.
func (h *Handler) stream(ctx *fasthttp.RequestCtx, t *pipeline.Turn, frames pipeline.Frames) (err error) {
	var r *response
	defer func() {
		if p := recover(); p != nil {
			h.Log.Error("panic in a response", "turn", t.ID, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
		if err != nil { // the client cannot tell how much of the answer is missing
			_ = ctx.Conn().Close()
		}
	}()
	for frame, err := range frames {
		if err != nil {
			h.reject(ctx, t, err)
			return nil
		}
		if r == nil {
			named(ctx, t)
			r = h.open(ctx)
		}
		if err := r.write(frame); err != nil {
			h.Log.Debug("client gone", "turn", t.ID, "error", err)
			return pipeline.ErrClientGone
		}
	}
	if r == nil {
		h.reject(ctx, t, nil)
		return nil
	}
	return r.close()
}

// open begins an answer of the length that it will have. The server is left with one that the client does not see.
func (h *Handler) open(ctx *fasthttp.RequestCtx) *response {
	r := &response{conn: ctx.Conn(), plain: !ctx.Request.Header.IsHTTP11()}
	c, ours := r.conn.(Conn)
	header := &ctx.Response.Header
	if r.plain || !ours || c.Closing() || ctx.Request.ConnectionClose() {
		header.SetConnectionClose()
	}
	header.SetContentType(codec.MediaTypeSSE)
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no")
	if r.plain {
		header.SetContentLength(-2) // the end of the connection is that of the body
	} else {
		header.SetContentLength(-1) // chunks
	}
	r.out = append(r.out, header.Header()...)
	header.SetContentLength(0)
	return r
}

// write writes a frame. One that ends the stream of events ends the body as well.
func (r *response) write(frame []byte) error {
	if now := time.Now(); now.Sub(r.armed) > writeSlack { // setting a deadline costs more than reading the clock
		r.armed = now
		_ = r.conn.SetWriteDeadline(now.Add(writeStall))
	}
	if r.plain {
		r.out = append(r.out, frame...)
	} else {
		r.out = append(strconv.AppendUint(r.out, uint64(len(frame)), 16), "\r\n"...)
		r.out = append(append(r.out, frame...), "\r\n"...)
		if r.ended = bytes.HasSuffix(frame, []byte(codec.SSEDone)); r.ended {
			r.out = append(r.out, lastChunk...)
		}
	}
	_, err := r.conn.Write(r.out)
	if r.out = r.out[:0]; cap(r.out) > keepFrameBytes {
		r.out = nil
	}
	return err
}

// lastChunk ends a body of chunks.
const lastChunk = "0\r\n\r\n"

// close ends the body. On a connection that is not a Conn the server's own answer finds no way out.
func (r *response) close() (err error) {
	if !r.plain && !r.ended {
		_, err = r.conn.Write([]byte(lastChunk))
	}
	if c, ours := r.conn.(Conn); ours {
		c.Mute()
	} else {
		_ = r.conn.Close()
	}
	return err
}
