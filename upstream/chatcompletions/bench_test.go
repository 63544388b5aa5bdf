package chatcompletions

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"amplifier-agent/bench/metric"
	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
)

func BenchmarkDecoderLine(b *testing.B) {
	for name, l := range map[string]string{
		"text":       `{"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1764500000,"model":"test-model","system_fingerprint":"fp_0","choices":[{"index":0,"delta":{"content":"a delta of an answer, "},"logprobs":null,"finish_reason":null}],"usage":null}`,
		"tool delta": callDelta(`"index":0,"function":{"arguments":"{\"path\":"}`),
	} {
		b.Run(name, func(b *testing.B) {
			d, line := NewDecoder(testMask()), []byte(l)
			out := upstream.NewEmitter(func(*pipeline.Event, error) bool { return true })
			d.Line([]byte(callDelta(`"index":0,"id":"c","function":{"name":"f"}`)), out)
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
	var s strings.Builder
	for i := range 200 {
		s.WriteString(stream(delta(fmt.Sprintf(`"content":"delta %d of an answer, "`, i))))
	}
	body := []byte(s.String() + stream(stop, spent, "[DONE]"))
	out := upstream.NewEmitter(func(_ *pipeline.Event, err error) bool { return err == nil })
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		done, err := upstream.Drive(bytes.NewReader(body), codec.LineOptions{MaxBytes: upstream.DefaultMaxLine}, NewDecoder(testMask()), out, nil)
		if !done || err != nil || out.Dead() {
			b.Fatal(done, err)
		}
	}
	metric.Events(b, 200)
}
