package main

import (
	"bytes"
	"fmt"
	"slices"
)

// Sizes of the picture, in pixels.
const (
	plotWidth  = 860
	labelWidth = 190
	barHeight  = 14
	valueWidth = 80
	headHeight = 34
)

// panel is a group of bars with a scale of its own.
type panel struct {
	title string
	value func(*row) float64
	form  string
	fits  func(*row) bool
}

var panels = []panel{
	{"processor time, µs a delta (an answer, where they come in one piece)", (*row).perUnit, "%.2f", func(r *row) bool { return r.subject != "direct" }},
	{"p99 of what a delta takes from the gateway to the client, ms", func(r *row) float64 { return milliseconds(r.latency.quantile(0.99)) }, "%.2f", func(r *row) bool { return r.load.play.every > 0 }},
	{"memory of an open stream, KiB", (*row).perStream, "%.1f", func(r *row) bool { return r.load.streams >= 1000 && r.subject != "direct" }},
}

var colours = map[string]string{"direct": "#9aa5b1", "relay": "#6b8fb3", "server": "#2f6f4f"}

// plot draws the rows as bars.
func plot(rows []row) []byte {
	var b bytes.Buffer
	y := 0
	for _, p := range panels {
		shown := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !p.fits(&r) || p.value(&r) == 0 })
		if len(shown) == 0 {
			continue
		}
		most := 0.0
		for i := range shown {
			most = max(most, p.value(&shown[i]))
		}
		fmt.Fprintf(&b, "<text x=\"4\" y=\"%d\" font-weight=\"bold\">%s</text>\n", y+22, p.title)
		y += headHeight
		for i := range shown {
			r := &shown[i]
			v := p.value(r)
			width := v / most * (plotWidth - labelWidth - valueWidth)
			fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s, %s</text>", labelWidth-6, y+barHeight-3, r.load.name, r.subject)
			fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>", labelWidth, y, max(width, 1), barHeight-3, colours[r.subject])
			fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\">"+p.form+"</text>\n", labelWidth+width+5, y+barHeight-3, v)
			y += barHeight
		}
		y += barHeight
	}
	return fmt.Appendf(nil, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s</svg>\n", plotWidth, y, b.String())
}
