package anthropic

import (
	"bytes"

	"amplifier-agent/codec"
)

// line holds the members of one event that are of interest. All borrow from the line.
type line struct {
	typ     codec.Text
	index   int64 // of the block; -1 if not said
	block   block // content_block
	delta   block
	stop    codec.Text // delta.stop_reason
	start   []byte     // message.usage
	usage   []byte
	err     []byte
	message codec.Text // of an error, in a sloppy shape
}

// block is a content block or a delta of one.
type block struct {
	typ      codec.Text
	id, name codec.Text
	text     field
	thinking field
	json     field  // partial_json
	input    []byte // an object, or nil
}

// field is a string member; empty text stands for absent, null and empty alike.
type field struct {
	text  codec.Text
	clean bool
}

// parse reads the members of a line; false means that it is no JSON object.
func (l *line) parse(s *codec.Scanner, b []byte) bool {
	*l = line{index: -1}
	s.Reset(b)
	if s.Kind() != codec.Object {
		return false
	}
	for s.Object(); s.Key(); {
		switch string(s.Name()) {
		case "type":
			l.typ = word(s)
		case "index":
			if n, ok := s.Int(); ok {
				l.index = n
			}
		case "content_block":
			l.read(s, &l.block)
		case "delta":
			l.read(s, &l.delta)
		case "message":
			l.readMessage(s)
		case "usage":
			l.usage = s.Span()
		case "error":
			l.err = s.Span()
		default:
			s.Skip()
		}
	}
	return s.End() == nil
}

// read reads a content block or a delta.
func (l *line) read(s *codec.Scanner, b *block) {
	if s.Kind() != codec.Object {
		s.Skip()
		return
	}
	for s.Object(); s.Key(); {
		switch string(s.Name()) {
		case "type":
			b.typ = word(s)
		case "id":
			b.id, _ = s.Text()
		case "name":
			b.name, _ = s.Text()
		case "text":
			b.text = text(s)
		case "thinking":
			b.thinking = text(s)
		case "partial_json":
			b.json = text(s)
		case "input":
			if s.Kind() == codec.Object {
				b.input = s.Span()
			} else {
				s.Skip()
			}
		case "stop_reason":
			if t, ok := s.Text(); ok {
				l.stop = t
			}
		default:
			s.Skip()
		}
	}
}

// readMessage reads the message of message_start, of which the usage counts, or the text of an error.
func (l *line) readMessage(s *codec.Scanner) {
	if s.Kind() != codec.Object {
		l.message, _ = s.Text()
		return
	}
	for s.Object(); s.Key(); {
		if string(s.Name()) == "usage" {
			l.start = s.Span()
		} else {
			s.Skip()
		}
	}
}

func text(s *codec.Scanner) (f field) {
	f.text, _ = s.Text()
	f.clean = s.Clean()
	return f
}

// word reads the name of a type. Nobody escapes one, but JSON may.
func word(s *codec.Scanner) codec.Text {
	t, _ := s.Text()
	if bytes.IndexByte(t, '\\') >= 0 {
		t = t.AppendTo(nil)
	}
	return t
}
