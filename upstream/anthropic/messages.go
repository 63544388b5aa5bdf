package anthropic

import (
	"strings"
	"unicode"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// appendMessages appends exchanges as the API's messages. A conversation that ends in text of the assistant's has the model go on
// with it, where the model can; white space at its end is refused, and so is cut.
func appendMessages(dst []byte, list []exchange) []byte {
	w := writer{dst: append(dst, '[')}
	for i := range list {
		e := &list[i]
		if i > 0 {
			w.assistant(e, i == len(list)-1 && len(e.calls) == 0 && len(e.parts) == 0)
		}
		if len(e.calls) == 0 && len(e.parts) == 0 {
			continue
		}
		w.begin("user")
		for j := range e.calls {
			w.result(&e.calls[j])
		}
		for _, p := range e.parts {
			w.block(p)
		}
		w.end()
	}
	return append(w.dst, ']')
}

type writer struct {
	dst    []byte
	msgs   int
	blocks int // in the open list
}

func (w *writer) str(s string) { w.dst = codec.AppendString(w.dst, s) }
func (w *writer) lit(s string) { w.dst = append(w.dst, s...) }

// begin opens a message; end closes it.
func (w *writer) begin(role string) {
	if w.msgs++; w.msgs > 1 {
		w.lit(",")
	}
	w.lit(`{"role":"` + role + `","content":[`)
	w.blocks = 0
}

func (w *writer) end() { w.lit("]}") }

func (w *writer) next() {
	if w.blocks++; w.blocks > 1 {
		w.lit(",")
	}
}

// block writes a text or an image.
func (w *writer) block(p pipeline.Part) {
	w.next()
	if p.Image == "" {
		w.lit(`{"type":"text","text":`)
		w.str(p.Text)
		w.lit("}")
		return
	}
	media := p.MediaType
	if media == "image/jpg" { // a common slip, which the API does not forgive
		media = "image/jpeg"
	}
	_, data, _ := strings.Cut(p.Image, ",") // a data URL: base64, as stages.Decode has seen to
	w.lit(`{"type":"image","source":{"type":"base64","media_type":`)
	w.str(media)
	w.lit(`,"data":`)
	w.str(data)
	w.lit("}}")
}

func (w *writer) assistant(e *exchange, last bool) {
	w.begin("assistant")
	for i, p := range e.said {
		if last && i == len(e.said)-1 {
			p.Text = strings.TrimRightFunc(p.Text, unicode.IsSpace)
		}
		w.block(p)
	}
	for _, c := range e.calls {
		w.next()
		w.lit(`{"type":"tool_use","id":`)
		w.str(c.id)
		w.lit(`,"name":`)
		w.str(safe(c.call.Name))
		w.lit(`,"input":`)
		if w.dst = append(w.dst, c.call.Arguments...); len(c.call.Arguments) == 0 {
			w.lit("{}")
		}
		w.lit("}")
	}
	w.end()
}

// result writes the result of a call. There has to be one, and a failure has to say something.
func (w *writer) result(c *called) {
	w.next()
	w.lit(`{"type":"tool_result","tool_use_id":`)
	w.str(c.id)
	if c.result == nil || c.result.IsError {
		text := "The call brought no result."
		if c.result != nil {
			if text = c.result.Text(); isBlank(text) {
				text = "The tool failed."
			}
		}
		w.lit(`,"is_error":true,"content":`)
		w.str(text)
		w.lit("}")
		return
	}
	if parts := visible(c.result.Parts); len(parts) > 0 {
		w.lit(`,"content":[`)
		outer := w.blocks
		w.blocks = 0
		for _, p := range parts {
			w.block(p)
		}
		w.blocks = outer
		w.lit("]")
	}
	w.lit("}")
}
