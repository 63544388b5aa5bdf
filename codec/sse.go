package codec

// MediaTypeSSE is the media type of a stream of server-sent events.
const MediaTypeSSE = "text/event-stream; charset=utf-8"

// The pieces of a server-sent event. Chat clients take "data:" alone: neither "id:" nor "event:" nor "retry:" is sent there.
const (
	sseData = "data: "
	sseEnd  = "\n\n"
	sseDone = "data: [DONE]\n\n"
)

const (
	// chunkRoom is kept free before the events, for the framing of a chunk: its size in hex digits, and a line end.
	chunkRoom = len("ffffffff\r\n")
	chunkEnd  = "\r\n"
	bodyEnd   = "0\r\n\r\n"
)

// SSE appends server-sent events to one buffer, each in one piece, so that a caller sends many with one write. The zero value
// is ready to use. What it holds is valid until Reset.
type SSE struct {
	buf  []byte // empty, or the room for the framing and the events
	lead int    // how long the beginning of a Text is that still lies there although buf is empty; 0 for none
	key  string // of that Text
}

// Bytes returns what was appended since Reset. Borrowed.
func (s *SSE) Bytes() []byte { return s.buf[min(chunkRoom, len(s.buf)):] }

// Len is the number of bytes appended since Reset.
func (s *SSE) Len() int { return max(0, len(s.buf)-chunkRoom) }

// Cap is how many bytes the buffer holds before it must grow.
func (s *SSE) Cap() int { return cap(s.buf) }

// Reset empties the buffer and keeps its memory.
func (s *SSE) Reset() { s.buf = s.buf[:0] }

// Renew does so before a Text gets another head.
func (s *SSE) Renew() { s.buf, s.lead = s.buf[:0], 0 }

// begun is the buffer to append an event to.
func (s *SSE) begun() []byte {
	if len(s.buf) == 0 {
		s.lead = 0
		return append(s.buf, make([]byte, chunkRoom)...)
	}
	return s.buf
}

// Chunk returns what was appended since Reset, if anything, as one chunk of an HTTP/1.1 body, and the end of the body behind it if it is
// the last. It is framed in place: nothing may be appended until Reset. Borrowed.
func (s *SSE) Chunk(last bool) []byte {
	n, at := s.Len(), chunkRoom-len(chunkEnd)
	s.buf = s.begun()
	if n > 0 {
		copy(s.buf[at:], chunkEnd)
		s.buf = append(s.buf, chunkEnd...)
		for ; n > 0; n >>= 4 {
			at--
			s.buf[at] = "0123456789abcdef"[n&15]
		}
	} else {
		at = chunkRoom
	}
	if last {
		s.buf = append(s.buf, bodyEnd...)
	}
	return s.buf[at:]
}

// Data appends one event whose data is the concatenation of parts. The parts must hold no newline: JSON as this project
// writes it holds none.
func (s *SSE) Data(parts ...[]byte) {
	b := append(s.begun(), sseData...)
	for _, p := range parts {
		b = append(b, p...)
	}
	s.buf = append(b, sseEnd...)
}

// Text appends one event whose data is head, key, a Text, and tail: a delta. It is the hot path. The head is the same until Renew: where
// the last such event began the buffer too, its beginning is still there.
func (s *SSE) Text(head []byte, key string, t Text, tail string) {
	first := len(s.buf) == 0
	var b []byte
	if first && s.lead > 0 && s.key == key {
		b = s.buf[:s.lead]
	} else {
		b = append(append(append(s.begun(), sseData...), head...), key...)
		if first {
			s.lead, s.key = len(b), key
		}
	}
	b = append(append(b, t...), tail...)
	s.buf = append(b, sseEnd...)
}

// Comment appends a comment line. Without block it is not followed by a blank line and so joins the next event, which is
// equally valid; some clients need it so.
func (s *SSE) Comment(text string, block bool) {
	b := append(append(append(s.begun(), ": "...), text...), '\n')
	if block {
		b = append(b, '\n')
	}
	s.buf = b
}

// Done appends the end marker of the chat-completions API.
func (s *SSE) Done() { s.buf = append(s.begun(), sseDone...) }
