package upstream

import (
	"cmp"
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

	said   bool      // something of an answer was handed over
	call   *Call     // whose body is held in case it must be sent again; nil for none
	shown  bool      // so was an Idle: whoever serves the stream may have settled for a status
	held   time.Time // until then no Idle is handed over, unless something is said, so that a failure can still be a status
	keep   bool      // a failure is kept here as long as nothing was said
	failed error     // that is kept
}

// NewEmitter returns an Emitter for the yield of a pipeline.Stream.
func NewEmitter(yield func(*pipeline.Event, error) bool) *Emitter { return &Emitter{yield: yield} }

// Emit hands over ev, which is copied; what it refers to stays borrowed. A round that ends in a fault of the upstream's before it has
// said anything is a failure like another, which may be tried again.
func (e *Emitter) Emit(ev pipeline.Event) bool {
	if e.dead {
		return false
	}
	if ev.Kind == pipeline.Finish && !e.said {
		if fault := ev.Step.Fault(); fault != nil {
			e.Fail(fault)
			return false
		}
	}
	if !e.said && ev.Kind != pipeline.Flush && ev.Kind != pipeline.Idle {
		e.speak()
	}
	e.ev = ev
	e.dead = !e.yield(&e.ev, nil)
	return !e.dead
}

// speak notes that something of an answer is handed over: what was asked is not asked again, and may go.
func (e *Emitter) speak() {
	e.said = true
	if e.call != nil {
		e.call.Body, e.call = nil, nil
	}
}

// Delta hands over a piece of text: the hot path of Emit. An empty one says nothing, and is not handed over.
func (e *Emitter) Delta(kind pipeline.Kind, t codec.Text, clean bool) bool {
	if e.dead || len(t) == 0 {
		return !e.dead
	}
	if !e.said {
		e.speak()
	}
	e.ev = pipeline.Event{Kind: kind, Clean: clean, Text: t}
	e.dead = !e.yield(&e.ev, nil)
	return !e.dead
}

// Fail hands over err and ends the stream.
func (e *Emitter) Fail(err error) {
	if e.dead {
		return
	}
	e.dead = true
	if e.keep && !e.said {
		e.failed = err
		return
	}
	e.yield(nil, err)
}

// kept returns the failure that was kept, and lets the stream go on without it.
func (e *Emitter) kept() error {
	err := e.failed
	if err != nil {
		e.failed, e.dead = nil, false
	}
	return err
}

// Said reports whether something of an answer was handed over.
func (e *Emitter) Said() bool { return e.said }

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
	if !e.said && time.Now().Before(e.held) {
		*next = min(*next, lookEvery)
		return e.Emit(pipeline.Event{Kind: pipeline.Flush}) // which has the face look whether its client is there
	}
	e.shown = true
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

// CutOff is the error of an answer that stopped before its end (rulings 15), for a Decoder's End. arrived is what did in place of an
// end, such as "no finish reason". Where no line of it was an event (heard is false), something else may have answered.
func CutOff(heard bool, arrived string) *pipeline.Error {
	message := "the upstream's stream was cut off: " + arrived + " arrived"
	if !heard {
		message = "the upstream's answer holds no event: is its base URL right?"
	}
	return &pipeline.Error{Code: pipeline.CodeTruncated, Origin: pipeline.OriginUpstream, Retry: true, Message: message}
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

// Stream runs an exchange: the call, then the lines of the answer's body through a decoder that begin makes. An answer whose status
// is not 200 goes to refuse, which makes an error of it. What fails in passing, before anything was said, is tried again (rulings
// 14). It is the body of a Provider's stream. The body of call is given up once something of an answer has come.
func (t *Transport) Stream(ctx context.Context, call *Call, opt codec.LineOptions, begin func() Decoder, out *Emitter, refuse func(*Reply) error) {
	out.keep, out.call = true, call
	start := time.Now()
	for try := 1; ; try++ {
		err := t.exchange(ctx, call, opt, begin(), out, refuse)
		if kept := out.kept(); kept != nil {
			err = kept
		}
		if err == nil || out.dead {
			return
		}
		wait, again := again(err, try, cmp.Or(call.Tries, t.tries), time.Since(start))
		if !again || out.said {
			out.keep = false
			out.Fail(err)
			return
		}
		out.refused = false
		if !out.shown {
			out.held = start.Add(maxHeld)
		}
		if !out.pause(ctx, wait) {
			out.keep = false
			if ctx.Err() != nil {
				err = t.explain(ctx, "wait to ask again", ctx.Err())
			}
			out.Fail(err)
			return
		}
	}
}

// exchange is one try. An error has not been handed over.
func (t *Transport) exchange(ctx context.Context, call *Call, opt codec.LineOptions, d Decoder, out *Emitter, refuse func(*Reply) error) error {
	r, err := t.Open(ctx, call, out)
	if err != nil {
		return err
	}
	done := false
	defer func() { r.Close(done) }()
	if t.recorder != nil {
		defer r.record(t.recorder, call, opt.Skip)()
	}
	if r.Status != 200 {
		out.refused = true
		return refuse(r)
	}
	out.held = time.Time{} // it answers: its client need not wait any longer to hear so
	if done, err = Drive(r.Body, opt, d, out, r.Limit); err != nil {
		return t.explain(ctx, "read the upstream's answer", err)
	}
	return nil
}
