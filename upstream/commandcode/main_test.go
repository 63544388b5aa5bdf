package commandcode

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/simulator"
	"amplifier-agent/upstream/upstreamtest"
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
type result = upstreamtest.Result

func collect(t testing.TB, src pipeline.Stream) result {
	t.Helper()
	return upstreamtest.Collect(t, src)
}

func run(t testing.TB, p pipeline.Provider, r *pipeline.Round) result {
	t.Helper()
	return upstreamtest.Ask(t, p, r)
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

func wantError(t testing.TB, err error, code pipeline.Code, status int, text string) *pipeline.Error {
	t.Helper()
	return upstreamtest.WantError(t, err, testKey, code, status, text)
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(start) > never {
			t.Fatalf("not within %s: %s", never, what)
		}
	}
}
