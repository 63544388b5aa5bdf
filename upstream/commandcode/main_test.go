package commandcode

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/stages"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/simulator"
)

// testMask knows testKey.
func testMask() *secret.Mask {
	m := new(secret.Mask)
	m.Add(testKey)
	return m
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testKey   = "user_secret0123456789"
	testModel = "deepseek/deepseek-v4-pro"
	never     = time.Minute // after which a test gives up
)

var discard = slog.New(slog.DiscardHandler)

// debugLog writes everything to w.
func debugLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// simulate starts a gateway that is closed with the test.
func simulate(t testing.TB, o simulator.Options) *simulator.Server {
	t.Helper()
	s, err := simulator.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// connect returns a provider for the gateway at url that is closed with the test.
func connect(t testing.TB, url string, change ...func(*Config)) *Provider {
	t.Helper()
	c := Config{BaseURL: url, Key: testKey, Tries: 1}
	for _, f := range change {
		f(&c)
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func user(text string) pipeline.Message {
	return pipeline.Message{Role: pipeline.RoleUser, Parts: []pipeline.Part{{Text: text}}}
}

func ask(text string) *pipeline.Round {
	return &pipeline.Round{Model: testModel, Messages: []pipeline.Message{user(text)}}
}

// result is what a round means behind the stages that every round has.
type result struct {
	text, reasoning string
	calls           []pipeline.Call
	finish          *pipeline.StepInfo
	err             error
	turn            *pipeline.Turn
}

// collect runs a stream through the round stages and checks what holds for each: one end, nothing behind it, and text that is
// valid JSON.
func collect(t testing.TB, src pipeline.Stream) result {
	t.Helper()
	r := result{turn: &pipeline.Turn{ID: "turn"}}
	ended := false
	text := func(ev *pipeline.Event) string {
		body := `"` + string(ev.Text) + `"`
		if !ev.Clean || !utf8.ValidString(body) || codec.Validate([]byte(body)) != nil {
			t.Errorf("text %q (clean %v) is no JSON string body", ev.Text, ev.Clean)
		}
		return ev.Text.String()
	}
	for ev, err := range pipeline.Chain([]pipeline.Stage{stages.EventMap(discard), stages.UsageFold(discard)}, r.turn, src) {
		if ended && (err != nil || ev.Kind != pipeline.Flush && ev.Kind != pipeline.Idle) {
			t.Errorf("%+v, %v behind the end", ev, err)
		}
		if err != nil {
			r.err, ended = err, true
			continue
		}
		switch ev.Kind {
		case pipeline.Text:
			r.text += text(ev)
		case pipeline.Reasoning:
			r.reasoning += text(ev)
		case pipeline.ToolCall:
			r.calls = append(r.calls, pipeline.Call{ID: string(ev.ID), Name: string(ev.Name), Arguments: []byte(text(ev))})
		case pipeline.Finish:
			step := *ev.Step
			r.finish, ended = &step, true
		}
	}
	if !ended {
		t.Error("the stream has no end")
	}
	return r
}

// run asks a provider and insists on an end.
func run(t testing.TB, p pipeline.Provider, r *pipeline.Round) (res result) {
	t.Helper()
	done := make(chan result, 1)
	ctx, cancel := context.WithTimeout(t.Context(), never)
	defer cancel()
	go func() { done <- collect(t, p.Stream(ctx, r)) }()
	res = <-done
	if ctx.Err() != nil {
		t.Fatal("it hangs")
	}
	return res
}

// body is the meaning of the body of an answer.
func body(t testing.TB, src io.Reader) result {
	t.Helper()
	return collect(t, bodyStream(src, NewDecoder(testMask())))
}

func bodyStream(src io.Reader, d *Decoder) pipeline.Stream {
	return func(yield func(*pipeline.Event, error) bool) {
		out := upstream.NewEmitter(yield)
		lines := codec.LineOptions{MaxBytes: upstream.DefaultMaxLine, Skip: IsEcho}
		if _, err := upstream.Drive(src, lines, d, out, nil); err != nil {
			out.Fail(&pipeline.Error{Code: pipeline.CodeUpstream, Message: "read", Err: err})
		}
	}
}

// wantError checks err against a code, a status and a part of its message. It never holds the key.
func wantError(t testing.TB, err error, code pipeline.Code, status int, text string) *pipeline.Error {
	t.Helper()
	e, ok := errors.AsType[*pipeline.Error](err)
	if !ok {
		t.Errorf("error %v is no *pipeline.Error", err)
		return &pipeline.Error{}
	}
	if e.Code != code || e.Status != status || !strings.Contains(e.Error(), text) {
		t.Errorf("error %s, status %d, %q; want %s, %d, %q", e.Code, e.Status, e.Error(), code, status, text)
	}
	if strings.Contains(e.Error(), testKey) {
		t.Errorf("the key shows in %q", e.Error())
	}
	if e.Origin != pipeline.OriginUpstream && code != pipeline.CodeAborted {
		t.Errorf("origin %d", e.Origin)
	}
	return e
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(start) > never {
			t.Fatalf("not within %s: %s", never, what)
		}
	}
}
