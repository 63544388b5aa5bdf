package commandcode

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream/simulator"
)

// TestSurface: rulings 11.
func TestSurface(t *testing.T) {
	const choose = "choose a surface on the vendor's own host: COMMANDCODE_SURFACE=provider or COMMANDCODE_SURFACE=generate. " +
		"The vendor serves third-party clients on the provider surface and says that it may refuse or ban proxies on the other, so this program does not choose for you"
	for _, row := range []struct{ url, surface, err string }{
		{"", "", choose},
		{"https://api.commandcode.ai", "", choose},
		{"https://API.CommandCode.AI/", "", choose},
		{"https://api.commandcode.ai.", "", choose},
		{"https://api.commandcode.ai:443/x", "", choose},
		{"https://staging-api.commandcode.ai", "", choose},
		{"http://commandcode.ai", "", choose},
		{"https://api.commandcode.ai", SurfaceGenerate, ""},
		{"", SurfaceGenerate, ""},
		{"", SurfaceProvider, ""},
		{"http://127.0.0.1:9", SurfaceProvider, ""},
		{"http://127.0.0.1:9", "", ""},
		{"http://127.0.0.1:9", SurfaceGenerate, ""},
		{"https://notcommandcode.ai", "", ""},
		{"https://commandcode.ai.example.com", "", ""},
		{"http://127.0.0.1:9", "Generate", `unknown surface "Generate": use generate or provider`},
		{"nonsense", "", "base URL \"nonsense\": an http:// or https:// URL is needed (set COMMANDCODE_BASE_URL)"},
	} {
		p, err := New(Config{BaseURL: row.url, Surface: row.surface, Key: testKey})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			p.Close()
		}
		if got != row.err {
			t.Errorf("%q on %q: %q, want %q", row.surface, row.url, got, row.err)
		}
	}
}

func TestKey(t *testing.T) {
	for in, want := range map[string]string{
		"user_abc": "user_abc", "  user_abc\r\n": "user_abc", "\x1b[200~user_abc\x1b[201~": "user_abc", "\x00user_abc\x7f": "user_abc", "\u00a0user_abc\ufeff\u200a": "user_abc",
		" \x1b[200~ user_abc \x1b[201~ ": "user_abc", "": "", " \n": "", "\x1b[200~\x1b[201~": "",
	} {
		if got := secret.CleanKey(in); got != want {
			t.Errorf("%q becomes %q", in, got)
		}
		_, err := New(Config{BaseURL: "http://127.0.0.1:9", Key: in})
		if (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "export COMMANDCODE_API_KEY") {
			t.Errorf("%q: %v", in, err)
		}
	}
	s := simulate(t, simulator.Options{Keys: []string{testKey}})
	if r := run(t, connect(t, s.URL(), func(c *Config) { c.Key = "\x1b[200~" + testKey + "\n\x1b[201~" }), ask("hi")); r.Err != nil {
		t.Error(r.Err)
	}
	r := run(t, connect(t, s.URL(), func(c *Config) { c.Key = "user_wrong" }), ask("hi"))
	wantError(t, r.Err, pipeline.CodeUpstreamAuth, 401, "Invalid or missing API key")
}

func TestHeaders(t *testing.T) {
	s := simulate(t, simulator.Options{})
	sent := func(change func(*Config), conversation string) http.Header {
		p := connect(t, s.URL(), change)
		r := ask("hi")
		r.Conversation = conversation
		if res := run(t, p, r); res.Err != nil {
			t.Fatal(res.Err)
		}
		all := s.Requests()
		return all[len(all)-1].Header
	}
	h := sent(func(*Config) {}, "conversation-1")
	for name, want := range map[string]string{
		"Authorization": "Bearer " + testKey, "Content-Type": "application/json", "X-Cli-Environment": "production", "X-Command-Code-Version": DefaultVersion,
		"User-Agent": "amplifier-agent", "Accept-Encoding": "identity", "X-Cmd-Zdr": "",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	h = sent(func(c *Config) { c.ZDR, c.Version, c.UserAgent = true, "9.9.9", "amplifier-agent/1.2" }, "")
	if h.Get("X-Cmd-Zdr") != "1" || h.Get("X-Command-Code-Version") != "9.9.9" || h.Get("User-Agent") != "amplifier-agent/1.2" {
		t.Errorf("%v", h)
	}

	v4 := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	ids := map[string]string{}
	for _, conversation := range []string{"conversation-1", "conversation-2", "8f0e4f0a-1111-4222-8333-444455556666", ""} {
		a, b := sent(nop, conversation).Get("X-Session-Id"), sent(nop, conversation).Get("X-Session-Id")
		if !v4.MatchString(a) || !v4.MatchString(b) || a == conversation {
			t.Errorf("session %q and %q for %q", a, b, conversation)
		}
		if (a == b) != (conversation != "") {
			t.Errorf("session %q, then %q, for %q", a, b, conversation)
		}
		if other, taken := ids[a]; taken {
			t.Errorf("session %q for %q and %q", a, other, conversation)
		}
		ids[a] = conversation
	}
	for _, r := range s.Requests() {
		for name, values := range r.Header {
			if strings.Contains(strings.Join(values, " "), "conversation-") {
				t.Errorf("%s tells the conversation: %q", name, values)
			}
		}
		if strings.Contains(string(r.Raw), "conversation-") {
			t.Error("the body tells the conversation")
		}
	}
}

func nop(*Config) {}

func TestModels(t *testing.T) {
	s := simulate(t, simulator.Options{Models: []simulator.Model{{ID: "b/Two", Name: "Two", ContextLength: 5}, {ID: "one"},
		{ID: "Qwen/Qwen3.8-27B", Name: "Qwen", ContextLength: 6}, {ID: "claude-haiku-4-5-20251001", Name: "Haiku", ContextLength: 7}}})
	got, err := connect(t, s.URL()).Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defaults := []byte(`{"max_tokens":32000}`)
	want := []pipeline.Model{
		{ID: "b/Two", Name: "Two", ContextTokens: 5, Defaults: defaults},
		{ID: "one", Name: "one", ContextTokens: 200000, Defaults: defaults},
		{ID: "Qwen/Qwen3.8-27B", Name: "Qwen", ContextTokens: 6, OutputTokens: 32768, Capabilities: []string{"tools", "vision", "thinking"}, Defaults: defaults},
		{ID: "claude-haiku-4-5-20251001", Name: "Haiku", ContextTokens: 7, Capabilities: []string{"tools", "vision"}, Defaults: defaults},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// TestCatalogue: each row is whole.
func TestCatalogue(t *testing.T) {
	if len(catalogue()) < 70 {
		t.Errorf("%d models", len(catalogue()))
	}
	for id, k := range catalogue() {
		if id == "" || k.context != 0 && k.context < 1000 || k.output != 0 && k.output < 1000 {
			t.Errorf("%q: %+v", id, k)
		}
	}
}

func TestModelsFailures(t *testing.T) {
	for _, row := range []struct {
		status int
		body   string
		models string // their ids, or an error
	}{
		{200, `{"object":"list","data":[{"id":"a","unknown":{}},{"name":"without id"},{"id":"b","name":null,"context_length":null}]}`, "a b"},
		{200, `{"data":[]}`, ""},
		{200, `{"data":null}`, ""},
		{200, `{}`, ""},
		{200, `{"data":{}}`, "error: list models: "},
		{200, `{"data":[{"id":"a"}`, "error: list models: the upstream's answer is not valid JSON: is its base URL right?"},
		{200, `<html>`, "error: list models: the upstream's answer is not valid JSON: is its base URL right?"},
		{200, ``, "error: list models: the upstream's answer is not valid JSON: is its base URL right?"},
		{200, `{"data":[{"id":"` + strings.Repeat("x", maxModelsBytes) + `"}]}`, "error: list models: larger than the limit"},
		{401, `{"error":{"message":"bad key ` + testKey + `"}}`, "error: list models: the upstream answered 401: bad key ***"},
		{503, `<!DOCTYPE html>`, "error: list models: the upstream answered 503: (an HTML page)"},
		{204, ``, "error: list models: the upstream answered 204: no message"},
	} {
		var conns atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conns.Add(1)
			if r.URL.Path != "/base/provider/v1/models" || r.Method != http.MethodGet {
				t.Errorf("%s %s", r.Method, r.URL)
			}
			w.WriteHeader(row.status)
			_, _ = w.Write([]byte(row.body))
		}))
		p := connect(t, s.URL+"/base/")
		models, err := p.Models(t.Context())
		var ids []string
		for _, m := range models {
			ids = append(ids, m.ID)
		}
		got := strings.Join(ids, " ")
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != row.models && (err == nil || row.models == "" || !strings.HasPrefix(got, row.models)) {
			t.Errorf("%d %.60q: %.200q, want %q", row.status, row.body, got, row.models)
		}
		p.Close()
		s.Close()
	}
}

// TestModelsWaitsForTheContext and for nothing else.
func TestModelsWaitsForTheContext(t *testing.T) {
	release := make(chan bool)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-release:
		}
	}))
	defer s.Close()
	defer close(release)
	cause := errors.New("no answer within 15s")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, cause)
	defer cancel()
	start := time.Now()
	_, err := connect(t, s.URL).Models(ctx)
	if d := time.Since(start); !errors.Is(err, cause) || d < 100*time.Millisecond || d > never {
		t.Errorf("%v after %s", err, d)
	}
}

// TestStreamIsLazy: nothing is sent before the stream is ranged over.
func TestStreamIsLazy(t *testing.T) {
	s := simulate(t, simulator.Options{})
	_ = connect(t, s.URL()).Stream(t.Context(), ask("hi"))
	if n := len(s.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// TestConsecutiveTurns are each read to their end, so that none is left behind for the gateway to notice.
func TestConsecutiveTurns(t *testing.T) {
	s := simulate(t, simulator.Options{})
	p := connect(t, s.URL())
	for i := range 20 {
		r := run(t, p, ask("Reply with exactly: hello there"))
		if r.Err != nil || r.Text != "hello there" || r.Turn.Cost.String() == "" {
			t.Fatalf("turn %d: %+v", i, r)
		}
	}
	if n := s.Gone(); n != 0 {
		t.Errorf("%d exchanges were left", n)
	}
}
