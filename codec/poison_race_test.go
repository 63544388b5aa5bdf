//go:build race

package codec_test

import (
	"strings"
	"testing"

	"amplifier-agent/codec"
)

// slow is how much longer things may take in this build.
const slow = 10

// TestPoison: in race builds a line that was kept is overwritten by whatever call ends its loan.
func TestPoison(t *testing.T) {
	for name, end := range map[string]func(r *codec.LineReader){
		"Next":  func(r *codec.LineReader) { r.Next() },
		"Fill":  func(r *codec.LineReader) { _ = r.Fill(strings.NewReader("")) },
		"Reset": func(r *codec.LineReader) { r.Reset(codec.LineOptions{}) },
	} {
		for _, more := range []string{"", "{\"second\":2}\n", "{\"cut"} {
			var r codec.LineReader
			_ = r.Fill(strings.NewReader("data: {\"kept\":1}\n" + more))
			kept, ok := r.Next()
			if !ok || string(kept) != `{"kept":1}` {
				t.Fatalf("%q, %v", kept, ok)
			}
			end(&r)
			// Where Fill has moved what follows to the beginning of the buffer, that is there instead.
			if gone := strings.Repeat("!", len(kept)); string(kept) != gone && (name != "Fill" || more == "" || strings.Contains(string(kept), "kept")) {
				t.Errorf("%s, with %q behind it: the line is still %q", name, more, kept)
			}
		}
	}
	var r codec.LineReader
	_ = r.Fill(strings.NewReader("1\n2\n3\n"))
	for _, want := range []string{"1", "2", "3"} {
		if line, ok := r.Next(); !ok || string(line) != want {
			t.Errorf("poisoning touched the next line: %q, want %q", line, want)
		}
	}
}
