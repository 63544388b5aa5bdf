package chat

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"strconv"
	"time"

	"amplifier-agent/pipeline"
)

const (
	// writeStall is how long a client may leave a write blocked.
	writeStall = 30 * time.Second
	// writeSlack is how much of writeStall may be used up before the deadline is set anew.
	writeSlack = 10 * time.Second
)

// body is the streamed response. fasthttp calls WriteTo on the connection's own goroutine. The first frame goes through it, as the
// header goes out with it; then its buffer is empty, and the others go to the connection itself, each as one HTTP chunk in one write.
// The pipeline runs inside WriteTo: pulled a frame at a time, pushing in between.
type body struct {
	frame  []byte // not written yet
	next   func() ([]byte, error, bool)
	stop   func()
	conn   net.Conn
	armed  time.Time // when the write deadline was set
	plain  bool      // the client knows no chunks
	chunk  []byte    // a frame with its framing
	cancel context.CancelCauseFunc
	end    func()
	log    *slog.Logger
	turn   string
}

// SupportsBodyWriteTo tells fasthttp that WriteTo does what Read would do.
func (b *body) SupportsBodyWriteTo() bool { return true }

// WriteTo writes frame after frame until the turn has ended or the client has gone.
func (b *body) WriteTo(w io.Writer) (n int64, err error) {
	defer func() {
		if p := recover(); p != nil {
			b.log.Error("panic in a response", "turn", b.turn, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	for ok := true; ok; ok = b.pull() {
		b.arm()
		var m int
		if n == 0 || b.plain {
			m, err = w.Write(b.frame)
		} else {
			m, err = b.write()
		}
		if n += int64(m); err != nil {
			b.log.Debug("client gone", "turn", b.turn, "error", err)
			b.cancel(pipeline.ErrClientGone)
			return n, err
		}
	}
	return n, nil
}

// write writes the frame as a chunk, past fasthttp, which would cut one that outgrows its buffer into several writes.
func (b *body) write() (int, error) {
	b.chunk = strconv.AppendUint(b.chunk[:0], uint64(len(b.frame)), 16)
	b.chunk = append(append(append(b.chunk, "\r\n"...), b.frame...), "\r\n"...)
	if _, err := b.conn.Write(b.chunk); err != nil {
		return 0, err
	}
	if cap(b.chunk) > keepFrameBytes {
		b.chunk = nil
	}
	return len(b.frame), nil
}

// Read serves transports that cannot take WriteTo.
func (b *body) Read(p []byte) (int, error) {
	for len(b.frame) == 0 {
		if !b.pull() {
			return 0, io.EOF
		}
	}
	n := copy(p, b.frame)
	b.frame = b.frame[n:]
	return n, nil
}

func (b *body) pull() (ok bool) {
	b.frame, _, ok = b.next() // the encoder yields an error in place of its first frame only
	return ok
}

// arm bounds the next write. Setting a deadline costs more than reading the clock.
func (b *body) arm() {
	if now := time.Now(); now.Sub(b.armed) > writeSlack {
		b.armed = now
		_ = b.conn.SetWriteDeadline(now.Add(writeStall))
	}
}

// Close ends the turn if it has not ended by itself.
func (b *body) Close() error {
	b.stop()
	b.cancel(nil)
	b.end()
	return nil // the write deadline still bounds the last chunk; the next request sets its own
}
