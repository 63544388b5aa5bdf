// Package routes is the HTTP server: it matches a request to a route once, decides on its key before that, and answers
// everything that is no route in the one error form. Each wire face is a folder below it.
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
	DefaultDrain   = 10 * time.Second

	maxHeaderBytes = 16 << 10
	readTimeout    = 60 * time.Second // for a whole request to arrive
	writeTimeout   = 60 * time.Second // for an answer that is not streamed to be taken
	idleTimeout    = 75 * time.Second // between two requests on a connection
	cutOff         = 3 * time.Second  // for cancelled streams to write their end
	maxDrainBytes  = 128 << 20        // read of a body that is too large, so that its sender sees the answer
	drainTimeout   = 5 * time.Second
	drainPause     = 200 * time.Millisecond // without a byte: all was sent, or the sender waits for the answer
)

// Route is one path and method of a face.
type Route struct {
	Method string
	Path   string
	// Prefix also matches every longer path.
	Prefix bool
	// Open routes need no key.
	Open   bool
	Handle fasthttp.RequestHandler
}

// Config configures a Server.
type Config struct {
	Routes  []Route
	Auth    pipeline.Stage // decides on every route that is not open, and on what is no route
	MaxBody int            // bytes; 0 means DefaultMaxBody
	Log     *slog.Logger
}

// Server serves routes.
type Server struct {
	cfg      Config
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
	s := &Server{cfg: c}
	s.base, s.cut = context.WithCancelCause(context.Background())
	s.http = fasthttp.Server{
		Handler:                      s.serve,
		ErrorHandler:                 s.malformed,
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		DisablePreParseMultipartForm: true,
		CloseOnShutdown:              true,
		MaxRequestBodySize:           c.MaxBody,
		ReadBufferSize:               maxHeaderBytes,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		Logger:                       quiet{c.Log},
		ConnState: func(c net.Conn, state fasthttp.ConnState) {
			if c, ok := c.(*conn); ok && state == fasthttp.StateIdle {
				c.busy.Store(false)
			}
		},
	}
	return s
}

// Handle adds routes.
func (s *Server) Handle(r ...Route) { s.cfg.Routes = append(s.cfg.Routes, r...) }

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
	defer func() {
		if p := recover(); p != nil {
			s.cfg.Log.Error("panic in a handler", "panic", p, "stack", string(debug.Stack()))
			ctx.Response.Reset()
			chat.WriteError(ctx, fmt.Errorf("panic: %v", p))
		}
	}()
	if c, ok := ctx.Conn().(*conn); ok {
		c.busy.Store(true)
	}
	route, allowed := s.match(ctx)
	if route == nil || !route.Open {
		if err := s.cfg.Auth.Request(ctx, &pipeline.Turn{Header: chat.HeaderOf(ctx)}); err != nil {
			chat.WriteError(ctx, err)
			return
		}
	}
	switch {
	case route != nil:
		route.Handle(ctx)
	case allowed != "":
		ctx.Response.Header.Set("Allow", allowed)
		chat.WriteError(ctx, &pipeline.Error{Code: pipeline.CodeMethodNotAllowed, Origin: pipeline.OriginClient,
			Message: fmt.Sprintf("%s is not allowed on %s: use %s", ctx.Method(), ctx.Path(), allowed)})
	default:
		chat.WriteError(ctx, &pipeline.Error{Code: pipeline.CodeNotFound, Origin: pipeline.OriginClient,
			Message: fmt.Sprintf("no route %s %s", ctx.Method(), ctx.Path())})
	}
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
	var small *fasthttp.ErrSmallBuffer
	var netErr net.Error
	e := &pipeline.Error{Code: pipeline.CodeInvalidRequest, Origin: pipeline.OriginClient, Message: "the request is not valid HTTP"}
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		swallow(ctx.Conn())
		chat.WriteError(ctx, chat.TooLarge(s.cfg.MaxBody))
		return
	case errors.As(err, &small):
		e.Code, e.Message = pipeline.CodeHeaderTooLarge, fmt.Sprintf("the request header is larger than the limit of %d bytes", maxHeaderBytes)
	case errors.As(err, &netErr) && netErr.Timeout():
		e.Code, e.Message = pipeline.CodeRequestTimeout, fmt.Sprintf("the request did not arrive within %s", readTimeout)
	}
	chat.WriteError(ctx, e)
}

// swallow reads what is still being sent, within bounds: a client that is cut off while it writes does not see the answer.
func swallow(c net.Conn) {
	buf := make([]byte, 64<<10)
	end := time.Now().Add(drainTimeout)
	for n := 0; n < maxDrainBytes && time.Now().Before(end); {
		_ = c.SetReadDeadline(time.Now().Add(drainPause))
		m, err := c.Read(buf)
		if n += m; err != nil {
			return
		}
	}
}

// quiet is fasthttp's logger: what it has to say is about single connections.
type quiet struct{ log *slog.Logger }

func (q quiet) Printf(format string, args ...any) {
	q.log.Debug(strings.TrimSpace(fmt.Sprintf(format, args...)), "from", "http")
}
