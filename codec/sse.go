package codec

// MediaTypeSSE is the media type of a stream of server-sent events.
const MediaTypeSSE = "text/event-stream; charset=utf-8"

// SSEDone is the event that ends a stream of the chat-completions API. No other event ends like it.
const SSEDone = "data: [DONE]" + sseEnd

// The pieces of a server-sent event. Chat clients take "data:" alone: neither "id:" nor "event:" nor "retry:" is sent there.
const (
	sseData = "data: "
	sseEnd  = "\n\n"
)

// SSE appends server-sent events to one buffer, each in one piece, so that a caller sends many with one write. The zero value
// is ready to use. What it holds is valid until Reset.
type SSE struct {
	buf []byte
}

// Bytes returns what was appended since Reset. Borrowed.
func (s *SSE) Bytes() []byte { return s.buf }

// Len is the number of bytes appended since Reset.
func (s *SSE) Len() int { return len(s.buf) }

// Cap is how many bytes the buffer holds before it must grow.
func (s *SSE) Cap() int { return cap(s.buf) }

// Reset empties the buffer and keeps its memory.
func (s *SSE) Reset() { s.buf = s.buf[:0] }

// Data appends one event whose data is the concatenation of parts. The parts must hold no newline: JSON as this project
// writes it holds none.
func (s *SSE) Data(parts ...[]byte) {
	s.buf = append(s.buf, sseData...)
	for _, p := range parts {
		s.buf = append(s.buf, p...)
	}
	s.buf = append(s.buf, sseEnd...)
}

// Text appends one event whose data is head, a Text, and tail: a delta. It is the hot path.
func (s *SSE) Text(head []byte, t Text, tail string) {
	b := append(append(s.buf, sseData...), head...)
	b = append(append(b, t...), tail...)
	s.buf = append(b, sseEnd...)
}

// Comment appends a comment line. Without block it is not followed by a blank line and so joins the next event, which is
// equally valid; some clients need it so.
func (s *SSE) Comment(text string, block bool) {
	s.buf = append(append(append(s.buf, ": "...), text...), '\n')
	if block {
		s.buf = append(s.buf, '\n')
	}
}

// Done appends the end marker of the chat-completions API.
func (s *SSE) Done() { s.buf = append(s.buf, SSEDone...) }
