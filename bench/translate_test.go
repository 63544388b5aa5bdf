package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"amplifier-agent/bench/metric"
	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/engine"
	"amplifier-agent/routes/chat"
	"amplifier-agent/stages"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/commandcode"
)

const deltasPerBody = 1000

// body is an answer of the upstream with n text deltas of about 24 bytes, as a model streams them.
func body(n int) []byte {
	b := []byte(`{"type":"start"}` + "\n" + `{"type":"text-start","id":"txt-0"}` + "\n")
	for i := range n {
		b = fmt.Appendf(b, `{"type":"text-delta","id":"txt-0","text":"word %06d, \"so\" it is "}`+"\n", i)
	}
	return append(b, `{"type":"finish","finishReason":"stop","rawFinishReason":"stop","totalUsage":{"inputTokens":3,"outputTokens":4},"providerMetadata":{"gateway":{"cost":"0.10"}}}`+"\n"...)
}

// memory is a provider that reads its answer from memory, size bytes a read, and flushes before each as a connection does.
type memory struct {
	body []byte
	size int
}

func (memory) Name() string                                     { return "memory" }
func (memory) Models(context.Context) ([]pipeline.Model, error) { return nil, nil }

func (m memory) Stream(context.Context, *pipeline.Round) pipeline.Stream {
	return func(yield func(*pipeline.Event, error) bool) {
		out := upstream.NewEmitter(yield)
		if _, err := upstream.Drive(&memoryReader{m, out}, codec.LineOptions{}, commandcode.NewDecoder(nil), out, nil); err != nil {
			out.Fail(err)
		}
	}
}

type memoryReader struct {
	memory
	out *upstream.Emitter
}

func (r *memoryReader) Read(p []byte) (int, error) {
	if !r.out.Reading() {
		return 0, io.ErrClosedPipe
	}
	if len(r.body) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), r.size)], r.body)
	r.body = r.body[n:]
	return n, nil
}

var wire = chat.Wire{Label: "amplifier", Alive: func() bool { return true }, Log: slog.New(slog.DiscardHandler)}

// encoder is a way to answer: chat.SSE or chat.JSON.
type encoder func(*pipeline.Turn, pipeline.Stream, chat.Wire) pipeline.Frames

// translate runs the whole pipeline and hands each frame to write. It returns how many there were.
func translate(src []byte, size int, encode encoder, write func(frame []byte)) (frames int) {
	t := &pipeline.Turn{ID: "0123456789abcdef01234567", Received: time.Unix(1_700_000_000, 0), Provider: memory{src, size}}
	runner := &engine.Runner{Round: []pipeline.Stage{stages.EventMap(wire.Log), stages.UsageFold(wire.Log)}}
	events := pipeline.Chain([]pipeline.Stage{stages.ToolMount()}, t, runner.Run(context.Background(), t))
	for frame, err := range encode(t, events, wire) {
		if err != nil {
			panic(err)
		}
		frames++
		write(frame)
	}
	return frames
}

// drop is a write that goes nowhere.
func drop([]byte) {}

// all is src translated, in one piece.
func all(src []byte, encode encoder) (out []byte) {
	translate(src, len(src), encode, func(frame []byte) { out = append(out, frame...) })
	return out
}

// BenchmarkTranslate is bytes in to frames out: framing, scan, event map, usage fold, tool mount, encoding.
func BenchmarkTranslate(b *testing.B) {
	src := body(deltasPerBody)
	for _, size := range []int{100, 4 << 10, 32 << 10} {
		b.Run(fmt.Sprintf("read=%d", size), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			frames := 0
			for b.Loop() {
				frames = translate(src, size, chat.SSE, drop)
			}
			metric.Events(b, deltasPerBody)
			metric.Writes(b, frames, deltasPerBody)
		})
	}
}

// BenchmarkTranslateWhole is the same for a client that does not stream: bytes in to one body out.
func BenchmarkTranslateWhole(b *testing.B) {
	src := body(deltasPerBody)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		translate(src, 4<<10, chat.JSON, drop)
	}
	metric.Events(b, deltasPerBody)
}

// BenchmarkTranslateByStructs does the same work the usual way, to compare: a line scanner, encoding/json into a struct, and
// encoding/json out of one.
func BenchmarkTranslateByStructs(b *testing.B) {
	src := body(deltasPerBody)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		byStructs(io.Discard, src)
	}
	metric.Events(b, deltasPerBody)
}

type event struct {
	Type string `json:"type"`
	ID   string `json:"id"`
	Text string `json:"text"`
}

type delta struct {
	Content string `json:"content"`
}

type choice struct {
	Index  int     `json:"index"`
	Delta  delta   `json:"delta"`
	Finish *string `json:"finish_reason"`
}

type chunk struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
}

func byStructs(w io.Writer, src []byte) {
	for line := range bytes.Lines(src) {
		var ev event
		if json.Unmarshal(line, &ev) != nil || ev.Type != "text-delta" {
			continue
		}
		out, _ := json.Marshal(chunk{"chatcmpl-0123456789abcdef01234567", "chat.completion.chunk", 1_700_000_000, "amplifier", []choice{{Delta: delta{ev.Text}}}})
		fmt.Fprintf(w, "data: %s\n\n", out)
	}
}

// BenchmarkCopy is the floor: the same output bytes, copied.
func BenchmarkCopy(b *testing.B) {
	src := body(deltasPerBody)
	n := len(all(src, chat.SSE))
	from, to := make([]byte, n), make([]byte, n)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		copy(to, from)
	}
	metric.Events(b, deltasPerBody)
}

// TestTranslateAllocates guards the claim of the README by what does not depend on the machine: a body of 1,000 deltas costs what a
// stream costs, and the usual way costs some for each delta.
func TestTranslateAllocates(t *testing.T) {
	src := body(deltasPerBody)
	ours := testing.AllocsPerRun(20, func() { translate(src, 4<<10, chat.SSE, drop) })
	usual := testing.AllocsPerRun(20, func() { byStructs(io.Discard, src) })
	if ours > 100 || usual < 10*deltasPerBody {
		t.Errorf("translation allocates %.0f times, the usual way %.0f times", ours, usual)
	}
}
