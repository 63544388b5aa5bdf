package upstreamtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/engine"
	"amplifier-agent/stages"
)

// never is after what time a test gives up.
const never = time.Minute

// runner has the stages that every round of a turn has.
var runner = engine.Runner{Round: []pipeline.Stage{stages.EventMap(slog.New(slog.DiscardHandler)), stages.UsageFold(slog.New(slog.DiscardHandler))}}

// outcome is what came of a round.
type outcome struct {
	text, reasoning string
	calls           []pipeline.Call
	reason          pipeline.Reason // ReasonNone if the round did not end well
	usage           pipeline.Usage
	cost            string
	err             *pipeline.Error // nil if it ended well, or if its consumer left
	idles           int
	late            bool // something of the answer came before err
}

// String is what must be the same however the bytes arrive.
func (o *outcome) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "reasoning %q, text %q", o.reasoning, o.text)
	for _, c := range o.calls {
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

// run runs a round. On, which may be nil, sees each event, and ends the round when it says no. What holds for every round is looked
// at here: text that is the body of a JSON string, one end and nothing behind it, an error of the pipeline's with a message that is
// fit to be shown.
func run(ctx context.Context, t *testing.T, p pipeline.Provider, turn *pipeline.Turn, on func(*pipeline.Event) bool) *outcome {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, never, errHangs)
	defer cancel()
	turn.Provider = p
	o := &outcome{}
	ended := false
	for ev, err := range runner.Run(ctx, turn) {
		if ended {
			if err != nil || ev.Kind != pipeline.Flush && ev.Kind != pipeline.Idle {
				t.Errorf("%+v, %v behind the end", ev, err)
			}
			continue
		}
		if err != nil {
			ended, o.err = true, fit(t, err)
			continue
		}
		switch ev.Kind {
		case pipeline.Text:
			o.text += unescaped(t, ev)
		case pipeline.Reasoning:
			o.reasoning += unescaped(t, ev)
		case pipeline.ToolCall:
			o.calls = append(o.calls, pipeline.Call{ID: string(ev.ID), Name: string(ev.Name), Arguments: []byte(unescaped(t, ev))})
		case pipeline.Finish:
			o.reason, ended = ev.Step.Reason, true
		case pipeline.Idle:
			o.idles++
		default: // of no interest
		}
		o.late = o.late || ev.Kind != pipeline.Flush && ev.Kind != pipeline.Idle
		if on != nil && !on(ev) {
			ended = true
			break // a provider that yields once more panics
		}
	}
	if errors.Is(context.Cause(ctx), errHangs) {
		t.Error("it hangs")
	}
	if !ended {
		t.Error("the round has no end")
	}
	o.usage, o.cost = turn.Usage, turn.Cost.String()
	return o
}

var errHangs = errors.New("the test has waited long enough")

func unescaped(t *testing.T, ev *pipeline.Event) string {
	t.Helper()
	body := `"` + string(ev.Text) + `"`
	if !ev.Clean || !utf8.ValidString(body) || codec.Validate([]byte(body)) != nil {
		t.Errorf("%q (clean %v) is not the body of a JSON string", ev.Text, ev.Clean)
	}
	return ev.Text.String()
}

// fit returns err as the pipeline's error. It shows neither keys nor pages.
func fit(t *testing.T, err error) *pipeline.Error {
	t.Helper()
	e, ok := errors.AsType[*pipeline.Error](err)
	if !ok {
		t.Errorf("%v is no *pipeline.Error", err)
		return pipeline.AsError(err)
	}
	said := strings.ToLower(err.Error())
	for _, bad := range []string{strings.ToLower(Key), "<html", "<!doctype", "\x00", "\x1b"} {
		if strings.Contains(said, bad) {
			t.Errorf("the error shows what it must not: %q", err)
		}
	}
	if e.Message == "" || !utf8.ValidString(e.Error()) || len(said) > 4<<10 {
		t.Errorf("%q is no message", err)
	}
	if e.Origin != pipeline.OriginUpstream && e.Code != pipeline.CodeAborted {
		t.Errorf("%q is said to be the fault of %d", err, e.Origin)
	}
	return e
}

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
