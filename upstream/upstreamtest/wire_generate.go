package upstreamtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"amplifier-agent/pipeline"
)

// Generate is the wire of the Command Code gateway's /alpha/generate.
func Generate() Dialect {
	return Dialect{
		Provider: "commandcode",
		Model:    "deepseek/deepseek-v4-pro",
		Write:    writeGenerate,
		Event:    generateEvent,
		Fault: func(status int, message string) string {
			return fmt.Sprintf(`{"type":"error","error":{"message":%s,"statusCode":%d}}`, Quote(message), status)
		},
		Refusal: func(status int, message string) string {
			return fmt.Sprintf(`{"success":false,"error":{"code":"CODE","status":%d,"message":%s,"docs":"https://docs.invalid"}}`, status, Quote(message))
		},
		Read: readGenerate,
	}
}

func generateEvent(payload string) string { return payload + "\n" }

func writeGenerate(s *Script) (said, end []string) {
	say := func(format string, args ...any) { said = append(said, generateEvent(fmt.Sprintf(format, args...))) }
	say(`{"type":"start"}`)
	say(`{"type":"start-step","request":{"body":{"messages":[{"type":"text-delta","text":"an echo"}]}},"warnings":[]}`)
	for i, p := range s.Parts {
		for kind, text := range map[string]string{"reasoning": p.Reasoning, "text": p.Text} {
			if text != "" {
				say(`{"type":"%s-start","id":"b%d"}`, kind, i)
				say(`{"type":"%s-delta","id":"b%d","text":%s}`, kind, i, Quote(text))
				say(`{"type":"%s-end","id":"b%d"}`, kind, i)
			}
		}
		for _, c := range p.Calls {
			say(`{"type":"tool-input-start","id":"%s","toolName":"%s","dynamic":false}`, c.ID, c.Name)
		}
		inTurn(p.Calls, func(c *Call, fragment string) {
			say(`{"type":"tool-input-delta","id":"%s","delta":%s}`, c.ID, Quote(fragment))
		})
		for _, c := range p.Calls {
			if whole := c.Whole().Arguments; json.Valid(whole) { // the others are not told to be whole
				say(`{"type":"tool-input-end","id":"%s"}`, c.ID)
				say(`{"type":"tool-call","toolCallId":"%s","toolName":"%s","input":%s}`, c.ID, c.Name, whole)
			}
		}
	}
	if !s.Ends() {
		return said, nil
	}
	unified, raw, _ := strings.Cut(s.RawFinish, "/")
	if s.RawFinish == "" {
		unified = strings.ReplaceAll(s.Finish.String(), "_", "-")
	}
	usage := s.RawUsage
	if k := s.Usage; k != (Tokens{}) {
		usage = fmt.Sprintf(`{"inputTokens":%d,"inputTokenDetails":{"noCacheTokens":%d,"cacheReadTokens":%d,"cacheWriteTokens":%d},"outputTokens":%d,"outputTokenDetails":{"reasoningTokens":%d},"totalTokens":%d}`,
			k.Input, k.Input-k.CacheRead, k.CacheRead, k.CacheWrite, k.Output, k.Reasoning, k.Input+k.Output)
	}
	if usage == "" {
		usage = "null"
	}
	end = []string{
		generateEvent(fmt.Sprintf(`{"type":"finish-step","finishReason":%q,"rawFinishReason":%q,"usage":%s}`, unified, raw, usage)),
		generateEvent(fmt.Sprintf(`{"type":"finish","finishReason":%q,"rawFinishReason":%q,"totalUsage":%s}`, unified, raw, usage)),
	}
	if s.Cost != "" {
		end = append(end, generateEvent(fmt.Sprintf(`{"type":"provider-metadata","providerMetadata":{"gateway":{"cost":%q,"generationId":"gen_1"}}}`, s.Cost)))
	}
	return said, end
}

// inTurn goes through the fragments of calls, one of each at a time.
func inTurn(calls []Call, f func(c *Call, fragment string)) {
	for i, more := 0, true; more; i++ {
		more = false
		for j := range calls {
			if c := &calls[j]; i < len(c.Arguments) {
				f(c, c.Arguments[i])
				more = true
			}
		}
	}
}

func readGenerate(r *Request) (*Asked, error) {
	if r.Method != "POST" || !strings.HasSuffix(r.Target, "/alpha/generate") {
		return nil, fmt.Errorf("%s %s", r.Method, r.Target)
	}
	var body struct {
		Params struct {
			Model    string
			System   string
			Stream   bool
			Messages []struct {
				Role    pipeline.Role
				Content []struct {
					Type, Text, Image, MediaType string
					ToolCallID                   string
					ToolName                     string
					Input                        json.RawMessage
					Output                       struct{ Type, Value string }
				}
			}
			Tools []struct {
				Name, Description string
				Schema            json.RawMessage `json:"input_schema"`
			}
		}
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return nil, err
	}
	p := &body.Params
	if !p.Stream {
		return nil, errors.New("no stream is asked for")
	}
	a := &Asked{Key: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), Model: p.Model, System: p.System}
	for _, m := range p.Messages {
		said := pipeline.Message{Role: m.Role}
		for _, c := range m.Content {
			switch c.Type {
			case "text":
				said.Parts = append(said.Parts, pipeline.Part{Text: c.Text})
			case "image":
				said.Parts = append(said.Parts, pipeline.Part{Image: c.Image, MediaType: c.MediaType})
			case "reasoning":
				said.Reasoning = c.Text
			case "tool-call":
				said.ToolCalls = append(said.ToolCalls, pipeline.Call{ID: c.ToolCallID, Name: c.ToolName, Arguments: c.Input})
			case "tool-result":
				a.Messages = append(a.Messages, pipeline.Message{Role: m.Role, Name: c.ToolName, ToolCallID: c.ToolCallID, IsError: c.Output.Type == "error-text",
					Parts: []pipeline.Part{{Text: c.Output.Value}}})
			default:
				return nil, fmt.Errorf("a part is a %q", c.Type)
			}
		}
		if m.Role != pipeline.RoleTool {
			a.Messages = append(a.Messages, said)
		}
	}
	for _, t := range p.Tools {
		a.Tools = append(a.Tools, pipeline.ToolSpec{Name: t.Name, Description: t.Description, Parameters: t.Schema})
	}
	return a, nil
}
