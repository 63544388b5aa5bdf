package chat

import (
	"sync"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// keepFrameBytes is the capacity up to which a buffer of frames is kept for the next stream.
const keepFrameBytes = 64 << 10

var encoders = sync.Pool{New: func() any { return new(sse) }}

// What stands in a chunk behind its head.
const (
	contentKey   = `{"content":"`
	reasoningKey = `{"reasoning_content":"`
	pending      = `},"finish_reason":null}]}` // ends each but the last
	pendingText  = `"` + pending
)

// SSE encodes a turn as chunks (http-face.md, "SSE chunk sequence"). An error before anything was answered, and before the first
// Idle, takes the place of the first frame; a later one is reported inline, followed by the terminal chunk, or as an error object
// that ends the stream.
func SSE(t *pipeline.Turn, in pipeline.Stream, wire Wire) pipeline.Frames {
	return func(yield func([]byte, error) bool) { // its frame lasts as long as the stream
		s := newSSE(t, wire, yield)
		defer s.release()
		s.run(in, s)
		s.end()
	}
}

type sse struct {
	reading
	yield func([]byte, error) bool
	out   codec.SSE

	head    []byte // beginning of each chunk
	scratch []byte
	begun   bool      // the role chunk has been appended: the response is committed
	said    bool      // content has been appended
	wrote   time.Time // when the last frame was written
	looked  time.Time // when the client was last looked at
}

func newSSE(t *pipeline.Turn, wire Wire, yield func([]byte, error) bool) *sse {
	s := encoders.Get().(*sse)
	s.turn, s.wire, s.yield, s.looked = t, wire, yield, time.Now()
	s.head = append(appendHead(s.head, t, "chat.completion.chunk", wire.Label), `"delta":`...)
	return s
}

// release gives the encoder back, with its memory.
func (s *sse) release() {
	if s.out.Renew(); s.out.Cap() <= keepFrameBytes && cap(s.scratch) <= keepFrameBytes {
		*s = sse{out: s.out, head: s.head[:0], scratch: s.scratch[:0]}
		encoders.Put(s)
	}
}

// end writes what is still to be written once the stream is over: its error, if it has one.
func (s *sse) end() {
	switch {
	case s.stop, s.done:
		return
	case !s.begun:
		s.yield(nil, s.err)
		return
	}
	e := s.report()
	if s.wire.ErrorEvents {
		s.out.Data(appendError(nil, e, s.wire.Mask))
		s.write(true)
		return
	}
	s.scratch = s.appendInline(s.scratch[:0], e, s.said)
	s.out.Text(s.head, contentKey, s.scratch, pendingText)
	s.terminal(pipeline.ReasonStop)
}

func (s *sse) event(ev *pipeline.Event) bool {
	switch ev.Kind {
	case pipeline.Text:
		s.begin()
		s.said = true
		s.out.Text(s.head, contentKey, ev.Text, pendingText)
	case pipeline.Reasoning:
		s.begin()
		s.out.Text(s.head, reasoningKey, ev.Text, pendingText)
	case pipeline.ToolCall:
		s.begin()
		s.scratch = appendCall(append(s.scratch[:0], `{"tool_calls":[`...), ev, true)
		s.scratch = append(append(s.scratch, ']'), pending...)
		s.out.Data(s.head, s.scratch)
	case pipeline.Finish:
		s.begin()
		s.done = true
		return s.terminal(ev.Step.Reason)
	case pipeline.Flush:
		if s.out.Len() == 0 {
			return s.busy()
		}
		return s.flush()
	case pipeline.Idle:
		return s.idle(ev)
	default: // internal activity stays internal
		return true
	}
	return s.out.Len() < maxFrameBytes || s.flush()
}

// begin commits the response with the role chunk.
func (s *sse) begin() {
	if !s.begun {
		s.begun = true
		s.out.Text(s.head, `{"role":"assistant"`, nil, pending)
		if len(s.turn.Notices) > 0 {
			s.scratch = s.appendNotices(s.scratch[:0])
			s.out.Text(s.head, contentKey, s.scratch, pendingText)
		}
	}
}

// idle answers silence: the response is committed, the client is looked at, and kept.
func (s *sse) idle(ev *pipeline.Event) bool {
	if !s.look(time.Now()) {
		return false
	}
	if s.done {
		return true
	}
	s.begin()
	if !s.flush() {
		return false
	}
	ev.Wake = min(ev.Wake, keepaliveEvery-time.Since(s.wrote))
	return true
}

// busy answers an upstream that sends, but nothing for the client: to the client that is silence too.
func (s *sse) busy() bool {
	now := time.Now()
	if due := s.begun && now.Sub(s.wrote) >= keepaliveEvery; !due && now.Sub(s.looked) < lookEvery {
		return true
	}
	return s.look(now) && s.flush()
}

// look finds out whether the client is still there, and appends a keepalive if it is due.
func (s *sse) look(now time.Time) bool {
	s.looked = now
	if !s.wire.Alive() {
		return false
	}
	if s.begun && !s.done && s.out.Len() == 0 && now.Sub(s.wrote) >= keepaliveEvery {
		s.out.Comment("keepalive", !s.wire.KeepaliveLine)
	}
	return true
}

// terminal writes the last chunk, and the end of the stream.
func (s *sse) terminal(r pipeline.Reason) bool {
	s.scratch = append(append(s.scratch[:0], `{},"finish_reason":"`...), r.String()...)
	s.scratch = appendTail(append(s.scratch, `"}`...), s.turn)
	s.out.Data(s.head, s.scratch)
	s.out.Done()
	return s.write(true)
}

func (s *sse) flush() bool { return s.out.Len() == 0 || s.write(false) }

// write hands over what has gathered. Nothing comes after the last of it.
func (s *sse) write(last bool) bool {
	frame := s.out.Bytes()
	if s.wire.Chunked {
		frame = s.out.Chunk(last)
	}
	ok := s.yield(frame, nil)
	s.out.Reset()
	s.wrote = time.Now()
	return ok
}
