package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

func TestPrepare(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "value")
	var ran []string
	turn := &pipeline.Turn{}
	stage := func(name string, err error) pipeline.Stage {
		return pipeline.Stage{Name: name, Request: func(c context.Context, got *pipeline.Turn) error {
			if c.Value(key{}) != "value" || got != turn {
				t.Errorf("%s got another context or turn", name)
			}
			ran = append(ran, name)
			return err
		}}
	}
	if err := pipeline.Prepare(ctx, []pipeline.Stage{stage("a", nil), {Name: "no request"}, stage("b", nil), stage("c", nil)}, turn); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ran, []string{"a", "b", "c"}) {
		t.Errorf("ran %v", ran)
	}
	ran = nil
	bad := pipeline.Invalid("model", "no model")
	err := pipeline.Prepare(ctx, []pipeline.Stage{stage("a", nil), stage("b", bad), stage("c", errors.New("never seen"))}, turn)
	if !slices.Equal(ran, []string{"a", "b"}) {
		t.Errorf("ran %v", ran)
	}
	if err == nil || err.Error() != "b: no model" || pipeline.AsError(err) != bad {
		t.Errorf("got %v", err)
	}
	if err := pipeline.Prepare(ctx, nil, turn); err != nil {
		t.Error(err)
	}
}

// tag is a stage that puts its name behind each text.
func tag(name string) pipeline.Stage {
	return pipeline.Stage{Name: name, Events: func(t *pipeline.Turn, in pipeline.Stream) pipeline.Stream {
		return func(yield func(*pipeline.Event, error) bool) {
			for ev, err := range in {
				if err == nil {
					ev.Text = append(ev.Text, name+t.ID...)
				}
				if !yield(ev, err) {
					return
				}
			}
		}
	}}
}

func say(texts ...string) pipeline.Stream {
	return func(yield func(*pipeline.Event, error) bool) {
		var ev pipeline.Event
		for _, s := range texts {
			ev = pipeline.Event{Kind: pipeline.Text, Clean: true, Text: codec.Text(s)}
			if !yield(&ev, nil) {
				return
			}
		}
	}
}

func TestChain(t *testing.T) {
	turn := &pipeline.Turn{ID: "1"}
	for _, row := range []struct {
		stages []pipeline.Stage
		want   string
	}{
		{nil, "x"},
		{[]pipeline.Stage{{Name: "no events"}}, "x"},
		{[]pipeline.Stage{tag("a")}, "xa1"},
		{[]pipeline.Stage{tag("a"), {Name: "no events"}, tag("b"), tag("c")}, "xc1b1a1"}, // the first is nearest the client
	} {
		for ev := range pipeline.Chain(row.stages, turn, say("x")) {
			if string(ev.Text) != row.want {
				t.Errorf("got %s, want %s", ev.Text, row.want)
			}
		}
	}
}

func TestFail(t *testing.T) {
	n := 0
	want := errors.New("broken")
	for ev, err := range pipeline.Chain([]pipeline.Stage{tag("a")}, &pipeline.Turn{}, pipeline.Fail(want)) {
		if n++; ev != nil || !errors.Is(err, want) || n > 1 {
			t.Errorf("%d: got %v, %v", n, ev, err)
		}
	}
	if n != 1 {
		t.Errorf("%d items", n)
	}
	for range pipeline.Fail(want) {
		break // a consumer that has enough of it
	}
}

// A stage of one's own: it rejects requests that name a secret, and takes the secret out of the answer. In a program it is one
// file of package stages, and one line where the stages are listed.
func ExampleStage() {
	redact := func(secret string) pipeline.Stage {
		return pipeline.Stage{
			Name: "redact",
			Request: func(_ context.Context, t *pipeline.Turn) error {
				for i := range t.Messages {
					if strings.Contains(t.Messages[i].Text(), secret) {
						return pipeline.Invalid(fmt.Sprintf("messages[%d].content", i), "a secret does not belong into a prompt")
					}
				}
				return nil
			},
			Events: func(_ *pipeline.Turn, in pipeline.Stream) pipeline.Stream {
				return func(yield func(*pipeline.Event, error) bool) {
					for ev, err := range in {
						if err == nil && ev.Kind == pipeline.Text { // everything else is forwarded
							ev.Text = codec.Text(strings.ReplaceAll(string(ev.Text), secret, "***"))
						}
						if !yield(ev, err) {
							return
						}
					}
				}
			},
		}
	}
	list := []pipeline.Stage{redact("s3cret")}
	turn := &pipeline.Turn{Messages: []pipeline.Message{{Role: pipeline.RoleUser, Parts: []pipeline.Part{{Text: "what is it?"}}}}}
	if err := pipeline.Prepare(context.Background(), list, turn); err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range pipeline.Chain(list, turn, say("It is ", "s3cret.")) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(ev.Text)
	}
	fmt.Println()
	turn.Messages[0].Parts[0].Text = "it is s3cret"
	fmt.Println(pipeline.Prepare(context.Background(), list, turn))
	// Output:
	// It is ***.
	// redact: a secret does not belong into a prompt
}

func ExampleChain() {
	// The first stage is nearest the client: it sees each event last.
	for ev := range pipeline.Chain([]pipeline.Stage{tag(" outer"), tag(" inner")}, &pipeline.Turn{}, say("text")) {
		fmt.Println(ev.Text)
	}
	// Output: text inner outer
}
