package chatcompletions

import (
	"bytes"

	"amplifier-agent/codec"
)

// chunk holds the members of a line that are of interest. All borrow from the line.
type chunk struct {
	id      codec.Text
	object  codec.Text
	message codec.Text
	choices []byte // an array
	usage   []byte
	err     []byte
	cost    []byte
}

// parse reads the members of a line; false means that it is no JSON object.
func (c *chunk) parse(s *codec.Scanner, b []byte) bool {
	*c = chunk{}
	s.Reset(b)
	if s.Kind() != codec.Object {
		return false
	}
	for s.Object(); s.Key(); {
		switch string(s.Name()) {
		case "id":
			c.id, _ = s.Text()
		case "object":
			c.object, _ = s.Text()
		case "message":
			c.message, _ = s.Text()
		case "choices":
			c.choices = spanOf(s, codec.Array)
		case "usage":
			c.usage = spanOf(s, codec.Object)
		case "error":
			c.err = s.Span()
		case "cost", "cost_usd":
			c.cost = s.Span()
		default:
			s.Skip()
		}
	}
	return s.End() == nil
}

// choice holds the members of a choice and of the delta in it.
type choice struct {
	content   field
	parts     []byte // content, if it is a list
	refusal   field
	reasoning [2]field // reasoning_content, reasoning: some send both
	details   []byte   // reasoning_details, which say the same once more
	calls     []byte
	function  []byte // function_call, the older form
	finish    field
	usage     []byte
	err       []byte
	message   []byte // what stands in place of a delta in an answer that is no stream
	delta     bool
}

// read reads a choice; the scanner stands before it.
func (c *choice) read(s *codec.Scanner) {
	*c = choice{}
	if s.Kind() != codec.Object {
		s.Skip()
		return
	}
	for s.Object(); s.Key(); {
		switch string(s.Name()) {
		case "delta":
			if c.delta = s.Kind() == codec.Object; c.delta {
				c.members(s)
			} else {
				s.Skip()
			}
		case "message":
			c.message = spanOf(s, codec.Object)
		case "finish_reason":
			c.finish = text(s)
		case "usage":
			c.usage = spanOf(s, codec.Object)
		case "error":
			c.err = s.Span()
		default:
			s.Skip()
		}
	}
}

// members reads a delta, or a message in place of one.
func (c *choice) members(s *codec.Scanner) {
	for s.Object(); s.Key(); {
		switch string(s.Name()) {
		case "content":
			if s.Kind() == codec.Array {
				c.parts = s.Span()
			} else {
				c.content = text(s)
			}
		case "refusal":
			c.refusal = text(s)
		case "reasoning_content":
			c.reasoning[0] = text(s)
		case "reasoning":
			c.reasoning[1] = textIn(s)
		case "reasoning_details":
			c.details = spanOf(s, codec.Array)
		case "tool_calls":
			c.calls = spanOf(s, codec.Array)
		case "function_call":
			c.function = spanOf(s, codec.Object)
		default:
			s.Skip()
		}
	}
}

// fragment is an entry of tool_calls: a call, or a piece of one.
type fragment struct {
	index   int64
	indexed bool // index was said
	id      field
	name    field
	text    field  // arguments as a string
	object  []byte // arguments as the value that the string should hold
}

// read reads an entry of tool_calls, or the function in it, or a function_call: an entry without the rest.
func (f *fragment) read(s *codec.Scanner) {
	if s.Kind() != codec.Object {
		s.Skip()
		return
	}
	for s.Object(); s.Key(); {
		switch string(s.Name()) {
		case "index":
			f.index, f.indexed = s.Int()
		case "id":
			f.id = text(s)
		case "function":
			f.read(s)
		case "name":
			f.name = text(s)
		case "arguments":
			switch s.Kind() {
			case codec.Object, codec.Array:
				f.object = s.Span()
			default:
				f.text = text(s)
			}
		default:
			s.Skip()
		}
	}
}

// field is a string member; nil text stands for absent or null.
type field struct {
	text  codec.Text
	clean bool
}

func text(s *codec.Scanner) (f field) {
	f.text, _ = s.Text()
	f.clean = s.Clean()
	return f
}

// textIn reads a string, or the first one that an object holds under the name of text or summary.
func textIn(s *codec.Scanner) (f field) {
	if s.Kind() != codec.Object {
		return text(s)
	}
	for s.Object(); s.Key(); {
		switch string(s.Name()) {
		case "text", "summary":
			f = f.or(text(s))
		default:
			s.Skip()
		}
	}
	return f
}

// or returns f, or g if f is empty.
func (f field) or(g field) field {
	if len(f.text) == 0 {
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

// spanOf consumes the next value and returns its bytes if it is of that kind, else nil.
func spanOf(s *codec.Scanner, kind codec.Kind) []byte {
	if s.Kind() != kind {
		s.Skip()
		return nil
	}
	return s.Span()
}
