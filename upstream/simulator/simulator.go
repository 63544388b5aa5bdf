package simulator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxRecorded       = 256              // requests kept for Requests
	maxRecordedBytes  = 64 << 20         // and their bodies, together
	readHeaderTimeout = 30 * time.Second // a peer that never finishes its headers
	maxBodyBytes      = 32<<20 + 1<<20   // larger request bodies are 413
	maxDrainBytes     = 2 * maxBodyBytes // read and dropped, so that the 413 reaches a client that is still writing
	maxPrealloc       = 1 << 20          // bytes reserved on the word of a Content-Length
	defaultAddr       = "127.0.0.1:0"
)

// Options configures Start. The zero value is a fast gateway on a free loopback port that takes any key.
type Options struct {
	Addr   string        // listen address; "" is 127.0.0.1:0
	Keys   []string      // accepted bearer keys; empty accepts any key that is not empty
	Pace   time.Duration // between the deltas of default answers; 0 is full speed
	Models []Model       // served models; nil is a small built-in list
	Fault  Fault         // injected into every generate exchange; "" is none
}

// Server is a running simulator. All its methods are safe for concurrent use.
type Server struct {
	opts   Options
	models []Model
	byID   map[string]Model

	ln     net.Listener
	http   *http.Server
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	served chan struct{}  // closed when the accept loop has ended
	live   sync.WaitGroup // connections and exchanges
	close  sync.Once
	err    error // of Close

	script atomic.Pointer[func(*Request) *Answer]
	active atomic.Int64
	gone   atomic.Int64
	serial atomic.Uint64

	mu       sync.Mutex
	recorded []*Request
	bytes    int // of the recorded bodies
}

// Start listens and serves until Close.
func Start(o Options) (*Server, error) {
	if o.Fault != "" && !o.Fault.Known() {
		return nil, fmt.Errorf("start simulator: no fault is called %q", string(o.Fault))
	}
	addr := o.Addr
	if addr == "" {
		addr = defaultAddr
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("start simulator: %w", err)
	}
	s := &Server{opts: o, models: o.Models, byID: make(map[string]Model), ln: ln, served: make(chan struct{})}
	if s.models == nil {
		s.models = builtinModels()
	}
	for _, m := range s.models {
		s.byID[m.ID] = m
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.http = &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: readHeaderTimeout,
		ErrorLog:          log.New(io.Discard, "", 0),
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		ConnState:         s.connState,
	}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(ln) // always ends in http.ErrServerClosed, or in the listener's error, which Close reports
	}()
	return s, nil
}

// URL is the base URL, without a slash at its end.
func (s *Server) URL() string { return "http://" + s.ln.Addr().String() }

// Close stops listening, cuts every stream and connection, and returns when no goroutine of the simulator is left. It is
// idempotent; a second call waits for the first.
func (s *Server) Close() error {
	s.close.Do(func() {
		s.cancel()
		if err := s.http.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.err = fmt.Errorf("close simulator: %w", err)
		}
		<-s.served
		s.live.Wait()
	})
	return s.err
}

// Script lets f answer every generate exchange that passes the checks. A nil answer means the default one; a nil f takes the
// script away. f is called from many goroutines at once and may block: it runs while the client waits for headers.
func (s *Server) Script(f func(*Request) *Answer) {
	if f == nil {
		s.script.Store(nil)
		return
	}
	s.script.Store(&f)
}

// Requests returns the recorded generate requests, oldest first: those whose body was read, refused ones too, at most the last
// 256 and at most 64 MiB of bodies.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Request(nil), s.recorded...)
}

// Active is the number of generate exchanges in progress.
func (s *Server) Active() int { return int(s.active.Load()) }

// Gone is the number of generate exchanges that ended because the client left before their end.
func (s *Server) Gone() int { return int(s.gone.Load()) }

func (s *Server) record(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorded = append(s.recorded, r)
	s.bytes += len(r.Raw)
	for len(s.recorded) > maxRecorded || (s.bytes > maxRecordedBytes && len(s.recorded) > 1) {
		s.bytes -= len(s.recorded[0].Raw)
		s.recorded[0] = nil // the backing array outlives the reslice
		s.recorded = s.recorded[1:]
	}
}

// connState counts connections, so that Close can wait for their goroutines. A hijacked connection is counted by its exchange.
func (s *Server) connState(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.live.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.live.Done()
	default: // in use or idle: still the same goroutine
	}
}
