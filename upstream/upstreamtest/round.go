package upstreamtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/engine"
)

// runner has the stages that every round of a turn has.
var runner = engine.Runner{Round: round}

// outcome is what came of a round.
type outcome struct {
	Result
	reason pipeline.Reason // ReasonNone if the round did not end well
	usage  pipeline.Usage
	cost   string
	err    *pipeline.Error // Err, fit to be shown; nil if the round ended well, or its consumer left
	idles  int
	late   bool // something of the answer came before err
}

// String is what must be the same however the bytes arrive.
func (o *outcome) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "reasoning %q, text %q", o.Reasoning, o.Text)
	for _, c := range o.Calls {
		fmt.Fprintf(&b, ", call %s %s %s", c.ID, c.Name, c.Arguments)
	}
	fmt.Fprintf(&b, ", usage %+v, cost %s", o.usage, o.cost)
	if o.err != nil {
		fmt.Fprintf(&b, ", error %s, status %d: %s", o.err.Code, o.err.Status, o.err.Error())
	} else {
		fmt.Fprintf(&b, ", finish %s", o.reason)
	}
	return b.String()
}

// turn asks one short question.
func (s *suite) turn() *pipeline.Turn {
	return &pipeline.Turn{ID: "0123456789abcdef01234567", UpstreamID: s.d.Model,
		Prompt: &pipeline.Message{Role: pipeline.RoleUser, Parts: []pipeline.Part{{Text: "hi"}}}}
}

// make makes a provider for the upstream at url that is closed with the test.
func (s *suite) make(t *testing.T, url string, change ...func(*Options)) pipeline.Provider {
	t.Helper()
	p, err := s.provider(t, url, change...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (s *suite) provider(t *testing.T, url string, change ...func(*Options)) (pipeline.Provider, error) {
	o := Options{BaseURL: url, Key: Key, Tries: 1}
	for _, f := range change {
		f(&o)
	}
	p, err := s.d.New(t, o)
	if c, ok := p.(interface{ Close() }); ok && err == nil {
		t.Cleanup(c.Close)
	}
	return p, err
}

// ask runs a short round to its end.
func (s *suite) ask(t *testing.T, p pipeline.Provider) *outcome {
	t.Helper()
	return run(t.Context(), t, p, s.turn(), nil)
}

// run runs a round as a turn does. On, which may be nil, sees each event, and ends the round when it says no. What holds for every
// round is looked at here: what collect checks, and an error of the pipeline's with a message that is fit to be shown.
func run(ctx context.Context, t *testing.T, p pipeline.Provider, turn *pipeline.Turn, on func(*pipeline.Event) bool) *outcome {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, never, errHangs)
	defer cancel()
	turn.Provider = p
	o := &outcome{}
	o.Result = collect(t, turn, runner.Run(ctx, turn), func(ev *pipeline.Event) bool {
		if ev.Kind == pipeline.Idle {
			o.idles++
		}
		o.late = o.late || ev.Kind != pipeline.Flush && ev.Kind != pipeline.Idle
		return on == nil || on(ev)
	})
	if errors.Is(context.Cause(ctx), errHangs) {
		t.Error("it hangs")
	}
	if o.Err != nil {
		o.err = fit(t, o.Err, Key)
	}
	if o.Finish != nil {
		o.reason = o.Finish.Reason
	}
	o.usage, o.cost = turn.Usage, turn.Cost.String()
	return o
}

var errHangs = errors.New("the test has waited long enough")

// want is what an error must be. Fields that are zero are looked at all the same, but for Says.
type want struct {
	code   pipeline.Code
	status int
	retry  bool
	after  time.Duration
	says   string
}

func (w want) check(t *testing.T, o *outcome) {
	t.Helper()
	e := o.err
	if e == nil {
		t.Errorf("no error, want %+v: %s", w, o)
		return
	}
	if e.Code != w.code || e.Status != w.status || e.Retry != w.retry || e.RetryAfter != w.after || !strings.Contains(e.Error(), w.says) {
		t.Errorf("got %s, status %d, retry %v after %s: %q\nwant %s, status %d, retry %v after %s: %q",
			e.Code, e.Status, e.Retry, e.RetryAfter, e.Error(), w.code, w.status, w.retry, w.after, w.says)
	}
	if w.status != 0 && o.reason != pipeline.ReasonNone {
		t.Errorf("it ended well too: %s", o)
	}
}
