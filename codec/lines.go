package codec

import (
	"bytes"
	"errors"
	"io"
)

// ErrLineTooLong is returned by Fill when a line outgrows LineOptions.MaxBytes.
var ErrLineTooLong = errors.New("line longer than the limit")

const (
	minLineBuffer  = 4 << 10  // bytes a reader starts with
	keepLineBuffer = 64 << 10 // a buffer that grew beyond is not kept for the next stream
	skipLineAbove  = 64 << 10 // from this length on a line may be passed over without being buffered
	growUntil      = 32 << 10 // reads that fill the buffer make it grow up to here
)

// LineOptions bound what a LineReader holds in memory.
type LineOptions struct {
	// MaxBytes is the longest line, in bytes; 0 means no limit.
	MaxBytes int
	// Skip is asked once about a line that outgrows 64 KiB, with the bytes that have arrived; true passes the whole line over
	// in constant memory. May be nil.
	Skip func(head []byte) bool
}

// LineReader frames newline-delimited JSON over any io.Reader, however it cuts its bytes. It drops what is not payload: blank
// lines, comments (":"), "event:", "id:" and "retry:" lines and "[DONE]"; it strips surrounding space, a byte order mark and an
// optional "data:" prefix; a last line needs no newline.
//
// Next returns what is buffered and never reads; Fill reads once and may block. A line is valid until the next call of either.
type LineReader struct {
	opt      LineOptions
	buf      []byte
	start    int // first byte not consumed
	seen     int // bytes from start on that hold no newline
	skipping bool
	asked    bool // Skip was asked about the line at start
	began    bool // the first line is past
	eof      bool
	lent     []byte // the line that Next returned last; overwritten in race builds
}

// Reset makes the reader ready for another stream. It keeps its buffer unless that grew large.
func (r *LineReader) Reset(opt LineOptions) {
	buf := r.buf[:0]
	if cap(buf) > keepLineBuffer {
		buf = nil
	}
	*r = LineReader{opt: opt, buf: buf}
}

// Next returns the next buffered line that holds payload. False means that Fill must bring more, or, after Fill has returned
// io.EOF, that the stream has ended.
func (r *LineReader) Next() (line []byte, ok bool) {
	if poison && r.lent != nil {
		for i := range r.lent {
			r.lent[i] = '!'
		}
		r.lent = nil
	}
	for {
		rest := r.buf[r.start:]
		i := bytes.IndexByte(rest[r.seen:], '\n')
		switch {
		case i >= 0:
			line = rest[:r.seen+i]
			r.start += r.seen + i + 1
		case r.eof && len(rest) > 0:
			line = rest
			r.start = len(r.buf)
		default:
			r.seen = len(rest)
			return nil, false
		}
		r.seen, r.asked = 0, false
		if r.skipping {
			r.skipping = false
			continue
		}
		if !r.began {
			r.began = true
			line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
		}
		if line = payload(line); len(line) > 0 {
			r.lent = line
			return line, true
		}
	}
}

// Fill reads once from src. At the end of the stream it returns io.EOF, and Next may then return a last line. Any other error
// is src's own, or ErrLineTooLong.
func (r *LineReader) Fill(src io.Reader) error {
	if r.eof {
		return io.EOF
	}
	r.lent = nil
	if err := r.room(); err != nil {
		return err
	}
	n, err := src.Read(r.buf[len(r.buf):cap(r.buf)])
	full := n == cap(r.buf)-len(r.buf)
	r.buf = r.buf[:len(r.buf)+n]
	if full && cap(r.buf) < growUntil {
		r.grow()
	}
	if err == io.EOF {
		r.eof = true
		if n > 0 {
			return nil
		}
	}
	return err
}

// room makes space for the next read: consumed bytes go, then the buffer grows, unless the line may be dropped.
func (r *LineReader) room() error {
	if r.start > 0 {
		r.buf = r.buf[:copy(r.buf, r.buf[r.start:])]
		r.start = 0
	}
	if r.skipping && r.seen == len(r.buf) {
		r.buf, r.seen = r.buf[:0], 0
	}
	n := len(r.buf)
	if n >= skipLineAbove && !r.asked && r.opt.Skip != nil {
		r.asked = true
		if r.opt.Skip(r.buf) {
			r.skipping = true
			r.buf, r.seen = r.buf[:0], 0
			return nil
		}
	}
	if r.opt.MaxBytes > 0 && n > r.opt.MaxBytes {
		return ErrLineTooLong
	}
	if n == cap(r.buf) {
		r.grow()
	}
	return nil
}

func (r *LineReader) grow() {
	n := max(minLineBuffer, 2*cap(r.buf))
	if limit := r.opt.MaxBytes + minLineBuffer; r.opt.MaxBytes > 0 {
		n = min(n, max(limit, cap(r.buf)+minLineBuffer))
	}
	buf := make([]byte, len(r.buf), n)
	copy(buf, r.buf)
	r.buf = buf
}

// payload strips what is not JSON from a line; nothing is left of a line that carries none.
func payload(line []byte) []byte {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] == '{' {
		return line
	}
	if line[0] == ':' {
		return nil
	}
	name, value, found := bytes.Cut(line, []byte(":"))
	if found {
		switch string(name) {
		case "data":
			line = bytes.TrimSpace(value)
		case "event", "id", "retry":
			return nil
		}
	}
	if string(line) == "[DONE]" {
		return nil
	}
	return line
}
