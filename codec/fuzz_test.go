package codec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"amplifier-agent/codec"
)

// framed is what LineReader must make of a body, however it arrives: the same rules, written down once more without buffers.
func framed(body string, opt codec.LineOptions) (lines []string, err error) {
	for i, line := range strings.Split(body, "\n") {
		tooLong := opt.MaxBytes > 0 && len(line) > opt.MaxBytes
		if (tooLong || len(line) >= 8<<10) && opt.Skip != nil && opt.Skip([]byte(line)) {
			continue
		}
		if tooLong {
			return lines, codec.ErrLineTooLong
		}
		if i == 0 {
			line = strings.TrimPrefix(line, "\uFEFF")
		}
		line = strings.TrimSpace(line)
		if data, ok := strings.CutPrefix(line, "data:"); ok {
			line = strings.TrimSpace(data)
		} else if strings.HasPrefix(line, ":") || strings.HasPrefix(line, "event:") || strings.HasPrefix(line, "id:") || strings.HasPrefix(line, "retry:") {
			continue
		}
		if line != "" && line != "[DONE]" {
			lines = append(lines, line)
		}
	}
	return lines, io.EOF
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("{\"a\":1}\n\ndata: {\"b\":\"北\"}\r\n: ping\n[DONE]\nevent: x\n{\"c\":2}"), []byte{7, 1, 30}, uint16(0))
	f.Add([]byte("\xEF\xBB\xBFdata:x\r\n\r\nid: 1\nretry:2\n"), []byte{1, 1, 1, 1, 1, 1}, uint16(9))
	f.Add([]byte("1\n~~{\"skip\n~2\n\n"), []byte{250, 250, 250, 250, 0, 3}, uint16(0))
	f.Add([]byte("skip~~\nskip~\n~~x\n3"), []byte{255}, uint16(60_000))
	f.Add([]byte("skip~~~~~~\n2\n~"), []byte{128, 255}, uint16(100))
	f.Add([]byte("\r\n\r\n \t\r\n:\n"), []byte{}, uint16(1))
	f.Fuzz(func(t *testing.T, body []byte, cuts []byte, limit uint16) {
		if bytes.Count(body, []byte("~")) > 8 {
			return
		}
		body = bytes.ReplaceAll(body, []byte("~"), bytes.Repeat([]byte("~"), 20_000))
		if limit > 0 {
			limit = max(limit, 4) // or less of a line arrives than Skip looks at
		}
		opt := codec.LineOptions{MaxBytes: int(limit), Skip: func(head []byte) bool { return bytes.HasPrefix(head, []byte("skip")) }}
		want, end := framed(string(body), opt)
		var src parts
		for i, rest := 0, body; len(rest) > 0; i++ {
			n := len(rest)
			if len(cuts) > 0 { // small cuts are bytes, large ones many
				c := int(cuts[i%len(cuts)])
				n = min(n, max(1, c, (c-100)*200))
			}
			src = append(src, rest[:n:n])
			rest = rest[n:]
		}
		var r codec.LineReader
		r.Reset(opt)
		if got, err := frame(&r, &src); err != end || !slices.Equal(got, want) {
			t.Fatalf("%.300q, %v, want %.300q, %v", got, err, want, end)
		}
	})
}

// repaired replaces raw control characters inside strings, by a letter that no escape holds, so that encoding/json does not mind them.
func repaired(b []byte) []byte {
	b = bytes.Clone(b)
	inside := false
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '"':
			inside = !inside
		case inside && b[i] == '\\':
			i++
		case inside && b[i] < ' ':
			b[i] = 'x'
		}
	}
	return b
}

// levels is how deep b nests, for valid JSON.
func levels(b []byte) (most int) {
	inside, n := false, 0
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '"':
			inside = !inside
		case inside && b[i] == '\\':
			i++
		case inside:
		case b[i] == '{' || b[i] == '[':
			n++
			most = max(most, n)
		case b[i] == '}' || b[i] == ']':
			n--
		}
	}
	return most
}

// tree reads a value through the typed methods into what encoding/json makes of it.
func tree(s *codec.Scanner) any {
	switch s.Kind() {
	case codec.Object:
		m := map[string]any{}
		for s.Object(); s.Key(); {
			key := valid(string(s.Name()))
			m[key] = tree(s)
		}
		return m
	case codec.Array:
		a := []any{}
		for s.Array(); s.Elem(); {
			a = append(a, tree(s))
		}
		return a
	case codec.String:
		t, _ := s.Text()
		return t.String()
	case codec.Number:
		return json.Number(s.Raw())
	case codec.Bool:
		v, _ := s.Bool()
		return v
	default:
		s.Skip()
		return nil
	}
}

var jsonSeeds = []string{
	textDelta, finishStep, `{}`, ` { "a" : [ 1 , { } ] , "a" : null } `, `{"\u0061\ud83d":"\ud83d\ude00","b":-0.5e+10,"c":[[],[true,false]]}`,
	"{\"a\":\"b\tc\",\"d\x01\":2}", `{"a":1,}`, `{,}`, `[1,]`, `{"a":1 "b":2}`, `{"h\A>\`, "{\"\xae\xae\":\"\xff\"}", `"\u2028"`, `-`, `01`, `1e5`, `nul`,
	`{"a":{"b":{"c":[1,2,{"d":[]}]}}}x`, `[[[[[[[[1]]]]]]]]`, `[{"a":[{"a":[{}]}]}]`, `9223372036854775807`, "\"\u0085\"",
}

func FuzzScanner(f *testing.F) {
	for _, seed := range jsonSeeds {
		f.Add([]byte(seed))
	}
	f.Add(deep("[", "", "]", codec.MaxDepth+1))
	f.Add(deep(`{"a":`, "1", "}", codec.MaxDepth))
	f.Fuzz(func(t *testing.T, b []byte) {
		lenient := repaired(b)
		object := bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("{"))
		tooDeep := levels(b) > codec.MaxDepth
		var s codec.Scanner

		s.Reset(b)
		s.Skip()
		if err := s.End(); tooDeep != errors.Is(err, codec.ErrDepth) && json.Valid(lenient) || !tooDeep && (err == nil) != json.Valid(lenient) {
			t.Fatalf("Skip: %v, %d levels", err, levels(b))
		}
		s.Reset(b)
		got := tree(&s)
		if err := s.End(); !tooDeep && (err == nil) != json.Valid(lenient) || err == nil && tooDeep {
			t.Fatalf("typed methods: %v, %d levels", err, levels(b))
		}
		if s.Err() == nil && json.Valid(b) {
			var want any
			d := json.NewDecoder(bytes.NewReader(b))
			d.UseNumber()
			if err := d.Decode(&want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("typed methods: %#v, want %#v", got, want)
			}
		}

		members := map[string]json.RawMessage{}
		s.Reset(b)
		for s.Object(); s.Key(); {
			name := valid(string(s.Name()))
			members[name] = s.Raw()
		}
		err := s.End()
		var want map[string]json.RawMessage
		if wantErr := json.Unmarshal(b, &want); object && wantErr == nil && !tooDeep {
			if err != nil || !maps.EqualFunc(members, want, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
				t.Fatalf("%q, %v, want %q", members, err, want)
			}
		} else if err == nil && (!object || tooDeep || !json.Valid(lenient)) {
			t.Fatalf("accepted, but encoding/json says %v", wantErr)
		}
	})
}

func FuzzValidate(f *testing.F) {
	for _, seed := range jsonSeeds {
		f.Add([]byte(seed))
	}
	f.Add(deep("[", "", "]", codec.MaxDepth+1))
	f.Fuzz(func(t *testing.T, b []byte) {
		err := codec.Validate(b)
		switch {
		case levels(b) > codec.MaxDepth:
			if err == nil {
				t.Fatal("deeper than the limit")
			}
		case (err == nil) != json.Valid(b):
			t.Fatalf("%v, but encoding/json says %v", err, json.Valid(b))
		}
	})
}

func FuzzText(f *testing.F) {
	f.Add("plain", []byte(`a\ud83d\ude00b\n`), []byte{1, 6, 1})
	f.Add("tab\tquote\"back\\slash\x00", []byte("raw\ttab \\ud83d\\ud83d\\ude00 \\ude00"), []byte{0, 6})
	f.Add("\u0085\u2028\u2029\uFFFD\xff\xe6\x9d", []byte("\u0085\u2028\xff\xe6\x9d\xed\xa0\xbd"), []byte{1})
	f.Add("北京 😀", []byte("北京 😀\\u6771\\/"), []byte{2, 3})
	f.Add("", []byte(`\ud83d`), []byte{6})
	f.Add("", []byte(`\\ud83d\ud83`), []byte{2})
	f.Fuzz(func(t *testing.T, plain string, body []byte, cuts []byte) {
		out := codec.AppendText(nil, plain)
		if s := checkBody(t, out); s != valid(plain) {
			t.Fatalf("AppendText: %q says %q", out, s)
		}
		if b := codec.AppendText(nil, []byte(plain)); !bytes.Equal(b, out) {
			t.Fatalf("AppendText: %q of bytes, %q of a string", b, out)
		}
		if text, clean, ok := scanText(out); !ok || !clean || text.String() != valid(plain) {
			t.Fatalf("AppendText: %q scans as %q, clean %v, %v", out, text, clean, ok)
		}

		text, clean, ok := scanText(body)
		if ok && len(text) != len(body) {
			t.Fatalf("scanned %q of %q", text, body)
		}
		// Places where a body that is one can be cut into two that are: between escapes and characters.
		var want string
		var places []int
		if ok {
			want = said(t, body)
			if s := text.String(); s != want {
				t.Fatalf("String %q, want %q", s, want)
			}
			if clean {
				checkBody(t, body)
			}
			for i := 0; i < len(body); {
				places = append(places, i)
				switch _, n := utf8.DecodeRune(body[i:]); {
				case body[i] == '\\' && body[i+1] == 'u':
					i += 6
				case body[i] == '\\':
					i += 2
				default:
					i += n
				}
			}
		} else {
			for i := range body {
				places = append(places, i)
			}
		}
		places = append(places, len(body))
		// The body in deltas: each comes out as a body of its own, and all together say what the uncut one says. If it is none,
		// what comes out must still be one.
		var j codec.Joiner
		var all []byte
		at := 0
		for i := 0; at < len(places)-1; i++ {
			n := len(places)
			if i < len(cuts) {
				n = int(cuts[i]) // of units; 0 is an empty delta
			}
			next := min(at+n, len(places)-1)
			delta := bytes.Clone(body[places[at]:places[next]])
			before := len(all)
			all = j.Append(all, delta)
			checkBody(t, all[before:])
			if _, whole, ok := scanText(delta); ok && whole && before == len(all)-len(delta) && !bytes.Equal(all[before:], delta) {
				t.Fatalf("a clean delta %q was rewritten to %q", delta, all[before:])
			}
			at = next
		}
		all = j.Flush(all)
		if s := checkBody(t, all); ok && s != want {
			t.Fatalf("joined %q, want %q", s, want)
		}
	})
}

// FuzzUnmarshal compares go-json, behind Validate, with encoding/json, and what it encodes with what it decoded.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range jsonSeeds {
		f.Add([]byte(seed))
	}
	f.Add([]byte(`{"name":"x","text":null,"n":12,"on":true,"list":[{"name":"y","list":[]}],"metadata":{"a":[1.5,"\u00e9"]},"input":{"id":9223372036854775807},"any":[null]}`))
	f.Add([]byte(`{"name":1}`))
	f.Add([]byte(`{"n":1.5,"on":"true"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if levels(b) > codec.MaxDepth {
			return
		}
		type same struct {
			Name     string          `json:"name"`
			Text     *string         `json:"text,omitempty"`
			N        int64           `json:"n"`
			On       bool            `json:"on"`
			List     []same          `json:"list"`
			Metadata map[string]any  `json:"metadata"`
			Input    json.RawMessage `json:"input"`
			Any      any             `json:"any"`
		}
		var got, want same
		err, wantErr := codec.Unmarshal(b, &got), json.Unmarshal(b, &want)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%v, but encoding/json says %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, want %+v", got, want)
		}
		out, err := codec.Marshal(got)
		if err != nil || !utf8.Valid(out) || bytes.ContainsAny(out, "\u0085\u2028\u2029") {
			t.Fatalf("%q, %v", out, err)
		}
		var back same
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if want.Input = nil; back.Name != want.Name || !reflect.DeepEqual(back.Metadata, want.Metadata) || !reflect.DeepEqual(back.Any, want.Any) {
			t.Fatalf("%q says %+v, want %+v", out, back, want)
		}
	})
}
