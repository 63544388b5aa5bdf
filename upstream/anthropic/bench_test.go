package anthropic

import (
	"slices"
	"strings"
	"testing"

	"amplifier-agent/bench/metric"
	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
)

func BenchmarkDecoderLine(b *testing.B) {
	for name, l := range map[string]string{
		"text":       hello,
		"escaped":    `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a \"delta\"\nof an \u00e9 answer "}}`,
		"tool delta": `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"path\":"}}`,
		"signature":  `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"` + strings.Repeat("x", 1000) + `"}}`,
	} {
		b.Run(name, func(b *testing.B) {
			d, line := NewDecoder(testMask()), []byte(l)
			out := upstream.NewEmitter(func(*pipeline.Event, error) bool { return true })
			d.Line([]byte(toolBlock(1, "toolu_1", "f")[0]), out)
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				d.Line(line, out)
			}
			metric.Events(b, 1)
		})
	}
}

func BenchmarkDrive200(b *testing.B) {
	body := framed(slices.Concat([]string{begun, opened}, slices.Repeat([]string{hello}, 200), []string{closed, why, stopped})...)
	out := upstream.NewEmitter(func(_ *pipeline.Event, err error) bool { return err == nil })
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		done, err := upstream.Drive(strings.NewReader(body), codec.LineOptions{MaxBytes: upstream.DefaultMaxLine}, NewDecoder(testMask()), out, nil)
		if !done || err != nil || out.Dead() {
			b.Fatal(done, err)
		}
	}
	metric.Events(b, 200)
}
