// Package chattest reads what the chat-completions face writes, as strictly as the contract describes it. It is for tests: it shares
// nothing with the encoders that it checks, not even the JSON library.
package chattest

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Usage is the usage block as a client reads it.
type Usage struct {
	Prompt        int64 `json:"prompt_tokens"`
	Completion    int64 `json:"completion_tokens"`
	Total         int64 `json:"total_tokens"`
	PromptDetails *struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails *struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	Cost *string `json:"cost_usd"`
}

// Call is one tool call; Index is nil in an answer in one piece.
type Call struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// Answer is a whole answer as a client puts it together, from either transport.
type Answer struct {
	ID, Model          string
	Content, Reasoning string
	Calls              []Call
	Finish             string
	Mode               *string
	Usage              *Usage
	Chunks             int
}

type wireChunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Index int `json:"index"`
		Delta *struct {
			Role      string  `json:"role"`
			Content   *string `json:"content"`
			Reasoning *string `json:"reasoning_content"`
			Calls     []Call  `json:"tool_calls"`
		} `json:"delta"`
		Message *struct {
			Role      string  `json:"role"`
			Content   *string `json:"content"`
			Reasoning string  `json:"reasoning_content"`
			Calls     []Call  `json:"tool_calls"`
			Refusal   *string `json:"refusal"`
		} `json:"message"`
		Finish *string `json:"finish_reason"`
	} `json:"choices"`
	Mode  *json.RawMessage `json:"activeMode"`
	Usage *Usage           `json:"usage"`
}

// ParseSSE reads a stream as strictly as the contract describes it.
func ParseSSE(b []byte) (a Answer, err error) {
	events := bytes.Split(bytes.TrimSuffix(b, []byte("\n\n")), []byte("\n\n"))
	if n := len(events) - 1; n < 0 || string(events[n]) != "data: [DONE]" {
		return a, fmt.Errorf("the stream does not end with [DONE]: %q", tail(b))
	}
	terminal := false
	for i, ev := range events[:len(events)-1] {
		for bytes.HasPrefix(ev, []byte(":")) {
			if string(ev) == ": keepalive" {
				ev = nil
				break
			}
			_, ev, _ = bytes.Cut(ev, []byte("\n"))
		}
		if len(ev) == 0 {
			continue
		}
		data, ok := bytes.CutPrefix(ev, []byte("data: "))
		if !ok || bytes.ContainsAny(data, "\r\n") {
			return a, fmt.Errorf("event %d is not one data line: %q", i, ev)
		}
		if terminal {
			return a, fmt.Errorf("a chunk follows the terminal one: %s", data)
		}
		var c wireChunk
		if err := json.Unmarshal(data, &c); err != nil {
			return a, fmt.Errorf("event %d: %w in %s", i, err, data)
		}
		if c.Object != "chat.completion.chunk" || len(c.Choices) != 1 || c.Choices[0].Delta == nil {
			return a, fmt.Errorf("event %d is no chunk: %s", i, data)
		}
		d := c.Choices[0].Delta
		switch a.Chunks++; {
		case a.Chunks == 1:
			if a.ID, a.Model = c.ID, c.Model; d.Role != "assistant" || d.Content != nil {
				return a, fmt.Errorf("the first chunk is no role chunk: %s", data)
			}
		case c.ID != a.ID || c.Model != a.Model || d.Role != "":
			return a, fmt.Errorf("event %d: id, model or role differ: %s", i, data)
		}
		if d.Content != nil {
			a.Content += *d.Content
		}
		if d.Reasoning != nil {
			a.Reasoning += *d.Reasoning
		}
		a.Calls = append(a.Calls, d.Calls...)
		if f := c.Choices[0].Finish; f != nil {
			terminal = true
			a.Finish = *f
			if c.Usage == nil || !bytes.Contains(data, []byte(`"activeMode":`)) {
				return a, fmt.Errorf("the terminal chunk lacks usage or activeMode: %s", data)
			}
			a.Usage = c.Usage
			a.Mode, err = mode(c.Mode)
		} else if c.Usage != nil || c.Mode != nil {
			return a, fmt.Errorf("event %d has what only the terminal chunk has: %s", i, data)
		}
	}
	if !terminal {
		return a, fmt.Errorf("no terminal chunk: %q", tail(b))
	}
	return a, err
}

// ParseJSON reads an answer in one piece, as strictly.
func ParseJSON(b []byte) (a Answer, err error) {
	var c wireChunk
	if err := json.Unmarshal(b, &c); err != nil {
		return a, err
	}
	if c.Object != "chat.completion" || len(c.Choices) != 1 || c.Choices[0].Message == nil || c.Choices[0].Finish == nil || c.Usage == nil {
		return a, fmt.Errorf("no completion: %s", b)
	}
	for _, k := range []string{`"activeMode":`, `"refusal":null`, `"logprobs":null`} {
		if !bytes.Contains(b, []byte(k)) {
			return a, fmt.Errorf("%s is missing: %s", k, b)
		}
	}
	m := c.Choices[0].Message
	a = Answer{ID: c.ID, Model: c.Model, Reasoning: m.Reasoning, Calls: m.Calls, Finish: *c.Choices[0].Finish, Usage: c.Usage}
	if m.Content != nil {
		a.Content = *m.Content
	} else if len(m.Calls) == 0 {
		return a, fmt.Errorf("content is null without tool calls: %s", b)
	}
	a.Mode, err = mode(c.Mode)
	return a, err
}

func mode(raw *json.RawMessage) (m *string, err error) {
	if raw != nil {
		err = json.Unmarshal(*raw, &m)
	}
	return m, err
}

// Parser returns ParseSSE for a stream, else ParseJSON.
func Parser(stream bool) func([]byte) (Answer, error) {
	if stream {
		return ParseSSE
	}
	return ParseJSON
}

func tail(b []byte) []byte { return b[max(0, len(b)-200):] }
