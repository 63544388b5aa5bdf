package routes

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

// listener accepts connections and knows those that are open. Running out of file descriptors does not end it: it waits until some
// are free again.
type listener struct {
	net.Listener
	log    *slog.Logger
	closed chan struct{}
	max    int           // connections at a time, 0 for no limit
	notice func() []byte // what a connection beyond max is told
	away   chan struct{} // holds a token for each connection that is being turned away with patience
	stall  time.Duration // between two bytes of a request

	mu    sync.Mutex
	conns map[*conn]struct{}
	full  bool // the last connection was one too many
}

const (
	// Limits of the wait of an accept that has failed for want of resources.
	minAcceptWait = 5 * time.Millisecond
	maxAcceptWait = time.Second

	// maxAway is how many connections are turned away with patience at a time. Those beyond may see a reset instead of an answer.
	maxAway = 64
	// awayTime is how long that may take.
	awayTime = time.Second
)

func track(ln net.Listener, log *slog.Logger) *listener {
	return &listener{Listener: ln, log: log, closed: make(chan struct{}), away: make(chan struct{}, maxAway), conns: map[*conn]struct{}{}}
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
	for wait := minAcceptWait; ; {
		c, err := l.Listener.Accept()
		if err == nil {
			if c, ok := l.admit(c); ok {
				return c, nil
			}
			continue
		}
		if !passing(err) {
			return nil, err
		}
		if wait == minAcceptWait {
			l.log.Error("cannot accept connections for the moment", "error", err)
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, maxAcceptWait)
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

// admit keeps c among the open connections, or turns it away if it is one too many.
func (l *listener) admit(c net.Conn) (net.Conn, bool) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c, true
	}
	t := &conn{TCPConn: tcp, ln: l}
	l.mu.Lock()
	full, was := l.max > 0 && len(l.conns) >= l.max, l.full
	if l.full = full; !full {
		l.conns[t] = struct{}{}
	}
	l.mu.Unlock()
	if !full {
		return t, true
	}
	if !was {
		l.log.Warn("turning connections away: as many are open as there may be", "limit", l.max)
	}
	l.turnAway(tcp)
	return nil, false
}

// turnAway tells a client why it is not served, without letting it hold up the next.
func (l *listener) turnAway(c *net.TCPConn) {
	_ = c.SetDeadline(time.Now().Add(awayTime))
	_, _ = c.Write(l.notice()) // it fits into an empty socket: no wait
	select {
	case l.away <- struct{}{}:
		go func() {
			linger(c, awayTime)
			_ = c.Close()
			<-l.away
		}()
	default:
		_ = c.Close()
	}
}

// Close implements net.Listener. Open connections stay open.
func (l *listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isClosed() {
		return nil
	}
	close(l.closed)
	return l.Listener.Close()
}

func (l *listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
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
		_ = c.abort()
	}
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
