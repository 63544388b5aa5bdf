package commandcode

import (
	"bytes"

	"amplifier-agent/codec"
)

// line holds the members of one event that are of interest. All borrow from the line.
type line struct {
	typ       codec.Text
	id        field
	callID    field
	name      field
	text      field
	delta     field
	input     value
	finish    codec.Text
	rawFinish codec.Text
	reason    codec.Text
	usage     []byte
	total     []byte
	metadata  []byte
	err       []byte
	message   codec.Text
	executed  bool // providerExecuted
}

// field is a string member; nil text stands for absent or null.
type field struct {
	text  codec.Text
	clean bool
}

// value is a member that may be of any kind.
type value struct {
	raw  []byte
	text field
	rank uint8 // of the name under which it came
	bad  bool  // raw holds what must not be passed on
}

// parse reads the members of a line; false means that it is no JSON object.
func (l *line) parse(s *codec.Scanner, b []byte) bool {
	*l = line{}
	s.Reset(b)
	if s.Kind() != codec.Object {
		return false
	}
	l.members(s, false)
	return s.End() == nil
}

// members reads the members of the event, or of the data inside it, which does not say anew what event it is.
func (l *line) members(s *codec.Scanner, inner bool) {
	for s.Object(); s.Key(); {
		switch string(s.Name()) {
		case "type":
			if t, _ := s.Text(); !inner {
				l.typ = t
			}
		case "id":
			l.id = text(s)
		case "text":
			l.text = text(s)
		case "delta":
			l.delta = text(s)
		case "toolCallId":
			l.callID = text(s)
		case "toolName", "name":
			l.name = text(s)
		case "input":
			l.input.take(s, 3)
		case "args":
			l.input.take(s, 2)
		case "arguments":
			l.input.take(s, 1)
		case "providerExecuted":
			l.executed, _ = s.Bool()
		case "finishReason":
			l.finish, _ = s.Text()
		case "rawFinishReason":
			l.rawFinish, _ = s.Text()
		case "reason":
			l.reason, _ = s.Text()
		case "usage":
			l.usage = s.Span()
		case "totalUsage":
			l.total = s.Span()
		case "providerMetadata":
			l.metadata = s.Span()
		case "error":
			l.err = s.Span()
		case "message":
			l.message, _ = s.Text()
		case "data": // an older form has the members one level deeper
			if s.Kind() == codec.Object {
				l.members(s, true)
			} else {
				s.Skip()
			}
		default:
			s.Skip()
		}
	}
}

func text(s *codec.Scanner) (f field) {
	f.text, _ = s.Text()
	f.clean = s.Clean()
	return f
}

// take reads the arguments of a call, which have several names. The better name wins; null counts as absent.
func (v *value) take(s *codec.Scanner, rank uint8) {
	switch s.Kind() {
	case codec.Null:
		s.Skip()
	case codec.String:
		if f := text(s); rank >= v.rank {
			*v = value{text: f, rank: rank}
		}
	default:
		if raw := s.Span(); rank >= v.rank {
			*v = value{raw: raw, rank: rank, bad: raw != nil && codec.Validate(raw) != nil}
		}
	}
}

// or returns f, or g if f is absent.
func (f field) or(g field) field {
	if f.text == nil {
		return g
	}
	return f
}

// plain returns the field unescaped. It borrows where nothing is escaped, and else appends to scratch.
func (f field) plain(scratch *[]byte) []byte {
	if f.clean && bytes.IndexByte(f.text, '\\') < 0 {
		return f.text
	}
	n := len(*scratch)
	*scratch = f.text.AppendTo(*scratch)
	return (*scratch)[n:]
}

// IsEcho recognises a start-step by its beginning. It repeats the whole request, and nobody needs it.
func IsEcho(head []byte) bool {
	head = bytes.TrimPrefix(head, []byte("\xEF\xBB\xBF"))
	head = bytes.TrimLeft(head, " \t\r")
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("data:")), " \t")
	return bytes.HasPrefix(head, []byte(`{"type":"start-step"`))
}
