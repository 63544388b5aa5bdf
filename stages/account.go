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
				in(func(ev *pipeline.Event, err error) bool {
					account(t, ev, err)
					return yield(ev, err)
				})
			}
		},
	}
}

func account(t *pipeline.Turn, ev *pipeline.Event, err error) {
	o := &t.Outcome
	switch {
	case err != nil:
		failed(o, err)
	case ev.Kind == pipeline.Text, ev.Kind == pipeline.Reasoning, ev.Kind == pipeline.ToolCall:
		if o.First == 0 {
			o.First = time.Since(t.Received)
		}
	case ev.Kind == pipeline.Finish:
		o.Status, o.Reason = pipeline.StatusDone, ev.Step.Reason
	}
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
