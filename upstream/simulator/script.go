package simulator

import (
	"bytes"
	"time"
	"unicode/utf8"

	"amplifier-agent/codec"
)

const (
	reasoningID = "reasoning-0"
	textID      = "txt-0"
)

// script builds a response body event by event, and notes the pauses in it.
type script struct {
	body   []byte
	pauses []Pause
}

// answer is the script as an Answer. A script without pauses goes out in as few writes as possible.
func (s *script) answer() *Answer {
	return &Answer{Body: s.body, Pauses: s.pauses, WriteSize: Coalesce}
}

func (s *script) pause(d time.Duration) {
	if d != 0 {
		s.pauses = append(s.pauses, Pause{At: len(s.body), For: d})
	}
}

// raw appends a piece of a line as it is.
func (s *script) raw(b string) { s.body = append(s.body, b...) }

func (s *script) line(b string) { s.body = append(append(s.body, b...), '\n') }

func (s *script) start() { s.line(`{"type":"start"}`) }

// startStep echoes the request, as the gateway does with the whole of it.
func (s *script) startStep(echo []byte) {
	s.raw(`{"type":"start-step","request":{"body":`)
	s.body = appendOneLine(s.body, echo)
	s.line(`},"warnings":[]}`)
}

// mark appends an event that is a type and an id: the starts and the ends.
func (s *script) mark(typ, id string) {
	s.head(typ)
	s.field("id", id)
	s.line("}")
}

func (s *script) delta(typ, id, text string) {
	s.head(typ)
	s.field("id", id)
	s.field("text", text)
	s.line("}")
}

// escapedDelta is delta for a text that is a JSON string body already, or no valid one, which is the point.
func (s *script) escapedDelta(typ, id, escaped string) {
	s.head(typ)
	s.field("id", id)
	s.line(`,"text":"` + escaped + `"}`)
}

func (s *script) toolStart(c *call) {
	s.head("tool-input-start")
	s.field("id", c.id)
	s.field("toolName", c.name)
	s.line(`,"dynamic":false}`)
}

func (s *script) toolDelta(c *call, piece string) {
	s.head("tool-input-delta")
	s.field("id", c.id)
	s.field("delta", piece)
	s.line("}")
}

// toolCall is the authoritative event: the arguments as a value, byte for byte but for line breaks, which would end the line.
func (s *script) toolCall(c *call) {
	s.head("tool-call")
	s.field("toolCallId", c.id)
	s.field("toolName", c.name)
	s.raw(`,"input":`)
	s.body = appendOneLine(s.body, []byte(c.args))
	s.line("}")
}

// errorEvent appends an error event; v is a string or an object.
func (s *script) errorEvent(v any) {
	b, err := codec.Marshal(v)
	if err != nil { // cannot be: v is built of strings, numbers and booleans
		b = []byte(`"error"`)
	}
	s.line(`{"type":"error","error":` + string(b) + `}`)
}

func (s *script) head(typ string) {
	s.raw(`{"type":"`)
	s.raw(typ)
	s.raw(`"`)
}

func (s *script) field(key, value string) {
	s.raw(`,"`)
	s.raw(key)
	s.raw(`":`)
	s.body = appendString(s.body, value)
}

// appendOneLine appends a JSON value without its line breaks. Between tokens is the only place where JSON can have them.
func appendOneLine(dst, value []byte) []byte {
	for {
		i := bytes.IndexAny(value, "\r\n")
		if i < 0 {
			return append(dst, value...)
		}
		dst = append(append(dst, value[:i]...), ' ')
		value = value[i+1:]
	}
}

const hexDigits = "0123456789abcdef"

// appendString appends s as JavaScript's JSON.stringify would: everything that needs no escape is raw, U+2028 too.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		b := s[i]
		if b >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r) // an invalid byte becomes U+FFFD
			i += n
			continue
		}
		i++
		switch b {
		case '"', '\\':
			dst = append(dst, '\\', b)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			if b < ' ' {
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
			} else {
				dst = append(dst, b)
			}
		}
	}
	return append(dst, '"')
}
