package commandcode

import (
	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// appendMessages appends the conversation as ModelMessage[] (upstream-wire-protocol.md, "Messages").
//
//   - Roles are user, assistant and tool; system and developer messages are in params.system.
//   - Images of the assistant go into a user message behind it; beside calls, where none may stand, they are left out.
//   - Consecutive tool results are one message. Images among them go into a user message behind it, as the gateway drops them
//     without a word and a message between two results of one batch is refused.
//   - Empty text parts and messages without parts are left out, but for a final user message.
//   - An assistant message holds reasoning, then text, then calls.
//
// Moved is how many images are not where the client had them.
func appendMessages(dst []byte, messages []pipeline.Message) (out []byte, moved int) {
	w := writer{dst: append(dst, '[')}
	names := map[string]string{} // of the calls so far, by id: the nearest one before counts
	for i := 0; i < len(messages); i++ {
		m := &messages[i]
		switch m.Role {
		case pipeline.RoleUser:
			w.user(m.Parts, i == len(messages)-1)
		case pipeline.RoleAssistant:
			for _, c := range m.ToolCalls {
				names[c.ID] = c.Name
			}
			w.assistant(m)
		case pipeline.RoleTool:
			first := i
			for i+1 < len(messages) && messages[i+1].Role == pipeline.RoleTool {
				i++
			}
			w.results(messages[first:i+1], names)
		default: // part of params.system
		}
	}
	if w.msgs == 0 { // the gateway refuses an empty list
		w.user(nil, true)
	}
	return append(w.dst, ']'), w.moved
}

type writer struct {
	dst   []byte
	msgs  int
	open  int // parts in the open message
	moved int // images
}

func (w *writer) str(s string) { w.dst = codec.AppendString(w.dst, s) }
func (w *writer) lit(s string) { w.dst = append(w.dst, s...) }

// begin opens a message; end closes it.
func (w *writer) begin(role string) {
	if w.msgs++; w.msgs > 1 {
		w.lit(",")
	}
	w.lit(`{"role":"` + role + `","content":[`)
	w.open = 0
}

func (w *writer) end() { w.lit("]}") }

func (w *writer) part(head string) {
	if w.open++; w.open > 1 {
		w.lit(",")
	}
	w.lit(head)
}

func (w *writer) text(text string) {
	w.part(`{"type":"text","text":`)
	w.str(text)
	w.lit("}")
}

func (w *writer) image(p pipeline.Part) {
	w.part(`{"type":"image","image":`)
	w.str(p.Image)
	w.lit(`,"mediaType":`)
	w.str(p.MediaType)
	w.lit("}")
}

func hasContent(parts []pipeline.Part) bool {
	for _, p := range parts {
		if p.Text != "" || p.Image != "" {
			return true
		}
	}
	return false
}

// user writes a user message. The last one is sent even if it is empty, as a space: it is what the turn is about.
func (w *writer) user(parts []pipeline.Part, last bool) {
	if !hasContent(parts) {
		if !last {
			return
		}
		parts = []pipeline.Part{{Text: " "}}
	}
	w.begin("user")
	for _, p := range parts {
		switch {
		case p.Image != "":
			w.image(p)
		case p.Text != "":
			w.text(p.Text)
		}
	}
	w.end()
}

// assistant writes an assistant message. The gateway takes no images in it: they follow as a user's, unless results must follow.
func (w *writer) assistant(m *pipeline.Message) {
	text, images := false, []pipeline.Part(nil)
	for _, p := range m.Parts {
		if p.Image != "" {
			images = append(images, p)
		}
		text = text || p.Text != ""
	}
	if text || m.Reasoning != "" || len(m.ToolCalls) > 0 {
		w.assistantText(m)
	}
	if w.moved += len(images); len(images) > 0 && len(m.ToolCalls) == 0 {
		w.user(append([]pipeline.Part{{Text: "Images that the assistant showed here:"}}, images...), false)
	}
}

func (w *writer) assistantText(m *pipeline.Message) {
	w.begin("assistant")
	if m.Reasoning != "" {
		w.part(`{"type":"reasoning","text":`)
		w.str(m.Reasoning)
		w.lit("}")
	}
	for _, p := range m.Parts {
		if p.Text != "" {
			w.text(p.Text)
		}
	}
	for _, c := range m.ToolCalls {
		w.part(`{"type":"tool-call","toolCallId":`)
		w.str(c.ID)
		w.lit(`,"toolName":`)
		w.str(c.Name)
		w.lit(`,"input":`)
		w.dst = append(w.dst, c.Arguments...)
		w.lit("}")
	}
	w.end()
}

func (w *writer) results(messages []pipeline.Message, names map[string]string) {
	var images []pipeline.Part
	w.begin("tool")
	for i := range messages {
		m := &messages[i]
		name := names[m.ToolCallID]
		if name == "" {
			name = m.Name
		}
		if name == "" {
			name = "unknown"
		}
		w.part(`{"type":"tool-result","toolCallId":`)
		w.str(m.ToolCallID)
		w.lit(`,"toolName":`)
		w.str(name)
		if m.IsError {
			w.lit(`,"output":{"type":"error-text","value":`)
		} else {
			w.lit(`,"output":{"type":"text","value":`)
		}
		w.str(m.Text())
		w.lit("}}")
		for _, p := range m.Parts {
			if p.Image != "" {
				images = append(images, p)
			}
		}
	}
	w.end()
	if w.moved += len(images); len(images) > 0 {
		w.user(append([]pipeline.Part{{Text: "Images that the tools above returned:"}}, images...), false)
	}
}
