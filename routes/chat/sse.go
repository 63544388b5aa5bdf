package chat

import (
	"sync"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// keepFrameBytes is the capacity up to which a buffer of frames is kept for the next stream.
const keepFrameBytes = 64 << 10

var outs = sync.Pool{New: func() any { return new(codec.SSE) }}

// pending is the rest of a chunk that is not the last one.
const pending = `},"finish_reason":null}]}`

// SSE encodes a turn as chunks (http-face.md, "SSE chunk sequence"). An error before anything was answered, and before the first
// Idle, takes the place of the first frame; a later one is reported inline, followed by the terminal chunk, or as an error object
// that ends the stream.
func SSE(t *pipeline.Turn, in pipeline.Stream, wire Wire) pipeline.Frames {
	return func(yield func([]byte, error) bool) {
		s := sse{reading: reading{turn: t, wire: wire}, yield: yield, out: outs.Get().(*codec.SSE)}
		defer func() {
			if s.out.Reset(); s.out.Cap() <= keepFrameBytes {
				outs.Put(s.out)
			}
		}()
		head := append(appendHead(make([]byte, 0, 256), t, "chat.completion.chunk", wire.Label), `"delta":`...)
		s.head = head[:len(head):len(head)]
		s.content = append(s.head, `{"content":"`...)
		s.reasoning = append(s.head, `{"reasoning_content":"`...)
		s.run(in, &s)
		switch {
		case s.stop, s.done:
			return
		case !s.begun:
			yield(nil, s.err)
			return
		}
		e := s.report()
		if wire.ErrorEvents {
			s.out.Data(nil, appendError(nil, e, wire.Mask))
			s.flush()
			return
		}
		s.scratch = s.appendInline(s.scratch[:0], e, s.said)
		s.out.Text(s.content, s.scratch, `"`+pending)
		s.terminal(pipeline.ReasonStop)
		s.flush()
	}
}

type sse struct {
	reading
	yield func([]byte, error) bool
	out   *codec.SSE

	head, content, reasoning []byte // beginnings of chunks
	scratch                  []byte
	begun                    bool      // the role chunk has been appended: the response is committed
	said                     bool      // content has been appended
	wrote                    time.Time // when the last frame was written
	looked                   time.Time // when the client was last looked at
}

func (s *sse) event(ev *pipeline.Event) bool {
	switch ev.Kind {
	case pipeline.Text:
		s.begin()
		s.said = true
		s.out.Text(s.content, ev.Text, `"`+pending)
	case pipeline.Reasoning:
		s.begin()
		s.out.Text(s.reasoning, ev.Text, `"`+pending)
	case pipeline.ToolCall:
		s.begin()
		s.scratch = appendCall(append(s.scratch[:0], `{"tool_calls":[`...), ev, true)
		s.scratch = append(append(s.scratch, ']'), pending...)
		s.out.Data(s.head, s.scratch)
	case pipeline.Finish:
		s.begin()
		s.done = true
		s.terminal(ev.Step.Reason)
		return s.flush()
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
		s.out.Text(s.head, nil, `{"role":"assistant"`+pending)
		if len(s.turn.Notices) > 0 {
			s.scratch = s.appendNotices(s.scratch[:0])
			s.out.Text(s.content, s.scratch, `"`+pending)
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

func (s *sse) terminal(r pipeline.Reason) {
	s.scratch = append(append(s.scratch[:0], `{},"finish_reason":"`...), r.String()...)
	s.scratch = appendTail(append(s.scratch, `"}`...), s.turn)
	s.out.Data(s.head, s.scratch)
	s.out.Done()
}

func (s *sse) flush() bool {
	if s.out.Len() == 0 {
		return true
	}
	ok := s.yield(s.out.Bytes(), nil)
	s.out.Reset()
	s.wrote = time.Now()
	return ok
}
