package upstreamtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"amplifier-agent/pipeline"
)

// Messages is the wire of the Anthropic Messages API.
func Messages() Dialect {
	return Dialect{
		Provider: "anthropic",
		Model:    "claude-sonnet-4-6",
		Write:    writeMessages,
		Event:    func(payload string) string { return "event: message\ndata: " + payload + "\n\n" },
		Fault: func(status int, message string) string {
			return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%s},"request_id":"req_1"}`, messagesErrors[status], Quote(message))
		},
		Refusal: func(status int, message string) string {
			return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%s},"request_id":"req_1"}`, messagesErrors[status], Quote(message))
		},
		Read: readMessages,
		Lacks: map[Feature]string{
			Cost:            "nothing on this wire tells an amount",
			ReasoningTokens: "they are counted as output, and not told apart",
			Interleaved:     "blocks come one after the other",
		},
	}
}

var messagesErrors = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 504: "timeout_error", 529: "overloaded_error",
}

func writeMessages(s *Script) (said, end []string) {
	event := func(kind, format string, args ...any) string {
		return "event: " + kind + "\ndata: " + fmt.Sprintf(`{"type":"`+kind+`"`+format+`}`, args...) + "\n\n"
	}
	block := 0
	put := func(begin string, deltas ...string) {
		said = append(said, event("content_block_start", `,"index":%d,"content_block":%s`, block, begin))
		for _, d := range deltas {
			said = append(said, event("content_block_delta", `,"index":%d,"delta":%s`, block, d))
		}
		said = append(said, event("content_block_stop", `,"index":%d`, block))
		block++
	}
	usage := ""
	if k := s.Usage; k != (Tokens{}) {
		usage = fmt.Sprintf(`,"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":1}`,
			k.Input-k.CacheRead-k.CacheWrite, k.CacheWrite, k.CacheRead)
	}
	said = append(said, event("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null%s}`, usage), event("ping", ""))
	for _, p := range s.Parts {
		if p.Reasoning != "" {
			put(`{"type":"thinking","thinking":"","signature":""}`, `{"type":"thinking_delta","thinking":`+Quote(p.Reasoning)+`}`, `{"type":"signature_delta","signature":"c2ln"}`)
		}
		if p.Text != "" {
			put(`{"type":"text","text":""}`, `{"type":"text_delta","text":`+Quote(p.Text)+`}`)
		}
		for _, c := range p.Calls {
			deltas := []string{`{"type":"input_json_delta","partial_json":""}`}
			for _, f := range c.Arguments {
				deltas = append(deltas, `{"type":"input_json_delta","partial_json":`+Quote(f)+`}`)
			}
			put(fmt.Sprintf(`{"type":"tool_use","id":"%s","name":"%s","input":{}}`, c.ID, c.Name), deltas...)
		}
	}
	if !s.Ends() {
		return said, nil
	}
	word := s.RawFinish
	if word == "" {
		word = map[pipeline.Reason]string{pipeline.ReasonLength: "max_tokens", pipeline.ReasonContentFilter: "refusal", pipeline.ReasonToolCalls: "tool_use"}[s.Finish]
	}
	if word == "" {
		word = "end_turn"
	}
	usage = ""
	switch {
	case s.RawUsage != "":
		usage = `,"usage":` + s.RawUsage
	case s.Usage != Tokens{}:
		usage = fmt.Sprintf(`,"usage":{"output_tokens":%d}`, s.Usage.Output)
	}
	return said, []string{event("message_delta", `,"delta":{"stop_reason":%q,"stop_sequence":null}%s`, word, usage), event("message_stop", "")}
}

func readMessages(r *Request) (*Asked, error) {
	if r.Method != "POST" || !strings.HasSuffix(r.Target, "/v1/messages") {
		return nil, fmt.Errorf("%s %s", r.Method, r.Target)
	}
	var body struct {
		Model, System string
		Stream        bool
		MaxTokens     int64 `json:"max_tokens"`
		Messages      []struct {
			Role    pipeline.Role
			Content []messagesBlock
		}
		Tools []struct {
			Name, Description string
			Schema            json.RawMessage `json:"input_schema"`
		}
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return nil, err
	}
	if !body.Stream || body.MaxTokens <= 0 {
		return nil, errors.New("no stream with a bound is asked for")
	}
	a := &Asked{Key: r.Header.Get("X-Api-Key"), Model: body.Model, System: body.System}
	for _, m := range body.Messages {
		said := pipeline.Message{Role: m.Role}
		for _, b := range m.Content {
			switch b.Type {
			case "tool_use":
				said.ToolCalls = append(said.ToolCalls, pipeline.Call{ID: b.ID, Name: b.Name, Arguments: b.Input})
			case "tool_result":
				parts, err := b.result()
				if err != nil {
					return nil, err
				}
				a.Messages = append(a.Messages, pipeline.Message{Role: pipeline.RoleTool, ToolCallID: b.CallID, IsError: b.IsError, Parts: parts})
			default:
				said.Parts = append(said.Parts, b.part())
			}
		}
		if said.Parts != nil || said.ToolCalls != nil {
			a.Messages = append(a.Messages, said)
		}
	}
	for _, t := range body.Tools {
		a.Tools = append(a.Tools, pipeline.ToolSpec{Name: t.Name, Description: t.Description, Parameters: t.Schema})
	}
	return a, nil
}

// messagesBlock is a content block of a request.
type messagesBlock struct {
	Type, Text string
	Source     struct {
		Type, Data string
		MediaType  string `json:"media_type"`
	}
	ID, Name string
	Input    json.RawMessage
	CallID   string `json:"tool_use_id"`
	IsError  bool   `json:"is_error"`
	Content  json.RawMessage
}

func (b *messagesBlock) part() pipeline.Part {
	if b.Type == "image" {
		return pipeline.Part{Image: "data:" + b.Source.MediaType + ";base64," + b.Source.Data, MediaType: b.Source.MediaType}
	}
	return pipeline.Part{Text: b.Text}
}

// result is the content of a tool_result: a text, or blocks.
func (b *messagesBlock) result() (parts []pipeline.Part, err error) {
	var text string
	if json.Unmarshal(b.Content, &text) == nil {
		return []pipeline.Part{{Text: text}}, nil
	}
	var blocks []messagesBlock
	if err := json.Unmarshal(b.Content, &blocks); err != nil {
		return nil, err
	}
	for i := range blocks {
		parts = append(parts, blocks[i].part())
	}
	return parts, nil
}
