package codec_test

import (
	"io"
	"net/http/httputil"
	"strings"
	"testing"

	"amplifier-agent/codec"
)

func TestSSE(t *testing.T) {
	for _, row := range []struct {
		name   string
		append func(s *codec.SSE)
		want   string
	}{
		{"nothing", func(*codec.SSE) {}, ""},
		{"data", func(s *codec.SSE) { s.Data([]byte(`{"a":1}`)) }, "data: {\"a\":1}\n\n"},
		{"data in parts", func(s *codec.SSE) { s.Data([]byte(`{"a":`), nil, []byte(`1}`)) }, "data: {\"a\":1}\n\n"},
		{"no data", func(s *codec.SSE) { s.Data() }, "data: \n\n"},
		{"text", func(s *codec.SSE) { s.Text([]byte(`{"t":`), `"`, codec.Text(`say \"hi\"`), `"}`) }, "data: {\"t\":\"say \\\"hi\\\"\"}\n\n"},
		{"empty text", func(s *codec.SSE) { s.Text([]byte(`{"t":`), `"`, nil, `"}`) }, "data: {\"t\":\"\"}\n\n"},
		{"comment as a block", func(s *codec.SSE) { s.Comment("keepalive", true) }, ": keepalive\n\n"},
		{"comment that joins the next event", func(s *codec.SSE) { s.Comment("keepalive", false); s.Data([]byte("1")) }, ": keepalive\ndata: 1\n\n"},
		{"done", func(s *codec.SSE) { s.Done() }, "data: [DONE]\n\n"},
		{"many in one buffer", func(s *codec.SSE) {
			s.Text([]byte(`[`), `"`, codec.Text("a"), `"]`)
			s.Text([]byte(`[`), `"`, codec.Text("b"), `"]`)
			s.Comment("x", true)
			s.Done()
		}, "data: [\"a\"]\n\ndata: [\"b\"]\n\n: x\n\ndata: [DONE]\n\n"},
		{"after Reset", func(s *codec.SSE) { s.Done(); s.Reset(); s.Data([]byte("1")) }, "data: 1\n\n"},
		{"reset", func(s *codec.SSE) { s.Done(); s.Reset() }, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var s codec.SSE
			row.append(&s)
			if string(s.Bytes()) != row.want || s.Len() != len(row.want) {
				t.Errorf("%q of %d bytes, want %q", s.Bytes(), s.Len(), row.want)
			}
		})
	}
}

// TestSSECopies: what was appended does not change with the slices that it came from.
func TestSSECopies(t *testing.T) {
	var s codec.SSE
	head, text := []byte(`{"t":"`), codec.Text("delta")
	s.Text(head, "", text, `"}`)
	s.Data(head, text, []byte(`"}`))
	clear(head)
	clear(text)
	if want := strings.Repeat("data: {\"t\":\"delta\"}\n\n", 2); string(s.Bytes()) != want {
		t.Errorf("%q", s.Bytes())
	}
}

// TestSSEOneLine: whatever text an upstream sends, an event is one line of data, to clients that split on U+2028 too.
func TestSSEOneLine(t *testing.T) {
	var s codec.SSE
	var j codec.Joiner
	for _, body := range []string{"a\nb\r\n\rc", "\u2028\u2029\u0085", "data: x\n\ndata: [DONE]\n\n", "\v\f\x1c\x1d\x1e", "\xff\xfe\x00"} {
		s.Reset()
		s.Text([]byte(`{"t":`), `"`, j.Append(nil, codec.Text(body)), `"}`)
		// The line breaks of Python's str.splitlines, which httpx and others use.
		event, ok := strings.CutSuffix(string(s.Bytes()), "\n\n")
		if !ok || strings.ContainsAny(event, "\n\v\f\r\x1c\x1d\x1e\u0085\u2028\u2029") {
			t.Errorf("%q became %q", body, s.Bytes())
		}
	}
}

func TestSSEAllocs(t *testing.T) {
	var s codec.SSE
	head, text := []byte(`{"choices":[{"delta":{"content":"`), codec.Text("hello")
	if n := testing.AllocsPerRun(100, func() {
		s.Reset()
		s.Text(head, "", text, `"}}]}`)
		s.Data(head, text)
		s.Comment("keepalive", true)
		s.Done()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestChunk: what was appended is one chunk, framed in place, the last one with the end of the body.
func TestChunk(t *testing.T) {
	var s codec.SSE
	var body, want strings.Builder
	for _, n := range []int{0, 1, 15, 16, 255, 256, 65535, 65536, 1 << 20, 0} {
		last := n == 0 && body.Len() > 0
		if n > 0 {
			s.Data([]byte(strings.Repeat("x", n)))
		}
		if last {
			s.Done()
		}
		want.Write(s.Bytes())
		body.Write(s.Chunk(last))
		s.Reset()
	}
	got, err := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(body.String())))
	if err != nil || string(got) != want.String() || !strings.HasSuffix(body.String(), "\n\n\r\n0\r\n\r\n") {
		t.Errorf("%d bytes of %d, %v", len(got), want.Len(), err)
	}
	if got := string(s.Chunk(true)); got != "0\r\n\r\n" {
		t.Errorf("an end with nothing before it is %q", got)
	}
}
