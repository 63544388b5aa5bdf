package routes

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// listener accepts connections and knows those that are open. Running out of file descriptors does not end it: it waits until some
// are free again.
type listener struct {
	net.Listener
	log    *slog.Logger
	closed chan struct{}

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// conn is an open connection of a client. It is busy from when a whole request has come until its answer has gone.
type conn struct {
	*net.TCPConn
	ln   *listener
	busy atomic.Bool
	once sync.Once
}

// Limits of the wait of an accept that has failed for want of resources.
const (
	minAcceptWait = 5 * time.Millisecond
	maxAcceptWait = time.Second
)

func track(ln net.Listener, log *slog.Logger) *listener {
	return &listener{Listener: ln, log: log, closed: make(chan struct{}), conns: map[*conn]struct{}{}}
}

// passing reports whether an accept that failed with err may succeed later.
func passing(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for wait := minAcceptWait; ; wait = min(2*wait, maxAcceptWait) {
		c, err := l.Listener.Accept()
		if err == nil {
			return l.admit(c), nil
		}
		if !passing(err) {
			return nil, err
		}
		if wait == minAcceptWait {
			l.log.Error("cannot accept connections for the moment", "error", err)
		}
		select {
		case <-time.After(wait):
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

func (l *listener) admit(c net.Conn) net.Conn {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	t := &conn{TCPConn: tcp, ln: l}
	l.mu.Lock()
	l.conns[t] = struct{}{}
	l.mu.Unlock()
	return t
}

// Close implements net.Listener. Open connections stay open.
func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return nil
	default:
	}
	close(l.closed)
	return l.Listener.Close()
}

// closeConns closes the connections that are not busy, or all.
func (l *listener) closeConns(all bool) {
	l.mu.Lock()
	var list []*conn
	for c := range l.conns {
		if all || !c.busy.Load() {
			list = append(list, c)
		}
	}
	l.mu.Unlock()
	for _, c := range list {
		_ = c.Close()
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.ln.mu.Lock()
		delete(c.ln.conns, c)
		c.ln.mu.Unlock()
	})
	return c.TCPConn.Close()
}

// drained closes connections as soon as they are not busy, for at most d, and reports whether none is open.
func (l *listener) drained(d time.Duration) bool {
	end := time.After(d)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		l.closeConns(false)
		l.mu.Lock()
		n := len(l.conns)
		l.mu.Unlock()
		if n == 0 {
			return true
		}
		select {
		case <-end:
			return false
		case <-tick.C:
		}
	}
}
