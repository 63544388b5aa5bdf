package chatcompletions

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
)

// testMask knows testKey.
func testMask() *secret.Mask {
	m := new(secret.Mask)
	m.Add(testKey)
	return m
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testKey   = "sk-secret0123456789"
	testModel = "test-model"
	never     = time.Minute // after which a test gives up
)

var discard = slog.New(slog.DiscardHandler)

// serve starts an upstream that is closed with the test.
func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// sse answers with lines, each an event.
func sse(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, stream(lines...))
	}
}

func stream(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("data: " + l + "\n\n")
	}
	return b.String()
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
		lines := codec.LineOptions{MaxBytes: upstream.DefaultMaxLine}
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
