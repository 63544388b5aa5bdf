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
	"amplifier-agent/stages"
)

// never is after what time a test gives up.
const never = time.Minute

// round has the stages that every round of a turn has.
var round = []pipeline.Stage{stages.EventMap(slog.New(slog.DiscardHandler)), stages.UsageFold(slog.New(slog.DiscardHandler))}

// Result is what a round means behind the stages that every round has.
type Result struct {
	Text, Reasoning string
	Calls           []pipeline.Call
	Finish          *pipeline.StepInfo // nil if the round did not end well
	Err             error              // nil if it did
	Turn            *pipeline.Turn     // has its usage and its cost
}

// Told is the calls, each as "id name(arguments)", and behind them the code of the error if there is one, with spaces between.
func (r *Result) Told() string {
	var told []string
	for _, c := range r.Calls {
		told = append(told, fmt.Sprintf("%s %s(%s)", c.ID, c.Name, c.Arguments))
	}
	if r.Err != nil {
		told = append(told, string(pipeline.AsError(r.Err).Code))
	}
	return strings.Join(told, " ")
}

// Ask asks a provider for one round, and insists on an end.
func Ask(t testing.TB, p pipeline.Provider, r *pipeline.Round) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), never)
	defer cancel()
	res := Collect(t, p.Stream(ctx, r))
	if ctx.Err() != nil {
		t.Fatal("it hangs")
	}
	return res
}

// Collect runs a provider's stream through the stages of a round, and checks what holds for each: one end, nothing behind it, and
// text that is the body of a JSON string.
func Collect(t testing.TB, src pipeline.Stream) Result {
	t.Helper()
	turn := &pipeline.Turn{ID: "turn"}
	return collect(t, turn, pipeline.Chain(round, turn, src), nil)
}

// collect is Collect behind the stages. On, which may be nil, sees each event up to the end, and ends the round when it says no.
func collect(t testing.TB, turn *pipeline.Turn, in pipeline.Stream, on func(*pipeline.Event) bool) Result {
	t.Helper()
	r := Result{Turn: turn}
	ended := false
	for ev, err := range in {
		if ended {
			if err != nil || ev.Kind != pipeline.Flush && ev.Kind != pipeline.Idle {
				t.Errorf("%+v, %v behind the end", ev, err)
			}
			continue
		}
		if err != nil {
			r.Err, ended = err, true
			continue
		}
		switch ev.Kind {
		case pipeline.Text:
			r.Text += unescaped(t, ev)
		case pipeline.Reasoning:
			r.Reasoning += unescaped(t, ev)
		case pipeline.ToolCall:
			if len(ev.ID) == 0 || len(ev.Name) == 0 {
				t.Errorf("call without id or name: %+v", ev)
			}
			r.Calls = append(r.Calls, pipeline.Call{ID: string(ev.ID), Name: string(ev.Name), Arguments: []byte(unescaped(t, ev))})
		case pipeline.Finish:
			step := *ev.Step
			r.Finish, ended = &step, true
		default: // of no interest
		}
		if on != nil && !on(ev) {
			ended = true
			break // a provider that yields once more panics
		}
	}
	if !ended {
		t.Error("the round has no end")
	}
	return r
}

func unescaped(t testing.TB, ev *pipeline.Event) string {
	t.Helper()
	body := `"` + string(ev.Text) + `"`
	if !ev.Clean || !utf8.ValidString(body) || codec.Validate([]byte(body)) != nil {
		t.Errorf("%q (clean %v) is not the body of a JSON string", ev.Text, ev.Clean)
	}
	return ev.Text.String()
}

// WantError checks err against a code, a status and a part of its message, and that it is fit to be shown: it never holds key.
func WantError(t testing.TB, err error, key string, code pipeline.Code, status int, text string) *pipeline.Error {
	t.Helper()
	e := fit(t, err, key)
	if e.Code != code || e.Status != status || !strings.Contains(e.Error(), text) {
		t.Errorf("error %s, status %d, %q; want %s, %d, %q", e.Code, e.Status, e.Error(), code, status, text)
	}
	return e
}

// fit returns err as the pipeline's error. It shows neither the key nor pages.
func fit(t testing.TB, err error, key string) *pipeline.Error {
	t.Helper()
	e, ok := errors.AsType[*pipeline.Error](err)
	if !ok {
		t.Errorf("%v is no *pipeline.Error", err)
		return pipeline.AsError(err)
	}
	said := strings.ToLower(err.Error())
	for _, bad := range []string{strings.ToLower(key), "<html", "<!doctype", "\x00", "\x1b"} {
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
