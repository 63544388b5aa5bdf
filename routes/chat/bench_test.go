package chat_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"amplifier-agent/bench/metric"
	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/routes/chat"
)

// encoded are the events that make something of an answer, as they come to an encoder.
var encoded = []struct {
	name string
	ev   pipeline.Event
}{
	{"text", pipeline.Event{Kind: pipeline.Text, Clean: true, Text: codec.Text(`some words, \"so\" it is `)}},
	{"reasoning", pipeline.Event{Kind: pipeline.Reasoning, Clean: true, Text: codec.Text(`let me see, `)}},
	{"call", pipeline.Event{Kind: pipeline.ToolCall, Clean: true, ID: []byte("call_00_0123456789abcdef"), Name: []byte("read_file"), Text: codec.Text(`{\"path\":\"a/one.txt\",\"limit\":5}`)}},
	{"large call", pipeline.Event{Kind: pipeline.ToolCall, Clean: true, ID: []byte("call_00_0123456789abcdef"), Name: []byte("write_file"),
		Text: codec.Text(`{\"path\":\"a/one.txt\",\"content\":\"` + strings.Repeat(`if x {\\n\\treturn nil\\n}`, 200) + `\"}`)}},
}

// events is a round of n times ev, with a Flush behind so many of them.
func events(ev pipeline.Event, n, flush int) pipeline.Stream {
	return func(yield func(*pipeline.Event, error) bool) {
		step := pipeline.StepInfo{Reason: pipeline.ReasonStop}
		var lent pipeline.Event
		for i := range n {
			if lent = ev; !yield(&lent, nil) {
				return
			}
			if lent = (pipeline.Event{Kind: pipeline.Flush}); i%flush == flush-1 && !yield(&lent, nil) {
				return
			}
		}
		yield(&pipeline.Event{Kind: pipeline.Finish, Step: &step}, nil)
	}
}

func encodeTurn() *pipeline.Turn {
	return &pipeline.Turn{ID: "0123456789abcdef01234567", Received: time.Unix(1_700_000_000, 0)}
}

// BenchmarkSSE encodes 200 events of a kind as a stream, each written by itself or 50 with one write; none are the ends of a stream.
func BenchmarkSSE(b *testing.B) {
	const n = 200
	run := func(name string, ev pipeline.Event, n, flush int) {
		b.Run(name, func(b *testing.B) {
			t, frames, size := encodeTurn(), 0, 0
			b.ReportAllocs()
			for b.Loop() {
				frames, size = 0, 0
				for frame := range chat.SSE(t, events(ev, n, flush), wire(nil)) {
					frames, size = frames+1, size+len(frame)
				}
			}
			b.SetBytes(int64(size))
			if n > 0 {
				metric.Events(b, n)
				metric.Writes(b, frames, n)
			}
		})
	}
	for _, row := range encoded {
		for _, flush := range []int{1, 50} {
			run(fmt.Sprintf("%s/gathered=%d", row.name, flush), row.ev, n, flush)
		}
	}
	run("ends", pipeline.Event{}, 0, 1)
}

// BenchmarkJSON encodes 200 events of a kind as one body.
func BenchmarkJSON(b *testing.B) {
	const n = 200
	for _, row := range encoded {
		b.Run(row.name, func(b *testing.B) {
			t, size := encodeTurn(), 0
			b.ReportAllocs()
			for b.Loop() {
				for frame := range chat.JSON(t, events(row.ev, n, 1), wire(nil)) {
					size = len(frame)
				}
			}
			b.SetBytes(int64(size))
			metric.Events(b, n)
		})
	}
}

// TestEncodersAllocateNothing an event. What JSON gathers is in memory that grows now and then.
func TestEncodersAllocateNothing(t *testing.T) {
	for name, encode := range map[string]func(*pipeline.Turn, pipeline.Stream, chat.Wire) pipeline.Frames{"sse": chat.SSE, "json": chat.JSON} {
		for _, row := range encoded {
			passed := 0
			src := func(yield func(*pipeline.Event, error) bool) {
				var lent, flush pipeline.Event
				if n := testing.AllocsPerRun(500, func() {
					lent, flush = row.ev, pipeline.Event{Kind: pipeline.Flush}
					if yield(&lent, nil) && yield(&flush, nil) {
						passed++
					}
				}); n != 0 {
					t.Errorf("%s: %v allocations for each %s", name, n, row.name)
				}
				yield(&pipeline.Event{Kind: pipeline.Finish, Step: &pipeline.StepInfo{Reason: pipeline.ReasonStop}}, nil)
			}
			for range encode(encodeTurn(), src, wire(nil)) {
			}
			if passed < 500 {
				t.Errorf("%s: only %d of %s got through", name, passed, row.name)
			}
		}
	}
}
