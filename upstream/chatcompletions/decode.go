package chatcompletions

import (
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
)

// usageWait is how long the end of a round waits for a usage that comes after the finish reason (rulings 22).
const usageWait = 250 * time.Millisecond

// Decoder decodes the lines of one answer. It implements upstream.Decoder. Lines that are no JSON objects are passed over.
type Decoder struct {
	mould   codec.Mould   // of the last chunk that was a delta and nothing else
	moulded pipeline.Kind // of which kind

	mask    *secret.Mask                           // takes credentials out of errors
	judge   func(*pipeline.Error, *upstream.Fault) // sees errors that the upstream reports; nil for nobody
	outer   codec.Scanner                          // of a line, then of its choices
	inner   codec.Scanner                          // of a value inside them
	chunk   chunk
	choice  choice
	calls   calls
	scratch []byte

	end      pipeline.StepInfo
	finished bool // a finish reason has come
	heard    bool // a line was an answer
	ended    bool // the end of the round was handed out
}

var _ upstream.Decoder = (*Decoder)(nil)

// NewDecoder returns a Decoder for one answer. What mask knows is taken out of the upstream's errors; it may be nil.
func NewDecoder(mask *secret.Mask) *Decoder { return &Decoder{mask: mask} }

// Line implements upstream.Decoder.
func (d *Decoder) Line(b []byte, out *upstream.Emitter) {
	if t, clean, ok := d.mould.Text(b); ok && !d.finished && !d.ended {
		out.Delta(d.moulded, t, clean)
		return
	}
	c := &d.chunk
	if d.ended || !c.parse(&d.outer, b) {
		return
	}
	if c.isFault() {
		if !d.finished { // nobody needs to know that what came after the answer failed
			if !present(c.err) {
				c.err = b // the line itself is the error
			}
			out.Fail(d.streamFault(c.err, c.message))
		}
		return
	}
	d.heard = d.heard || c.choices != nil
	said := d.account(c.usage, c.cost)
	if c.choices != nil {
		n := 0
		d.outer.Reset(c.choices)
		for d.outer.Array(); d.outer.Elem() && !out.Dead(); n++ {
			d.choice.read(&d.outer)
			said = d.account(d.choice.usage, nil) || said
			d.answer(out)
		}
		if n == 1 && !present(c.usage) && !present(c.cost) {
			d.learn(b)
		}
	}
	if said && d.finished && len(c.choices) <= len("[]") { // beside a choice it may be what was used so far
		d.End(out)
	}
}

// answer hands out what a choice brings.
func (d *Decoder) answer(out *upstream.Emitter) {
	c := &d.choice
	if present(c.err) && !d.finished {
		out.Fail(d.streamFault(c.err, nil))
		return
	}
	if c.message != nil && !c.delta && string(d.chunk.object) != "chat.completion.chunk" {
		d.inner.Reset(c.message)
		c.members(&d.inner)
	}
	if r := c.reasoning[0].or(c.reasoning[1]); len(r.text) > 0 {
		out.Delta(pipeline.Reasoning, r.text, r.clean)
	} else if c.details != nil {
		d.details(out)
	}
	if len(c.content.text) > 0 {
		out.Delta(pipeline.Text, c.content.text, c.content.clean)
	} else if c.parts != nil {
		d.parts(out)
	}
	if len(c.refusal.text) > 0 {
		out.Delta(pipeline.Text, c.refusal.text, c.refusal.clean)
	}
	if c.calls != nil {
		d.inner.Reset(c.calls)
		for d.inner.Array(); d.inner.Elem() && !out.Dead(); { // whoever bounds the calls has said no then
			var f fragment
			f.read(&d.inner)
			d.call(&f, out)
		}
	}
	if c.function != nil {
		d.inner.Reset(c.function)
		var f fragment
		f.read(&d.inner)
		f.index, f.indexed = functionIndex, true
		d.call(&f, out)
	}
	if len(c.finish.text) > 0 {
		d.finished = true
		d.end.Reason, d.end.Raw = finish(c.finish.text)
	}
}

// learn has lines like b, of one choice, told by their text if that is all that they say.
func (d *Decoder) learn(b []byte) {
	c := &d.choice
	f, kind := c.content, pipeline.Text
	if r := c.reasoning[0].or(c.reasoning[1]); len(r.text) > 0 {
		if len(f.text) > 0 {
			return
		}
		f, kind = r, pipeline.Reasoning
	}
	if c.parts != nil || len(c.refusal.text) > 0 || c.details != nil || c.calls != nil || c.function != nil || len(c.finish.text) > 0 ||
		present(c.usage) || present(c.err) || c.message != nil {
		return
	}
	if d.mould.Learn(b, f.text) {
		d.moulded = kind
	}
}

// parts hands out a content that is a list of texts and thoughts.
func (d *Decoder) parts(out *upstream.Emitter) {
	s := &d.inner
	s.Reset(d.choice.parts)
	for s.Array(); s.Elem(); {
		if s.Kind() != codec.Object {
			s.Skip()
			continue
		}
		for s.Object(); s.Key(); {
			switch {
			case string(s.Name()) == "text":
				if f := text(s); len(f.text) > 0 {
					out.Delta(pipeline.Text, f.text, f.clean)
				}
			case string(s.Name()) == "thinking" && s.Kind() == codec.Array:
				thoughts(s, out)
			default:
				s.Skip()
			}
		}
	}
}

func (d *Decoder) details(out *upstream.Emitter) {
	d.inner.Reset(d.choice.details)
	thoughts(&d.inner, out)
}

// thoughts hands out a list of pieces of reasoning.
func thoughts(s *codec.Scanner, out *upstream.Emitter) {
	for s.Array(); s.Elem(); {
		if f := textIn(s); len(f.text) > 0 {
			out.Delta(pipeline.Reasoning, f.text, f.clean)
		}
	}
}

// call hands out a fragment of a tool call.
func (d *Decoder) call(f *fragment, out *upstream.Emitter) {
	d.scratch = d.scratch[:0]
	id, name := f.id.plain(&d.scratch), f.name.plain(&d.scratch)
	c, news := d.calls.take(f, id, name)
	if news && !out.Emit(pipeline.Event{Kind: pipeline.ToolStart, Clean: true, ID: c.id, Name: c.name}) {
		return
	}
	ev := pipeline.Event{Kind: pipeline.ToolDelta, ID: c.id, Text: f.text.text, Clean: f.text.clean}
	if f.object != nil {
		if codec.Validate(f.object) != nil {
			out.Fail(&pipeline.Error{Code: pipeline.CodeInvalidToolCall, Origin: pipeline.OriginUpstream,
				Message: "the upstream sent arguments that are not valid JSON for tool call " + string(c.id)})
			return
		}
		d.scratch = codec.AppendText(d.scratch[:0], f.object)
		ev.Text, ev.Clean = d.scratch, true
	}
	if len(ev.Text) > 0 {
		out.Emit(ev)
	}
}

// account takes what a chunk says of tokens and cost; what comes later counts. It reports whether this was the usage of a whole
// answer, and no row of zeros.
func (d *Decoder) account(tokens, amount []byte) bool {
	u, cost := usage(&d.inner, tokens)
	if u.Known() {
		d.end.Usage = u
	}
	if p := price(&d.inner, amount); p.Known() {
		cost = p
	}
	if cost.Known() {
		d.end.Cost, d.end.Generation = cost, d.chunk.id.String()
	}
	return u.Prompt()+u.Output > 0
}

// Tail implements upstream.Decoder.
func (d *Decoder) Tail() time.Duration {
	if d.finished {
		return usageWait
	}
	return 0
}

// End implements upstream.Decoder. A stream that ends without a finish reason was cut off (rulings 15).
func (d *Decoder) End(out *upstream.Emitter) {
	switch {
	case d.ended:
		return
	case d.finished:
	default:
		out.Fail(upstream.CutOff(d.heard, "no finish reason"))
		return
	}
	d.ended = true
	if d.end.Reason != pipeline.ReasonLength && d.end.Reason != pipeline.ReasonContentFilter { // then the last call may be half
		for i := range d.calls.list {
			out.Emit(pipeline.Event{Kind: pipeline.ToolEnd, ID: d.calls.list[i].id})
		}
	}
	out.Emit(pipeline.Event{Kind: pipeline.Finish, Step: &d.end})
}
