package codec

import (
	"bytes"
	"errors"
	"io"
)

// ErrLineTooLong is returned by Fill once a line outgrows LineOptions.MaxBytes.
var ErrLineTooLong = errors.New("line longer than the limit")

const (
	minLineBuffer  = 1 << 10  // bytes a reader starts with
	keepLineBuffer = 64 << 10 // a buffer that grew beyond is not kept for the next stream
	skipLineAbove  = 8 << 10  // bytes from which on a line may be passed over without being buffered
	growUntil      = 32 << 10 // bytes up to which reads that fill more than half of the buffer make it grow
)

// LineOptions bound what a LineReader holds in memory.
type LineOptions struct {
	// MaxBytes is the longest line, in bytes and without its newline; 0 means no limit.
	MaxBytes int
	// Skip is asked once about each line of 8 KiB and more, or longer than MaxBytes, with the bytes that have arrived; true passes
	// the whole line over in constant memory. May be nil.
	Skip func(head []byte) bool
}

// LineReader frames newline-delimited JSON over any io.Reader, however it cuts its bytes. It drops what is not payload: blank
// lines, comments (":"), "event:", "id:" and "retry:" lines and "[DONE]"; it strips surrounding space, a byte order mark and an
// optional "data:" prefix; a last line needs no newline.
//
// Next returns what is buffered and never reads; Fill reads once and may block, and is for when Next has returned false. A line
// is valid until the next call of either, or of Reset.
type LineReader struct {
	opt      LineOptions
	buf      []byte
	start    int // first byte not consumed
	seen     int // bytes from start on that hold no newline
	skipping bool
	asked    bool   // Skip was asked about the line at start
	began    bool   // the first line is past
	err      error  // what every further Fill returns
	lent     []byte // the line that Next returned last, in race builds
}

// Reset makes the reader ready for another stream. It keeps its buffer unless that grew large.
func (r *LineReader) Reset(opt LineOptions) {
	r.reclaim()
	buf := r.buf[:0]
	if cap(buf) > keepLineBuffer {
		buf = nil
	}
	*r = LineReader{opt: opt, buf: buf}
}

// Next returns the next buffered line that holds payload. False means that Fill must bring more, or, after Fill has returned an
// error, that nothing is left; what stands behind the last newline is a line only after io.EOF.
func (r *LineReader) Next() (line []byte, ok bool) {
	r.reclaim()
	for {
		rest := r.buf[r.start:]
		end := len(rest)
		i := bytes.IndexByte(rest[r.seen:], '\n')
		switch {
		case i >= 0:
			line = rest[:r.seen+i]
			end = len(line) + 1
		case r.err == io.EOF && end > 0:
			line = rest
		default:
			r.seen = end
			return nil, false
		}
		if err := r.judge(line); err != nil {
			r.err = err
			return nil, false
		}
		first, skipped := !r.began, r.skipping
		r.start += end
		r.seen, r.skipping, r.asked, r.began = 0, false, false, true
		if skipped {
			continue
		}
		if first {
			line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
		}
		if line = payload(line); len(line) > 0 {
			if poison {
				r.lent = line
			}
			return line, true
		}
	}
}

// Fill reads once from src. Its error is src's own, io.EOF at the end of the stream, or ErrLineTooLong, and stays. Bytes that
// come together with an error are returned by Next first: the error is for the next Fill.
func (r *LineReader) Fill(src io.Reader) error {
	r.reclaim()
	if r.err == nil {
		r.err = r.room()
	}
	if r.err != nil {
		return r.err
	}
	room := cap(r.buf) - len(r.buf)
	n, err := src.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	if n > room/2 && cap(r.buf) < growUntil { // not only a full one: what framed the bytes may have been taken out of them
		r.grow()
	}
	if r.err = err; n > 0 {
		return nil
	}
	return err
}

// reclaim ends the loan of the line that Next returned last.
func (r *LineReader) reclaim() {
	if poison {
		for i := range r.lent {
			r.lent[i] = '!'
		}
		r.lent = nil
	}
}

// judge decides about the line at start, of which head has arrived: it may be passed over, and must not outgrow the limit.
// It is asked when a read must make room as well as when a line is complete, so that the answer does not depend on where the
// source cuts its bytes.
func (r *LineReader) judge(head []byte) error {
	tooLong := r.opt.MaxBytes > 0 && len(head) > r.opt.MaxBytes
	if (tooLong || len(head) >= skipLineAbove) && !r.asked && r.opt.Skip != nil {
		r.asked = true
		r.skipping = r.opt.Skip(head)
	}
	if tooLong && !r.skipping {
		return ErrLineTooLong
	}
	return nil
}

// room makes space for the next read: consumed bytes and those of a line that is passed over go, then the buffer grows.
func (r *LineReader) room() error {
	if err := r.judge(r.buf[r.start : r.start+r.seen]); err != nil {
		return err
	}
	if r.skipping {
		r.start += r.seen
		r.seen = 0
	}
	if r.start > 0 {
		rest := r.buf[r.start:]
		if cap(r.buf) > growUntil && len(rest) < minLineBuffer { // a long line is past: streams last
			r.buf = make([]byte, 0, 2*minLineBuffer)
		}
		r.buf = r.buf[:copy(r.buf[:len(rest)], rest)]
		r.start = 0
	}
	if len(r.buf) == cap(r.buf) {
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
