package pipeline

import (
	"strings"
	"time"
)

// Role is who a message is from.
type Role string

// The roles of the chat-completions API.
const (
	RoleSystem    Role = "system"
	RoleDeveloper Role = "developer"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Turn is one request and everything that becomes known about it. A face fills the first block, the stages the rest, each in its
// Request half; from then on only Usage and Cost change, on the goroutine that runs the stream. A Turn owns its memory.
type Turn struct {
	ID       string // 24 hex digits, unique
	Received time.Time
	Header   Header
	Body     []byte // as received, decoded from any content encoding; Messages and Tools may borrow from it

	// Request as decoded (stages.Decode).
	Model    string // as the client wrote it
	Stream   *bool  // nil: the client did not say
	Messages []Message
	Tools    []ToolSpec

	// Decisions of the stages.
	Mode       string // active mode, "" for none
	Provider   Provider
	UpstreamID string    // the model's id at Provider
	System     string    // system prompt
	History    []Message // what comes before the prompt
	Prompt     *Message  // the final user message; nil when the turn continues History
	HostTools  []ToolSpec

	// Silence is when the source first reports silence, the preflight window; 0 leaves it to the source.
	Silence time.Duration

	// Usage and Cost are summed over all rounds of the turn (stages.UsageFold), and are what is known at any moment.
	Usage Usage
	Cost  Price
}

// Header is what of the request's header fields matters to stages.
type Header struct {
	Authorization []string // every field of that name
	Accept        string
	UserAgent     string
	SessionID     string // X-Client-Session-Id, else X-Session-Id, trimmed
}

// Message is one entry of a conversation.
type Message struct {
	Role       Role
	Name       string
	Parts      []Part // content in order; none for content null
	Reasoning  string // reasoning that an assistant message replays
	ToolCalls  []Call
	ToolCallID string // of a tool message
	IsError    bool   // a tool message that reports a failure
	Contained  bool   // host text in user clothing (stages.Containment): no genuine user message
}

// Part is a piece of a message's content: text, or an image if Image is set.
type Part struct {
	Text      string
	Image     string // data URL
	MediaType string // of Image
}

// Call is a tool call that an assistant message made.
type Call struct {
	ID        string
	Name      string
	Arguments []byte // a JSON object, as the model wrote it
}

// ToolSpec offers a tool to the model.
type ToolSpec struct {
	Name        string
	Description string
	Parameters  []byte // JSON Schema, an object
}

// Text is the message's text: its text parts joined by one space, empty ones skipped, trimmed if there are several (rulings 30).
func (m *Message) Text() string {
	if len(m.Parts) == 1 {
		return m.Parts[0].Text
	}
	var texts []string
	for _, p := range m.Parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.TrimSpace(strings.Join(texts, " "))
}
