package routes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"amplifier-agent/pipeline"
	"amplifier-agent/routes/chat"
)

// Limits and defaults of a server.
const (
	DefaultMaxBody = 32 << 20 // bytes of a request's body

	maxHeaderBytes = 8 << 10                // of a request, its first line included: each connection holds a buffer for it
	cutOff         = 500 * time.Millisecond // for cancelled streams to write their end, and again for what is closed then to go
	fullRetry      = time.Second            // when a client may try again that was one too many
)

// Route is one path and method of a face.
type Route struct {
	Method string
	Path   string
	// Prefix also matches every longer path.
	Prefix bool
	// Open routes need no key.
	Open bool
	// Handle answers. The request's body is whole then, and belongs to it: it is memory of its own, to keep if it likes.
	Handle fasthttp.RequestHandler
}

// Config configures a Server.
type Config struct {
	Routes    []Route
	Auth      pipeline.Stage // decides, by Authorization alone, on every route that is not open, and on what is no route; the zero Stage admits all
	Guard     Guard
	MaxBody   int // bytes; 0 means DefaultMaxBody
	MaxConns  int // open connections; 0 means no limit
	Deadlines Deadlines
	// Rejected, if set, hears of each request that got to no handler, or whose handler panicked, and of each connection beyond
	// MaxConns.
	Rejected func(pipeline.Code)
	Log      *slog.Logger
}

// Server serves routes.
type Server struct {
	cfg      Config
	guard    *guard
	http     fasthttp.Server
	draining atomic.Bool
	base     context.Context
	cut      context.CancelCauseFunc

	mu sync.Mutex
	ln *listener // nil until Serve
}

// New returns a server without routes; Handle adds them before it serves.
func New(c Config) *Server {
	if c.MaxBody == 0 {
		c.MaxBody = DefaultMaxBody
	}
	c.Deadlines = c.Deadlines.filled()
	s := &Server{cfg: c, guard: newGuard(c.Guard)}
	s.base, s.cut = context.WithCancelCause(context.Background())
	s.http = fasthttp.Server{
		Handler:                      s.serve,
		ErrorHandler:                 s.malformed,
		ExpectHandler:                s.expect,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		DisablePreParseMultipartForm: true,
		CloseOnShutdown:              true,
		StreamRequestBody:            true, // nobody without a key makes the server hold a body
		ReduceMemoryUsage:            true, // no answer waits in a buffer for the next: handlers may write past it
		ReadBufferSize:               maxHeaderBytes,
		ReadTimeout:                  c.Deadlines.Header,
		WriteTimeout:                 c.Deadlines.Write,
		IdleTimeout:                  c.Deadlines.Idle,
		Logger:                       quiet{c.Log},
		HeaderReceived: func(*fasthttp.RequestHeader) fasthttp.RequestConfig {
			// fasthttp waits for as much of a body before it calls the handler. How large one may be is decided there.
			return fasthttp.RequestConfig{ReadTimeout: c.Deadlines.Body, MaxRequestBodySize: 1}
		},
		ConnState: func(nc net.Conn, state fasthttp.ConnState) {
			if nc, ok := nc.(*conn); ok {
				nc.state(state, c.Deadlines.whole())
			}
		},
	}
	return s
}

// Handle adds routes.
func (s *Server) Handle(r ...Route) { s.cfg.Routes = append(s.cfg.Routes, r...) }

// Routes returns the routes, to be checked and not changed.
func (s *Server) Routes() []Route { return s.cfg.Routes }

// Base is the context that turns descend from. It ends, with pipeline.ErrShutdown as its cause, when a shutdown runs out of
// patience.
func (s *Server) Base() context.Context { return s.base }

// Ready returns an error while the server drains.
func (s *Server) Ready() error {
	if s.draining.Load() {
		return pipeline.ErrShutdown
	}
	return nil
}

// Cut ends running answers now: each still gets its error and its end. What has not sent a whole request is closed.
func (s *Server) Cut() {
	s.cut(pipeline.ErrShutdown)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ln != nil {
		s.ln.closeConns(false)
	}
}

// Serve accepts connections on ln, which it closes in the end, until Shutdown. It returns at once if that was called before.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	s.ln = track(ln, s.cfg.Log)
	s.ln.max, s.ln.notice, s.ln.stall = s.cfg.MaxConns, s.full, s.cfg.Deadlines.Stall
	s.mu.Unlock()
	if s.draining.Load() {
		return s.ln.Close()
	}
	if err := s.http.Serve(s.ln); err != nil && !s.draining.Load() {
		return err
	}
	return nil
}

// Shutdown stops accepting, closes at once the connections on which no request is being answered, and lets running answers end
// within drain. Then they are cut off: each still gets its error and its end, and what takes even that too slowly is closed.
func (s *Server) Shutdown(drain time.Duration) error {
	s.draining.Store(true)
	s.mu.Lock()
	ln := s.ln
	s.mu.Unlock()
	if ln == nil {
		return nil
	}
	err := ln.Close()
	ln.closeConns(false)
	deadline := time.Now().Add(drain)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if e := s.http.ShutdownWithContext(ctx); e != nil && !errors.Is(e, context.DeadlineExceeded) && !errors.Is(e, net.ErrClosed) {
		err = e
	}
	if ln.drained(time.Until(deadline)) {
		return err
	}
	s.cfg.Log.Warn("cutting off answers that are still running", "drain", drain)
	s.Cut()
	if ln.drained(cutOff) {
		return err
	}
	s.cfg.Log.Warn("closing connections whose clients do not read")
	ln.closeConns(true)
	ln.drained(cutOff)
	return err
}

func (s *Server) serve(ctx *fasthttp.RequestCtx) {
	defer s.recovered(ctx)
	c, _ := ctx.Conn().(*conn)
	c.setBusy(true)
	handle, err := s.admit(ctx)
	if err == nil && ctx.Request.IsBodyStream() {
		c.setBusy(false)
		err = s.read(ctx)
		c.setBusy(true)
	}
	if err != nil {
		s.refuse(ctx, err)
		return
	}
	handle(ctx)
}

// recovered answers in place of code that has panicked.
func (s *Server) recovered(ctx *fasthttp.RequestCtx) {
	if p := recover(); p != nil {
		s.cfg.Log.Error("panic in a handler", "panic", p, "stack", string(debug.Stack()))
		if c, ok := ctx.Conn().(*conn); ok && c.muted { // it has answered
			_ = c.Close()
			return
		}
		ctx.Response.Reset()
		_ = s.guard.admit(ctx) // for its headers
		s.refuse(ctx, fmt.Errorf("panic: %v", p))
	}
}

// expect decides on a request whose client waits for a word before it sends the body.
func (s *Server) expect(ctx *fasthttp.RequestCtx) (status int) {
	status = fasthttp.StatusInternalServerError
	defer s.recovered(ctx)
	if _, err := s.admit(ctx); err != nil {
		s.refuse(ctx, err)
		return ctx.Response.StatusCode()
	}
	return fasthttp.StatusContinue
}

// askers are turns that hold nothing but an Authorization: they stand for a request while it is not known whether it may become one.
var askers = sync.Pool{New: func() any { return new(pipeline.Turn) }}

// admit finds who answers a request, by its header alone: nothing of the body has been kept.
func (s *Server) admit(ctx *fasthttp.RequestCtx) (fasthttp.RequestHandler, error) {
	if err := s.guard.admit(ctx); err != nil {
		return nil, err
	}
	if err := framing(ctx.Request.Header.RawHeaders()); err != nil {
		ctx.SetConnectionClose()
		return nil, err
	}
	if s.guard.preflight(ctx) {
		return allowPreflight, nil
	}
	route, allowed := s.match(ctx)
	if auth := s.cfg.Auth.Request; auth != nil && (route == nil || !route.Open) {
		t := askers.Get().(*pipeline.Turn)
		t.Header.Authorization = t.Header.Authorization[:0]
		for _, v := range ctx.Request.Header.PeekAll(fasthttp.HeaderAuthorization) {
			t.Header.Authorization = append(t.Header.Authorization, string(v))
		}
		err := auth(ctx, t)
		clear(t.Header.Authorization)
		askers.Put(t)
		if err != nil {
			return nil, err
		}
	}
	switch {
	case route == nil && allowed != "":
		ctx.Response.Header.Set("Allow", allowed)
		return nil, &pipeline.Error{Code: pipeline.CodeMethodNotAllowed, Origin: pipeline.OriginClient,
			Message: fmt.Sprintf("%s is not allowed on %s: use %s", ctx.Method(), ctx.Path(), allowed)}
	case route == nil:
		return nil, &pipeline.Error{Code: pipeline.CodeNotFound, Origin: pipeline.OriginClient,
			Message: fmt.Sprintf("no route %s %s", ctx.Method(), ctx.Path())}
	case ctx.Request.Header.ContentLength() > s.cfg.MaxBody:
		ctx.SetConnectionClose()
		return nil, chat.TooLarge(s.cfg.MaxBody)
	}
	return route.Handle, nil
}

// refuse answers in place of a handler. A client that is still sending sees the answer.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, err error) {
	if c, ok := ctx.Conn().(*conn); ok && !c.late {
		c.linger.Store(true) // it counts only if the connection is closed
	}
	s.rejected(err)
	chat.WriteError(ctx, err)
}

func (s *Server) rejected(err error) {
	if s.cfg.Rejected != nil {
		s.cfg.Rejected(pipeline.AsError(err).Code)
	}
}

// full is the answer to a connection that is one too many.
func (s *Server) full() []byte {
	err := &pipeline.Error{Code: pipeline.CodeUnavailable, Message: "too many connections are open", Retry: true, RetryAfter: fullRetry}
	s.rejected(err)
	var ctx fasthttp.RequestCtx
	chat.WriteError(&ctx, err)
	ctx.SetConnectionClose()
	return []byte(ctx.Response.String())
}

// match finds the route of a request, or the methods that its path allows. HEAD is served where GET is.
func (s *Server) match(ctx *fasthttp.RequestCtx) (route *Route, allowed string) {
	path, method := string(ctx.Path()), string(ctx.Method())
	if method == fasthttp.MethodHead {
		method = fasthttp.MethodGet
	}
	for i := range s.cfg.Routes {
		r := &s.cfg.Routes[i]
		if path != r.Path && !(r.Prefix && strings.HasPrefix(path, r.Path)) {
			continue
		}
		if r.Method == method {
			return r, ""
		}
		if allowed != "" {
			allowed += ", "
		}
		allowed += r.Method
	}
	return nil, allowed
}

// malformed answers what never became a request.
func (s *Server) malformed(ctx *fasthttp.RequestCtx, err error) {
	c, ok := ctx.Conn().(*conn)
	if ok {
		_ = c.SetWriteDeadline(time.Now().Add(s.cfg.Deadlines.Write))
	}
	switch small := (*fasthttp.ErrSmallBuffer)(nil); {
	case ok && c.late:
		err = s.tooSlow()
	case errors.As(err, &small):
		err = &pipeline.Error{Code: pipeline.CodeHeaderTooLarge, Origin: pipeline.OriginClient,
			Message: fmt.Sprintf("the request header is larger than the limit of %d bytes", maxHeaderBytes)}
	default:
		err = &pipeline.Error{Code: pipeline.CodeInvalidRequest, Origin: pipeline.OriginClient, Message: "the request is not valid HTTP"}
	}
	s.refuse(ctx, err)
	ctx.Response.SkipBody = ctx.IsHead()
}

func (s *Server) tooSlow() error {
	d := s.cfg.Deadlines
	return &pipeline.Error{Code: pipeline.CodeRequestTimeout, Origin: pipeline.OriginClient,
		Message: fmt.Sprintf("the request did not arrive in time: its header may take %s, its body %s, and no byte of it longer than %s", d.Header, d.Body, d.Stall)}
}

// quiet is fasthttp's logger: what it has to say is about single connections.
type quiet struct{ log *slog.Logger }

func (q quiet) Printf(format string, args ...any) {
	q.log.Debug(strings.TrimSpace(fmt.Sprintf(format, args...)), "from", "http")
}
