package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// twins are two upstreams of one kind, a and b, that serve a model each and answer with their name, unless they are told to fail.
type twins struct {
	fail  [2]atomic.Pointer[failure]
	asked [2]atomic.Int64
	urls  [2]string
}

type failure struct {
	status     int
	retryAfter string
	wait       time.Duration
	after      string // said before it fails with status 200
}

func newTwins(t *testing.T) *twins {
	t.Helper()
	tw := new(twins)
	for i, name := range []string{"a", "b"} {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /models", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"data":[{"id":"model-%s"}]}`, name)
		})
		mux.HandleFunc("POST /chat/completions", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			tw.asked[i].Add(1)
			w.Header().Set("Content-Type", "text/event-stream")
			f := tw.fail[i].Load()
			if f == nil {
				_, _ = io.WriteString(w, sse(`{"choices":[{"index":0,"delta":{"content":"I am `+name+`"}}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]"))
				return
			}
			select {
			case <-time.After(f.wait):
			case <-r.Context().Done():
				return
			}
			if f.retryAfter != "" {
				w.Header().Set("Retry-After", f.retryAfter)
			}
			if f.after != "" {
				_, _ = io.WriteString(w, sse(`{"choices":[{"index":0,"delta":{"content":"`+f.after+`"}}]}`))
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(f.status)
			_, _ = io.WriteString(w, `{"error":{"message":"`+name+` cannot"}}`)
		})
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		tw.urls[i] = s.URL
	}
	return tw
}

// TestContractFailover: another provider is asked, if the host config names one, as long as the client was told nothing; the header
// says who serves.
func TestContractFailover(t *testing.T) {
	t.Parallel()
	tw := newTwins(t)
	w := stage(t, scene{config: fmt.Sprintf(`{"fallbacks":{"model-a":["nobody","model-b"],"*":["model-b"]},"limits":{"tries":2},"providers":{
		"a": {"module":"chat-completions","config":{"base_url":%q}},
		"b": {"module":"chat-completions","config":{"base_url":%q}}}}`, tw.urls[0], tw.urls[1])})
	ask := func(model, how, wantText, wantUpstream string) {
		t.Helper()
		resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[%s],"stream":%s}`, model, message("user", "hi"), how))
		if !strings.Contains(b, wantText) || resp.Header.Get("X-Amplifier-Upstream") != wantUpstream {
			t.Errorf("%s, stream %s: status %d by %q: %s\nwant %q by %q", model, how, resp.StatusCode, resp.Header.Get("X-Amplifier-Upstream"), b, wantText, wantUpstream)
		}
	}
	for _, how := range []string{"true", "false"} {
		tw.fail[0].Store(nil)
		ask("model-a", how, "I am a", "a/model-a")
		ask("model-b", how, "I am b", "b/model-b")
		tw.fail[0].Store(&failure{status: 503})
		ask("model-a", how, "I am b", "b/model-b")
		tw.fail[0].Store(&failure{status: 503, wait: 300 * time.Millisecond}) // long after the preflight window
		ask("model-a", how, "I am b", "b/model-b")
		tw.fail[0].Store(nil)
		ask("model-a", how, "I am a", "a/model-a")
		// What is refused for good, and what fails in the middle, is not asked of another.
		tw.fail[0].Store(&failure{status: 400})
		ask("model-a", how, "a cannot", "a/model-a")
		tw.fail[0].Store(&failure{after: "half"})
		ask("model-a", how, "half", "a/model-a")
	}
	tw.fail[1].Store(&failure{status: 503}) // has no fallback but itself: it is asked twice
	asked := tw.asked[1].Load()
	ask("model-b", "true", "b cannot", "b/model-b")
	if n := tw.asked[1].Load() - asked; n != 2 {
		t.Errorf("b was asked %d times", n)
	}
	w.end(t)
	if log := w.stderr.String(); !strings.Contains(log, "nobody") || !strings.Contains(log, "another is asked") {
		t.Errorf("the log says\n%s", log)
	}
}

// TestContractRestingKey: an upstream that asked to be left alone is, and once all have, the client is told how long to wait (cases B074).
func TestContractRestingKey(t *testing.T) {
	t.Parallel()
	tw := newTwins(t)
	w := stage(t, scene{config: fmt.Sprintf(`{"fallbacks":{"*":["model-b"]},"providers":{
		"a": {"module":"chat-completions","config":{"base_url":%q}},
		"b": {"module":"chat-completions","config":{"base_url":%q}}}}`, tw.urls[0], tw.urls[1])})
	ask := fmt.Sprintf(`{"model":"model-a","messages":[%s]}`, message("user", "hi"))
	tw.fail[0].Store(&failure{status: 429, retryAfter: "600"})
	for range 3 {
		if a := w.chat(t, ask); a.Content != "I am b" {
			t.Errorf("got %+v", a)
		}
	}
	if n := tw.asked[0].Load(); n != 1 {
		t.Errorf("a was asked %d times though it asked to be left alone", n)
	}
	tw.fail[1].Store(&failure{status: 429, retryAfter: "60"})
	for range 2 {
		resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", ask)
		if wait, err := strconv.Atoi(resp.Header.Get("Retry-After")); !strings.Contains(wantRefusal(t, resp, b, 502, "upstream_error"), "b cannot") || err != nil || wait < 1 || wait > 60 {
			t.Errorf("told to wait %d s (%v): %s", wait, err, b)
		}
	}
	if a, b := tw.asked[0].Load(), tw.asked[1].Load(); a != 1 || b != 4 {
		t.Errorf("a was asked %d times, b %d times", a, b)
	}
}

// TestContractRecord: --record takes down what passes between the server and its upstreams, without keys and without what users say;
// the provider replay plays it offline.
func TestContractRecord(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{args: []string{"--record", "tapes"}})
	want := w.chat(t, say("my diary of today", `,"stream":true`))
	if want.Content == "" || want.Usage.Prompt == 0 {
		t.Fatalf("got %+v", want)
	}
	w.refused(t, 502, "upstream_error", say("[fault:status-401]"))
	w.end(t)
	if !strings.Contains(w.stderr.String(), "Recording: "+filepath.Join(w.cwd, "tapes")) {
		t.Errorf("the banner says\n%s", w.stderr.String())
	}
	files, err := os.ReadDir(filepath.Join(w.cwd, "tapes"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(w.cwd, "tapes", f.Name()))
		if err != nil || strings.Contains(string(b), "upstream-key") || strings.HasSuffix(f.Name(), ".json") && strings.Contains(string(b), "diary") {
			t.Errorf("%s holds what is private (%v)", f.Name(), err)
		}
	}
	again := stage(t, scene{config: fmt.Sprintf(`{"providers":{"tapes":{"module":"replay","config":{"dir":%q}}}}`, filepath.Join(w.cwd, "tapes")),
		env: []string{"COMMANDCODE_BASE_URL=http://127.0.0.1:1"}})
	type model struct{ ID string }
	for _, m := range listed[model](t, again, "/v1/models") {
		ask := fmt.Sprintf(`{"model":%q,"messages":[%s]`, m.ID, message("user", "whatever"))
		resp, b := again.request(t, http.MethodPost, "/v1/chat/completions", ask+"}")
		if resp.StatusCode == http.StatusBadGateway {
			if !strings.Contains(b, "401") {
				t.Errorf("got %s", b)
			}
			continue
		}
		got := again.chat(t, ask+`,"stream":true}`)
		if got.Content != want.Content || got.Reasoning != want.Reasoning || got.Usage.Prompt != want.Usage.Prompt || got.Usage.Completion != want.Usage.Completion {
			t.Errorf("played\n%+v\nrecorded\n%+v", got, want)
		}
	}
	if resp, _ := again.request(t, http.MethodGet, "/v1/models", ""); resp.Header.Get("X-Amplifier-Upstream") != "" {
		t.Error("a list is served by no upstream")
	}
}
