package upstreamtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"amplifier-agent/pipeline"
)

// ChatCompletions is the wire of the chat-completions API.
func ChatCompletions() Dialect {
	return Dialect{
		Provider: "chat-completions",
		Model:    "llama-4:70b/instruct",
		Write:    writeChat,
		Event:    sse,
		Fault: func(status int, message string) string {
			return fmt.Sprintf(`{"error":{"message":%s,"type":null,"param":null,"code":%d}}`, Quote(message), status)
		},
		Refusal: func(_ int, message string) string {
			return fmt.Sprintf(`{"error":{"message":%s,"type":"some_error","param":null,"code":null}}`, Quote(message))
		},
		Read:  readChat,
		Lacks: map[Feature]string{FailedResults: "a message of a tool is a text, and nothing else"},
	}
}

func sse(payload string) string { return "data: " + payload + "\n\n" }

func writeChat(s *Script) (said, end []string) {
	chunk := func(choices, more string) string {
		return sse(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[` + choices + `]` + more + `}`)
	}
	say := func(format string, args ...any) {
		said = append(said, chunk(`{"index":0,"delta":{`+fmt.Sprintf(format, args...)+`},"finish_reason":null}`, ""))
	}
	say(`"role":"assistant","content":""`)
	index := map[string]int{}
	for _, p := range s.Parts {
		if p.Reasoning != "" {
			say(`"reasoning_content":%s`, Quote(p.Reasoning))
		}
		if p.Text != "" {
			say(`"content":%s`, Quote(p.Text))
		}
		for _, c := range p.Calls {
			index[c.ID] = len(index)
			say(`"tool_calls":[{"index":%d,"id":"%s","type":"function","function":{"name":"%s","arguments":""}}]`, index[c.ID], c.ID, c.Name)
		}
		inTurn(p.Calls, func(c *Call, fragment string) {
			say(`"tool_calls":[{"index":%d,"function":{"arguments":%s}}]`, index[c.ID], Quote(fragment))
		})
	}
	if !s.Ends() {
		return said, nil
	}
	word := s.RawFinish
	if word == "" {
		word = s.Finish.String()
	}
	end = append(end, chunk(fmt.Sprintf(`{"index":0,"delta":{},"finish_reason":%q}`, word), ""))
	usage := s.RawUsage
	if k := s.Usage; k != (Tokens{}) {
		usage = fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}`,
			k.Input, k.Output, k.Input+k.Output, k.CacheRead, k.CacheWrite, k.Reasoning)
		if s.Cost != "" {
			usage += `,"cost":` + s.Cost
		}
		usage += "}"
	}
	if usage != "" {
		end = append(end, chunk("", `,"usage":`+usage))
	}
	return said, append(end, sse("[DONE]"))
}

func readChat(r *Request) (*Asked, error) {
	if r.Method != "POST" || !strings.HasSuffix(r.Target, "/chat/completions") {
		return nil, fmt.Errorf("%s %s", r.Method, r.Target)
	}
	var body struct {
		Model   string
		Stream  bool
		Options struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
		Messages []struct {
			Role    pipeline.Role
			Content json.RawMessage
			ID      string `json:"tool_call_id"`
			Calls   []struct {
				ID, Type string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Tools []struct {
			Type     string
			Function struct {
				Name, Description string
				Parameters        json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return nil, err
	}
	if !body.Stream || !body.Options.Usage {
		return nil, errors.New("no stream with a usage is asked for")
	}
	a := &Asked{Key: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), Model: body.Model}
	for i, m := range body.Messages {
		parts, err := readContent(m.Content)
		if err != nil {
			return nil, err
		}
		if i == 0 && m.Role == pipeline.RoleSystem {
			a.System = parts[0].Text
			continue
		}
		said := pipeline.Message{Role: m.Role, Parts: parts, ToolCallID: m.ID}
		for _, c := range m.Calls {
			said.ToolCalls = append(said.ToolCalls, pipeline.Call{ID: c.ID, Name: c.Function.Name, Arguments: []byte(c.Function.Arguments)})
		}
		a.Messages = append(a.Messages, said)
	}
	for _, t := range body.Tools {
		a.Tools = append(a.Tools, pipeline.ToolSpec{Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters})
	}
	return a, nil
}

// readContent reads a content: a string, null, or a list of parts.
func readContent(raw json.RawMessage) (parts []pipeline.Part, err error) {
	var text *string
	if json.Unmarshal(raw, &text) == nil {
		if text != nil {
			parts = append(parts, pipeline.Part{Text: *text})
		}
		return parts, nil
	}
	var list []struct {
		Type, Text string
		Image      struct{ URL string } `json:"image_url"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	for _, p := range list {
		if p.Type == "image_url" {
			media, _, _ := strings.Cut(strings.TrimPrefix(p.Image.URL, "data:"), ";")
			parts = append(parts, pipeline.Part{Image: p.Image.URL, MediaType: media})
			continue
		}
		parts = append(parts, pipeline.Part{Text: p.Text})
	}
	return parts, nil
}
