package recording

import (
	"fmt"
	"slices"

	"amplifier-agent/codec"
)

// maxTellingBytes is how long a text may be that is kept because of its member's name.
const maxTellingBytes = 200

// telling are members whose texts say how a request is made, not what it is about.
var telling = []string{
	"role", "type", "model", "name", "toolName", "id", "toolCallId", "tool_call_id", "tool_use_id", "mediaType", "mimeType", "media_type",
	"effort", "reasoning_effort", "tool_choice", "permissionMode", "environment", "date", "required", "format", "detail",
}

// private are members in which nothing tells: a model made up what they hold.
var private = []string{"input", "args", "arguments"}

// redact returns a request's body with the length of each text in its place, but for those that tell how it is made.
func (f *Folder) redact(body []byte) codec.RawMessage {
	if len(body) == 0 {
		return nil
	}
	var s codec.Scanner
	s.Reset(body)
	r := redaction{mask: f.mask.String}
	if r.value(&s, "", false); s.End() != nil {
		return codec.AppendString(nil, fmt.Sprintf("[%d bytes that are no JSON]", len(body)))
	}
	return r.dst
}

type redaction struct {
	dst  []byte
	mask func(string) string
}

// value appends a value, which stands in the member of that name.
func (r *redaction) value(s *codec.Scanner, name string, hidden bool) {
	hidden = hidden || slices.Contains(private, name)
	open := byte('{')
	switch s.Kind() {
	case codec.Object:
		for s.Object(); s.Key(); open = ',' {
			key := string(s.Name())
			r.dst = codec.AppendString(append(r.dst, open), r.mask(key))
			r.dst = append(r.dst, ':')
			r.value(s, key, hidden)
		}
		if open == '{' {
			r.dst = append(r.dst, '{')
		}
		r.dst = append(r.dst, '}')
	case codec.Array:
		open = '['
		for s.Array(); s.Elem(); open = ',' {
			r.dst = append(r.dst, open)
			r.value(s, name, hidden)
		}
		if open == '[' {
			r.dst = append(r.dst, '[')
		}
		r.dst = append(r.dst, ']')
	case codec.String:
		t, _ := s.Text()
		text := t.String()
		if text != "" && (hidden || len(text) > maxTellingBytes || !slices.Contains(telling, name)) {
			text = fmt.Sprintf("[%d bytes]", len(text))
		}
		r.dst = codec.AppendString(r.dst, r.mask(text))
	default: // true, false, null, numbers
		kind, raw := s.Kind(), s.Raw()
		if hidden && kind == codec.Number {
			raw = []byte("0")
		}
		r.dst = append(r.dst, raw...)
	}
}
