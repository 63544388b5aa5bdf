package chat

import (
	"fmt"
	"time"

	"amplifier-agent/pipeline"
)

// maxWholeBytes is how much of an answer is buffered.
const maxWholeBytes = 64 << 20

// JSON encodes a turn as one body (http-face.md, "Non-streaming"; rulings 24): a pure buffering of what SSE writes. Its only
// frame comes last; an error takes its place as it would take the place of the first frame of the stream, and with ErrorEvents always:
// nothing was sent yet, so there still can be a status.
func JSON(t *pipeline.Turn, in pipeline.Stream, wire Wire) pipeline.Frames {
	return func(yield func([]byte, error) bool) {
		j := whole{reading: reading{turn: t, wire: wire}, looked: time.Now()}
		j.run(in, &j)
		switch {
		case j.stop:
			return
		case j.done:
		case !j.begun, wire.ErrorEvents:
			yield(nil, j.err)
			return
		default:
			j.content = j.appendInline(j.content, j.report(), len(j.content) > 0)
			j.reason = pipeline.ReasonStop
		}
		yield(j.body(), nil)
	}
}

type whole struct {
	reading
	begun              bool // answered, or waited for longer than the preflight window
	looked             time.Time
	content, reasoning []byte // JSON string bodies
	calls              []byte // elements of the list
	reason             pipeline.Reason
}

func (j *whole) event(ev *pipeline.Event) bool {
	switch ev.Kind {
	case pipeline.Text:
		j.begun = true
		j.content = append(j.content, ev.Text...)
	case pipeline.Reasoning:
		j.begun = true
		j.reasoning = append(j.reasoning, ev.Text...)
	case pipeline.ToolCall:
		j.begun = true
		if len(j.calls) > 0 {
			j.calls = append(j.calls, ',')
		}
		j.calls = appendCall(j.calls, ev, false)
	case pipeline.Finish:
		j.done = true
		j.reason = ev.Step.Reason
	case pipeline.Flush: // nothing is written, so only a look tells that the client has gone
		if time.Since(j.looked) < lookEvery {
			return true
		}
		j.looked = time.Now()
		return j.wire.Alive()
	case pipeline.Idle:
		j.begun = true
		return j.wire.Alive()
	default: // internal activity stays internal
	}
	if len(j.content)+len(j.reasoning)+len(j.calls) > maxWholeBytes {
		j.err = &pipeline.Error{Code: pipeline.CodeUpstream, Origin: pipeline.OriginUpstream,
			Message: fmt.Sprintf("the answer is longer than %d MiB: ask for it with \"stream\": true", maxWholeBytes>>20)}
		return false
	}
	return true
}

func (j *whole) body() []byte {
	b := make([]byte, 0, 512+len(j.content)+len(j.reasoning)+len(j.calls))
	b = append(appendHead(b, j.turn, "chat.completion", j.wire.Label), `"message":{"role":"assistant","content":`...)
	notices := j.appendNotices(nil)
	if len(notices)+len(j.content) == 0 && len(j.calls) > 0 {
		b = append(b, "null"...)
	} else {
		b = append(append(append(append(b, '"'), notices...), j.content...), '"')
	}
	if len(j.reasoning) > 0 {
		b = append(append(append(b, `,"reasoning_content":"`...), j.reasoning...), '"')
	}
	if len(j.calls) > 0 {
		b = append(append(append(b, `,"tool_calls":[`...), j.calls...), ']')
	}
	b = append(append(b, `,"refusal":null},"logprobs":null,"finish_reason":"`...), j.reason.String()...)
	return append(appendTail(append(b, `"}`...), j.turn), '\n')
}
