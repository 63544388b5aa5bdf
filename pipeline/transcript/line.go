package transcript

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// A message is stored as one JSON object with the members role, content, tool_calls ({id, tool, arguments}, the arguments an
// object), tool_call_id, name, and whatever else the client wrote.

// appendLine appends m as one line, without the line feed. A message with Raw keeps every member's bytes but for white space
// between tokens, tool_calls, and the content of an assistant, which is never null. Contained is not stored: transcripts hold what the
// client sent.
func appendLine(dst []byte, m *pipeline.Message) []byte {
	start := len(dst)
	dst, ok := appendRaw(dst, m)
	if !ok {
		dst = appendFields(dst[:start], m)
	}
	if !utf8.Valid(dst[start:]) { // only what came raw: readers in other languages refuse such a file
		dst = append(dst[:start], string([]rune(string(dst[start:])))...)
	}
	return dst
}

// appendRaw appends m.Raw member by member; ok is false if that is no JSON object.
func appendRaw(dst []byte, m *pipeline.Message) (_ []byte, ok bool) {
	var s codec.Scanner
	s.Reset(m.Raw)
	if s.Kind() != codec.Object {
		return dst, false
	}
	assistant := m.Role == pipeline.RoleAssistant
	content, calls := false, false
	dst = append(dst, '{')
	s.Object()
	for {
		from := s.Offset()
		if !s.Key() {
			break
		}
		dst = codec.AppendCompact(dst, m.Raw[from:s.Offset()]) // the comma before it, the key, the colon
		kind := s.Kind()
		value := s.Raw()
		switch {
		case !assistant:
			dst = codec.AppendCompact(dst, value)
		case string(s.Name()) == "content":
			content = true
			if kind == codec.Null {
				value = []byte(`""`)
			}
			dst = codec.AppendCompact(dst, value)
		case string(s.Name()) == "tool_calls" && len(m.ToolCalls) > 0:
			calls = true
			dst = appendCalls(dst, m.ToolCalls)
		default:
			dst = codec.AppendCompact(dst, value)
		}
	}
	if s.End() != nil {
		return dst, false
	}
	if assistant && !content {
		dst = append(member(dst, "content"), `""`...)
	}
	if len(m.ToolCalls) > 0 && assistant && !calls {
		dst = appendCalls(member(dst, "tool_calls"), m.ToolCalls)
	}
	return append(dst, '}'), true
}

// member appends a key, ready for its value, to an object that is open.
func member(dst []byte, key string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(codec.AppendString(dst, key), ':')
}

func appendFields(dst []byte, m *pipeline.Message) []byte {
	dst = codec.AppendString(member(append(dst, '{'), "role"), string(m.Role))
	dst = appendContent(member(dst, "content"), m)
	if m.Reasoning != "" {
		dst = codec.AppendString(member(dst, "reasoning_content"), m.Reasoning)
	}
	if len(m.ToolCalls) > 0 && m.Role == pipeline.RoleAssistant {
		dst = appendCalls(member(dst, "tool_calls"), m.ToolCalls)
	}
	if m.ToolCallID != "" {
		dst = codec.AppendString(member(dst, "tool_call_id"), m.ToolCallID)
	}
	if m.Name != "" {
		dst = codec.AppendString(member(dst, "name"), m.Name)
	}
	if m.IsError {
		dst = append(member(dst, "is_error"), "true"...)
	}
	return append(dst, '}')
}

func appendContent(dst []byte, m *pipeline.Message) []byte {
	switch {
	case m.Parts == nil && m.Role == pipeline.RoleAssistant:
		return append(dst, `""`...)
	case m.Parts == nil:
		return append(dst, "null"...)
	case len(m.Parts) == 1 && m.Parts[0].Image == "":
		return codec.AppendString(dst, m.Parts[0].Text)
	}
	dst = append(dst, '[')
	for i, p := range m.Parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		if p.Image != "" {
			dst = append(codec.AppendString(append(dst, `{"type":"image_url","image_url":{"url":`...), p.Image), "}}"...)
		} else {
			dst = append(codec.AppendString(append(dst, `{"type":"text","text":`...), p.Text), '}')
		}
	}
	return append(dst, ']')
}

func appendCalls(dst []byte, calls []pipeline.Call) []byte {
	dst = append(dst, '[')
	for i, c := range calls {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = codec.AppendString(append(dst, `{"id":`...), c.ID)
		dst = codec.AppendString(append(dst, `,"tool":`...), c.Name)
		dst = append(dst, `,"arguments":`...)
		switch {
		case len(c.Arguments) == 0:
			dst = append(dst, "{}"...)
		case codec.Validate(c.Arguments) == nil:
			dst = codec.AppendCompact(dst, c.Arguments)
		default: // never a line that cannot be read back
			dst = append(codec.AppendString(append(dst, `{"_raw_arguments":`...), c.Arguments), '}')
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

var (
	errNoObject = errors.New("not a JSON object")
	errNoRole   = errors.New("a message without a role")
)

// readLine reads what appendLine wrote. Members and content parts that it does not know are passed over; they live on in Raw,
// which is the line itself. The empty content of an assistant is no content.
func readLine(line []byte) (m pipeline.Message, err error) {
	if err = codec.Validate(line); err != nil {
		return m, err
	}
	var s codec.Scanner
	s.Reset(line)
	if s.Kind() != codec.Object {
		return m, errNoObject
	}
	var reasoning string
	for s.Object(); s.Key(); {
		switch string(s.Name()) {
		case "role":
			m.Role = pipeline.Role(text(&s))
		case "content":
			m.Parts = readContent(&s)
		case "name":
			m.Name = text(&s)
		case "tool_call_id":
			m.ToolCallID = text(&s)
		case "tool_calls":
			m.ToolCalls = readCalls(&s)
		case "reasoning_content":
			m.Reasoning = text(&s)
		case "reasoning":
			reasoning = text(&s)
		case "is_error":
			m.IsError, _ = s.Bool()
		default:
			s.Skip()
		}
	}
	if m.Role == "" {
		return m, errNoRole
	}
	if m.Reasoning == "" {
		m.Reasoning = reasoning
	}
	if m.Role != pipeline.RoleAssistant {
		m.ToolCalls, m.Reasoning = nil, ""
	} else if len(m.Parts) == 1 && m.Parts[0] == (pipeline.Part{}) {
		m.Parts = nil
	}
	m.Raw = line
	return m, nil
}

// text consumes a value; what is no string counts as "".
func text(s *codec.Scanner) string {
	t, _ := s.Text()
	return t.String()
}

func readContent(s *codec.Scanner) []pipeline.Part {
	switch s.Kind() {
	case codec.String:
		return []pipeline.Part{{Text: text(s)}}
	case codec.Array:
	default:
		s.Skip()
		return nil
	}
	parts := []pipeline.Part{}
	for s.Array(); s.Elem(); {
		if s.Kind() != codec.Object {
			s.Skip()
			continue
		}
		var kind, said, refusal, url string
		for s.Object(); s.Key(); {
			switch string(s.Name()) {
			case "type":
				kind = text(s)
			case "text":
				said = text(s)
			case "refusal":
				refusal = text(s)
			case "image_url":
				url = readURL(s)
			default:
				s.Skip()
			}
		}
		switch kind {
		case "text":
			parts = append(parts, pipeline.Part{Text: said})
		case "refusal":
			parts = append(parts, pipeline.Part{Text: refusal})
		case "image_url":
			parts = append(parts, pipeline.Part{Image: url, MediaType: mediaType(url)})
		}
	}
	return parts
}

// readURL reads {"url": …} or a bare string.
func readURL(s *codec.Scanner) (url string) {
	if s.Kind() != codec.Object {
		return text(s)
	}
	for s.Object(); s.Key(); {
		if string(s.Name()) == "url" {
			url = text(s)
		} else {
			s.Skip()
		}
	}
	return url
}

// mediaType returns what stands between "data:" and the first parameter of a data URL.
func mediaType(url string) string {
	head, _, _ := strings.Cut(url, ",")
	media, _, _ := strings.Cut(strings.TrimPrefix(head, "data:"), ";")
	return media
}

func readCalls(s *codec.Scanner) (calls []pipeline.Call) {
	if s.Kind() != codec.Array {
		s.Skip()
		return nil
	}
	for s.Array(); s.Elem(); {
		if s.Kind() != codec.Object {
			s.Skip()
			continue
		}
		c := pipeline.Call{Arguments: []byte("{}")}
		for s.Object(); s.Key(); {
			switch string(s.Name()) {
			case "id":
				c.ID = text(s)
			case "tool":
				c.Name = text(s)
			case "arguments":
				if c.Arguments = s.Raw(); !utf8.Valid(c.Arguments) { // a file that others wrote: what is stored again is valid
					c.Arguments = bytes.Map(valid, c.Arguments)
				}
			default:
				s.Skip()
			}
		}
		calls = append(calls, c)
	}
	return calls
}

// appendTranscript appends messages as lines, with a line feed between two and none at the end.
func appendTranscript(dst []byte, messages []pipeline.Message) []byte {
	size := 0
	for i := range messages {
		size += len(messages[i].Raw) + 1
	}
	dst = slices.Grow(dst, size)
	for i := range messages {
		if i > 0 {
			dst = append(dst, '\n')
		}
		dst = appendLine(dst, &messages[i])
	}
	return dst
}

// lineError is a line that cannot be read.
type lineError struct {
	line int // from 1
	err  error
}

// readTranscript reads lines, of which blank ones are passed over.
func readTranscript(data []byte) (messages []pipeline.Message, bad *lineError) {
	for n := 1; len(data) > 0; n++ {
		line, rest, _ := bytes.Cut(data, []byte{'\n'})
		data = rest
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		m, err := readLine(line)
		if err != nil {
			return nil, &lineError{n, err}
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// valid stands for each rune of a text, and for each byte that is part of none by its replacement.
func valid(r rune) rune { return r }
