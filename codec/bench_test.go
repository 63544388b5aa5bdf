package codec_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"amplifier-agent/bench/metric"
	"amplifier-agent/codec"

	gojson "github.com/goccy/go-json"
)

// Beside each of ours stands what it replaces, so that one run tells what it gains.

// bench measures f, which works on so many bytes.
func bench(b *testing.B, bytes int, f func()) {
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}

// perEvent is bench where an operation is one event.
func perEvent(b *testing.B, bytes int, f func()) {
	bench(b, bytes, f)
	metric.Events(b, 1)
}

func BenchmarkFraming(b *testing.B) {
	const lines = 1000
	body := []byte(strings.Repeat(textDelta+"\n", lines))
	var src bytes.Reader
	b.Run("LineReader", func(b *testing.B) {
		var r codec.LineReader
		bench(b, len(body), func() {
			src.Reset(body)
			r.Reset(codec.LineOptions{MaxBytes: 16 << 20})
			for {
				for _, ok := r.Next(); ok; _, ok = r.Next() {
				}
				if r.Fill(&src) == io.EOF {
					return
				}
			}
		})
		metric.Events(b, lines)
	})
	b.Run("IndexByte", func(b *testing.B) { // no reading, no rules: the floor
		bench(b, len(body), func() {
			for rest := body; len(rest) > 0; {
				rest = rest[bytes.IndexByte(rest, '\n')+1:]
			}
		})
		metric.Events(b, lines)
	})
}

// delta is what the libraries decode a line into.
type delta struct {
	Type string `json:"type"`
	ID   string `json:"id"`
	Text string `json:"text"`
}

func BenchmarkTextDelta(b *testing.B) {
	for _, row := range []struct{ name, line string }{
		{"ascii", textDelta},
		{"short", `{"type":"text-delta","id":"0","text":" fox"}`},
		{"cjk", `{"type":"text-delta","id":"txt-0","text":"敏捷的棕色狐狸跳过了懒狗，东京和北京"}`},
		{"escapes", `{"type":"text-delta","id":"txt-0","text":"\tif x == \"a\\n\" {\n\t\treturn \"\u00e9\"\n\t}\n"}`},
	} {
		line := []byte(row.line)
		b.Run(row.name+"/Scanner", func(b *testing.B) {
			var s codec.Scanner
			var e event
			perEvent(b, len(line), func() {
				if e.read(&s, line) != nil {
					b.Fatal("not read")
				}
			})
		})
		b.Run(row.name+"/go-json", func(b *testing.B) {
			perEvent(b, len(line), func() {
				var d delta
				if gojson.Unmarshal(line, &d) != nil {
					b.Fatal("not read")
				}
			})
		})
		b.Run(row.name+"/encoding-json", func(b *testing.B) {
			perEvent(b, len(line), func() {
				var d delta
				if json.Unmarshal(line, &d) != nil {
					b.Fatal("not read")
				}
			})
		})
	}
}

func BenchmarkFinishStep(b *testing.B) {
	line := []byte(finishStep)
	var s codec.Scanner
	var e event
	perEvent(b, len(line), func() {
		if e.read(&s, line) != nil {
			b.Fatal("not read")
		}
	})
}

func BenchmarkAppendText(b *testing.B) {
	dst := make([]byte, 0, 4<<10)
	for _, row := range []struct{ name, text string }{
		{"ascii", strings.Repeat("the quick brown fox jumps over the lazy dog. ", 20)},
		{"short", " fox"},
		{"cjk", strings.Repeat("敏捷的棕色狐狸跳过了懒狗，", 20)},
		{"code", strings.Repeat("\tif x == \"a\\n\" {\n\t\treturn nil\n\t}\n", 20)},
	} {
		b.Run(row.name+"/string", func(b *testing.B) {
			bench(b, len(row.text), func() { dst = codec.AppendText(dst[:0], row.text) })
		})
		b.Run(row.name+"/bytes", func(b *testing.B) {
			text := []byte(row.text)
			bench(b, len(row.text), func() { dst = codec.AppendText(dst[:0], text) })
		})
		b.Run(row.name+"/go-json", func(b *testing.B) {
			bench(b, len(row.text), func() { _, _ = gojson.MarshalWithOption(row.text, gojson.DisableHTMLEscape()) })
		})
	}
}

func BenchmarkText(b *testing.B) {
	dst := make([]byte, 0, 4<<10)
	body := codec.AppendText(nil, strings.Repeat("\tif x == \"a\\n\" { // 東京\n\t\treturn nil\n\t}\n", 20))
	b.Run("AppendTo", func(b *testing.B) {
		bench(b, len(body), func() { dst = codec.Text(body).AppendTo(dst[:0]) })
	})
	b.Run("encoding-json", func(b *testing.B) {
		in := quoted(body)
		var s string
		bench(b, len(body), func() { _ = json.Unmarshal(in, &s) })
	})
}

func BenchmarkJoiner(b *testing.B) {
	dst := make([]byte, 0, 4<<10)
	for _, row := range []struct{ name, body string }{
		{"clean", strings.Repeat(`the quick brown fox \"jumps\" over the lazy dog.\n`, 4)},
		{"cjk", strings.Repeat("敏捷的棕色狐狸跳过了懒狗，", 4)},
		{"dirty", strings.Repeat("the quick\tbrown fox \u2028 jumps \xff over \\ud83d the lazy dog", 4)},
	} {
		b.Run(row.name, func(b *testing.B) {
			var j codec.Joiner
			bench(b, len(row.body), func() { dst = j.Append(dst[:0], codec.Text(row.body)) })
		})
	}
}

func BenchmarkSSEText(b *testing.B) {
	head := []byte(`{"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1764518940,"model":"m","choices":[{"index":0,"delta":{"content":"`)
	const tail = `"},"finish_reason":null}]}`
	text := codec.Text(` the quick brown fox \"jumps\"`)
	n := len(head) + len(text) + len(tail) + len("data: \n\n")
	b.Run("Text", func(b *testing.B) {
		var s codec.SSE
		perEvent(b, n, func() {
			s.Reset()
			s.Text(head, "", text, tail)
		})
	})
	b.Run("unescape and escape", func(b *testing.B) {
		var s codec.SSE
		var plain, body []byte
		perEvent(b, n, func() {
			s.Reset()
			plain = text.AppendTo(plain[:0])
			body = codec.AppendText(body[:0], plain)
			s.Text(head, "", body, tail)
		})
	})
}

func BenchmarkValidate(b *testing.B) {
	item := `{"role":"user","content":"the quick brown fox jumps over the lazy dog, again and again\n","n":12,"parts":[{"type":"text","on":true}]},`
	body := []byte("[" + strings.Repeat(item, 1<<20/len(item)) + "{}]")
	b.Run("Validate", func(b *testing.B) {
		bench(b, len(body), func() {
			if codec.Validate(body) != nil {
				b.Fatal("not valid")
			}
		})
	})
	b.Run("encoding-json", func(b *testing.B) {
		bench(b, len(body), func() {
			if !json.Valid(body) {
				b.Fatal("not valid")
			}
		})
	})
	b.Run("go-json", func(b *testing.B) { // reads the value to find that out
		bench(b, len(body), func() {
			if !gojson.Valid(body) {
				b.Fatal("not valid")
			}
		})
	})
}

func BenchmarkMarshal(b *testing.B) {
	v := map[string]any{"name": "the quick brown fox", "list": []int{1, 2, 3}, "raw": codec.RawMessage(finishStep)}
	out, err := codec.Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Marshal", func(b *testing.B) { bench(b, len(out), func() { _, _ = codec.Marshal(v) }) })
	b.Run("go-json", func(b *testing.B) {
		bench(b, len(out), func() { _, _ = gojson.MarshalWithOption(v, gojson.DisableHTMLEscape()) })
	})
}
