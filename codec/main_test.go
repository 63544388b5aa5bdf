package codec_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"amplifier-agent/codec"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// checkBody fails the test unless body may stand between quotes in a frame: valid JSON, valid UTF-8 and none of the line breaks
// that clients stumble over. It returns what the body says to encoding/json.
func checkBody(t testing.TB, body []byte) string {
	t.Helper()
	if !utf8.Valid(body) {
		t.Fatalf("%q is not valid UTF-8", body)
	}
	if bytes.ContainsAny(body, "\u0085\u2028\u2029\r\n") {
		t.Fatalf("%q holds a raw line break", body)
	}
	var s string
	if err := json.Unmarshal(quoted(body), &s); err != nil {
		t.Fatalf("%q is not the body of a JSON string: %v", body, err)
	}
	return s
}

func quoted(body []byte) []byte { return append(append([]byte{'"'}, body...), '"') }

// scanText scans body as a JSON string; ok tells whether it is one.
func scanText(body []byte) (text codec.Text, clean, ok bool) {
	var s codec.Scanner
	s.Reset(quoted(body))
	text, ok = s.Text()
	clean = s.Clean()
	return text, clean, ok && s.End() == nil
}

// said is what body says to encoding/json, with raw control characters taken for what they stand for.
func said(t testing.TB, body []byte) string {
	t.Helper()
	var b []byte
	for _, c := range body {
		if c < ' ' {
			b = append(b, `\u00`...)
			b = append(b, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		} else {
			b = append(b, c)
		}
	}
	var s string
	if err := json.Unmarshal(quoted(b), &s); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return s
}

// valid is s with each byte that is no UTF-8 replaced by U+FFFD.
func valid(s string) string { return string([]rune(s)) }

func deep(open, inner, closing string, n int) []byte {
	return []byte(strings.Repeat(open, n) + inner + strings.Repeat(closing, n))
}
