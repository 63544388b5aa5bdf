package simulator

import (
	"regexp"

	"amplifier-agent/codec"
)

// decodeMessages fills req.Messages. Anything that is not ModelMessage[] is one and the same message to the gateway; "" is fine.
func decodeMessages(req *Request, raw codec.RawMessage) string {
	entries := arrayOf(raw)
	if len(entries) == 0 {
		return "Invalid prompt: messages must not be empty"
	}
	open := make(map[string]bool) // calls that have no result yet
	history := false
	for _, e := range entries {
		m, ok := decodeMessage(e)
		if !ok || !pair(m, open) {
			return invalidPrompt
		}
		req.Messages = append(req.Messages, m)
		history = history || m.Role != "user"
	}
	if !history {
		req.oldBytes = 0 // a first turn finds nothing in the cache
		return ""
	}
	for _, e := range entries[:len(entries)-1] {
		req.oldBytes += len(e)
	}
	return ""
}

// pair reports whether every result of m belongs to a call before it that has none yet.
func pair(m Message, open map[string]bool) bool {
	for _, p := range m.Parts {
		switch p.Type {
		case "tool-call":
			open[p.ToolCallID] = true
		case "tool-result":
			if !open[p.ToolCallID] {
				return false
			}
			delete(open, p.ToolCallID)
		}
	}
	return true
}

// unanswered returns the ids of the first calls that the next user or assistant message, or the end, finds without a result.
func unanswered(messages []Message) []string {
	var open []string
	for _, m := range messages {
		if m.Role != "tool" && len(open) > 0 {
			return open
		}
		for _, p := range m.Parts {
			switch p.Type {
			case "tool-call":
				open = append(open, p.ToolCallID)
			case "tool-result":
				open = without(open, p.ToolCallID)
			}
		}
	}
	return open
}

func without(ids []string, id string) []string {
	kept := ids[:0]
	for _, e := range ids {
		if e != id {
			kept = append(kept, e)
		}
	}
	return kept
}

func decodeMessage(raw codec.RawMessage) (Message, bool) {
	o, ok := objectOf(raw)
	if !ok {
		return Message{}, false
	}
	m := Message{Role: stringOf(o["role"])}
	var allowed func(string) bool
	switch m.Role {
	case "user":
		allowed = func(t string) bool { return t == "text" || t == "image" }
	case "assistant":
		allowed = func(t string) bool { return t == "text" || t == "reasoning" || t == "tool-call" }
	case "tool":
		allowed = func(t string) bool { return t == "tool-result" }
	default:
		return m, false
	}
	content := o["content"]
	if kindOf(content) == kindString && m.Role != "tool" {
		text := stringOf(content)
		m.Parts = []Part{{Type: "text", Text: text}}
		return m, text != ""
	}
	parts := arrayOf(content)
	if len(parts) == 0 {
		return m, false
	}
	for _, e := range parts {
		p, ok := decodePart(e)
		if !ok || !allowed(p.Type) {
			return m, false
		}
		m.Parts = append(m.Parts, p)
	}
	return m, true
}

var dataURL = regexp.MustCompile(`^data:[a-zA-Z0-9.+-]+/[a-zA-Z0-9.+-]+;base64,[A-Za-z0-9+/=]`)

func decodePart(raw codec.RawMessage) (p Part, ok bool) {
	o, ok := objectOf(raw)
	if !ok {
		return p, false
	}
	p.Type = stringOf(o["type"])
	switch p.Type {
	case "text":
		p.Text = stringOf(o["text"])
		return p, p.Text != ""
	case "reasoning":
		p.Text = stringOf(o["text"])
		return p, kindOf(o["text"]) == kindString
	case "image":
		p.Image, p.MediaType = stringOf(o["image"]), stringOf(o["mediaType"])
		_, typed := o["mediaType"]
		return p, dataURL.MatchString(p.Image) && (!typed || p.MediaType != "")
	case "tool-call":
		p.ToolCallID, p.ToolName, p.Input = stringOf(o["toolCallId"]), stringOf(o["toolName"]), o["input"]
		return p, p.ToolCallID != "" && p.ToolName != "" && kindOf(p.Input) == kindObject
	case "tool-result":
		p.ToolCallID, p.ToolName = stringOf(o["toolCallId"]), stringOf(o["toolName"])
		out, ok := objectOf(o["output"])
		p.Output = Output{Type: stringOf(out["type"]), Value: stringOf(out["value"])}
		known := p.Output.Type == "text" || p.Output.Type == "error-text"
		return p, ok && known && p.ToolCallID != "" && p.ToolName != "" && kindOf(out["value"]) == kindString
	default:
		return p, false
	}
}
