package upstream

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"amplifier-agent/bench/metric"
)

// framed is a chunked body of n lines, with so many lines to a chunk. size is that of the lines.
func framed(n, perChunk int) (body []byte, size int) {
	line := `{"type":"text-delta","id":"txt-0","text":"some words of it "}` + "\n"
	for left := n; left > 0; left -= perChunk {
		chunk := strings.Repeat(line, min(left, perChunk))
		body = fmt.Appendf(body, "%x\r\n%s\r\n", len(chunk), chunk)
	}
	return append(body, "0\r\n\r\n"...), n * len(line)
}

// readChunked reads a body as Drive does, with room for 32 KiB, from a source that holds it all.
func readChunked(src *bytes.Reader, body, room []byte) (n int) {
	src.Reset(body)
	c := chunked{src: src}
	for {
		m, err := c.Read(room)
		if n += m; err == io.EOF {
			return n
		}
		if err != nil {
			panic(err)
		}
	}
}

// BenchmarkChunked takes the framing out of a body. A gateway that flushes each line sends a chunk for each.
func BenchmarkChunked(b *testing.B) {
	const lines = 1000
	for _, perChunk := range []int{1, 50} {
		b.Run(fmt.Sprintf("lines=%d", perChunk), func(b *testing.B) {
			body, _ := framed(lines, perChunk)
			var src bytes.Reader
			room := make([]byte, 32<<10)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				readChunked(&src, body, room)
			}
			metric.Events(b, lines)
		})
	}
}

// TestChunkedAllocatesNothing a chunk: a long body costs what a short one does.
func TestChunkedAllocatesNothing(t *testing.T) {
	var src bytes.Reader
	room := make([]byte, 4<<10)
	allocs := func(lines int) float64 {
		body, size := framed(lines, 1)
		return testing.AllocsPerRun(50, func() {
			if n := readChunked(&src, body, room); n != size {
				t.Fatalf("%d bytes of %d", n, size)
			}
		})
	}
	if few, many := allocs(10), allocs(1010); many > few {
		t.Errorf("%.0f allocations for 10 chunks, %.0f for 1010", few, many)
	}
}
