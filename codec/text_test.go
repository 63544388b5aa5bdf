package codec_test

import (
	"fmt"
	"strings"
	"testing"

	"amplifier-agent/codec"
)

func TestText(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 300)
	for _, row := range []struct {
		name, body, want string
		clean            bool
	}{
		{"empty", ``, "", true},
		{"plain", `hello, world`, "hello, world", true},
		{"long", long, long, true},
		{"every short escape", `\"\\\/\b\f\n\r\t`, "\"\\/\b\f\n\r\t", true},
		{"escape behind eight bytes", `12345678\n`, "12345678\n", true},
		{"escapes at each lane", `\n1\n12\n123\n1234\n12345\n123456\n1234567\n`, "\n1\n12\n123\n1234\n12345\n123456\n1234567\n", true},
		{"hex in both cases", `\u00e9\u00E9\u6771`, "éé東", true},
		{"NUL", `a\u0000b`, "a\x00b", true},
		{"escaped line breaks", `\u0085\u2028\u2029`, "\u0085\u2028\u2029", true},
		{"DEL", "a\x7fb", "a\x7fb", true},
		{"multibyte", "naïve 東京 😀", "naïve 東京 😀", true},
		{"a real U+FFFD", "\uFFFD", "\uFFFD", true},
		{"noncharacter", "\uFFFF", "\uFFFF", true},
		{"neighbours of the line breaks", "\u0084\u0086\u2027\u202A", "\u0084\u0086\u2027\u202A", true},
		{"pair", `x\ud83d\ude00y`, "x😀y", true},
		{"pair, upper case", `\uD83D\uDE00`, "😀", true},
		{"first and last pair", `\ud800\udc00\udbff\udfff`, "\U00010000\U0010FFFF", true},
		{"neighbours of the surrogates", `\ud7ff\ue000`, "\uD7FF\uE000", true},

		{"lone first half", `a\ud83d`, "a\uFFFD", false},
		{"lone first half in the middle", `a\ud83db`, "a\uFFFDb", false},
		{"lone second half", `\ude00b`, "\uFFFDb", false},
		{"two second halves", `\ude00\ude01`, "\uFFFD\uFFFD", false},
		{"two first halves", `\ud83d\ud83e`, "\uFFFD\uFFFD", false},
		{"halves the wrong way round", `\ude00\ud83d`, "\uFFFD\uFFFD", false},
		{"first half before a pair", `\ud83d\ud83d\ude00`, "\uFFFD😀", false},
		{"second half behind a pair", `\ud83d\ude00\ude00`, "😀\uFFFD", false},
		{"first half before an escape", `\ud83d\n`, "\uFFFD\n", false},
		{"first half before another escape", `\ud83d\u0041`, "\uFFFDA", false},
		{"raw control characters", "a\x00\x01\t\n\x1fb", "a\x00\x01\t\n\x1fb", false},
		{"raw control behind eight bytes", "12345678\x08", "12345678\x08", false},
		{"U+0085", "a\u0085b", "a\u0085b", false},
		{"U+2028 and U+2029", "\u2028x\u2029", "\u2028x\u2029", false},
		{"invalid byte", "a\xffb", "a\uFFFDb", false},
		{"cut character", "a\xe6\x9d", "a\uFFFD\uFFFD", false},
		{"overlong", "\xc0\x80", "\uFFFD\uFFFD", false},
		{"surrogate in UTF-8", "\xed\xa0\xbd", "\uFFFD\uFFFD\uFFFD", false},
		{"beyond Unicode", "\xf4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			text, clean, ok := scanText([]byte(row.body))
			if !ok || string(text) != row.body {
				t.Fatalf("scanned %q, %v", text, ok)
			}
			if clean != row.clean {
				t.Errorf("clean %v, want %v", clean, row.clean)
			}
			if s := said(t, text); s != row.want {
				t.Fatalf("the row is wrong: encoding/json reads %q", s)
			}
			if s := text.String(); s != row.want {
				t.Errorf("String %q, want %q", s, row.want)
			}
			if b := text.AppendTo([]byte("before")); string(b) != "before"+row.want {
				t.Errorf("AppendTo %q, want %q behind %q", b, row.want, "before")
			}
			var j codec.Joiner
			joined := j.Flush(j.Append(nil, text))
			if s := checkBody(t, joined); s != row.want {
				t.Errorf("joined %q says %q, want %q", joined, s, row.want)
			}
			if clean && string(joined) != row.body {
				t.Errorf("a clean text was rewritten: %q", joined)
			}
		})
	}
}

// TestTextOwnership shows that String copies, and that AppendTo and the Joiner leave what they are given as it was.
func TestTextOwnership(t *testing.T) {
	for _, body := range []string{"plain text", `with \"escape\"`} {
		b := []byte(body)
		text := codec.Text(b)
		s := text.String()
		want := strings.Clone(s)
		text.AppendTo(nil)
		var j codec.Joiner
		j.Append(nil, text)
		if string(b) != body {
			t.Errorf("%q became %q", body, b)
		}
		clear(b)
		if s != want {
			t.Errorf("String of %q borrows", body)
		}
	}
}

func TestAppendText(t *testing.T) {
	for _, row := range []struct{ in, want string }{
		{"", ``},
		{"plain", `plain`},
		{`say "hi" \ bye /`, `say \"hi\" \\ bye /`},
		{"\n\r\t", `\n\r\t`},
		{"\b\f\x00\x1f\x7f", "\\u0008\\u000c\\u0000\\u001f\x7f"},
		{"<&>", `<&>`},
		{"東京 😀 é", `東京 😀 é`},
		{"a\u0085b\u2028c\u2029d", `a\u0085b\u2028c\u2029d`},
		{"\u0084\u0086\u2027\u202a", "\u0084\u0086\u2027\u202a"},
		{"\uFFFD", "\uFFFD"},
		{"a\xffb", "a\uFFFDb"},
		{"\xe6\x9d", "\uFFFD\uFFFD"},
		{"x\xe6", "x\uFFFD"},
		{"\xed\xa0\xbd", "\uFFFD\uFFFD\uFFFD"},
		{"\xf4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
		{`{"a":"b\n"}`, `{\"a\":\"b\\n\"}`},
	} {
		if b := codec.AppendText([]byte("^"), row.in); string(b) != "^"+row.want {
			t.Errorf("AppendText(%q) = %q, want %q", row.in, b[1:], row.want)
		}
		if b := codec.AppendText([]byte("^"), []byte(row.in)); string(b) != "^"+row.want {
			t.Errorf("AppendText(bytes %q) = %q, want %q", row.in, b[1:], row.want)
		}
		if b := codec.AppendString([]byte("^"), row.in); string(b) != `^"`+row.want+`"` {
			t.Errorf("AppendString(%q) = %q, want %q", row.in, b[1:], row.want)
		}
		if s := checkBody(t, []byte(row.want)); s != valid(row.in) {
			t.Errorf("%q says %q, want %q", row.want, s, valid(row.in))
		}
	}
}

// TestAppendTextEveryByte puts every byte at every place of a machine word.
func TestAppendTextEveryByte(t *testing.T) {
	for c := range 256 {
		for at := range 17 {
			in := []byte("0123456789abcdef!")
			in[at] = byte(c)
			if s := checkBody(t, codec.AppendText(nil, in)); s != valid(string(in)) {
				t.Fatalf("byte %#x at %d: %q", c, at, s)
			}
			text, clean, ok := scanText(in)
			if c == '"' || c == '\\' {
				continue // ends the string, or begins an escape
			}
			if wantClean := c >= ' ' && c < 0x80; !ok || clean != wantClean || text.String() != valid(string(in)) {
				t.Fatalf("byte %#x at %d: scanned %q clean %v ok %v", c, at, text, clean, ok)
			}
			var j codec.Joiner
			if s := checkBody(t, j.Append(nil, text)); s != valid(string(in)) {
				t.Fatalf("byte %#x at %d: joined %q", c, at, s)
			}
		}
	}
}

func TestBrokenEscapes(t *testing.T) {
	for _, body := range []string{`\`, `a\`, `\x`, `\'`, `\0`, `\U0041`, `\u`, `\u1`, `\u12`, `\u123`, `\u123g`, `\ug123`, `\u 123`, `\u-123`, `\u+123`,
		`\ud83d\`, `\ud83d\u`, `\ud83d\ude0`, `\ud83d\ude0g`, "\\\n", "\\\x00", "\\é", `\u00é`} {
		if _, _, ok := scanText([]byte(body)); ok {
			t.Errorf("%q was taken for the body of a string", body)
		}
		// A Text that no Scanner has seen must still not break a frame.
		var j codec.Joiner
		checkBody(t, j.Flush(j.Append(nil, codec.Text(body))))
		_ = codec.Text(body).String()
	}
}

func TestJoiner(t *testing.T) {
	for _, row := range []struct {
		name   string
		deltas []string
		out    []string // of each delta, then of Flush
	}{
		{"a pair over two deltas", []string{`a\ud83d`, `\ude00b`}, []string{"a", `\ud83d\ude00b`, ""}},
		{"nothing else", []string{`\uD83D`, `\uDE00`}, []string{"", `\ud83d\ude00`, ""}},
		{"an empty delta between", []string{`a\ud83d`, ``, ``, `\ude00b`}, []string{"a", "", "", `\ud83d\ude00b`, ""}},
		{"three pairs, each cut", []string{`\ud83d`, `\ude00\ud83d`, `\ude01\ud83d`, `\ude02`},
			[]string{"", `\ud83d\ude00`, `\ud83d\ude01`, `\ud83d\ude02`, ""}},
		{"the other half never comes", []string{`a\ud83d`}, []string{"a", "\uFFFD"}},
		{"something else comes", []string{`a\ud83d`, `b`}, []string{"a", "\uFFFDb", ""}},
		{"another escape comes", []string{`\ud83d`, `\n`}, []string{"", "\uFFFD\\n", ""}},
		{"a third escape comes", []string{`\ud83d`, `\u0041`}, []string{"", "\uFFFD\\u0041", ""}},
		{"another first half comes", []string{`\ud83d`, `\ud83d`, `\ude00`}, []string{"", "\uFFFD", `\ud83d\ude00`, ""}},
		{"a whole pair comes", []string{`\ud83d`, `\ud83d\ude00`}, []string{"", "\uFFFD\\ud83d\\ude00", ""}},
		{"a second half comes first", []string{`\ude00`, `\ud83d`}, []string{"\uFFFD", "", "\uFFFD"}},
		{"first half not at the end", []string{`\ud83dx`, `\ude00`}, []string{"\uFFFDx", "\uFFFD", ""}},
		{"two first halves", []string{`\ud83d\ud83d`, `\ude00`}, []string{"\uFFFD", `\ud83d\ude00`, ""}},
		{"an escaped backslash is no escape", []string{`\\ud83d`, `\\ude00`}, []string{`\\ud83d`, `\\ude00`, ""}},
		{"clean", []string{`a\/\"\u00e9`, `東`}, []string{`a\/\"\u00e9`, `東`, ""}},
		{"control characters", []string{"a\tb\nc\rd\x01e\x1f"}, []string{`a\tb\nc\rd\u0001e\u001f`, ""}},
		{"line breaks", []string{"\u0085\u2028", "\u2029"}, []string{`\u0085\u2028`, `\u2029`, ""}},
		{"invalid UTF-8", []string{"a\xffb\xe6\x9d", "\xb1"}, []string{"a\uFFFDb\uFFFD\uFFFD", "\uFFFD", ""}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var j codec.Joiner
			var all []byte
			for i, d := range append(row.deltas, "") {
				if _, _, ok := scanText([]byte(d)); !ok {
					t.Fatalf("the row is wrong: %q is no text", d)
				}
				n := len(all)
				if i < len(row.deltas) {
					all = j.Append(all, codec.Text(d))
				} else {
					all = j.Flush(all)
				}
				if got := string(all[n:]); got != row.out[i] {
					t.Errorf("delta %d: %q, want %q", i, got, row.out[i])
				}
				checkBody(t, all[n:])
			}
			if j.Pending() || len(j.Flush(nil)) > 0 {
				t.Error("something is held back after Flush")
			}
			checkBody(t, all)
		})
	}
}

// TestJoinerSplits cuts one body at every pair of places where it may be cut and expects the text of the uncut body.
func TestJoinerSplits(t *testing.T) {
	units := []string{"a", `\n`, `\\`, `\ud83d`, `\ude00`, "東", `\ud83d`, `\ud83d`, `\ude01`, "\x02", "\u2028", `\ude00`, `\u0041`, `\uDBFF`, `\uDFFF`, "z", `\ud83d`}
	want := said(t, []byte(strings.Join(units, "")))
	for i := range len(units) + 1 {
		for k := i; k <= len(units); k++ {
			deltas := []string{strings.Join(units[:i], ""), strings.Join(units[i:k], ""), strings.Join(units[k:], "")}
			var j codec.Joiner
			var all []byte
			for _, d := range deltas {
				n := len(all)
				all = j.Append(all, codec.Text(d))
				checkBody(t, all[n:])
			}
			all = j.Flush(all)
			if s := checkBody(t, all); s != want {
				t.Fatalf("cut at %d and %d: %q, want %q", i, k, s, want)
			}
		}
	}
}

func TestJoinerPending(t *testing.T) {
	var j codec.Joiner
	for i, row := range []struct {
		delta   string
		pending bool
	}{{"a", false}, {`\ud83d`, true}, {"", true}, {`\ude00`, false}, {`\ude00`, false}, {`\ud83d`, true}, {`x\ud83d`, true}, {"y", false}} {
		j.Append(nil, codec.Text(row.delta))
		if j.Pending() != row.pending {
			t.Errorf("%d: pending %v after %q", i, j.Pending(), row.delta)
		}
	}
}

func TestTextAllocs(t *testing.T) {
	dst := make([]byte, 0, 1<<10)
	dirty := codec.Text("tab\there \ud7ff \u2028 \xff \\ud83d")
	for name, f := range map[string]func(){
		"AppendText string": func() { dst = codec.AppendText(dst[:0], "say \"hi\"\n東京 \u2028 \xff") },
		"AppendText bytes":  func() { dst = codec.AppendText(dst[:0], []byte(dirty)) },
		"AppendString":      func() { dst = codec.AppendString(dst[:0], "plain") },
		"AppendTo":          func() { dst = dirty.AppendTo(dst[:0]) },
		"Joiner":            func() { var j codec.Joiner; dst = j.Flush(j.Append(dst[:0], dirty)) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func ExampleJoiner() {
	var j codec.Joiner
	for _, delta := range []string{`face: \ud83d`, `\ude00`, "\ttab"} {
		fmt.Printf("%q\n", j.Append(nil, codec.Text(delta)))
	}
	// Output:
	// "face: "
	// "\\ud83d\\ude00"
	// "\\ttab"
}
