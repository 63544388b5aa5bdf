package commandcode

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"amplifier-agent/bench/metric"
	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/simulator"
)

// answer is a body of n text deltas, as the gateway sends it.
func answer(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"type":"start"}` + "\n" + `{"type":"start-step","request":{"body":{}},"warnings":[]}` + "\n" + `{"type":"text-start","id":"txt-0"}` + "\n")
	for i := range n {
		fmt.Fprintf(&b, `{"type":"text-delta","id":"txt-0","text":"delta %d of an answer, "}`+"\n", i)
	}
	b.WriteString(`{"type":"text-end","id":"txt-0"}` + "\n")
	b.WriteString(`{"type":"finish-step","finishReason":"stop","rawFinishReason":"stop","usage":{"inputTokens":5418,"outputTokens":32,"totalTokens":5450,"cachedInputTokens":5376},"providerMetadata":{"gateway":{"cost":"0.000065598","generationId":"gen_1"}}}` + "\n")
	b.WriteString(`{"type":"finish","finishReason":"stop","rawFinishReason":"stop","totalUsage":{"inputTokens":5418,"outputTokens":32,"totalTokens":5450,"cachedInputTokens":5376}}` + "\n")
	return b.Bytes()
}

func BenchmarkDecoderLine(b *testing.B) {
	for name, l := range map[string]string{
		"text":       `{"type":"text-delta","id":"txt-0","text":"a delta of an answer, "}`,
		"escaped":    `{"type":"text-delta","id":"txt-0","text":"a \"delta\"\nof an \u00e9 answer "}`,
		"tool delta": `{"type":"tool-input-delta","id":"call_00_0123456789abcdef","delta":"{\"path\":"}`,
		"tool call":  `{"type":"tool-call","toolCallId":"call_00_0123456789abcdef","toolName":"read_file","input":{"path":"a/one.txt","limit":5}}`,
		"echo":       `{"type":"start-step","request":{"body":{"x":"` + strings.Repeat("x", 4000) + `"}},"warnings":[]}`,
		"unknown":    `{"type":"from-the-future","a":{"b":[1,2,3]}}`,
	} {
		b.Run(name, func(b *testing.B) {
			d, line := NewDecoder(testMask()), []byte(l)
			events := 0
			out := upstream.NewEmitter(func(*pipeline.Event, error) bool { events++; return true })
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
	body := answer(200)
	out := upstream.NewEmitter(func(_ *pipeline.Event, err error) bool { return err == nil })
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		done, err := upstream.Drive(bytes.NewReader(body), codec.LineOptions{MaxBytes: upstream.DefaultMaxLine, Skip: IsEcho}, NewDecoder(testMask()), out, nil)
		if !done || err != nil || out.Dead() {
			b.Fatal(done, err)
		}
	}
	metric.Events(b, 200)
}

// BenchmarkExchange200 is a whole exchange over loopback; the simulator's share is in it.
func BenchmarkExchange200(b *testing.B) {
	s := simulate(b, simulator.Options{})
	body := answer(200)
	s.Script(func(*simulator.Request) *simulator.Answer {
		return &simulator.Answer{Body: body, WriteSize: simulator.Coalesce}
	})
	p := connect(b, s.URL())
	round := ask("hi")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		deltas := 0
		for ev, err := range p.Stream(b.Context(), round) {
			if err != nil {
				b.Fatal(err)
			}
			if ev.Kind == pipeline.Text {
				deltas++
			}
		}
		if deltas != 200 {
			b.Fatal(deltas)
		}
	}
	metric.Events(b, 200)
}
