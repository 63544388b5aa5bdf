package commandcode

import (
	"bytes"
	"sync"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
)

// costWait is how long the end of a round waits for a cost that comes after finish (rulings 22).
const costWait = 250 * time.Millisecond

// Decoder decodes the lines of one answer. It implements upstream.Decoder. Lines that are no JSON objects, and events that
// nobody knows, are passed over.
type Decoder struct {
	mould    codec.Mould   // of the last delta
	moulded  pipeline.Kind // of which kind
	finished bool          // finish has come

	mask    *secret.Mask // takes credentials out of errors
	of      *Provider    // which hears of them; nil for none
	*parsed              // while a line is decoded
	scratch []byte

	step    pipeline.StepInfo // handed out with an event
	end     pipeline.StepInfo // what finish has said
	last    pipeline.StepInfo // what the last finish-step has said
	wrote   int64             // to the cache, by all finish-steps
	stepped bool              // a finish-step has come
	costed  bool              // the cost of the last step has come
	heard   bool              // a line was an event
	ended   bool              // the end of the round was handed out
}

// parsed is what decoding a line takes. It is lent: among many streams it is in the processor's cache, and one of a stream's own would
// not be.
type parsed struct {
	s codec.Scanner
	l line
}

var parsers = sync.Pool{New: func() any { return new(parsed) }}

var _ upstream.Decoder = (*Decoder)(nil)

// NewDecoder returns a Decoder for one answer. What mask knows is taken out of the upstream's errors; it may be nil.
func NewDecoder(mask *secret.Mask) *Decoder { return &Decoder{mask: mask} }

// decoder returns a Decoder whose errors the provider hears of.
func (p *Provider) decoder() upstream.Decoder { return &Decoder{mask: p.mask, of: p} }

// Line implements upstream.Decoder.
func (d *Decoder) Line(b []byte, out *upstream.Emitter) {
	if t, clean, ok := d.mould.Text(b); ok && !d.finished {
		out.Delta(d.moulded, t, clean)
		return
	}
	p := parsers.Get().(*parsed)
	d.parsed = p
	d.line(b, out)
	d.parsed = nil
	parsers.Put(p)
}

func (d *Decoder) line(b []byte, out *upstream.Emitter) {
	l := &d.l
	if !l.parse(&d.s, b) {
		return
	}
	d.heard = d.heard || len(l.typ) > 0
	if d.finished {
		d.tail(out)
		return
	}
	if bytes.IndexByte(l.typ, '\\') >= 0 { // nobody escapes the name of an event, but JSON may
		l.typ = l.typ.AppendTo(nil)
	}
	switch string(l.typ) {
	case "text-delta":
		d.delta(b, pipeline.Text, out)
	case "reasoning-delta":
		d.delta(b, pipeline.Reasoning, out)
	case "tool-input-start", "tool-input-delta", "tool-input-end", "tool-call", "tool-call-delta", "tool-result", "tool-error":
		d.tool(out)
	case "finish-step":
		d.finishStep(out)
	case "finish":
		d.finish(out)
	case "provider-metadata":
		d.cost(out)
	case "error":
		out.Fail(d.streamFault())
	case "abort":
		out.Fail(aborted(l.reason, d.mask))
	case "": // a refusal that came with status 200
		if len(l.err) > 0 && (l.err[0] == '{' || l.err[0] == '"') {
			out.Fail(d.streamFault())
		}
	default: // start, start-step, the starts and ends of blocks, and what is not known
	}
}

func (d *Decoder) delta(b []byte, kind pipeline.Kind, out *upstream.Emitter) {
	f := d.l.text.or(d.l.delta)
	if d.mould.Learn(b, f.text) {
		d.moulded = kind
	}
	out.Delta(kind, f.text, f.clean)
}

func (d *Decoder) tool(out *upstream.Emitter) {
	l := &d.l
	d.scratch = d.scratch[:0]
	ev := pipeline.Event{ID: l.id.or(l.callID).plain(&d.scratch), Name: l.name.plain(&d.scratch), Clean: true}
	if l.executed {
		ev.Kind = pipeline.ToolCancel
		out.Emit(ev)
		return
	}
	if l.input.bad {
		out.Fail(&pipeline.Error{Code: pipeline.CodeInvalidToolCall, Origin: pipeline.OriginUpstream,
			Message: "the upstream sent arguments that are not valid JSON for tool call " + string(ev.ID)})
		return
	}
	switch string(l.typ) {
	case "tool-input-start":
		ev.Kind = pipeline.ToolStart
	case "tool-input-delta":
		f := l.delta.or(l.text)
		ev.Kind, ev.Text, ev.Clean = pipeline.ToolDelta, f.text, f.clean
	case "tool-input-end":
		ev.Kind = pipeline.ToolEnd
	case "tool-call":
		ev.Kind, ev.ID = pipeline.ToolCall, l.callID.or(l.id).plain(&d.scratch)
		ev.Text, ev.Clean = d.arguments()
	case "tool-call-delta": // an older form of both start and delta
		ev.Kind, ev.ID = pipeline.ToolStart, l.callID.or(l.id).plain(&d.scratch)
		if !out.Emit(ev) {
			return
		}
		ev.Kind = pipeline.ToolDelta
		ev.Text, ev.Clean = d.arguments()
	case "tool-result", "tool-error": // only the gateway's own tools have one
		ev.Kind, ev.ID = pipeline.ToolCancel, l.callID.or(l.id).plain(&d.scratch)
	}
	out.Emit(ev)
}

// arguments returns what a call brings: the bytes of an object as they are, or what a string holds; nil if it brings nothing.
func (d *Decoder) arguments() (t codec.Text, clean bool) {
	v := &d.l.input
	switch {
	case v.raw != nil:
		n := len(d.scratch)
		d.scratch = codec.AppendText(d.scratch, v.raw)
		return codec.Text(d.scratch[n:]), true
	case v.text.text != nil:
		return v.text.text, v.text.clean
	}
	return nil, true
}

func (d *Decoder) finishStep(out *upstream.Emitter) {
	l := &d.l
	d.stepped = true
	d.last = finish(l.finish, l.rawFinish)
	d.step = d.last
	d.step.Usage = usage(&d.s, l.usage, l.metadata, -1)
	d.wrote += d.step.Usage.CacheWrite
	d.step.Cost, d.step.Generation = cost(&d.s, l.metadata)
	d.costed = d.step.Cost.Known() // that of an earlier step says nothing about this one
	if d.last.Reason == pipeline.ReasonFault && !out.Said() && !d.costed {
		return // nothing came of it, and the round may be tried again; what costs money is told
	}
	out.Emit(pipeline.Event{Kind: pipeline.Step, Step: &d.step})
}

// finish keeps the end of the round back until its cost is known too, or waiting for it no longer pays.
func (d *Decoder) finish(out *upstream.Emitter) {
	l := &d.l
	d.finished = true
	if d.end = finish(l.finish, l.rawFinish); d.end.Reason == pipeline.ReasonNone && d.stepped {
		d.end.Reason, d.end.Raw = d.last.Reason, d.last.Raw // finish only completes what the step has said
	}
	if !isObject(l.total) { // null counts as absent
		l.total = l.usage
	}
	d.end.Usage = usage(&d.s, l.total, l.metadata, d.wrote)
	d.end.Cost, d.end.Generation = cost(&d.s, l.metadata)
	if d.costed = d.costed || d.end.Cost.Known(); d.costed {
		d.End(out)
	}
}

// cost hands out a cost that comes apart from its step.
func (d *Decoder) cost(out *upstream.Emitter) {
	d.step = pipeline.StepInfo{}
	d.step.Cost, d.step.Generation = cost(&d.s, d.l.metadata)
	if d.step.Cost.Known() {
		d.costed = true
		out.Emit(pipeline.Event{Kind: pipeline.Cost, Step: &d.step})
	}
}

// tail reads what comes after finish: nothing but the cost counts.
func (d *Decoder) tail(out *upstream.Emitter) {
	if d.ended || d.l.metadata == nil {
		return
	}
	if d.cost(out); d.costed {
		d.End(out)
	}
}

// Tail implements upstream.Decoder.
func (d *Decoder) Tail() time.Duration {
	if d.finished {
		return costWait
	}
	return 0
}

// End implements upstream.Decoder. A stream that ends with neither finish nor finish-step was cut off (rulings 15).
func (d *Decoder) End(out *upstream.Emitter) {
	switch {
	case d.ended:
		return
	case d.finished:
	case d.stepped:
		d.end = d.last
	default:
		out.Fail(upstream.CutOff(d.heard, "neither finish nor finish-step"))
		return
	}
	d.ended = true
	out.Emit(pipeline.Event{Kind: pipeline.Finish, Step: &d.end})
}
