package anthropic

import (
	"strconv"

	"amplifier-agent/pipeline"
)

// exchange is what the assistant says and what is said to it then: two messages of the API, the first of which the first exchange
// lacks.
type exchange struct {
	said  []pipeline.Part // of the assistant: texts, none blank
	calls []called
	parts []pipeline.Part // of the user: texts, none blank, and images
}

// called is a call and its result.
type called struct {
	call   *pipeline.Call
	id     string            // as the API takes it
	result *pipeline.Message // nil if there is none
}

// arrange sorts a conversation into exchanges. Each but the first has something of the assistant's, and each but the last something
// of the user's: so roles alternate, whatever the order of the messages. Dropped is how many results answer no open call of their
// exchange; there are none in a history that was repaired (rulings 33).
func arrange(messages []pipeline.Message) (list []exchange, dropped int) {
	list = make([]exchange, 1, len(messages)/2+2)
	ids := names{}
	for i := range messages {
		m := &messages[i]
		now := &list[len(list)-1]
		switch m.Role {
		case pipeline.RoleUser:
			now.parts = append(now.parts, visible(m.Parts)...)
		case pipeline.RoleTool:
			if !now.answer(m) {
				dropped++
			}
		case pipeline.RoleAssistant:
			texts, images := split(m.Parts)
			if len(texts) > 0 || len(m.ToolCalls) > 0 {
				if len(list) == 1 || now.answered() {
					list = append(list, exchange{})
					now = &list[len(list)-1]
				}
				now.said = append(now.said, texts...)
				for j := range m.ToolCalls {
					c := &m.ToolCalls[j]
					now.calls = append(now.calls, called{call: c, id: ids.give(c.ID)})
				}
			}
			now.show("Images that the assistant showed here:", images)
		default: // part of the system prompt
		}
	}
	// A conversation is begun by the user; and its last message is what the turn is about, even if nothing is in it.
	first, last := &list[0], &list[len(list)-1]
	if len(first.parts) == 0 {
		first.parts = []pipeline.Part{{Text: placeholder}}
	}
	if len(last.parts) == 0 && len(last.calls) == 0 && messages[len(messages)-1].Role == pipeline.RoleUser {
		last.parts = []pipeline.Part{{Text: placeholder}}
	}
	return list, dropped
}

// placeholder stands where the API wants a text and there is none. It takes no white space for one.
const placeholder = "."

// answered reports whether something of the user's is in the exchange.
func (e *exchange) answered() bool {
	if len(e.parts) > 0 {
		return true
	}
	for i := range e.calls {
		if e.calls[i].result != nil {
			return true
		}
	}
	return false
}

// show takes images that cannot stand where they were.
func (e *exchange) show(lead string, images []pipeline.Part) {
	if len(images) > 0 {
		e.parts = append(append(e.parts, pipeline.Part{Text: lead}), images...)
	}
}

// answer takes the result of a call; false if there is no such call, or if it has one. A failure is told in text only.
func (e *exchange) answer(m *pipeline.Message) bool {
	for i := range e.calls {
		c := &e.calls[i]
		if c.result != nil || c.call.ID != m.ToolCallID {
			continue
		}
		c.result = m
		if _, images := split(m.Parts); m.IsError {
			e.show("Images that a tool above returned as it failed:", images)
		}
		return true
	}
	return false
}

// visible are the parts that are not blank.
func visible(parts []pipeline.Part) (list []pipeline.Part) {
	for _, p := range parts {
		if p.Image != "" || !isBlank(p.Text) {
			list = append(list, p)
		}
	}
	return list
}

// split tells the visible parts apart.
func split(parts []pipeline.Part) (texts, images []pipeline.Part) {
	for _, p := range visible(parts) {
		if p.Image != "" {
			images = append(images, p)
		} else {
			texts = append(texts, p)
		}
	}
	return texts, images
}

// names are the ids given so far, with how many wanted each.
type names map[string]int

// give returns an id that the API takes, for one that may be any provider's: it holds letters, digits, "_" and "-" only, and no
// other call has it. What it is depends on the ids before it only, so that a prefix of a conversation is the same each time and
// can be cached.
func (n names) give(id string) string {
	safe := safe(id)
	if safe == "" {
		safe = "call"
	}
	unique := safe
	for n[unique] > 0 {
		n[safe]++
		unique = safe + "_" + strconv.Itoa(n[safe])
	}
	n[unique]++
	return unique
}

// safe is s with "_" for each byte that the API takes in no name.
func safe(s string) string {
	b := []byte(s)
	for i, c := range b {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			b[i] = '_'
		}
	}
	return string(b)
}
