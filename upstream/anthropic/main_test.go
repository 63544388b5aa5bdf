package anthropic

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/upstreamtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testKey   = "sk-ant-secret0123456789"
	testModel = "claude-test-1"
	never     = time.Minute // after which a test gives up
)

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
type result = upstreamtest.Result

func collect(t testing.TB, src pipeline.Stream) result {
	t.Helper()
	return upstreamtest.Collect(t, src)
}

func run(t testing.TB, p pipeline.Provider, r *pipeline.Round) result {
	t.Helper()
	return upstreamtest.Ask(t, p, r)
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

func wantError(t testing.TB, err error, code pipeline.Code, status int, text string) *pipeline.Error {
	t.Helper()
	return upstreamtest.WantError(t, err, testKey, code, status, text)
}
