package pipeline

import (
	"context"
	"fmt"
	"iter"
)

// Stream is single-use and pushes: the source drives. An error is yielded at most once, last, with a nil event. A yield that
// returns false ends the stream at once: nothing may be yielded after it, and the source gives up what it holds.
type Stream = iter.Seq2[*Event, error]

// Frames is the end of the pipeline: each value is what one write sends, borrowed until the next. An encoder turns a Stream
// into Frames: it gathers events until Flush, answers Idle, and renders an error in-band and ends. An error in place of the
// first frame means that nothing was sent, so that a status can still be chosen.
type Frames = iter.Seq2[[]byte, error]

// Stage is one link of a turn. Either half may be nil. In a list, stages[0] is nearest the client, both ways: its Request half
// runs first, its Events half sees each event last.
type Stage struct {
	Name string
	// Request prepares the turn or rejects it with an error, before anything is sent upstream.
	Request func(ctx context.Context, t *Turn) error
	// Events wraps the stream. It forwards kinds that it does not know, and yields nothing after a false yield.
	Events func(t *Turn, in Stream) Stream
}

// Prepare runs the Request halves, outermost first. The first error ends it and names the stage.
func Prepare(ctx context.Context, stages []Stage, t *Turn) error {
	for _, s := range stages {
		if s.Request == nil {
			continue
		}
		if err := s.Request(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// Chain wraps src into the Events halves, so that stages[0] is outermost.
func Chain(stages []Stage, t *Turn, src Stream) Stream {
	for i := len(stages) - 1; i >= 0; i-- {
		if f := stages[i].Events; f != nil {
			src = f(t, src)
		}
	}
	return src
}

// Fail is a Stream of nothing but err.
func Fail(err error) Stream {
	return func(yield func(*Event, error) bool) { yield(nil, err) }
}
