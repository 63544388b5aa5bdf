package routes

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// conn is an open connection of a client. It is busy from when a whole request has come until its answer has gone.
type conn struct {
	*net.TCPConn
	muted  bool // the header that is written next is dropped
	ln     *listener
	busy   atomic.Bool
	linger atomic.Bool // the client may still be sending: it is to see the answer before the connection goes
	once   sync.Once

	// Of the goroutine that serves the connection:
	active bool      // a request has begun
	readBy time.Time // read deadline of the request's part that is read, zero for none
	late   bool      // a read has run into it, or into the limit between two bytes
	ending int       // how many bytes of the end of that header have been
}

const (
	// lingerTime and maxLingerBytes bound the patience with a client that sends although it has been refused. One that is cut off
	// while it writes may not see the answer.
	lingerTime     = 5 * time.Second
	maxLingerBytes = 128 << 20
)

// state follows the connection from request to request. write bounds what is written before the server sets a deadline for an
// answer: an interim answer, or one to what is no request. What is left of the last answer's deadline does not bound it.
func (c *conn) state(s fasthttp.ConnState, write time.Duration) {
	switch s {
	case fasthttp.StateActive:
		c.active = true
		_ = c.SetWriteDeadline(time.Now().Add(write))
	case fasthttp.StateIdle:
		c.active = false
		c.busy.Store(false)
		c.linger.Store(false)
	default: // nothing begins or ends
	}
}

// setBusy may be called on nil, which stands for a connection that is not tracked.
func (c *conn) setBusy(busy bool) {
	if c != nil {
		c.busy.Store(busy)
	}
}

// Read implements net.Conn. While a request is read, no byte may be longer in coming than the listener's stall.
func (c *conn) Read(p []byte) (int, error) {
	if c.active {
		by := time.Now().Add(c.ln.stall)
		if !c.readBy.IsZero() && c.readBy.Before(by) {
			by = c.readBy
		}
		if err := c.TCPConn.SetReadDeadline(by); err != nil {
			return 0, err
		}
	}
	n, err := c.TCPConn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.late = true
	}
	return n, err
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.readBy = t
	return c.TCPConn.SetReadDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	c.readBy = t
	return c.TCPConn.SetDeadline(t)
}

// endOfHeader is what a header ends in, and nothing before.
const endOfHeader = "\r\n\r\n"

// Mute implements chat.Conn.
func (c *conn) Mute() { c.muted, c.ending = true, 0 }

// Closing implements chat.Conn.
func (c *conn) Closing() bool { return c.ln.isClosed() }

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	dropped := 0
	for c.muted && dropped < len(p) {
		switch p[dropped] {
		case endOfHeader[c.ending]:
			c.ending++
		case endOfHeader[0]:
			c.ending = 1
		default:
			c.ending = 0
		}
		c.muted = c.ending < len(endOfHeader)
		dropped++
	}
	if dropped == len(p) {
		return dropped, nil
	}
	n, err := c.TCPConn.Write(p[dropped:])
	return dropped + n, err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	if c.linger.Swap(false) {
		c.busy.Store(false)
		linger(c.TCPConn, lingerTime)
	}
	return c.abort()
}

// abort closes the connection at once.
func (c *conn) abort() error {
	c.once.Do(func() {
		c.ln.mu.Lock()
		delete(c.ln.conns, c)
		c.ln.mu.Unlock()
	})
	return c.TCPConn.Close()
}

// linger ends the server's side of c and reads, within bounds, until the client ends its own.
func linger(c *net.TCPConn, d time.Duration) {
	if c.CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(d)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c, maxLingerBytes)
}
