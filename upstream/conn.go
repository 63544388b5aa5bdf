package upstream

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// tick is how long a connection stays silent before its watcher hears of it, if the watcher does not ask for less.
	tick = 500 * time.Millisecond
	// readBufferBytes is the buffer of a connection: it has to hold the header of an answer.
	readBufferBytes = 4 << 10
	// writeStall is how long a gateway may take nothing of a request.
	writeStall = 30 * time.Second
)

var errStopped = errors.New("the consumer has stopped")

// stalled is the error of a connection that has moved no byte for so long.
type stalled time.Duration

func (s stalled) Error() string { return "silent for " + time.Duration(s).String() }

// Watcher hears what a connection waits for. Its methods run on the goroutine that reads; false ends the exchange.
type Watcher interface {
	// Reading is called right before the socket is read, which may block.
	Reading() bool
	// Silent is called after a tick without a byte, read or written. next is when it will be called again; it may lower it, and
	// is then called whatever arrives until then.
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
	wished   bool          // the watcher asked for the deadline, which stands whatever arrives
	answered bool          // bytes have arrived since bind
	ended    error         // what the last failed read or write ended in, nil if none has

	stream net.Conn      // what carries HTTP: the conn itself, or TLS on top of it, twice behind a proxy that speaks it
	br     *bufio.Reader // reads stream, from before the header of an answer until what came with it is read; else nil
	reused bool
	probe  probe
	shut   func()    // closes the connection, from any goroutine
	parked time.Time // since when it has been idle
}

func newConn(tcp net.Conn) *conn {
	c := &conn{Conn: tcp}
	c.stream = c
	c.shut = func() { _ = tcp.Close() }
	return c
}

// readers are for headers. While a body is read, which may take long, no memory is held for them.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBufferBytes) }}

// borrow sees to it that there is a reader.
func (c *conn) borrow() {
	if c.br == nil {
		c.br = readers.Get().(*bufio.Reader)
		c.br.Reset(c.stream)
	}
}

// drained reports whether the reader holds nothing, and gives it back if so.
func (c *conn) drained() bool {
	switch {
	case c.br == nil:
		return true
	case c.br.Buffered() > 0:
		return false
	case c.br.Size() == readBufferBytes: // and not one that was made for a long header, on top of it
		c.br.Reset(nil)
		readers.Put(c.br)
		c.br = nil
	}
	return true
}

// rest reads what is behind the header of an answer.
type rest struct{ c *conn }

func (r rest) Read(p []byte) (int, error) {
	if r.c.drained() && r.c.br == nil {
		return r.c.stream.Read(p)
	}
	return r.c.br.Read(p)
}

// bind makes w hear of the silence from now on, the first time when it is due.
func (c *conn) bind(w Watcher, due time.Time, idle time.Duration) {
	c.watch, c.idle, c.until, c.first, c.wished, c.answered, c.ended = w, idle, time.Time{}, true, false, false, nil
	now := time.Now()
	c.arm(now, due.Sub(now))
}

// unbind leaves the connection without watcher and deadline.
func (c *conn) unbind() {
	c.watch = nil
	_ = c.SetReadDeadline(time.Time{})
}

// limit lets reads go on for at most d from now; then they return os.ErrDeadlineExceeded.
func (c *conn) limit(d time.Duration) {
	now := time.Now()
	if c.until = now.Add(d); c.deadline.After(c.until) {
		c.arm(now, d)
	}
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
func (c *conn) Read(p []byte) (n int, err error) {
	if n, err = c.read(p); err != nil {
		c.ended = err
	}
	return n, err
}

func (c *conn) read(p []byte) (int, error) {
	w := c.watch
	if w == nil {
		return c.Conn.Read(p)
	}
	if !w.Reading() {
		return 0, errStopped
	}
	start := time.Now()
	// A deadline costs more to set than the clock to read, so it is pushed only when a good part of it is used up.
	if c.arrived && !c.first && !c.wished && c.deadline.Sub(start) < tick*3/4 {
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
		if c.idle > 0 && now.Sub(start) >= c.idle {
			return 0, stalled(c.idle)
		}
		next := tick
		if c.first = false; !w.Silent(&next) {
			return 0, errStopped
		}
		c.wished = next < tick
		c.arm(time.Now(), next)
	}
}

// Write writes to the socket. A write that blocks is silence too; the socket has to take some of it every writeStall.
func (c *conn) Write(p []byte) (n int, err error) {
	moved := time.Now()
	for {
		deadline := moved.Add(writeStall)
		if c.watch != nil && c.deadline.Before(deadline) {
			deadline = c.deadline
		}
		_ = c.SetWriteDeadline(deadline)
		m, err := c.Conn.Write(p[n:])
		n += m
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		now := time.Now()
		if m > 0 {
			moved = now
		}
		if now.Sub(moved) >= writeStall {
			return n, stalled(writeStall)
		}
		if c.watch == nil {
			continue
		}
		next := tick
		if c.first = false; !c.watch.Silent(&next) {
			c.ended = errStopped
			return n, errStopped
		}
		c.wished = next < tick
		c.arm(time.Now(), next)
	}
}

// lost reports whether an idle connection seems to have been closed by the gateway just when it was taken: nothing was answered on
// it, and it failed before the first tick, so that the consumer has heard nothing. The request can then be sent once more, on a
// connection of its own. One that failed later may have been worked on, and is not sent again (rulings 14).
func (c *conn) lost() bool { return !c.answered && c.first }

// reason is why an exchange on c failed with err: what lies between may have wrapped the true reason beyond recognition.
func (c *conn) reason(err error) error {
	switch {
	case c.ended == nil:
		return err
	case errors.Is(c.ended, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return c.ended
}

// closed reports whether err says that the other end has closed the connection.
func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
