package anthropic

import (
	"bytes"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
)

// endWait is how long the rest of an answer is waited for once it has said why the model stopped: message_stop and the end of the
// body come at once.
const endWait = 250 * time.Millisecond

// Decoder decodes the lines of one answer. It implements upstream.Decoder. Lines that are no JSON objects, and events, blocks and
// deltas that nobody knows, are passed over.
type Decoder struct {
	mask    *secret.Mask // takes credentials out of errors
	s       codec.Scanner
	l       line
	scratch []byte

	calls   []open            // calls whose block has not ended
	closed  [][]byte          // ids of those whose block has: whether they are whole, the stop reason tells
	end     pipeline.StepInfo // what is known of the end
	stopped bool              // a stop reason, or message_stop, has come
	heard   bool              // a line was an event
	spoke   bool              // something of the answer was handed out
	ended   bool              // the end of the round was handed out
}

// open is a block of tool_use under way. Its deltas name it by index only.
type open struct {
	index int64
	id    []byte
}

var _ upstream.Decoder = (*Decoder)(nil)

// NewDecoder returns a Decoder for one answer. What mask knows is taken out of the upstream's errors; it may be nil.
func NewDecoder(mask *secret.Mask) *Decoder { return &Decoder{mask: mask} }

// Line implements upstream.Decoder.
func (d *Decoder) Line(b []byte, out *upstream.Emitter) {
	l := &d.l
	if d.ended || !l.parse(&d.s, b) {
		return
	}
	d.heard = d.heard || len(l.typ) > 0
	switch string(l.typ) {
	case "content_block_delta":
		d.delta(out)
	case "content_block_start":
		d.start(out)
	case "content_block_stop":
		if i := d.find(l.index); i >= 0 {
			d.closed = append(d.closed, d.calls[i].id)
			d.calls = append(d.calls[:i], d.calls[i+1:]...)
		}
	case "message_start":
		readUsage(&d.s, l.start, &d.end.Usage)
	case "message_delta":
		readUsage(&d.s, l.usage, &d.end.Usage)
		if len(l.stop) > 0 {
			d.stopped = true
			reason := l.stop.String()
			d.end.Reason, d.end.Raw = reasons[reason], pipeline.Short(reason)
		}
	case "message_stop":
		d.stopped = true
		d.End(out)
	case "error":
		d.fail(out, streamFault(l.err, l.message, d.mask))
	case "": // some servers leave the type to the event's own line
		if l.err != nil {
			d.fail(out, streamFault(l.err, l.message, d.mask))
		}
	default: // ping, and what is not known
	}
}

// start opens a block. Text may stand in it already; so may the input of a call, which then is the whole of it.
func (d *Decoder) start(out *upstream.Emitter) {
	b := &d.l.block
	switch string(b.typ) {
	case "text":
		d.text(out, pipeline.Text, b.text)
	case "thinking":
		d.text(out, pipeline.Reasoning, b.thinking)
	case "tool_use":
		d.scratch = b.name.AppendTo(d.scratch[:0])
		call := open{index: d.l.index, id: b.id.AppendTo(nil)}
		if i := d.find(call.index); i >= 0 && call.index >= 0 {
			d.calls[i] = call // the one before has no end: it stays as it is
		} else {
			d.calls = append(d.calls, call)
		}
		d.spoke = true
		ev := pipeline.Event{Kind: pipeline.ToolStart, ID: call.id, Name: d.scratch, Clean: true}
		if !out.Emit(ev) || isEmpty(b.input) {
			return
		}
		if codec.Validate(b.input) != nil {
			d.fail(out, &pipeline.Error{Code: pipeline.CodeInvalidToolCall, Origin: pipeline.OriginUpstream,
				Message: "the upstream sent arguments that are not valid JSON for tool call " + pipeline.Short(string(call.id))})
			return
		}
		ev.Kind = pipeline.ToolCall
		n := len(d.scratch)
		d.scratch = codec.AppendText(d.scratch, b.input)
		ev.Name, ev.Text = d.scratch[:n:n], codec.Text(d.scratch[n:])
		out.Emit(ev)
	case "server_tool_use", "mcp_tool_use": // the API runs it itself
		d.scratch = b.id.AppendTo(d.scratch[:0])
		n := len(d.scratch)
		d.scratch = b.name.AppendTo(d.scratch)
		out.Emit(pipeline.Event{Kind: pipeline.ToolCancel, ID: d.scratch[:n:n], Name: d.scratch[n:]})
	default: // redacted_thinking, which nobody can read; results of the API's own tools
	}
}

// isEmpty reports whether the input of a call's start says nothing: usually it is {}, and fragments follow.
func isEmpty(input []byte) bool {
	return len(input) == 0 || len(bytes.TrimSpace(input[1:len(input)-1])) == 0
}

func (d *Decoder) delta(out *upstream.Emitter) {
	b := &d.l.delta
	switch string(b.typ) {
	case "text_delta":
		d.text(out, pipeline.Text, b.text)
	case "thinking_delta":
		d.text(out, pipeline.Reasoning, b.thinking)
	case "input_json_delta":
		if i := d.find(d.l.index); i >= 0 && len(b.json.text) > 0 {
			out.Emit(pipeline.Event{Kind: pipeline.ToolDelta, ID: d.calls[i].id, Text: b.json.text, Clean: b.json.clean})
		}
	default: // signature_delta, citations_delta
	}
}

func (d *Decoder) text(out *upstream.Emitter, kind pipeline.Kind, f field) {
	if len(f.text) > 0 {
		d.spoke = true
		out.Delta(kind, f.text, f.clean)
	}
}

// fail ends the round in an error. The tokens are told first, as they are paid for all the same; not so in front of a refusal,
// which is to be the first item.
func (d *Decoder) fail(out *upstream.Emitter, err *pipeline.Error) {
	if d.spoke && d.end.Usage.Known() {
		out.Emit(pipeline.Event{Kind: pipeline.Step, Step: &d.end})
	}
	out.Fail(err)
}

// find returns where the call of a block is; that of the last one if the line names no block; -1 if it is none.
func (d *Decoder) find(index int64) int {
	for i := len(d.calls) - 1; i >= 0; i-- {
		if index < 0 || d.calls[i].index == index {
			return i
		}
	}
	return -1
}

// Tail implements upstream.Decoder.
func (d *Decoder) Tail() time.Duration {
	if d.stopped {
		return endWait
	}
	return 0
}

// End implements upstream.Decoder. A stream that ends with neither a stop reason nor message_stop was cut off (rulings 15).
func (d *Decoder) End(out *upstream.Emitter) {
	switch {
	case d.ended:
		return
	case d.stopped:
	default:
		d.fail(out, upstream.CutOff(d.heard, "neither a stop_reason nor message_stop"))
		return
	}
	d.ended = true
	// A block ends as well when the answer is cut off in the midst of its input.
	if r := d.end.Reason; r != pipeline.ReasonLength && r != pipeline.ReasonContentFilter {
		for _, id := range d.closed {
			out.Emit(pipeline.Event{Kind: pipeline.ToolEnd, ID: id})
		}
	}
	out.Emit(pipeline.Event{Kind: pipeline.Finish, Step: &d.end})
}
