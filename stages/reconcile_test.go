package stages_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/stages"
)

// conversations records what is asked of it.
type conversations struct {
	key      pipeline.SessionKey
	messages []pipeline.Message
	repaired bool
	log      []string
}

func (c *conversations) Begin(_ context.Context, k pipeline.SessionKey, messages []pipeline.Message, repaired bool) (bool, func(), func()) {
	c.key, c.messages, c.repaired = k, messages, repaired
	c.log = append(c.log, "begin")
	return true, func() { c.log = append(c.log, "saved") }, func() { c.log = append(c.log, "end") }
}

func reconcile(c stages.Conversations) pipeline.Stage {
	return stages.Reconcile(stages.Reconciling{
		Workspace: "ws",
		SessionID: func(header string) string { return "http-" + header },
		Repair: func(m []pipeline.Message) ([]pipeline.Message, []string) {
			if len(m) > 1 {
				return m[:1], []string{"dropped one"}
			}
			return m, nil
		},
		Conversations: c,
		Log:           slog.New(slog.DiscardHandler),
	})
}

// TestReconcileStores: with a session the repaired history is stored, and used; its end is told once it is stored.
func TestReconcileStores(t *testing.T) {
	c := new(conversations)
	turn := &pipeline.Turn{Header: pipeline.Header{SessionID: "s"}, Messages: []pipeline.Message{message(pipeline.RoleUser, "a"), message(pipeline.RoleUser, "b")}}
	s := reconcile(c)
	if err := s.Request(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	if want := (pipeline.SessionKey{Workspace: "ws", Session: "http-s"}); c.key != want || !c.repaired || len(c.messages) != 1 {
		t.Errorf("stored %+v, %d messages, repaired %v", c.key, len(c.messages), c.repaired)
	}
	if turn.Session != "http-s" || !turn.Resumed || len(turn.Messages) != 1 {
		t.Errorf("turn %+v", turn)
	}
	for ev, err := range s.Events(turn, source(text("hi"), finish(pipeline.ReasonStop), signal(pipeline.Flush))) {
		c.log = append(c.log, show(ev, err))
	}
	turn.End()
	if got, want := strings.Join(c.log, "|"), "begin|text hi|saved|finish stop|flush|end"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestReconcileWithoutSession(t *testing.T) {
	c := new(conversations)
	seen := map[string]bool{}
	for range 2 {
		turn := &pipeline.Turn{Messages: []pipeline.Message{message(pipeline.RoleUser, "a"), message(pipeline.RoleUser, "b")}}
		if err := reconcile(c).Request(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		if turn.Resumed || seen[turn.Session] || !strings.HasPrefix(turn.Session, "http-") || len(turn.Messages) != 1 {
			t.Errorf("turn %+v", turn)
		}
		seen[turn.Session] = true
	}
	if len(c.log) != 0 {
		t.Errorf("stored without a session: %v", c.log)
	}
}

// books is an Accounts that keeps what it is told.
type books []pipeline.Outcome

func (b *books) Record(_ *pipeline.Turn, o pipeline.Outcome) { *b = append(*b, o) }

func TestAccount(t *testing.T) {
	gone := &pipeline.Error{Code: pipeline.CodeUpstream, Message: "gone", Err: pipeline.ErrClientGone}
	for name, row := range map[string]struct {
		items  []item
		stop   int // events after which the client stops
		ranged bool
		want   pipeline.Outcome
		first  bool
	}{
		"rejected":         {nil, all, false, pipeline.Outcome{Status: pipeline.StatusRejected}, false},
		"done":             {[]item{text("a"), finish(pipeline.ReasonLength), signal(pipeline.Flush)}, all, true, pipeline.Outcome{Status: pipeline.StatusDone, Reason: pipeline.ReasonLength}, true},
		"nothing said":     {[]item{signal(pipeline.Idle), finish(pipeline.ReasonStop)}, all, true, pipeline.Outcome{Status: pipeline.StatusDone, Reason: pipeline.ReasonStop}, false},
		"left":             {[]item{text("a"), text("b"), finish(pipeline.ReasonStop)}, 2, true, pipeline.Outcome{Status: pipeline.StatusAborted}, true},
		"left at the end":  {[]item{text("a"), finish(pipeline.ReasonStop)}, 2, true, pipeline.Outcome{Status: pipeline.StatusDone, Reason: pipeline.ReasonStop}, true},
		"refused":          {[]item{fail(errBroken)}, all, true, pipeline.Outcome{Status: pipeline.StatusFailed, Code: pipeline.CodeUpstream}, false},
		"cut":              {[]item{text("a"), fail(errBroken)}, all, true, pipeline.Outcome{Status: pipeline.StatusFailed, Code: pipeline.CodeUpstream}, true},
		"gone":             {[]item{text("a"), fail(gone)}, all, true, pipeline.Outcome{Status: pipeline.StatusAborted}, true},
		"ours":             {[]item{fail(errors.New("x"))}, all, true, pipeline.Outcome{Status: pipeline.StatusFailed, Code: pipeline.CodeInternal}, false},
		"failed when done": {[]item{finish(pipeline.ReasonStop), fail(errBroken)}, all, true, pipeline.Outcome{Status: pipeline.StatusDone, Reason: pipeline.ReasonStop, Code: pipeline.CodeUpstream}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var b books
			turn := new(pipeline.Turn)
			s := stages.Account(&b)
			if err := s.Request(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
			if row.ranged {
				gather(t, s.Events(turn, source(row.items...)), row.stop)
			}
			if len(b) != 0 {
				t.Fatal("recorded before the end")
			}
			turn.End()
			turn.End()
			if len(b) != 1 {
				t.Fatalf("recorded %d times", len(b))
			}
			got := b[0]
			if (got.First > 0) != row.first || got.Took <= 0 {
				t.Errorf("first %v, took %v", got.First, got.Took)
			}
			if got.First, got.Took = 0, 0; got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}
