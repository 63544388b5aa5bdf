package stages_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
)

// FuzzDecode holds the decoder against encoding/json: what that one refuses is refused, and what is accepted means the same.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"model":"m",` + hello + `}`,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}],"stream":true}`,
		`{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}]}`,
		`{"model":"\ud800\u2028","messages":[{"role":"user","content":"\ud83d\ude00"}],"model":"x"}`,
		`{"model":"m","messages":[{"role":"assistant","content":[{"type":"refusal","refusal":"a"},{"type":"thinking"},{"type":"text","text":" b "}]}],"tools":[{"type":"function","function":{"name":"f"}}]}`,
		`{"h\A>\`, "{\"" + strings.Repeat("\xAE", 40), `[[[[`, `{"a":1}}`, `{"model":"m","max_tokens":1e999}`, `{"model":"m","stop":["a",1]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		turn, err := decode(t, string(body))
		if err != nil {
			if e, ok := errors.AsType[*pipeline.Error](err); !ok || e.Code != pipeline.CodeInvalidRequest || e.Origin != pipeline.OriginClient {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		if !json.Valid(body) {
			t.Fatalf("%q was accepted", body)
		}
		r := object(t, body)
		if want := str(r["model"]); turn.Model != want {
			t.Fatalf("model %q, want %q", turn.Model, want)
		}
		var messages []json.RawMessage
		if err := json.Unmarshal(r["messages"], &messages); err != nil || len(messages) != len(turn.Messages) {
			t.Fatalf("%d messages, want %d (%v)", len(turn.Messages), len(messages), err)
		}
		for i, raw := range messages {
			agree(t, &turn.Messages[i], object(t, raw))
		}
		for _, tool := range turn.Tools {
			if len(tool.Parameters) > 0 {
				object(t, tool.Parameters)
			}
		}
	})
}

// agree compares a message with what encoding/json reads.
func agree(t *testing.T, m *pipeline.Message, want map[string]json.RawMessage) {
	t.Helper()
	if string(m.Role) != str(want["role"]) {
		t.Fatalf("role %q, want %s", m.Role, want["role"])
	}
	text := str(want["content"])
	var parts []map[string]json.RawMessage
	if c := want["content"]; len(c) > 0 && c[0] == '[' {
		if err := json.Unmarshal(c, &parts); err != nil {
			t.Fatal(err)
		}
		var texts []string
		count := 0
		for _, p := range parts {
			switch kind := str(p["type"]); kind {
			case "text", "refusal":
				texts = append(texts, str(p[kind]))
				count++
			case "image_url":
				count++
			}
		}
		if count != len(m.Parts) {
			t.Fatalf("%d parts, want %d", len(m.Parts), count)
		}
		text = strings.Join(texts, "")
		if count != 1 {
			texts = nonEmpty(texts)
			text = strings.TrimSpace(strings.Join(texts, " "))
		}
	}
	if m.Text() != text {
		t.Fatalf("text %q, want %q", m.Text(), text)
	}
	for _, c := range m.ToolCalls {
		object(t, c.Arguments)
	}
}

func nonEmpty(list []string) (kept []string) {
	for _, s := range list {
		if s != "" {
			kept = append(kept, s)
		}
	}
	return kept
}

// object reads an object as encoding/json does, in which the last member of a name counts, too.
func object(t *testing.T, raw []byte) (m map[string]json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		t.Fatalf("%q is no object: %v", raw, err)
	}
	return m
}

// str is the string that raw holds, "" if it holds none.
func str(raw json.RawMessage) (s string) {
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
