package upstream

import (
	"bufio"
	"errors"
	"net"
	"os"
	"time"
)

const (
	// tick is how long a connection stays silent before its watcher hears of it, if the watcher does not ask for less.
	tick = 500 * time.Millisecond
	// readBufferBytes is the buffer of a connection; it also bounds the header of a response.
	readBufferBytes = 8 << 10
	// writeStall is how long one write of a request may block.
	writeStall = 30 * time.Second
)

var (
	errStopped = errors.New("the consumer has stopped")
	errStalled = errors.New("silent for too long")
)

// Watcher hears what a connection waits for. Its methods run on the goroutine that reads; false ends the exchange.
type Watcher interface {
	// Reading is called right before the socket is read, which may block.
	Reading() bool
	// Silent is called after a tick without a byte. next is when it will be called again; it may lower it.
	Silent(next *time.Duration) bool
}

// conn is a client connection that turns silence into calls of its Watcher. It is used by one goroutine at a time, but for
// Close of the connection inside it.
type conn struct {
	net.Conn // TCP

	watch    Watcher
	idle     time.Duration // longest silence allowed, 0 for any
	until    time.Time     // no read goes on after it, zero if none
	deadline time.Time     // as set on the socket
	first    bool          // the first tick is awaited, which comes whatever arrives before it
	arrived  bool          // bytes have arrived since the deadline was set
	answered bool          // bytes have arrived since bind

	stream net.Conn      // what carries HTTP: the conn itself, or TLS on top of it
	br     *bufio.Reader // reads stream
	reused bool
	parked time.Time // since when it has been idle
}

// bind makes w hear of the silence from now on, the first time after first.
func (c *conn) bind(w Watcher, first, idle time.Duration) {
	c.watch, c.idle, c.until, c.first, c.answered = w, idle, time.Time{}, true, false
	c.arm(time.Now(), first)
}

// unbind leaves the connection without watcher and deadline.
func (c *conn) unbind() {
	c.watch = nil
	_ = c.SetReadDeadline(time.Time{})
}

// limit lets reads go on for at most d from now; then they return os.ErrDeadlineExceeded.
func (c *conn) limit(d time.Duration) {
	now := time.Now()
	c.until = now.Add(d)
	c.arm(now, d)
}

func (c *conn) arm(now time.Time, d time.Duration) {
	c.arrived = false
	c.deadline = now.Add(max(d, time.Millisecond))
	if !c.until.IsZero() && c.until.Before(c.deadline) {
		c.deadline = c.until
	}
	_ = c.SetReadDeadline(c.deadline)
}

// Read reads the socket. Silence does not end it: an error does, a watcher that says no, too long a silence, or the limit.
func (c *conn) Read(p []byte) (int, error) {
	w := c.watch
	if w == nil {
		return c.Conn.Read(p)
	}
	if !w.Reading() {
		return 0, errStopped
	}
	start := time.Now()
	// A deadline costs more to set than the clock to read, so it is pushed only when a good part of it is used up.
	if c.arrived && !c.first && c.deadline.Sub(start) < tick*3/4 {
		c.arm(start, tick)
	}
	for {
		n, err := c.Conn.Read(p)
		if n > 0 {
			c.arrived, c.answered = true, true
			return n, err
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		now := time.Now()
		if !c.until.IsZero() && !now.Before(c.until) {
			return 0, err
		}
		quiet := now.Sub(start)
		if c.idle > 0 && quiet >= c.idle {
			return 0, errStalled
		}
		next := tick
		if c.arrived && !c.first && quiet < tick/2 {
			next = tick - quiet // bytes came since the deadline was set: this is no silence yet
		} else {
			c.first = false
			if !w.Silent(&next) {
				return 0, errStopped
			}
			now = time.Now()
		}
		c.arm(now, next)
	}
}

// Write writes to the socket, for at most writeStall.
func (c *conn) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(writeStall))
	return c.Conn.Write(p)
}
