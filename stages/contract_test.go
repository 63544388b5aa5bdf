package stages_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/stages"
)

// item is what a source yields.
type item struct {
	ev  pipeline.Event
	err error
}

const unknownKind pipeline.Kind = 200

// clean is an event whose text is what a scanner makes of it.
func clean(kind pipeline.Kind, id, name, text string) item {
	var s codec.Scanner
	s.Reset([]byte(`"` + text + `"`))
	t, ok := s.Text()
	if !ok {
		panic("no JSON string body: " + text)
	}
	return item{ev: pipeline.Event{Kind: kind, ID: []byte(id), Name: []byte(name), Text: t, Clean: s.Clean()}}
}

func text(s string) item              { return clean(pipeline.Text, "", "", s) }
func reasoning(s string) item         { return clean(pipeline.Reasoning, "", "", s) }
func start(id, name string) item      { return clean(pipeline.ToolStart, id, name, "") }
func fragment(id, s string) item      { return clean(pipeline.ToolDelta, id, "", s) }
func end(id string) item              { return clean(pipeline.ToolEnd, id, "", "") }
func call(id, name, args string) item { return clean(pipeline.ToolCall, id, name, args) }
func cancel(id string) item           { return clean(pipeline.ToolCancel, id, "", "") }
func fail(err error) item             { return item{err: err} }
func signal(k pipeline.Kind) item     { return item{ev: pipeline.Event{Kind: k}} }
func finish(r pipeline.Reason) item {
	return info(pipeline.Finish, pipeline.StepInfo{Reason: r, Raw: "raw"})
}

// bareCall is a call without arguments.
func bareCall(id, name string) item {
	i := call(id, name, "")
	i.ev.Text = nil
	return i
}

func info(k pipeline.Kind, s pipeline.StepInfo) item {
	return item{ev: pipeline.Event{Kind: k, Step: &s}}
}

var errBroken = &pipeline.Error{Code: pipeline.CodeUpstream, Origin: pipeline.OriginUpstream, Message: "broken"}

// source yields items as a provider does: one event that is used again, and bytes that are overwritten once the yield returns.
// It stops at a false yield.
func source(items ...item) pipeline.Stream {
	return func(yield func(*pipeline.Event, error) bool) {
		var ev pipeline.Event
		for _, it := range items {
			if it.err != nil {
				yield(nil, it.err)
				return
			}
			ev = it.ev
			ev.ID, ev.Name, ev.Text = bytes.Clone(ev.ID), bytes.Clone(ev.Name), bytes.Clone(ev.Text)
			if ev.Step != nil {
				s := *ev.Step
				ev.Step = &s
			}
			lent := ev
			ok := yield(&ev, nil)
			for _, b := range [][]byte{lent.ID, lent.Name, lent.Text} {
				for i := range b {
					b[i] = '!'
				}
			}
			if lent.Step != nil {
				*lent.Step = pipeline.StepInfo{Raw: "overwritten"}
			}
			if !ok {
				return
			}
		}
	}
}

// show is one item in words.
func show(ev *pipeline.Event, err error) string {
	if err != nil {
		return "error " + string(pipeline.AsError(err).Code)
	}
	body := string(ev.Text)
	if !ev.Clean {
		body += " (dirty)"
	}
	switch ev.Kind {
	case pipeline.Text:
		return "text " + body
	case pipeline.Reasoning:
		return "reasoning " + body
	case pipeline.ToolStart:
		return fmt.Sprintf("start %s %s", ev.ID, ev.Name)
	case pipeline.ToolDelta:
		return fmt.Sprintf("fragment %s %s", ev.ID, body)
	case pipeline.ToolEnd:
		return fmt.Sprintf("end %s", ev.ID)
	case pipeline.ToolCall:
		return fmt.Sprintf("call %s %s %s", ev.ID, ev.Name, body)
	case pipeline.ToolCancel:
		return fmt.Sprintf("cancel %s", ev.ID)
	case pipeline.Step:
		return "step"
	case pipeline.Cost:
		return "cost"
	case pipeline.Finish:
		return "finish " + ev.Step.Reason.String()
	case pipeline.Flush:
		return "flush"
	case pipeline.Idle:
		return "idle"
	default:
		return fmt.Sprintf("kind %d", ev.Kind)
	}
}

// gather ranges over in until it has seen limit items, and fails the test if more come, or anything behind an error.
func gather(t testing.TB, in pipeline.Stream, limit int) (seen []string) {
	t.Helper()
	over := false
	in(func(ev *pipeline.Event, err error) bool {
		if over {
			t.Errorf("%q after the end; before it %q", show(ev, err), seen)
			return false
		}
		if (ev == nil) != (err != nil) {
			t.Errorf("event %v with error %v", ev, err)
		}
		seen = append(seen, show(ev, err))
		over = err != nil || len(seen) == limit
		return len(seen) != limit
	})
	return seen
}

const all = -1

// rich is a round with every kind of event, and all that makes a stage hold something back.
func rich() []item {
	return []item{
		signal(pipeline.Flush), signal(pipeline.Idle), reasoning(`think\ud83d`), reasoning(`\ude00`), text("Hi "), text(`\ud83d`),
		start("a", "f"), start("b", "g"), fragment("a", `{\"x\":`), fragment("b", "{}"), call("b", "g", "{}"), end("a"), fragment("a", "1}"),
		cancel("c"), call("a", "f", `{\"x\":1}`), signal(unknownKind),
		info(pipeline.Step, pipeline.StepInfo{Usage: pipeline.Usage{Input: 3, Output: 1, Has: pipeline.HasInput | pipeline.HasOutput}}),
		info(pipeline.Cost, pipeline.StepInfo{Cost: price("0.5")}), finish(pipeline.ReasonStop), signal(pipeline.Flush),
	}
}

func price(s string) pipeline.Price {
	p, ok := pipeline.ParsePrice(s)
	if !ok {
		panic("no price: " + s)
	}
	return p
}

// everyStage are the stages as the program chains them; round are those of a round.
func everyStage() []pipeline.Stage {
	return append([]pipeline.Stage{
		stages.Auth("key"), stages.Account(new(books)), stages.Ready(func() error { return nil }), stages.Decode(stages.DecodeOptions{}),
		stages.Model(models{}, nil), stages.Mode(modes{}), stages.Images(fetched{}, 1<<20), reconcile(new(conversations)), stages.History(),
		stages.Containment(false), stages.Skill(skills{}, slog.New(slog.DiscardHandler)), stages.ToolMount(),
	}, round()...)
}

func round() []pipeline.Stage {
	log := slog.New(slog.DiscardHandler)
	return []pipeline.Stage{stages.EventMap(log), stages.UsageFold(log)}
}

// TestStageContract holds every stage, and all of them chained, against pipeline.Stage.
func TestStageContract(t *testing.T) {
	for _, s := range everyStage() {
		t.Run(s.Name, func(t *testing.T) { contract(t, []pipeline.Stage{s}) })
	}
	t.Run("chain", func(t *testing.T) { contract(t, everyStage()) })
}

// contract checks what pipeline.Stage asks of the Events half of each stage. It is the test of a new stage, too.
func contract(t *testing.T, list []pipeline.Stage) {
	chain := func(in pipeline.Stream) pipeline.Stream {
		return pipeline.Chain(list, &pipeline.Turn{ID: "turn"}, in)
	}
	t.Run("lazy", func(t *testing.T) {
		ranged := false
		s := chain(func(func(*pipeline.Event, error) bool) { ranged = true })
		if ranged {
			t.Fatal("the source was ranged over before the stream was")
		}
		if gather(t, s, all); !ranged {
			t.Fatal("the source was not ranged over")
		}
	})
	t.Run("forwards", func(t *testing.T) {
		for _, k := range []pipeline.Kind{pipeline.Flush, pipeline.Idle, unknownKind} {
			sent := &pipeline.Event{Kind: k, Wake: time.Hour}
			var got *pipeline.Event
			chain(func(yield func(*pipeline.Event, error) bool) { yield(sent, nil) })(func(ev *pipeline.Event, err error) bool {
				got = ev
				ev.Wake = time.Second
				return true
			})
			if got != sent || sent.Wake != time.Second {
				t.Errorf("kind %d: got %p, sent %p, wake %v", k, got, sent, sent.Wake)
			}
		}
	})
	t.Run("stops", func(t *testing.T) {
		for _, tail := range [][]item{nil, {fail(errBroken)}} {
			items := append(rich()[:len(rich())-2], tail...)
			if tail == nil {
				items = rich()
			}
			n := len(gather(t, chain(source(items...)), all))
			for stop := 1; stop <= n; stop++ {
				more := false
				src := source(items...)
				seen := gather(t, chain(func(yield func(*pipeline.Event, error) bool) {
					refused := false
					src(func(ev *pipeline.Event, err error) bool {
						more = more || refused
						refused = !yield(ev, err)
						return !refused
					})
				}), stop)
				if len(seen) != stop || more {
					t.Errorf("stop after %d of %d: got %d, source went on: %v", stop, n, len(seen), more)
				}
			}
		}
	})
	t.Run("error", func(t *testing.T) {
		for n := range len(rich()) - 1 { // before Finish, which nothing but Flush and Idle follows
			var last error
			errs := 0
			chain(source(append(rich()[:n:n], fail(errBroken))...))(func(ev *pipeline.Event, err error) bool {
				if last != nil {
					t.Errorf("%s behind the error", show(ev, err))
				}
				if last = err; err != nil {
					errs++
				}
				return true
			})
			if errs != 1 || !errors.Is(last, errBroken) {
				t.Errorf("after %d events: %d errors, the last is %v", n, errs, last)
			}
		}
	})
	t.Run("shared", func(t *testing.T) { // one stage serves many turns at once
		want := strings.Join(gather(t, chain(source(rich()...)), all), "|")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if got := strings.Join(gather(t, chain(source(rich()...)), all), "|"); got != want {
					t.Errorf("got %s\nwant %s", got, want)
				}
			})
		}
		wg.Wait()
	})
}

// TestTextAllocates checks the hot path: a delta costs no memory on its way through every stage, nor does what comes between deltas.
// The arguments of a call are gathered, in memory that grows now and then.
func TestTextAllocates(t *testing.T) {
	for name, it := range map[string]item{"clean": text("hello "), "dirty": text(`a\ud83d`), "reasoning": reasoning("hm"),
		"fragment": fragment("a", "x"), "flush": signal(pipeline.Flush), "idle": signal(pipeline.Idle), "unknown": signal(unknownKind)} {
		src := func(yield func(*pipeline.Event, error) bool) {
			ev := it.ev
			if n := testing.AllocsPerRun(1000, func() {
				ev = it.ev
				yield(&ev, nil)
			}); n != 0 {
				t.Errorf("%s: %v allocations an event", name, n)
			}
		}
		events := 0
		for range pipeline.Chain(everyStage(), &pipeline.Turn{}, src) {
			events++
		}
		if events < 1000 {
			t.Errorf("%s: only %d events came through", name, events)
		}
	}
}

// models is a ModelSet that serves "m".
type models struct{}

func (models) Lookup(model string) (pipeline.Provider, string, error) {
	if model != "m" {
		return nil, "", &pipeline.Error{Code: pipeline.CodeUnknownModel, Origin: pipeline.OriginClient, Message: "no such model"}
	}
	return provider{}, "vendor/m", nil
}

type provider struct{}

func (provider) Name() string                                            { return "fake" }
func (provider) Models(context.Context) ([]pipeline.Model, error)        { return nil, nil }
func (provider) Stream(context.Context, *pipeline.Round) pipeline.Stream { return source() }

// wantError checks code, param and, if it is not empty, the message of err.
func wantError(t *testing.T, err error, code pipeline.Code, param, message string) {
	t.Helper()
	var e *pipeline.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want %s at %q", err, code, param)
	}
	if e.Code != code || e.Param != param || message != "" && e.Message != message || e.Message == "" {
		t.Errorf("got %s at %q: %s\nwant %s at %q: %s", e.Code, e.Param, e.Message, code, param, message)
	}
}
