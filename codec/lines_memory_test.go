package codec

import (
	"io"
	"strings"
	"testing"
)

// TestLongLineIsGivenUp: what a line that was longer than reads ever are took is not held for the rest of a stream.
func TestLongLineIsGivenUp(t *testing.T) {
	var r LineReader
	r.Reset(LineOptions{})
	src := io.MultiReader(strings.NewReader(`{"a":"`+strings.Repeat("x", 100_000)+"\"}\n"), strings.NewReader("{}\n"), strings.NewReader("{}\n"))
	lines := 0
	for {
		for line, ok := r.Next(); ok; line, ok = r.Next() {
			if lines++; lines == 1 && len(line) < 100_000 {
				t.Fatalf("the long line has %d bytes", len(line))
			}
		}
		if err := r.Fill(src); err != nil {
			break
		}
	}
	if lines != 3 || cap(r.buf) > growUntil {
		t.Errorf("%d lines, %d bytes are held", lines, cap(r.buf))
	}
}
