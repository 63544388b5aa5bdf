package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// chat sends b, JSON or bytes, to the chat-completions route.
func (g *gateway) chat(ctx context.Context, key string, b any) *http.Response {
	g.t.Helper()
	raw, ok := b.([]byte)
	if !ok {
		raw, _ = json.Marshal(b)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL()+"/provider/v1/chat/completions", bytes.NewReader(raw))
	if err != nil {
		g.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := g.client.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// chatBody is a request that the route accepts, with members over it.
func chatBody(prompt string, members m) m {
	b := m{"model": "deepseek/deepseek-v4-pro", "messages": []any{m{"role": "user", "content": prompt}}, "stream": true, "stream_options": m{"include_usage": true}}
	for k, v := range members {
		b[k] = v
	}
	return b
}

// completion is what an answer means, streamed or not.
type completion struct {
	content, reasoning, finish, failed string
	calls                              []string // id, name and arguments
	prompt, cached                     int
	done                               bool
}

type chatMessage struct {
	Content   string
	Reasoning string `json:"reasoning_content"`
	ToolCalls []struct {
		Index    int
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

func readCompletion(t *testing.T, r io.Reader) (c completion) {
	t.Helper()
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		data, is := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !is && data != "" && data[0] == '{' {
			is = true // no stream
		}
		if !is {
			continue
		}
		if data == "[DONE]" {
			c.done = true
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta, Message chatMessage
				FinishReason   string `json:"finish_reason"`
			}
			Usage struct {
				Prompt  int `json:"prompt_tokens"`
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
			Error struct{ Message string }
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		c.failed += chunk.Error.Message
		c.prompt, c.cached = c.prompt+chunk.Usage.Prompt, c.cached+chunk.Usage.Details.Cached
		for _, choice := range chunk.Choices {
			c.finish += choice.FinishReason
			for _, d := range []chatMessage{choice.Delta, choice.Message} {
				c.content, c.reasoning = c.content+d.Content, c.reasoning+d.Reasoning
				for i, call := range d.ToolCalls {
					if at := max(i, call.Index); at < len(c.calls) {
						c.calls[at] += call.Function.Arguments
					} else {
						c.calls = append(c.calls, call.Function.Name+" "+call.Function.Arguments)
					}
				}
			}
		}
	}
	return c
}

// TestChatAnswers: the same plans as on the other route, streamed or not.
func TestChatAnswers(t *testing.T) {
	g := serve(t, Options{})
	tools := []any{m{"type": "function", "function": m{"name": "f", "parameters": m{"type": "object"}}}}
	call := m{"role": "assistant", "content": nil, "reasoning_content": "hm", "tool_calls": []any{m{"id": "c1", "type": "function", "function": m{"name": "f", "arguments": `{}`}}}}
	for _, stream := range []bool{true, false} {
		ask := func(prompt string, members m) completion {
			members["stream"] = stream
			resp := g.chat(t.Context(), "k", chatBody(prompt, members))
			if resp.StatusCode != 200 {
				t.Fatalf("status %d", resp.StatusCode)
			}
			c := readCompletion(t, resp.Body)
			if c.done != stream || c.prompt == 0 {
				t.Errorf("%s: %+v", prompt, c)
			}
			return c
		}
		if c := ask("Reply with exactly: one \"two\" é", m{}); c.content != `one "two" é` || c.reasoning != "Let me think." || c.finish != "stop" || c.calls != nil {
			t.Errorf("stream %v: %+v", stream, c)
		}
		c := ask(`Call the tool f once with these arguments: {"a": "}.",  "n": 1.50}.`, m{"tools": tools})
		if len(c.calls) != 1 || c.calls[0] != `f {"a": "}.",  "n": 1.50}` || c.finish != "tool_calls" {
			t.Errorf("stream %v: %+v", stream, c)
		}
		c = ask("", m{"tools": tools, "messages": []any{m{"role": "system", "content": "s"}, m{"role": "user", "content": "hi"}, call, m{"role": "tool", "tool_call_id": "c1", "content": "42"}}})
		if c.content != "The tool said: 42" || c.cached == 0 || c.cached >= c.prompt {
			t.Errorf("stream %v: %+v", stream, c)
		}
	}
	if r := g.Requests()[2]; r.System != "s" || r.Messages[1].Parts[0].Text != "hm" || r.Messages[2].Parts[0].ToolName != "f" {
		t.Errorf("%+v", r)
	}
	if c := readCompletion(t, g.chat(t.Context(), "k", m{"model": "claude-sonnet-5", "messages": []any{m{"role": "user", "content": "Reply with exactly: x"}}, "stream": true}).Body); c.content != "x" || c.prompt != 0 || !c.done {
		t.Errorf("usage unasked: %+v", c)
	}
}

func TestChatRefusals(t *testing.T) {
	g := serve(t, Options{Keys: []string{"k"}})
	tool := func(function any) m { return m{"tools": []any{m{"type": "function", "function": function}}} }
	messages := func(list ...any) m { return m{"messages": list} }
	u := m{"role": "user", "content": "hi"}
	call := func(arguments any) m {
		return m{"role": "assistant", "tool_calls": []any{m{"id": "c1", "type": "function", "function": m{"name": "f", "arguments": arguments}}}, "content": nil}
	}
	for _, row := range []struct {
		key     string
		body    any
		status  int
		message string
	}{
		{"", chatBody("hi", nil), 401, "Invalid or missing API key"},
		{"other", chatBody("hi", nil), 401, "Invalid or missing API key"},
		{"k", []byte("nonsense"), 400, "expected object"},
		{"k", []byte("[]"), 400, "expected object"},
		{"k", chatBody("hi", m{"model": "Deepseek/deepseek-v4-pro"}), 403, "Model/provider not recognized: Deepseek/deepseek-v4-pro"},
		{"k", chatBody("hi", m{"model": "claude-opus-5"}), 403, "MODEL_NOT_IN_PLAN"},
		{"k", chatBody("hi", m{"model": nil}), 400, `at "model"`},
		{"k", chatBody("hi", m{"messages": nil}), 400, `at "messages"`},
		{"k", chatBody("hi", messages()), 400, `at "messages"`},
		{"k", chatBody("hi", messages("x")), 400, `at "messages[0]"`},
		{"k", chatBody("hi", messages(m{"role": "robot", "content": "x"})), 400, `at "messages[0].role"`},
		{"k", chatBody("", nil), 400, `at "messages[0]"`},
		{"k", chatBody("hi", messages(u, m{"role": "assistant", "content": nil})), 400, `at "messages[1]"`},
		{"k", chatBody("hi", messages(m{"role": "user", "content": []any{m{"type": "file"}}})), 400, `at "messages[0].content[0].type"`},
		{"k", chatBody("hi", messages(m{"role": "user", "content": []any{7}})), 400, `at "messages[0].content[0]"`},
		{"k", chatBody("hi", messages(m{"role": "user", "content": []any{m{"type": "image_url", "image_url": m{"url": "https://x/y.png"}}}})), 400, `image_url.url"`},
		{"k", chatBody("hi", messages(u, call("{}"), u)), 200, "Tool result is missing for tool call c1"},
		{"k", chatBody("hi", messages(u, m{"role": "tool", "tool_call_id": "c1", "content": "x"})), 400, "Invalid prompt"},
		{"k", chatBody("hi", messages(u, call(m{}))), 400, `function.arguments"`},
		{"k", chatBody("hi", messages(u, call("[]"))), 400, `function.arguments"`},
		{"k", chatBody("hi", messages(u, m{"role": "assistant", "content": "x", "tool_calls": []any{7}})), 400, `tool_calls[0]"`},
		{"k", chatBody("hi", m{"tools": []any{}}), 400, `at "tools"`},
		{"k", chatBody("hi", m{"tools": []any{7}}), 400, `at "tools[0]"`},
		{"k", chatBody("hi", tool(m{"name": ""})), 400, `at "tools[0].function.name"`},
		{"k", chatBody("hi", tool(m{"name": "f", "parameters": "x"})), 400, `at "tools[0].function.parameters"`},
		{"k", chatBody("hi", m{"max_tokens": 200001}), 400, "Too big"},
		{"k", chatBody("hi", m{"reasoning_effort": "none"}), 400, `at "reasoning_effort"`},
		{"k", chatBody("hi", m{"stream": "yes"}), 400, `at "stream"`},
		{"k", []byte(strings.Repeat(" ", maxBodyBytes+1)), 413, "too large"},
	} {
		resp := g.chat(t.Context(), row.key, row.body)
		raw, _ := io.ReadAll(resp.Body)
		var e struct {
			Error struct{ Message, Type, Code string }
		}
		if err := json.Unmarshal(bytes.TrimPrefix(bytes.TrimSpace(raw[max(0, bytes.LastIndex(raw, []byte("data: "))):]), []byte("data: ")), &e); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if resp.StatusCode != row.status || !strings.Contains(e.Error.Message, row.message) || row.status != 200 && (e.Error.Type == "" || e.Error.Code == "") {
			t.Errorf("%v\n is %d %s, want %d %s", row.body, resp.StatusCode, raw, row.status, row.message)
		}
	}
}

// TestChatScript: a script answers in the words of either route.
func TestChatScript(t *testing.T) {
	g := serve(t, Options{})
	own := "data: {\"choices\":[{\"delta\":{\"content\":\"mine\"}}]}\n\n: comment\n\n"
	g.Script(func(r *Request) *Answer {
		if r.LastUser() == "own" {
			return &Answer{Body: []byte(own)}
		}
		body := []byte(`{"type":"text-delta","text":"a"}` + "\n" + `{"type":"finish","finishReason":"length"}` + "\n")
		return &Answer{Body: body, Pauses: []Pause{{At: LineOffset(body, 1), For: time.Millisecond}, {At: len(body), For: time.Millisecond}}}
	})
	resp := g.chat(t.Context(), "k", chatBody("own", nil))
	if raw, _ := io.ReadAll(resp.Body); string(raw) != own {
		t.Errorf("%s", raw)
	}
	if c := readCompletion(t, g.chat(t.Context(), "k", chatBody("x", nil)).Body); c.content != "a" || c.finish != "length" || !c.done {
		t.Errorf("%+v", c)
	}
	if c := readCompletion(t, g.chat(t.Context(), "k", chatBody("[fault:error-string] x", m{"stream": false})).Body); c.content != "a" {
		t.Errorf("a script comes first: %+v", c)
	}
	g.Script(nil)
	resp = g.chat(t.Context(), "k", chatBody("[fault:error-string] x", m{"stream": false}))
	if c := readCompletion(t, resp.Body); resp.StatusCode != 502 || c.failed != "Network connection lost." {
		t.Errorf("%d %+v", resp.StatusCode, c)
	}
}
