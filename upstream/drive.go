package upstream

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// DefaultMaxLine is the longest line of a body, in bytes.
const DefaultMaxLine = 16 << 20

// Emitter hands a provider's events to the consumer of its stream. Once the consumer has stopped, or an error has been handed
// over, it hands over nothing more. It is the Watcher of the connection that the events come from.
type Emitter struct {
	ev    pipeline.Event
	yield func(*pipeline.Event, error) bool
	dead  bool
	// refused: what comes is why. Flush and Idle are kept to itself meanwhile, as the refusal is to be the first item.
	refused bool
}

// NewEmitter returns an Emitter for the yield of a pipeline.Stream.
func NewEmitter(yield func(*pipeline.Event, error) bool) *Emitter { return &Emitter{yield: yield} }

// Emit hands over ev, which is copied; what it refers to stays borrowed.
func (e *Emitter) Emit(ev pipeline.Event) bool {
	if e.dead {
		return false
	}
	e.ev = ev
	e.dead = !e.yield(&e.ev, nil)
	return !e.dead
}

// Delta hands over a piece of text: the hot path of Emit.
func (e *Emitter) Delta(kind pipeline.Kind, t codec.Text, clean bool) bool {
	if e.dead {
		return false
	}
	e.ev = pipeline.Event{Kind: kind, Clean: clean, Text: t}
	e.dead = !e.yield(&e.ev, nil)
	return !e.dead
}

// Fail hands over err and ends the stream.
func (e *Emitter) Fail(err error) {
	if !e.dead {
		e.dead = true
		e.yield(nil, err)
	}
}

// Dead reports whether nothing more can be handed over.
func (e *Emitter) Dead() bool { return e.dead }

// Reading implements Watcher.
func (e *Emitter) Reading() bool {
	if e.refused {
		return !e.dead
	}
	return e.Emit(pipeline.Event{Kind: pipeline.Flush})
}

// Silent implements Watcher.
func (e *Emitter) Silent(next *time.Duration) bool {
	if e.refused {
		return !e.dead
	}
	ok := e.Emit(pipeline.Event{Kind: pipeline.Idle, Wake: *next})
	*next = e.ev.Wake
	return ok
}

// Decoder turns the lines of one exchange into events. It belongs to one exchange.
type Decoder interface {
	// Line decodes one line of payload, which is borrowed. It hands an error over to out if the line is one.
	Line(line []byte, out *Emitter)
	// Tail is how much longer the exchange is of interest, 0 for as long as it lasts. It is asked before each read; the first
	// answer above 0 counts from then on.
	Tail() time.Duration
	// End is called when nothing more will come. It hands over the end of the round, or the error that there is none.
	End(out *Emitter)
}

var lineReaders = sync.Pool{New: func() any { return new(codec.LineReader) }}

// Drive reads body to its end and decodes it. limit, which may be nil, bounds further reads as Decoder.Tail says. done reports
// that the body was read to its end; err is what reading it failed with, and has not been handed over.
func Drive(body io.Reader, opt codec.LineOptions, d Decoder, out *Emitter, limit func(time.Duration)) (done bool, err error) {
	lr := lineReaders.Get().(*codec.LineReader)
	lr.Reset(opt)
	defer func() {
		lr.Reset(codec.LineOptions{})
		lineReaders.Put(lr)
	}()
	limited := false
	for {
		for line, ok := lr.Next(); ok; line, ok = lr.Next() {
			if d.Line(line, out); out.Dead() {
				return false, nil
			}
		}
		if err != nil {
			break
		}
		if tail := d.Tail(); tail > 0 && !limited && limit != nil {
			limited = true
			limit(tail)
		}
		err = lr.Fill(body)
	}
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) || limited {
		d.End(out)
		return err == io.EOF, nil
	}
	return false, err
}

// Stream runs one exchange: the call, then the lines of the answer's body through d. An answer whose status is not 200 goes to
// refuse, which makes an error of it. It is the body of a Provider's stream.
func (t *Transport) Stream(ctx context.Context, call *Call, opt codec.LineOptions, d Decoder, out *Emitter, refuse func(*Reply) error) {
	r, err := t.Open(ctx, call, out)
	if err != nil {
		out.Fail(err)
		return
	}
	done := false
	defer func() { r.Close(done) }()
	if r.Status != 200 {
		out.refused = true
		out.Fail(refuse(r))
		return
	}
	done, err = Drive(r.Body, opt, d, out, r.Limit)
	if err != nil {
		out.Fail(t.explain(ctx, "read the upstream's answer", err))
	}
}
