package engine_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/engine"
)

// fake is a provider that remembers what it was asked and answers with answer.
type fake struct {
	answer pipeline.Stream
	ctx    context.Context
	rounds []*pipeline.Round
}

func (*fake) Name() string                                     { return "fake" }
func (*fake) Models(context.Context) ([]pipeline.Model, error) { return nil, nil }
func (p *fake) Stream(ctx context.Context, r *pipeline.Round) pipeline.Stream {
	p.ctx, p.rounds = ctx, append(p.rounds, r)
	return p.answer
}

func say(texts ...string) pipeline.Stream {
	return func(yield func(*pipeline.Event, error) bool) {
		for _, s := range texts {
			if !yield(&pipeline.Event{Kind: pipeline.Text, Clean: true, Text: codec.Text(s)}, nil) {
				return
			}
		}
		yield(&pipeline.Event{Kind: pipeline.Finish, Step: &pipeline.StepInfo{Reason: pipeline.ReasonStop}}, nil)
	}
}

func user(parts ...pipeline.Part) pipeline.Message {
	return pipeline.Message{Role: pipeline.RoleUser, Parts: parts}
}

func TestRunnerRound(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "value")
	image := pipeline.Part{Image: "data:image/png;base64,AAAA", MediaType: "image/png"}
	history := make([]pipeline.Message, 2, 8) // room behind it that is not the runner's
	history[0] = user(pipeline.Part{Text: "see"}, image)
	history[1] = pipeline.Message{Role: pipeline.RoleAssistant, Reasoning: "hm", ToolCalls: []pipeline.Call{{ID: "c", Name: "f", Arguments: []byte(`{"a":1}`)}}}
	behind := user(pipeline.Part{Text: "not yours"})
	history[:3][2] = behind
	prompt := user(pipeline.Part{Text: "and"}, image)
	p := &fake{answer: say("hi")}
	turn := &pipeline.Turn{
		Model: "alias", UpstreamID: "vendor/m", Provider: p, System: "be brief", History: history, Prompt: &prompt, Silence: 50 * time.Millisecond,
		Header: pipeline.Header{SessionID: "named"}, Session: "s1",
		Tools:     []pipeline.ToolSpec{{Name: "as sent"}},
		HostTools: []pipeline.ToolSpec{{Name: "f", Parameters: []byte(`{}`)}},
	}
	r := engine.Runner{}
	for range r.Run(ctx, turn) {
	}
	if len(p.rounds) != 1 || p.ctx.Value(key{}) != "value" {
		t.Fatalf("%d rounds", len(p.rounds))
	}
	want := &pipeline.Round{
		Model: "vendor/m", System: "be brief", Messages: []pipeline.Message{history[0], history[1], prompt}, Tools: turn.HostTools,
		Conversation: "s1", Silence: 50 * time.Millisecond,
	}
	if got := p.rounds[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !reflect.DeepEqual(history[:3][2], behind) || len(turn.History) != 2 {
		t.Error("the prompt was written behind the history")
	}

	turn.Prompt = nil // a continuation
	for range r.Run(ctx, turn) {
	}
	if got := p.rounds[1].Messages; !reflect.DeepEqual(got, history) {
		t.Errorf("continued with %+v", got)
	}
	turn.History, turn.Prompt = nil, &prompt
	for range r.Run(ctx, turn) {
	}
	if got := p.rounds[2].Messages; !reflect.DeepEqual(got, []pipeline.Message{prompt}) {
		t.Errorf("began with %+v", got)
	}
}

// TestRunnerReminders: what a mode has to say stands behind the system prompt of the round, and in no history.
func TestRunnerReminders(t *testing.T) {
	for system, want := range map[string]string{"be brief": "be brief\n\none\n\ntwo", "": "one\n\ntwo"} {
		p := &fake{answer: say("x")}
		turn := &pipeline.Turn{Provider: p, System: system, Reminders: []string{"one", "two"}}
		r := engine.Runner{}
		for range r.Run(t.Context(), turn) {
		}
		if got := p.rounds[0]; got.System != want || len(got.Messages) != 0 || turn.System != system {
			t.Errorf("system %q, messages %v", got.System, got.Messages)
		}
	}
}

// TestRunnerSampling: the client's settings reach the model only if they are to (rulings 8).
func TestRunnerSampling(t *testing.T) {
	sampling := pipeline.Sampling{Temperature: []byte("0.50"), MaxTokens: 7}
	for _, forward := range []bool{false, true} {
		p := &fake{answer: say("x")}
		r := engine.Runner{ForwardSampling: forward}
		for range r.Run(t.Context(), &pipeline.Turn{Provider: p, Sampling: sampling}) {
		}
		want := pipeline.Sampling{}
		if forward {
			want = sampling
		}
		if got := p.rounds[0].Sampling; !reflect.DeepEqual(got, want) {
			t.Errorf("forward %v: got %+v", forward, got)
		}
	}
}

// TestRunnerStages checks that the round's stages wrap the provider, the first nearest the client, and only their Events halves.
func TestRunnerStages(t *testing.T) {
	stage := func(name string) pipeline.Stage {
		return pipeline.Stage{
			Name: name,
			Request: func(context.Context, *pipeline.Turn) error {
				t.Errorf("the request half of %s ran", name)
				return nil
			},
			Events: func(turn *pipeline.Turn, in pipeline.Stream) pipeline.Stream {
				return func(yield func(*pipeline.Event, error) bool) {
					for ev, err := range in {
						if err == nil && ev.Kind == pipeline.Text {
							ev.Text = append(ev.Text, name+turn.ID...)
						}
						if !yield(ev, err) {
							return
						}
					}
				}
			},
		}
	}
	r := engine.Runner{Round: []pipeline.Stage{stage("a"), stage("b")}}
	var got string
	for ev := range r.Run(t.Context(), &pipeline.Turn{ID: "1", Provider: &fake{answer: say("x")}}) {
		got += string(ev.Text)
	}
	if got != "xb1a1" {
		t.Errorf("got %s", got)
	}
}

// TestRunnerLazy checks that nothing is asked of the upstream before the stream is ranged over, and that a consumer that stops,
// and an error, end it.
func TestRunnerLazy(t *testing.T) {
	ranged, more := false, false
	p := &fake{answer: func(yield func(*pipeline.Event, error) bool) {
		ranged = true
		more = yield(&pipeline.Event{Kind: pipeline.Flush}, nil)
	}}
	r := engine.Runner{}
	s := r.Run(t.Context(), &pipeline.Turn{Provider: p})
	if ranged {
		t.Error("the exchange began before the stream was ranged over")
	}
	for range s {
		break
	}
	if !ranged || more {
		t.Errorf("ranged %v, went on %v", ranged, more)
	}
	refused := &pipeline.Error{Code: pipeline.CodeRateLimit, Message: "wait"}
	p.answer = pipeline.Fail(refused)
	for _, err := range r.Run(t.Context(), &pipeline.Turn{Provider: p}) {
		if !errors.Is(err, refused) {
			t.Errorf("got %v", err)
		}
	}
}

func ExampleRunner() {
	prompt := user(pipeline.Part{Text: "Say hello."})
	turn := &pipeline.Turn{Provider: &fake{answer: say("Hello ", "world.")}, UpstreamID: "vendor/m", Prompt: &prompt}
	r := engine.Runner{} // Round: stages.EventMap and stages.UsageFold, for a real upstream
	for ev, err := range r.Run(context.Background(), turn) {
		switch {
		case err != nil:
			fmt.Println(err)
		case ev.Kind == pipeline.Text:
			fmt.Print(ev.Text)
		case ev.Kind == pipeline.Finish:
			fmt.Printf(" (%s)\n", ev.Step.Reason)
		}
	}
	// Output: Hello world. (stop)
}
