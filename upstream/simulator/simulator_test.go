package simulator

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const (
	testWait = 5 * time.Second // for what should happen at once
	testPoll = 2 * time.Millisecond
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gateway is a simulator with a client of its own.
type gateway struct {
	*Server
	t      testing.TB
	client *http.Client
}

func serve(t *testing.T, o Options) *gateway {
	t.Helper()
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableCompression: true}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &gateway{Server: s, t: t, client: &http.Client{Transport: tr}}
}

type m = map[string]any

func user(text string) m       { return m{"role": "user", "content": []any{m{"type": "text", "text": text}}} }
func assistant(parts ...any) m { return m{"role": "assistant", "content": parts} }
func callPart(id, name string, input any) m {
	return m{"type": "tool-call", "toolCallId": id, "toolName": name, "input": input}
}
func result(id, name, value string) m {
	return m{"role": "tool", "content": []any{m{"type": "tool-result", "toolCallId": id, "toolName": name, "output": m{"type": "text", "value": value}}}}
}
func tool(name string, schema m) m {
	return m{"name": name, "description": "d", "input_schema": schema}
}

// body is a request that the gateway accepts.
func body(messages ...any) m {
	if messages == nil {
		messages = []any{}
	}
	return m{
		"config": m{
			"workingDir": "/w", "date": "2026-11-30", "environment": "production", "structure": []any{}, "isGitRepo": false,
			"currentBranch": "", "mainBranch": "", "gitStatus": "", "recentCommits": []any{},
		},
		"memory": "", "taste": nil, "skills": nil, "permissionMode": "standard",
		"params": m{
			"model": "deepseek/deepseek-v4-pro", "system": "be brief", "messages": messages, "tools": []any{}, "max_tokens": 32000, "stream": true,
		},
	}
}

func params(b m) m { return b["params"].(m) }

func withTools(b m, tools ...any) m {
	params(b)["tools"] = tools
	return b
}

func (g *gateway) request(ctx context.Context, b any) *http.Request {
	g.t.Helper()
	raw, ok := b.([]byte)
	if !ok {
		var err error
		if raw, err = json.Marshal(b); err != nil {
			g.t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL()+"/alpha/generate", bytes.NewReader(raw))
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer user_test")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("x-command-code-version", "1.64.0")
	return r
}

func (g *gateway) post(b any) *http.Response {
	g.t.Helper()
	resp, err := g.client.Do(g.request(g.t.Context(), b))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func (g *gateway) ask(prompt string) answer {
	g.t.Helper()
	return g.events(body(user(prompt)))
}

func (g *gateway) events(b any) answer {
	g.t.Helper()
	resp := g.post(b)
	if resp.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(resp.Body)
		g.t.Fatalf("status %d: %s", resp.StatusCode, raw)
	}
	if ct := resp.Header.Get("Content-Type"); ct != "text/event-stream" {
		g.t.Errorf("content type %q", ct)
	}
	a := readAnswer(resp.Body)
	if a.err != nil {
		g.t.Fatal(a.err)
	}
	return a
}

// answer is a stream as a client sees it: a second, simple reader of the protocol.
type answer struct {
	lines     []string
	types     string // space-separated, runs of deltas folded into one
	text      string
	reasoning string
	fragments string // tool-input-deltas
	calls     []toolCall
	reason    string
	raw       string
	usage     map[string]any
	stepCost  string
	cost      string
	errors    []string
	bad       int   // lines that are no JSON object with a type
	err       error // of the read
}

type toolCall struct {
	ID    string          `json:"toolCallId"`
	Name  string          `json:"toolName"`
	Input json.RawMessage `json:"input"`
}

func readAnswer(r io.Reader) (a answer) {
	br := bufio.NewReader(r)
	var types []string
	for {
		line, err := br.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			a.lines = append(a.lines, strings.TrimSuffix(line, "\n"))
			if typ := a.event([]byte(line)); typ == "" {
				a.bad++
			} else if len(types) == 0 || types[len(types)-1] != typ {
				types = append(types, typ)
			}
		}
		if err != nil {
			if err != io.EOF {
				a.err = err
			}
			a.types = strings.Join(types, " ")
			return a
		}
	}
}

func (a *answer) event(line []byte) string {
	type meta struct {
		Gateway struct{ Cost string }
	}
	var e struct {
		Type, Text, Delta, FinishReason, RawFinishReason string
		TotalUsage                                       map[string]any
		ProviderMetadata                                 meta
		toolCall
	}
	if json.Unmarshal(line, &e) != nil || e.Type == "" {
		return ""
	}
	switch e.Type {
	case "text-delta":
		a.text += e.Text
	case "reasoning-delta":
		a.reasoning += e.Text
	case "tool-input-delta":
		a.fragments += e.Delta
	case "tool-call":
		a.calls = append(a.calls, e.toolCall)
	case "finish-step":
		a.stepCost = e.ProviderMetadata.Gateway.Cost
	case "finish":
		a.reason, a.raw, a.usage = e.FinishReason, e.RawFinishReason, e.TotalUsage
	case "provider-metadata":
		a.cost = e.ProviderMetadata.Gateway.Cost
	case "error":
		a.errors = append(a.errors, strings.TrimSpace(string(line)))
	}
	return e.Type
}

func (g *gateway) until(what string, ok func() bool) {
	g.t.Helper()
	deadline := time.Now().Add(testWait)
	for !ok() {
		if time.Now().After(deadline) {
			g.t.Fatalf("not in %v: %s (active %d, gone %d)", testWait, what, g.Active(), g.Gone())
		}
		time.Sleep(testPoll)
	}
}

func TestModels(t *testing.T) {
	g := serve(t, Options{Keys: []string{"k"}})
	resp, err := g.client.Get(g.URL() + "/provider/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct {
		Object string
		Data   []struct {
			ID, Object, Name string
			Context          int    `json:"context_length"`
			Owner            string `json:"owned_by"`
			Created          int64
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	if list.Object != "list" || len(list.Data) < 6 || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s %+v", resp.Header, list)
	}
	for _, d := range list.Data {
		if d.ID == "" || d.Object != "model" || d.Name == "" || d.Context == 0 || d.Owner == "" || d.Created == 0 {
			t.Errorf("incomplete: %+v", d)
		}
	}
}

func TestScriptAndRequests(t *testing.T) {
	g := serve(t, Options{})
	var seen *Request
	g.Script(func(r *Request) *Answer {
		if r.LastUser() != "scripted" {
			return nil
		}
		seen = r
		return &Answer{Status: http.StatusTeapot, Header: http.Header{"X-Own": {"1"}}, Body: []byte(`{}`)}
	})
	resp := g.post(body(user("scripted")))
	if resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-Own") != "1" || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	if seen.Model != "deepseek/deepseek-v4-pro" || seen.System != "be brief" || seen.MaxTokens != 32000 || len(seen.Messages) != 1 {
		t.Errorf("%+v", seen)
	}
	if a := g.ask("Reply with exactly: plain"); a.text != "plain" {
		t.Errorf("a nil answer is the default, got %q", a.text)
	}
	g.Script(func(*Request) *Answer { return &Answer{Fault: FaultEmpty} })
	if a := g.ask("Reply with exactly: plain"); a.text != "" || a.reason != "stop" {
		t.Errorf("fault by answer: %+v", a)
	}
	g.Script(func(r *Request) *Answer { a := g.Default(r); a.WriteSize = 1; return a })
	if a := g.ask("Reply with exactly: plain"); a.text != "plain" {
		t.Errorf("changed default: %q", a.text)
	}
	g.Script(nil)
	g.post([]byte(`{`))
	reqs := g.Requests()
	if len(reqs) != 5 || reqs[0] != seen || reqs[0].Refused || !reqs[4].Refused || string(reqs[4].Raw) != "{" {
		t.Errorf("%d requests", len(reqs))
	}
	for range maxRecorded {
		g.post([]byte(`{`))
	}
	if reqs = g.Requests(); len(reqs) != maxRecorded || !reqs[0].Refused {
		t.Errorf("%d requests kept", len(reqs))
	}
}

func TestClientLeaves(t *testing.T) {
	for _, f := range []Fault{FaultStall, FaultStallHeaders, FaultNoNewline} {
		t.Run(string(f), func(t *testing.T) {
			g := serve(t, Options{Fault: f})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := make(chan error, 1)
			go func() {
				resp, err := g.client.Do(g.request(ctx, body(user("hi"))))
				if err == nil {
					_, err = io.ReadFull(resp.Body, make([]byte, 100))
					<-ctx.Done()
					resp.Body.Close()
				}
				got <- err
			}()
			g.until("exchange", func() bool { return g.Active() == 1 && len(g.Requests()) == 1 })
			if g.Gone() != 0 {
				t.Error("gone too early")
			}
			cancel()
			<-got
			g.until("client seen leaving", func() bool { return g.Gone() == 1 && g.Active() == 0 })
		})
	}
}

func TestCloseEndsEverything(t *testing.T) {
	before := goleak.IgnoreCurrent()
	g := serve(t, Options{})
	var wg sync.WaitGroup
	for _, prompt := range []string{"[fault:stall]", "[fault:stall-headers]", "Stay silent for 60 seconds", "[fault:no-newline]"} {
		wg.Go(func() {
			resp, err := g.client.Do(g.request(t.Context(), body(user(prompt))))
			if err != nil {
				return
			}
			defer resp.Body.Close()
			if _, err := io.Copy(io.Discard, resp.Body); err == nil && prompt != "[fault:no-newline]" {
				t.Errorf("%s: a cut stream looks complete", prompt)
			}
		})
	}
	g.until("streams", func() bool { return len(g.Requests()) == 4 })
	for range 2 {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	if g.Active() != 0 {
		t.Errorf("active %d", g.Active())
	}
	wg.Wait()
	goleak.VerifyNone(t, before)
	if _, err := g.client.Get(g.URL() + "/provider/v1/models"); err == nil {
		t.Error("still listening")
	}
}

func TestManyStreams(t *testing.T) {
	g := serve(t, Options{})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			want := strings.Repeat("marker ", i+1) + "."
			for range 4 {
				resp, err := g.client.Do(g.request(t.Context(), body(user("Reply with exactly: "+want))))
				if err != nil {
					t.Error(err)
					return
				}
				if a := readAnswer(resp.Body); a.err != nil || a.text != want {
					t.Errorf("%v %q", a.err, a.text)
				}
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	if g.Gone() != 0 {
		t.Errorf("gone %d", g.Gone())
	}
}

func TestStartErrors(t *testing.T) {
	if _, err := Start(Options{Fault: "nonsense"}); err == nil {
		t.Error("unknown fault accepted")
	}
	if _, err := Start(Options{Addr: "256.0.0.1:0"}); err == nil {
		t.Error("bad address accepted")
	}
}
