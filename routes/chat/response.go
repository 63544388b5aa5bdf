package chat

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// writeStall is how long a client may leave a write blocked, and twice that at most.
const writeStall = 30 * time.Second

// Conn is a client's connection on which a handler may answer by itself. On any other, an answer that it streams is the last one.
type Conn interface {
	net.Conn
	// Mute drops the answer that the server itself writes next, which must have no body.
	Mute()
	// Closing reports whether the server closes the connection after the answer that is made now.
	Closing() bool
}

// response is an answer that is written while it is made, on the connection itself and on the goroutine that makes it: each frame in
// one write, the first one behind the header. The HTTP server goes on with the connection afterwards.
type response struct {
	conn  net.Conn
	began bool
	err   error // why there is no more to write

	h    *Handler
	ctx  *fasthttp.RequestCtx
	turn *pipeline.Turn
}

// stream answers with the frames of a turn. An error in place of the first one becomes a status.
func (h *Handler) stream(ctx *fasthttp.RequestCtx, t *pipeline.Turn, frames pipeline.Frames) (err error) {
	r := &response{conn: ctx.Conn(), h: h, ctx: ctx, turn: t}
	defer func() {
		if p := recover(); p != nil {
			h.Log.Error("panic in a response", "turn", t.ID, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
			if !r.began {
				h.reject(ctx, t, err)
				return
			}
		}
		if err != nil { // the client cannot tell how much of the answer is missing
			_ = r.conn.Close()
		}
	}()
	if frames(r.take); !r.began {
		h.reject(ctx, t, r.err)
		return nil
	}
	r.end()
	return r.err
}

// take writes a frame.
func (r *response) take(frame []byte, err error) bool {
	if err != nil {
		r.err = err
		return false
	}
	if !r.began {
		frame = r.begin(frame)
		_ = r.conn.SetWriteDeadline(time.Now().Add(writeStall))
	}
	n, err := r.conn.Write(frame)
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		err = r.insist(frame[n:])
	}
	if err != nil {
		r.h.Log.Debug("client gone", "turn", r.turn.ID, "error", err)
		r.err = pipeline.ErrClientGone
		return false
	}
	return true
}

// insist writes the rest of a frame. That a deadline has passed says nothing about the client if it was set long ago, as it is not
// set for each frame; that the client takes nothing for as long again does.
func (r *response) insist(rest []byte) error {
	for {
		_ = r.conn.SetWriteDeadline(time.Now().Add(writeStall))
		n, err := r.conn.Write(rest)
		if err == nil || n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		rest = rest[n:]
	}
}

// begin is the header, and frame behind it.
func (r *response) begin(frame []byte) []byte {
	r.began = true
	named(r.ctx, r.turn)
	header := &r.ctx.Response.Header
	header.SetContentType(codec.MediaTypeSSE)
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no")
	c, ours := r.conn.(Conn)
	whole := r.ctx.Request.Header.IsHTTP11()
	if !whole || !ours || c.Closing() || r.ctx.Request.ConnectionClose() {
		header.SetConnectionClose()
	}
	if whole {
		header.SetContentLength(-1) // chunks
	} else {
		header.SetContentLength(-2) // the end of the connection is that of the body
	}
	b := header.Header()
	return append(append(make([]byte, 0, len(b)+len(frame)), b...), frame...)
}

// end leaves the server with an answer that the client does not see: on a connection that is not a Conn it finds no way out.
func (r *response) end() {
	r.ctx.Response.Header.SetContentLength(0)
	if c, ours := r.conn.(Conn); ours {
		c.Mute()
	} else {
		_ = r.conn.Close()
	}
}
