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
// Request half; from then on only Usage, Cost and Outcome change, on the goroutine that runs the stream. A Turn owns its memory.
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
	Sampling Sampling

	// Decisions of the stages.
	Session    string      // what the conversation is stored under, "" if the client named none
	Resumed    bool        // something was stored for Session before this turn
	Saved      func()      // waits until the conversation is stored; nil if it is not
	Mode       string      // active mode, "" for none
	Gate       *ToolPolicy // which server tools the mode lets the model use; nil for all
	Reminders  []string    // system texts of each round of this turn, behind System; never part of the history
	Notices    []*Error    // what the client is told inline before the answer begins
	Provider   Provider
	UpstreamID string    // the model's id at Provider
	Fallbacks  []Target  // who is asked, in turn, if Provider fails before it has answered; Provider and UpstreamID are then theirs
	System     string    // system prompt
	History    []Message // what comes before the prompt
	Prompt     *Message  // the final user message; nil when the turn continues History
	HostTools  []ToolSpec

	// Silence is when the source first reports silence, the preflight window; 0 leaves it to the source.
	Silence time.Duration

	// Usage and Cost are summed over all rounds of the turn (stages.UsageFold), and are what is known at any moment.
	Usage Usage
	Cost  Price

	Outcome Outcome // how the turn ended, once it has (stages.Account)

	ends []func()
	room [3]func() // of ends, for most turns
}

// AtEnd has End call f. Request halves register here what must be given up however the turn ends.
func (t *Turn) AtEnd(f func()) {
	if t.ends == nil {
		t.ends = t.room[:0]
	}
	t.ends = append(t.ends, f)
}

// End calls what AtEnd has gathered, the latest first. The face calls it once it is through with the turn, also with one that was
// rejected; later calls do nothing.
func (t *Turn) End() {
	for len(t.ends) > 0 {
		last := len(t.ends) - 1
		f := t.ends[last]
		t.ends = t.ends[:last]
		f()
	}
}

// Upstream names who serves the turn, as <provider>/<model>; "" if nobody was found.
func (t *Turn) Upstream() string {
	if t.Provider == nil {
		return ""
	}
	return t.Provider.Name() + "/" + t.UpstreamID
}

// Sampling is what the client asked for in the model's settings. Empty values were not given; numbers keep their spelling.
type Sampling struct {
	Temperature []byte   // a JSON number
	TopP        []byte   // a JSON number
	MaxTokens   int64    // of the answer; 0 and less mean no wish
	Stop        []string // sequences that end the answer
	ToolChoice  []byte   // a JSON string or object
	Effort      string   // how much to think, in the client's word
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
	Raw        []byte // the message as the client wrote it, a JSON object; nil if it was made or changed here
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
