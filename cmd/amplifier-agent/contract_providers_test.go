package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"amplifier-agent/pipeline/config"
	"amplifier-agent/upstream/chatcompletions"
)

// vendor is an upstream of another maker: it answers each path with what it is told to, and remembers what it was asked.
type vendor struct {
	*httptest.Server
	mu   sync.Mutex
	last map[string]string // body by path
	head map[string]http.Header
}

func newVendor(t *testing.T, answers map[string]string) *vendor {
	t.Helper()
	v := &vendor{last: map[string]string{}, head: map[string]http.Header{}}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		v.mu.Lock()
		v.last[r.URL.Path], v.head[r.URL.Path] = string(b), r.Header.Clone()
		v.mu.Unlock()
		answer, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if strings.HasPrefix(answer, "data:") || strings.HasPrefix(answer, "event:") {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(v.Close)
	return v
}

func (v *vendor) asked(path string) (body string, header http.Header) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last[path], v.head[path]
}

func sse(events ...string) string {
	return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n"
}

// TestContractOtherProviders: models of several makers behind one door, each asked in its own words; usage and calls come out the same.
func TestContractOtherProviders(t *testing.T) {
	t.Parallel()
	openai := newVendor(t, map[string]string{
		"/v1/models": `{"object":"list","data":[{"id":"gpt-local"},{"id":"shared"}]}`,
		"/v1/chat/completions": sse(
			`{"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"Hm."}}]}`,
			`{"choices":[{"index":0,"delta":{"content":"Yes"}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\""}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":": 1}"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
			`{"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":5,"total_tokens":35,"prompt_tokens_details":{"cached_tokens":10}}}`,
			`[DONE]`),
	})
	anthropic := newVendor(t, map[string]string{
		"/v1/models": `{"data":[{"id":"claude-local","display_name":"Claude Local"},{"id":"shared"}],"has_more":false}`,
		"/v1/messages": sse(
			`{"type":"message_start","message":{"usage":{"input_tokens":15,"cache_read_input_tokens":10,"cache_creation_input_tokens":5,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Yes"}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"c1","name":"f","input":{}}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":": 1}"}}`,
			`{"type":"content_block_stop","index":2}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":5}}`,
			`{"type":"message_stop"}`),
	})
	w := stage(t, scene{config: fmt.Sprintf(`{"providers":{
		"mine": {"module":"chat-completions","config":{"base_url":%q,"api_key":"openai-key"}},
		"anthropic": {"config":{"base_url":%q,"api_key":"anthropic-key"}},
		"azure-openai": {"config":{"base_url":"http://127.0.0.1:1","api_key":"k"}}
	}}`, openai.URL+"/v1", anthropic.URL)})
	type model struct {
		ID       string
		Provider string `json:"_provider"`
	}
	var ids []string
	for _, m := range listed[model](t, w, "/v1/models") {
		ids = append(ids, m.ID+"@"+m.Provider)
	}
	if want := []string{"gpt-local@mine", "shared@mine", "claude-local@anthropic", "anthropic/shared@anthropic"}; !slices.Equal(ids, want) {
		t.Errorf("models %q, want %q", ids, want)
	}
	for name, path := range map[string]string{"gpt-local": "/v1/chat/completions", "claude-local": "/v1/messages"} {
		for _, way := range []string{`,"stream":true`, `,"stream":false`} {
			a := w.chat(t, fmt.Sprintf(`{"model":%q,"messages":[%s]%s%s}`, name, message("user", "hi"), fTools, way))
			if a.Content != "Yes" || a.Reasoning != "Hm." || a.Finish != "tool_calls" || len(a.Calls) != 1 || a.Calls[0].ID != "c1" || a.Calls[0].Function.Arguments != `{"a": 1}` {
				t.Errorf("%s%s: got %+v", name, way, a)
			}
			if u := a.Usage; u.Prompt != 30 || u.Completion != 5 || u.PromptDetails == nil || u.PromptDetails.Cached != 10 {
				t.Errorf("%s%s: usage %+v", name, way, u)
			}
		}
		// The round trip of the tool.
		w.chat(t, fmt.Sprintf(`{"model":%q,"messages":[%s,%s,%s]%s}`, name, message("user", "hi"), calls, result, fTools))
		v := map[string]*vendor{"gpt-local": openai, "claude-local": anthropic}[name]
		body, header := v.asked(path)
		var asked struct {
			Model    string
			Stream   bool
			Messages []json.RawMessage
			Tools    []json.RawMessage
		}
		if err := json.Unmarshal([]byte(body), &asked); err != nil || asked.Model != name || !asked.Stream || len(asked.Messages) < 3 || len(asked.Tools) != 1 || !strings.Contains(body, `done`) {
			t.Errorf("%s was asked %s (%v)", name, body, err)
		}
		if key := header.Get("Authorization") + header.Get("X-Api-Key"); key != "Bearer openai-key" && key != "anthropic-key" {
			t.Errorf("%s was asked with %q", name, key)
		}
	}
	w.end(t)
	if log := w.stderr.String(); !strings.Contains(log, "azure-openai") || strings.Contains(log, "openai-key") || strings.Contains(log, "anthropic-key") {
		t.Errorf("the log says\n%s", log)
	}
}

// TestPresetVariables: what a preset says of its variables is what credentials are resolved by.
func TestPresetVariables(t *testing.T) {
	for name, p := range chatcompletions.Presets {
		for _, v := range p.KeyVariables {
			c, _ := config.Resolve(config.Provider{ID: name, Module: name}, func(s string) string { return map[string]string{v: "the-key"}[s] }, t.TempDir(), "")
			if c.Key != "the-key" {
				t.Errorf("%s: $%s is not read", name, v)
			}
		}
		for _, v := range p.BaseVariables {
			c, _ := config.Resolve(config.Provider{ID: name, Module: name}, func(s string) string { return map[string]string{v: "http://h"}[s] }, t.TempDir(), "")
			if c.Endpoint != "http://h" {
				t.Errorf("%s: $%s is not read", name, v)
			}
		}
	}
}
