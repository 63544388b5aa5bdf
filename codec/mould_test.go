package codec_test

import (
	"bytes"
	"testing"

	"amplifier-agent/codec"
)

// texts finds the text of the member "text" by scanning, and by a mould if one fits.
type texts struct {
	s     codec.Scanner
	mould codec.Mould
}

func (x *texts) scan(line []byte) (t codec.Text, clean, ok bool) {
	x.s.Reset(line)
	for x.s.Object(); x.s.Key(); {
		if string(x.s.Name()) == "text" {
			t, ok = x.s.Text()
			clean = x.s.Clean()
		} else {
			x.s.Skip()
		}
	}
	return t, clean, ok && x.s.End() == nil
}

func TestMould(t *testing.T) {
	const first = `{"type":"text-delta","text":"abc","id":7}`
	for line, fits := range map[string]bool{
		`{"type":"text-delta","text":"","id":7}`:                false,
		`{"type":"text-delta","text":"x","id":7}`:               true,
		`{"type":"text-delta","text":"\"\\\u00e9 é 漢","id":7}`:  true,
		`{"type":"text-delta","text":"\ud83d","id":7}`:          true, // not clean
		"{\"type\":\"text-delta\",\"text\":\"\xff\",\"id\":7}":  true, // neither
		`{"type":"text-delta","text":"x","id":8}`:               false,
		`{"type":"text-delta","text":"x", "id":7}`:              false,
		`{"type":"text-delta","text":"x","id":7,"more":1}`:      false,
		`{"type":"text-delta","text":"x","text":"y","id":7}`:    false,
		`{"type":"text-delta","text":"\q","id":7}`:              false,
		`{"type":"text-delta","text":"x\","id":7}`:              false,
		`{"type":"text-delta","text":null,"id":7}`:              false,
		`{"type":"text-delta","text":"`:                         false,
		`{"type":"reasoning-delta","text":"x","id":7}`:          false,
		`{"type":"text-delta","text":"a","id":7}","text":"b"}`:  false,
		`{"type":"text-delta","text":"a\",\"id\":7}","id":7}`:   true,
		`{"type":"text-delta","text":"a","id":7}{"text":"b"}`:   false,
		`{"type":"text-delta","text":"abc","id":7}`:             true,
		`{"type":"text-delta","text":"abcdefghijklmn","id":7} `: false,
	} {
		var x, fresh texts
		learned := []byte(first)
		text, _, _ := x.scan(learned)
		x.mould.Learn(learned, text)
		got, clean, ok := x.mould.Text([]byte(line))
		want, wantClean, valid := fresh.scan([]byte(line))
		if ok != fits {
			t.Errorf("%s: fits %v", line, ok)
		}
		if ok && (!valid || !bytes.Equal(got, want) || clean != wantClean) {
			t.Errorf("%s: %q, clean %v; scanned %q, %v, %v", line, got, clean, want, wantClean, valid)
		}
	}
}

// TestMouldGivesUp: where no line is like the one before, none is learned any more.
func TestMouldGivesUp(t *testing.T) {
	var x texts
	line := func(n byte) []byte { return []byte(`{"n":` + string('0'+n) + `,"text":"a"}`) }
	for n := range byte(9) {
		b := line(n)
		if _, _, ok := x.mould.Text(b); ok {
			t.Fatalf("line %d fits", n)
		}
		text, _, _ := x.scan(b)
		if learned := x.mould.Learn(b, text); learned != (n < 8) {
			t.Errorf("line %d is learned: %v", n, learned)
		}
	}
	if _, _, ok := x.mould.Text(line(8)); ok {
		t.Error("the last line was learned")
	}
	if _, _, ok := x.mould.Text(line(7)); !ok {
		t.Error("the last but one is forgotten")
	}
}

// FuzzMould: a line that fits says what a scanner finds in it.
func FuzzMould(f *testing.F) {
	f.Add([]byte(`{"text":"a"}`), []byte(`{"text":"b"}`))
	f.Add([]byte(`{"type":"text-delta","text":"a","n":1}`), []byte(`{"type":"text-delta","text":"\"","n":1}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var x, fresh texts
		first = bytes.Clone(first)
		text, _, ok := x.scan(first)
		if !ok {
			return
		}
		x.mould.Learn(first, text)
		got, clean, ok := x.mould.Text(second)
		if !ok {
			return
		}
		if want, wantClean, valid := fresh.scan(second); !valid || !bytes.Equal(got, want) || clean != wantClean {
			t.Errorf("%q after %q: %q, clean %v; scanned %q, %v, %v", second, first, got, clean, want, wantClean, valid)
		}
	})
}
