package chatcompletions

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
		lines := codec.LineOptions{MaxBytes: upstream.DefaultMaxLine}
		if _, err := upstream.Drive(src, lines, d, out, nil); err != nil {
			out.Fail(&pipeline.Error{Code: pipeline.CodeUpstream, Message: "read", Err: err})
		}
	}
}

func wantError(t testing.TB, err error, code pipeline.Code, status int, text string) *pipeline.Error {
	t.Helper()
	return upstreamtest.WantError(t, err, testKey, code, status, text)
}
