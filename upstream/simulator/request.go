package simulator

import (
	"net/http"
	"regexp"
	"strings"
	"time"

	"amplifier-agent/codec"
)

// Request is one recorded generate request. It is never changed after it was recorded or given to a script, and must not be.
// For a refused request the decoded fields are filled only as far as the checks came.
type Request struct {
	Header  http.Header
	Raw     []byte    // the body as received; empty when it was too large
	At      time.Time // when the body was complete
	Refused bool      // the checks refused it

	Model           string
	System          string // joined blocks
	HasSystem       bool   // params.system was there, empty or not
	Messages        []Message
	Tools           []Tool
	MaxTokens       int
	Temperature     *float64
	ReasoningEffort string
	ThreadID        string

	params     codec.RawMessage // echoed in start-step
	inputBytes int              // of messages, system and tools on the wire
	oldBytes   int              // of those, the part before the last message once there is history
	model      Model
}

// Message is one entry of params.messages. Content that was a plain string is one text part.
type Message struct {
	Role  string // user, assistant or tool
	Parts []Part
}

// Part is one content part; which fields are set depends on Type.
type Part struct {
	Type       string // text, reasoning, image, tool-call or tool-result
	Text       string
	Image      string // data: URL
	MediaType  string
	ToolCallID string
	ToolName   string
	Input      codec.RawMessage // object, of a tool-call
	Output     Output           // of a tool-result
}

// Output is the result of a tool call.
type Output struct {
	Type  string // text or error-text
	Value string
}

// Tool is one offered tool.
type Tool struct {
	Name        string
	Description string
	InputSchema codec.RawMessage
}

// Text is the text parts joined by a space.
func (m Message) Text() string {
	var texts []string
	for _, p := range m.Parts {
		if p.Type == "text" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, " ")
}

// Instructions of the host arrive as a block at the head of a user message; a client that merges neighbours puts the prompt
// behind it, in the same message.
const (
	instructionsOpen  = "<user_provided_instructions>"
	instructionsClose = "</user_provided_instructions>"
)

// afterInstructions cuts the block off, unless nothing but the block is there.
func afterInstructions(text string) string {
	rest := strings.TrimLeft(text, " \r\n\t")
	if !strings.HasPrefix(rest, instructionsOpen) {
		return text
	}
	_, rest, ok := strings.Cut(rest, instructionsClose)
	if !ok || strings.TrimSpace(rest) == "" {
		return text
	}
	return strings.TrimLeft(rest, " \r\n\t")
}

// LastUser is the text of the last user message that has any, without a leading block of host instructions; "" when there is
// none. A message of images only does not count: clients hoist the images of tool results into one.
func (r *Request) LastUser() string {
	if i := r.lastUser(); i >= 0 {
		return afterInstructions(r.Messages[i].Text())
	}
	return ""
}

func (r *Request) lastUser() int {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if m := r.Messages[i]; m.Role == "user" && strings.TrimSpace(m.Text()) != "" {
			return i
		}
	}
	return -1
}

// Results are the values of the tool results after the last user message, in order.
func (r *Request) Results() []string {
	var values []string
	for _, m := range r.Messages[r.lastUser()+1:] {
		for _, p := range m.Parts {
			if p.Type == "tool-result" {
				values = append(values, p.Output.Value)
			}
		}
	}
	return values
}

func (r *Request) tool(name string) bool {
	for _, t := range r.Tools {
		if t.Name == name {
			return true
		}
	}
	return false
}

var faultInPrompt = regexp.MustCompile(`\[fault:([A-Za-z0-9_-]+)\]`)

func (r *Request) fault() Fault {
	if m := faultInPrompt.FindStringSubmatch(r.LastUser()); m != nil {
		return Fault(m[1])
	}
	return ""
}
