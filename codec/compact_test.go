package codec_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"amplifier-agent/codec"
)

var compactRows = []struct{ name, in, want string }{
	{"nothing to take away", `{"a":[1,2]}`, `{"a":[1,2]}`},
	{"every kind of space", " {\r\n\t\"a\" : [ 1 , 2\t] } \n", `{"a":[1,2]}`},
	{"space inside strings stays", `{ "a b" : "c  d" }`, `{"a b":"c  d"}`},
	{"an escaped quote ends nothing", `[ "a\" b" , 1 ]`, `["a\" b",1]`},
	{"an escaped backslash before the quote", `[ "a\\" , "b" ]`, `["a\\","b"]`},
	{"three backslashes", `[ "a\\\" , " , 1 ]`, `["a\\\" , ",1]`},
	{"empty strings", `[ "" , "" ]`, `["",""]`},
	{"spellings stay", `[ "\u00e9\/é北" , 1.50e+1 ]`, `["\u00e9\/é北",1.50e+1]`},
	{"U+2028 stays", "[ \"\u2028\" ]", "[\"\u2028\"]"},
	{"invalid UTF-8 stays", "[ \"\xff \x80\" ]", "[\"\xff \x80\"]"},
	{"a scalar", " null ", "null"},
}

func TestAppendCompact(t *testing.T) {
	for _, row := range compactRows {
		t.Run(row.name, func(t *testing.T) {
			if got := codec.AppendCompact([]byte("before "), []byte(row.in)); string(got) != "before "+row.want {
				t.Errorf("got %q, want %q behind what was there", got, row.want)
			}
		})
	}
}

// TestAppendCompactBroken: bytes that are no JSON may come out as anything, but they do come out.
func TestAppendCompactBroken(t *testing.T) {
	for _, in := range []string{``, `"`, `"\`, `"\"`, `{ "a`, `[ "\\\" `} {
		if got := codec.AppendCompact(nil, []byte(in)); len(got) > len(in) {
			t.Errorf("%q grew to %q", in, got)
		}
	}
}

func TestAppendCompactAllocs(t *testing.T) {
	in, dst := []byte(`{ "a" : [ 1, "\"b\" c" ] }`), make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() { dst = codec.AppendCompact(dst[:0], in) }); n != 0 {
		t.Errorf("%v allocations with room in dst", n)
	}
}

func FuzzAppendCompact(f *testing.F) {
	for _, row := range compactRows {
		f.Add([]byte(row.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got := codec.AppendCompact(nil, in)
		if !json.Valid(in) {
			return
		}
		var want bytes.Buffer
		if err := json.Compact(&want, in); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("%q became %q, want %q", in, got, want.Bytes())
		}
		if bytes.ContainsAny(got, "\r\n") {
			t.Fatalf("%q holds a line break", got)
		}
	})
}

func BenchmarkAppendCompact(b *testing.B) {
	in := []byte(`{ "role": "tool", "content": "` + strings.Repeat(`some text with a \"quote\" and 北京\n`, 1000) + `" }`)
	dst := make([]byte, 0, len(in))
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		dst = codec.AppendCompact(dst[:0], in)
	}
}
