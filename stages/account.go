package stages

import (
	"context"
	"errors"
	"time"

	"amplifier-agent/pipeline"
)

// Accounts takes down how turns ended. Record is called once a turn, in its End.
type Accounts interface {
	Record(t *pipeline.Turn, o pipeline.Outcome)
}

// Account tells each of books how the turn ended, whatever became of it: also of one that was rejected, failed, or left by its
// client. It stands outermost. What is not known of a turn's usage stays unknown.
func Account(books ...Accounts) pipeline.Stage {
	return pipeline.Stage{
		Name: "account",
		Request: func(_ context.Context, t *pipeline.Turn) error {
			t.AtEnd(func() {
				if t.Outcome.Status == "" {
					t.Outcome.Status = pipeline.StatusRejected
				}
				t.Outcome.Took = time.Since(t.Received)
				for _, b := range books {
					b.Record(t, t.Outcome)
				}
			})
			return nil
		},
		Events: func(t *pipeline.Turn, in pipeline.Stream) pipeline.Stream {
			return func(yield func(*pipeline.Event, error) bool) {
				t.Outcome.Status = pipeline.StatusAborted // unless more becomes known
				a := &account{yield: yield, turn: t}
				in(a.take)
			}
		},
	}
}

type account struct {
	yield func(*pipeline.Event, error) bool
	said  bool // the time of the first delta is taken down
	turn  *pipeline.Turn
}

func (a *account) take(ev *pipeline.Event, err error) bool {
	switch {
	case err != nil:
		failed(&a.turn.Outcome, err)
	case ev.Kind == pipeline.Text, ev.Kind == pipeline.Reasoning, ev.Kind == pipeline.ToolCall:
		if !a.said {
			a.said = true
			a.turn.Outcome.First = time.Since(a.turn.Received)
		}
	case ev.Kind == pipeline.Finish:
		o := &a.turn.Outcome
		o.Status, o.Reason = pipeline.StatusDone, ev.Step.Reason
	}
	return a.yield(ev, err)
}

func failed(o *pipeline.Outcome, err error) {
	if errors.Is(err, pipeline.ErrClientGone) || errors.Is(err, pipeline.ErrShutdown) {
		return
	}
	o.Code = pipeline.AsError(err).Code
	if o.Status != pipeline.StatusDone {
		o.Status = pipeline.StatusFailed
	}
}
