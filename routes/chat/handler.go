package chat

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/rs/xid"
	"github.com/valyala/fasthttp"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/engine"
)

// DefaultPreflight is how long an upstream may take to refuse a request in time for a status (rulings 27).
const DefaultPreflight = 50 * time.Millisecond

// Handler answers POST /v1/chat/completions. Its fields do not change once it serves.
type Handler struct {
	Stages    []pipeline.Stage
	Runner    *engine.Runner
	Label     string // model of every chunk
	System    string // system prompt
	MaxBody   int    // bytes of a request's body once decoded
	Preflight time.Duration
	Default   StreamDefault
	// ErrorEvents reports errors behind the 200 as error objects (rulings 26).
	ErrorEvents bool
	Mask        Mask
	// Waits says that Request halves may take long, so that a client that leaves meanwhile must be noticed.
	Waits bool
	// Rejected, if set, hears of requests that never became a turn.
	Rejected func(pipeline.Code)
	Log      *slog.Logger
	// Base is the context that turns descend from; its end, with a cause, ends them.
	Base context.Context
}

// Serve answers one request.
func (h *Handler) Serve(ctx *fasthttp.RequestCtx) { // its frame lasts as long as a stream
	t, err := h.turn(ctx)
	if err != nil {
		h.refuse(ctx, err)
		return
	}
	tc, cancel := context.WithCancelCause(h.Base)
	defer func() {
		cancel(nil)
		t.End()
	}()
	alive := alive(ctx.Conn())
	if err := h.prepare(tc, cancel, t, alive); err != nil {
		h.reject(ctx, t, err)
		return
	}
	if frames, streams := h.frames(ctx, tc, t, alive); streams {
		cancel(h.stream(ctx, t, frames))
	} else {
		h.json(ctx, t, frames)
	}
}

// frames is the answer, as a stream of events or as one document.
func (h *Handler) frames(ctx *fasthttp.RequestCtx, tc context.Context, t *pipeline.Turn, alive func() bool) (frames pipeline.Frames, streams bool) {
	if t.Header.SessionID != "" {
		ctx.Response.Header.Set("X-Amplifier-Session-Id", t.Session)
		ctx.Response.Header.Set("X-Amplifier-Resumed", strconv.FormatBool(t.Resumed))
	}
	q := quirkOf(t.Header.UserAgent)
	wire := Wire{Label: h.Label, KeepaliveLine: q.keepaliveLine, ErrorEvents: h.ErrorEvents, Chunked: ctx.Request.Header.IsHTTP11(),
		Alive: alive, Mask: h.Mask, Log: h.Log}
	events := pipeline.Chain(h.Stages, t, h.Runner.Run(tc, t))
	if wantsStream(t.Stream, h.Default, t.Header.Accept, q) {
		return SSE(t, events, wire), true
	}
	return JSON(t, events, wire), false
}

// watch cancels once the client has gone, until stop is called, which waits for it.
func watch(alive func() bool, cancel context.CancelCauseFunc) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if !alive() {
					cancel(pipeline.ErrClientGone)
					return
				}
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// turn takes what matters of the request: nothing else of a RequestCtx outlives the handler.
func (h *Handler) turn(ctx *fasthttp.RequestCtx) (*pipeline.Turn, error) {
	t := &pipeline.Turn{ID: hexID(xid.New()), Received: time.Now(), Header: headerOf(ctx), System: h.System, Silence: h.Preflight}
	coding := string(ctx.Request.Header.ContentEncoding())
	if coding == "" {
		t.Body = ctx.Request.Body() // the server lets its handlers keep it
		return t, nil
	}
	data, err := unpack(coding, ctx.Request.Body(), h.MaxBody)
	switch {
	case len(data) > h.MaxBody:
		return nil, TooLarge(h.MaxBody)
	case errors.Is(err, codec.ErrEncoding):
		return nil, &pipeline.Error{Code: pipeline.CodeUnsupportedCoding, Origin: pipeline.OriginClient,
			Message: fmt.Sprintf("content encoding %q is not supported: send the body plain, or as gzip, zstd, br or deflate", coding)}
	case err != nil:
		return nil, &pipeline.Error{Code: pipeline.CodeInvalidRequest, Origin: pipeline.OriginClient, Message: "decompress the request body", Err: err}
	}
	t.Body = data
	return t, nil
}

func hexID(id xid.ID) string {
	var b [2 * len(id)]byte
	hex.Encode(b[:], id[:])
	return string(b[:])
}

// unpack decodes body up to one byte more than limit.
func unpack(coding string, body []byte, limit int) ([]byte, error) {
	r, err := codec.Decompress(coding, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, int64(limit)+1))
}

// headerOf copies what stages look at of a request's header. Its Authorization has been looked at.
func headerOf(ctx *fasthttp.RequestCtx) pipeline.Header {
	r := &ctx.Request.Header
	h := pipeline.Header{Accept: string(r.Peek("Accept")), UserAgent: string(r.UserAgent())}
	if h.SessionID = strings.TrimSpace(string(r.Peek("X-Client-Session-Id"))); h.SessionID == "" {
		h.SessionID = strings.TrimSpace(string(r.Peek("X-Session-Id")))
	}
	return h
}

// TooLarge is the error for a body of more than limit bytes.
func TooLarge(limit int) error {
	return &pipeline.Error{Code: pipeline.CodeTooLarge, Origin: pipeline.OriginClient,
		Message: fmt.Sprintf("the request body is larger than the limit of %d bytes", limit)}
}

// prepare runs the Request halves. A panic there rejects this turn and no other.
func (h *Handler) prepare(ctx context.Context, cancel context.CancelCauseFunc, t *pipeline.Turn, alive func() bool) (err error) {
	if h.Waits {
		defer watch(alive, cancel)()
	}
	defer func() {
		if p := recover(); p != nil {
			h.Log.Error("panic in a request", "turn", t.ID, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return pipeline.Prepare(ctx, h.Stages, t)
}

// refuse answers what never became a turn.
func (h *Handler) refuse(ctx *fasthttp.RequestCtx, err error) {
	code := pipeline.AsError(err).Code
	if h.Rejected != nil {
		h.Rejected(code)
	}
	h.Log.Info("request refused", "code", code, "error", err)
	WriteError(ctx, err)
}

// json answers with the one frame of a non-streaming turn. There is nobody to answer if there is none.
func (h *Handler) json(ctx *fasthttp.RequestCtx, t *pipeline.Turn, frames pipeline.Frames) {
	for frame, err := range frames {
		if err != nil {
			h.reject(ctx, t, err)
			return
		}
		named(ctx, t)
		ctx.Response.Header.SetContentType("application/json")
		ctx.Response.SetBodyRaw(frame) // the encoder has no further use for it
		return
	}
	h.gone(ctx, t)
}

// reject answers a turn that failed before anything was sent.
func (h *Handler) reject(ctx *fasthttp.RequestCtx, t *pipeline.Turn, err error) {
	if err == nil {
		h.gone(ctx, t)
		return
	}
	e := pipeline.AsError(err)
	if errors.Is(err, pipeline.ErrShutdown) {
		e = &pipeline.Error{Code: pipeline.CodeUnavailable, Message: "the server is shutting down", Retry: true}
	}
	if t.Outcome.Code == "" {
		t.Outcome.Code = e.Code
	}
	level := slog.LevelInfo
	if kindOf(e).status >= 500 {
		level = slog.LevelWarn
	}
	if e.Origin == pipeline.OriginUpstream {
		named(ctx, t) // else nobody may have been asked
	}
	h.Log.Log(ctx, level, "turn rejected", "turn", t.ID, "code", e.Code, "error", err)
	writeError(ctx, e, h.Mask)
}

// named says in the header who has answered, or refused. It is known for good once there is a frame.
func named(ctx *fasthttp.RequestCtx, t *pipeline.Turn) {
	if name := t.Upstream(); name != "" {
		ctx.Response.Header.Set("X-Amplifier-Upstream", strings.Map(visible, name))
	}
}

// visible keeps what a field of a header may hold.
func visible(r rune) rune {
	if r < ' ' || r > '~' {
		return '?'
	}
	return r
}

// gone closes the connection of a client that has left before there was an answer. One that still reads behind its half-closed
// connection sees that there is none.
func (h *Handler) gone(ctx *fasthttp.RequestCtx, t *pipeline.Turn) {
	h.Log.Debug("client gone before the answer", "turn", t.ID)
	_ = ctx.Conn().Close()
}
