package bench

import (
	"bytes"
	"testing"

	"amplifier-agent/bench/metric"
	"amplifier-agent/routes/chat"
)

// Pieces of a delta as body writes it, and of the chunk that the server makes of it.
var (
	floorLine = []byte(`{"type":"text-delta",`)
	floorText = []byte(`,"text":`)
	floorHead = []byte(`data: {"id":"chatcmpl-0123456789abcdef01234567","object":"chat.completion.chunk","created":1700000000,"model":"amplifier","choices":[{"index":0,"delta":{"content":`)
	floorTail = []byte(`},"finish_reason":null}]}` + "\n\n")
)

// floorDelta is the least that a line can cost: the text is found by its place and copied, as it stands, between two constants.
// Nothing is checked, joined, counted or decided.
func floorDelta(dst, line []byte) []byte {
	if !bytes.HasPrefix(line, floorLine) {
		return dst
	}
	i := bytes.Index(line, floorText)
	if i < 0 {
		return dst
	}
	return append(append(append(dst, floorHead...), line[i+len(floorText):len(line)-1]...), floorTail...)
}

// floor is the same for all of src, with a frame for each size bytes of it. buf is room for a frame.
func floor(src []byte, size int, buf []byte, write func(frame []byte)) {
	buf = buf[:0]
	for read := 0; len(src) > 0; {
		end := bytes.IndexByte(src, '\n')
		buf = floorDelta(buf, src[:end])
		if read, src = read+end+1, src[end+1:]; read >= size || len(src) == 0 {
			write(buf)
			buf, read = buf[:0], 0
		}
	}
}

// TestFloor: the floor does the job, as far as text goes; else it would be none.
func TestFloor(t *testing.T) {
	src := body(100)
	var want []byte
	floor(src, 4<<10, nil, func(frame []byte) { want = append(want, frame...) })
	if got := all(src, chat.SSE); !bytes.Contains(got, want) || bytes.Count(want, []byte("data: ")) != 100 {
		t.Errorf("the server writes\n%s\nand the floor\n%s", got, want)
	}
}

// BenchmarkFloor is what BenchmarkTranslate can be compared with.
func BenchmarkFloor(b *testing.B) {
	src, buf := body(deltasPerBody), make([]byte, 0, 64<<10)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		floor(src, 4<<10, buf, drop)
	}
	metric.Events(b, deltasPerBody)
}
