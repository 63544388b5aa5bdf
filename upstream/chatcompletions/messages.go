package chatcompletions

import (
	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// appendMessages appends the system prompt and the conversation.
//
//   - A content that is one text is a string, as small servers know nothing else; what holds images or several texts is a list.
//   - Only users show images. Those of the assistant go into a user message behind it, and are left out beside calls, where none
//     may stand; those of tool results go into one behind the batch.
//   - Empty text parts and messages that say nothing are left out, but for a final user message.
//   - Arguments are the bytes that the model wrote, as a string (rulings 25).
//
// Moved is how many images are not where the client had them.
func (p *Provider) appendMessages(dst []byte, r *pipeline.Round) (out []byte, moved int) {
	w := writer{dst: append(dst, '['), reasoning: p.cfg.Reasoning, signature: p.preset.Signature}
	if system := p.system(r); system != "" {
		w.plain("system", system)
	}
	prompt := w.msgs
	for i := 0; i < len(r.Messages); i++ {
		m := &r.Messages[i]
		switch m.Role {
		case pipeline.RoleUser:
			w.user(m.Parts, i == len(r.Messages)-1)
		case pipeline.RoleAssistant:
			w.assistant(m)
		case pipeline.RoleTool:
			first := i
			for i+1 < len(r.Messages) && r.Messages[i+1].Role == pipeline.RoleTool {
				i++
			}
			w.results(r.Messages[first : i+1])
		case pipeline.RoleSystem, pipeline.RoleDeveloper:
			if text := m.Text(); p.preset.Developer && text != "" {
				w.plain(string(m.Role), text)
			}
		}
	}
	if w.msgs == prompt { // a system prompt alone is refused by most
		w.user(nil, true)
	}
	return append(w.dst, ']'), w.moved
}

type writer struct {
	dst       []byte
	reasoning string // name of the member that replays it, "" if it is not replayed
	signature string // of calls, "" for none
	msgs      int
	moved     int // images
}

func (w *writer) str(s string) { w.dst = codec.AppendString(w.dst, s) }
func (w *writer) lit(s string) { w.dst = append(w.dst, s...) }

// begin opens a message, with its content to come.
func (w *writer) begin(role string) {
	if w.msgs++; w.msgs > 1 {
		w.lit(",")
	}
	w.lit(`{"role":"` + role + `","content":`)
}

// plain writes a message that is a text.
func (w *writer) plain(role, text string) {
	w.begin(role)
	w.str(text)
	w.lit("}")
}

// user writes a user message. The last one is sent even if it is empty, as a space: it is what the turn is about.
func (w *writer) user(parts []pipeline.Part, last bool) {
	n, only := 0, 0
	for i, p := range parts {
		if p.Text != "" || p.Image != "" {
			n, only = n+1, i
		}
	}
	switch {
	case n == 0 && last:
		w.plain("user", " ")
	case n == 0:
	case n == 1 && parts[only].Image == "":
		w.plain("user", parts[only].Text)
	default:
		w.begin("user")
		w.list(parts)
		w.lit("}")
	}
}

func (w *writer) list(parts []pipeline.Part) {
	open := "["
	for _, p := range parts {
		switch {
		case p.Image != "":
			w.lit(open + `{"type":"image_url","image_url":{"url":`)
			w.str(p.Image)
			w.lit("}}")
		case p.Text != "":
			w.lit(open + `{"type":"text","text":`)
			w.str(p.Text)
			w.lit("}")
		default:
			continue
		}
		open = ","
	}
	w.lit("]")
}

// assistant writes an assistant message, and what it showed as a user's behind it, unless results must follow.
func (w *writer) assistant(m *pipeline.Message) {
	text, replay := m.Text(), m.Reasoning
	if w.reasoning == "" {
		replay = ""
	}
	if text != "" || replay != "" || len(m.ToolCalls) > 0 {
		w.begin("assistant")
		if text == "" && len(m.ToolCalls) > 0 {
			w.lit("null")
		} else {
			w.str(text)
		}
		if replay != "" {
			w.lit(",")
			w.str(w.reasoning)
			w.lit(":")
			w.str(replay)
		}
		w.calls(m.ToolCalls)
		w.lit("}")
	}
	images := imagesOf(nil, m)
	if w.moved += len(images); len(images) > 0 && len(m.ToolCalls) == 0 {
		w.user(append([]pipeline.Part{{Text: "Images that the assistant showed here:"}}, images...), false)
	}
}

func (w *writer) calls(calls []pipeline.Call) {
	for i, c := range calls {
		if i == 0 {
			w.lit(`,"tool_calls":[`)
		} else {
			w.lit(",")
		}
		w.lit(`{"id":`)
		w.str(c.ID)
		w.lit(`,"type":"function","function":{"name":`)
		w.str(c.Name)
		w.lit(`,"arguments":`)
		w.dst = codec.AppendString(w.dst, c.Arguments)
		w.lit("}")
		if w.signature != "" {
			w.lit(`,"extra_content":{"google":{"thought_signature":`)
			w.str(w.signature)
			w.lit("}}")
		}
		if w.lit("}"); i == len(calls)-1 {
			w.lit("]")
		}
	}
}

func (w *writer) results(messages []pipeline.Message) {
	var images []pipeline.Part
	for i := range messages {
		m := &messages[i]
		w.begin("tool")
		w.str(m.Text())
		w.lit(`,"tool_call_id":`)
		w.str(m.ToolCallID)
		w.lit("}")
		images = imagesOf(images, m)
	}
	if w.moved += len(images); len(images) > 0 {
		w.user(append([]pipeline.Part{{Text: "Images that the tools above returned:"}}, images...), false)
	}
}

// imagesOf appends the images of m.
func imagesOf(images []pipeline.Part, m *pipeline.Message) []pipeline.Part {
	for _, p := range m.Parts {
		if p.Image != "" {
			images = append(images, p)
		}
	}
	return images
}
