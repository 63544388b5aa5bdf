package stages

import (
	"log/slog"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// EventMap gives the raw events of one round their meaning, the same for every provider:
//
//   - text is safe to pass on: repaired, with surrogate pairs joined over deltas (rulings 36);
//   - each tool call goes out once, whole, in the order in which the calls were first seen; the arguments of a ToolCall win over
//     the fragments before it, and fragments after it are dropped (rulings 25);
//   - the round ends in one Finish with a reason of the chat-completions API, or in an error if it brought nothing or broke
//     (rulings 15, 20).
func EventMap(log *slog.Logger) pipeline.Stage {
	return pipeline.Stage{Name: "event map", Events: func(t *pipeline.Turn, in pipeline.Stream) pipeline.Stream {
		return func(yield func(*pipeline.Event, error) bool) {
			m := &mapper{turn: t, log: log, yield: yield, calls: calls{turn: t.ID}}
			in(m.take)
		}
	}}
}

type mapper struct {
	turn  *pipeline.Turn
	log   *slog.Logger
	yield func(*pipeline.Event, error) bool

	text, reasoning block
	calls           calls
	scratch         []byte
}

// block is one channel of text towards the client.
type block struct {
	join codec.Joiner
	seen bool // something was passed on
}

// take maps one item; false ends the stream.
func (m *mapper) take(ev *pipeline.Event, err error) bool {
	if err != nil {
		if m.flush() {
			m.yield(nil, err)
		}
		return false
	}
	if ev.Kind >= pipeline.ToolStart && ev.Kind <= pipeline.ToolCancel {
		if err := m.calls.admit(len(ev.Text)); err != nil {
			return m.take(nil, err)
		}
	}
	switch ev.Kind {
	case pipeline.Text:
		return m.delta(ev, &m.text)
	case pipeline.Reasoning:
		return m.delta(ev, &m.reasoning)
	case pipeline.ToolStart:
		m.calls.get(ev.ID, ev.Name)
	case pipeline.ToolDelta:
		c := m.calls.open(ev.ID)
		if c == nil || c.whole || c.cancelled {
			return true // of no call, or late: the call is known already
		}
		n := len(c.arguments)
		c.arguments = c.join.Append(c.arguments, ev.Text)
		ev.Text, ev.Clean = codec.Text(c.arguments[n:]), true
	case pipeline.ToolEnd:
		if c := m.calls.open(ev.ID); c != nil {
			c.ended = true
		}
	case pipeline.ToolCancel:
		m.calls.get(ev.ID, ev.Name).cancelled = true
		return m.send(false) // others may have waited for it
	case pipeline.ToolCall:
		return m.call(ev)
	case pipeline.Finish:
		return m.finish(ev)
	default: // forward
	}
	return m.yield(ev, nil)
}

// delta passes a text delta on. What is clean, and that is nearly all, is not touched.
func (m *mapper) delta(ev *pipeline.Event, b *block) bool {
	if !ev.Clean || b.join.Pending() {
		m.scratch = b.join.Append(m.scratch[:0], ev.Text)
		ev.Text, ev.Clean = m.scratch, true
	}
	if len(ev.Text) == 0 {
		return true
	}
	b.seen = true
	return m.yield(ev, nil)
}

// flush passes on what a block still holds back.
func (m *mapper) flush() bool {
	return m.flushBlock(&m.reasoning, pipeline.Reasoning) && m.flushBlock(&m.text, pipeline.Text)
}

func (m *mapper) flushBlock(b *block, kind pipeline.Kind) bool {
	if !b.join.Pending() {
		return true
	}
	b.seen = true
	m.scratch = b.join.Flush(m.scratch[:0])
	return m.yield(&pipeline.Event{Kind: kind, Clean: true, Text: m.scratch}, nil)
}

// call takes a whole call and passes on what has its turn.
func (m *mapper) call(ev *pipeline.Event) bool {
	c := m.calls.finishing(ev.ID, ev.Name)
	switch {
	case c.whole, c.cancelled: // a repetition, which may have brought the name
	case len(ev.Text) > 0:
		c.arguments = c.arguments[:0]
		var join codec.Joiner
		if ev.Clean {
			c.arguments = append(c.arguments, ev.Text...)
		} else {
			c.arguments = join.Flush(join.Append(c.arguments, ev.Text))
		}
		c.whole = true
	default:
		c.ended = true
		c.whole = c.complete()
	}
	return m.send(false)
}

// send passes on the calls that are whole and whose predecessors have gone; last also skips those that never became whole.
func (m *mapper) send(last bool) bool {
	for ; m.calls.next < len(m.calls.list); m.calls.next++ {
		c := &m.calls.list[m.calls.next]
		if !c.ready() {
			if !last && !c.cancelled {
				return true
			}
			continue
		}
		m.calls.sent++
		ev := pipeline.Event{Kind: pipeline.ToolCall, Clean: true, ID: c.id, Name: c.name, Text: codec.Text(c.arguments)}
		if !m.yield(&ev, nil) {
			return false
		}
	}
	return true
}

// finish decides how the round ended.
func (m *mapper) finish(ev *pipeline.Event) bool {
	if !m.flush() {
		return false
	}
	if err := m.fault(ev.Step); err != nil {
		m.yield(nil, err)
		return false
	}
	if !m.send(true) {
		return false
	}
	switch {
	case m.calls.sent > 0:
		ev.Step.Reason = pipeline.ReasonToolCalls
	case ev.Step.Reason == pipeline.ReasonLength, ev.Step.Reason == pipeline.ReasonContentFilter:
	default:
		if ev.Step.Reason == pipeline.ReasonNone || ev.Step.Reason == pipeline.ReasonToolCalls {
			m.log.Warn("upstream finished with an odd reason: reported as stop", "turn", m.turn.ID, "reason", ev.Step.Raw)
		}
		ev.Step.Reason = pipeline.ReasonStop
	}
	return m.yield(ev, nil)
}

// fault returns the error that a finish means, nil for a healthy end.
func (m *mapper) fault(s *pipeline.StepInfo) error {
	if err := s.Fault(); err != nil {
		return err
	}
	upstream := func(code pipeline.Code, message string, retry bool) error {
		return &pipeline.Error{Code: code, Origin: pipeline.OriginUpstream, Message: message, Retry: retry}
	}
	half := m.calls.settle()
	switch {
	case s.Reason == pipeline.ReasonLength, s.Reason == pipeline.ReasonContentFilter:
		return nil // a half call was cut off with the rest, and is dropped
	case half != nil:
		return upstream(pipeline.CodeInvalidToolCall, "the upstream finished with incomplete arguments for tool call "+string(half.id), false)
	case m.text.seen, m.calls.any():
		return nil
	case s.Reason == pipeline.ReasonNone:
		return upstream(pipeline.CodeTruncated, "the upstream finished without a usable reason and without output", true)
	case m.reasoning.seen && s.Reason == pipeline.ReasonStop:
		return nil
	}
	return upstream(pipeline.CodeEmpty, "the upstream finished without any output", true)
}
