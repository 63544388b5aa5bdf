package anthropic

import (
	"context"
	"errors"
	"fmt"
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testKey   = "sk-ant-secret0123456789"
	testModel = "claude-test-1"
	never     = time.Minute // after which a test gives up
)

var discard = slog.New(slog.DiscardHandler)

// testMask knows testKey.
func testMask() *secret.Mask {
	m := new(secret.Mask)
	m.Add(testKey)
	return m
}

// serve starts an API that answers with f and is closed with the test.
func serve(t testing.TB, f http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

// connect returns a provider for the API at url that is closed with the test.
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
	calls           []string // id name(arguments)
	finish          *pipeline.StepInfo
	err             error
	usage           pipeline.Usage
}

// collect runs a stream through the round stages and checks what holds for each: one end, nothing behind it, and text that is
// valid JSON.
func collect(t testing.TB, src pipeline.Stream) (r result) {
	t.Helper()
	turn := &pipeline.Turn{ID: "turn"}
	ended := false
	text := func(ev *pipeline.Event) string {
		body := `"` + string(ev.Text) + `"`
		if !ev.Clean || !utf8.ValidString(body) || codec.Validate([]byte(body)) != nil {
			t.Errorf("text %q (clean %v) is no JSON string body", ev.Text, ev.Clean)
		}
		return ev.Text.String()
	}
	for ev, err := range pipeline.Chain([]pipeline.Stage{stages.EventMap(discard), stages.UsageFold(discard)}, turn, src) {
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
			if len(ev.ID) == 0 || len(ev.Name) == 0 {
				t.Errorf("call without id or name: %+v", ev)
			}
			r.calls = append(r.calls, fmt.Sprintf("%s %s(%s)", ev.ID, ev.Name, text(ev)))
		case pipeline.Finish:
			step := *ev.Step
			r.finish, ended = &step, true
		}
	}
	if !ended {
		t.Error("the stream has no end")
	}
	r.usage = turn.Usage
	return r
}

// run asks a provider and insists on an end.
func run(t testing.TB, p pipeline.Provider, r *pipeline.Round) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), never)
	defer cancel()
	res := collect(t, p.Stream(ctx, r))
	if ctx.Err() != nil {
		t.Fatal("it hangs")
	}
	return res
}

func bodyStream(src io.Reader) pipeline.Stream {
	return func(yield func(*pipeline.Event, error) bool) {
		out := upstream.NewEmitter(yield)
		if _, err := upstream.Drive(src, codec.LineOptions{MaxBytes: 1 << 20}, NewDecoder(testMask()), out, nil); err != nil {
			out.Fail(&pipeline.Error{Code: pipeline.CodeUpstream, Message: "read", Err: err})
		}
	}
}

// body is the meaning of a body of these lines.
func body(t testing.TB, lines ...string) result {
	t.Helper()
	return collect(t, bodyStream(script(lines...)))
}

// script is a body of events, framed as the API frames them.
func script(lines ...string) io.Reader {
	return strings.NewReader(framed(lines...))
}

func framed(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("event: whatever\ndata: " + l + "\n\n")
	}
	return b.String()
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
