package codec_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"amplifier-agent/codec"
)

// Two lines as the gateway writes them; they are the hot path.
const (
	textDelta  = `{"type":"text-delta","id":"txt-0","text":" the quick brown fox jumps over the lazy dog\n"}`
	finishStep = `{"type":"finish-step","response":{"id":"resp_1","timestamp":"2026-11-30T16:09:00.000Z","modelId":"m"},"usage":{"inputTokens":1200,` +
		`"inputTokenDetails":{"noCacheTokens":200,"cacheReadTokens":1000,"cacheWriteTokens":0},"outputTokens":85,"outputTokenDetails":{"textTokens":` +
		`60,"reasoningTokens":25},"totalTokens":1285},"finishReason":"stop","rawFinishReason":"end_turn","providerMetadata":{"gateway":{"cost":"0.0012"}}}`
)

// flat lists the members of an object as key=raw value, in the order of the input.
func flat(s *codec.Scanner) (members []string) {
	for s.Object(); s.Key(); {
		key := string(s.Name())
		if raw := s.Raw(); raw != nil {
			members = append(members, key+"="+string(raw))
		}
	}
	return members
}

func TestScannerObjects(t *testing.T) {
	for _, row := range []struct{ in, want string }{
		{`{}`, ``},
		{" \t\r\n{ \t\r\n} \t\r\n", ``},
		{`{"a":1,"b":"x"}`, `a=1|b="x"`},
		{`{"b":"x","a":1}`, `b="x"|a=1`},
		{` { "a" : 1 , "b" : [ 1 , 2 ] } `, `a=1|b=[ 1 , 2 ]`},
		{`{"a":1,"a":2,"b":3,"a":4}`, `a=1|a=2|b=3|a=4`},
		{`{"":""}`, `=""`},
		{`{"\u0061\n\"":1}`, "a\n\"=1"},
		{`{"\u0061":{"\u0062":1},"c":2}`, `a={"\u0062":1}|c=2`},
		{`{"\ud83d\ude00":1,"\ud83d":2}`, "😀=1|\uFFFD=2"},
		{`{"a":{"b":{"c":[{}]}},"d":[[],[[]],{}]}`, `a={"b":{"c":[{}]}}|d=[[],[[]],{}]`},
		{`{"a":null,"b":true,"c":false,"d":-0.5e+10}`, `a=null|b=true|c=false|d=-0.5e+10`},
		{`{"a":"}","b":"]","c":",","d":":","e":"\"","f":"\\"}`, `a="}"|b="]"|c=","|d=":"|e="\""|f="\\"`},
		{"{\"a\":\"\xff\"}", "a=\"\xff\""},
	} {
		var s codec.Scanner
		s.Reset([]byte(row.in))
		got := strings.Join(flat(&s), "|")
		if err := s.End(); err != nil || got != row.want {
			t.Errorf("%q: %q, %v, want %q", row.in, got, err, row.want)
		}
		if s.Offset() != len(row.in) {
			t.Errorf("%q: stands at %d", row.in, s.Offset())
		}
	}
}

// broken holds inputs that no JSON parser may accept, and where the fault is found.
var broken = []struct {
	in string
	at int
}{
	{``, 0}, {` `, 1}, {`{`, 1}, {`}`, 0}, {`[`, 1}, {`]`, 0}, {`,`, 0}, {`:`, 0},
	{`{,}`, 1}, {`{"a":1,}`, 7}, {`{"a":1,,"b":2}`, 7}, {`{,"a":1}`, 1}, {`{"a":1 "b":2}`, 7}, {`{"a":1;"b":2}`, 6},
	{`{"a"}`, 4}, {`{"a":}`, 5}, {`{"a",1}`, 4}, {`{"a" 1}`, 5}, {`{"a"::1}`, 5}, {`{a:1}`, 1}, {`{'a':1}`, 1}, {`{1:1}`, 1}, {`{null:1}`, 1}, {`{[]:1}`, 1},
	{`{"a":1]`, 6}, {`{"a":1`, 6}, {`{"a":`, 5}, {`{"a"`, 4}, {`{"a`, 1}, {`{"a":1,`, 7}, {`{"a":1,"b"`, 10}, {`{"a\":1}`, 1},
	{`[,]`, 1}, {`[1,]`, 3}, {`[1,,2]`, 3}, {`[,1]`, 1}, {`[1 2]`, 3}, {`[1:2]`, 2}, {`[1}`, 2}, {`[1`, 2}, {`[1,`, 3}, {`["a"`, 4}, {`["a`, 1},
	{`[[]`, 3}, {`[{]`, 2}, {`[{]}`, 2}, {`{"a":[}]`, 6}, {`{"a":[1}]`, 7}, {`{"a":{]}`, 6},
	{`{}}`, 2}, {`{} {}`, 3}, {`{}x`, 2}, {`{},`, 2}, {`[]]`, 2}, {`1 2`, 2}, {`"a""b"`, 3}, {`nullnull`, 4}, {`truefalse`, 4}, {`{}` + "\x00", 2},
	{`nul`, 0}, {`nulx`, 0}, {`Null`, 0}, {`NULL`, 0}, {`tru`, 0}, {`True`, 0}, {`fals`, 0}, {`falsy`, 0}, {`n`, 0}, {`undefined`, 0}, {`NaN`, 0}, {`Infinity`, 0},
	{`"`, 0}, {`"a`, 0}, {`"\"`, 0}, {`"\x"`, 0}, {`"\u12"`, 0}, {`"\u12g4"`, 0}, {`'a'`, 0}, {"\"\\\n\"", 0},
	{`-`, 0}, {`+1`, 0}, {`.5`, 0}, {`1.`, 0}, {`-.5`, 0}, {`1.e5`, 0}, {`1e`, 0}, {`1e+`, 0}, {`1E-`, 0}, {`--1`, 0}, {`-a`, 0}, {`1e5.5`, 3}, {`1.5.5`, 3},
	{`01`, 1}, {`-01`, 2}, {`00`, 1}, {`0x1`, 1}, {`1_0`, 1}, {`1e5e5`, 3}, {`1f`, 1}, {`0-1`, 1}, {`１`, 0},
	{"\xEF\xBB\xBF{}", 0}, {"\u00a0{}", 0}, {"\v{}", 0}, {"\f{}", 0}, {`{"a":1}//`, 7}, {`/**/{}`, 0}, {"{\u00a0}", 1},
}

func TestScannerErrors(t *testing.T) {
	for _, row := range broken {
		if err := codec.Validate([]byte(row.in)); !errors.Is(err, codec.ErrSyntax) {
			t.Errorf("Validate(%q) = %v", row.in, err)
		}
		for name, consume := range map[string]func(s *codec.Scanner){
			"skip": (*codec.Scanner).Skip,
			"raw":  func(s *codec.Scanner) { s.Raw() },
			"walk": walk,
		} {
			var s codec.Scanner
			s.Reset([]byte(row.in))
			consume(&s)
			if err := s.End(); !errors.Is(err, codec.ErrSyntax) || s.Err() != err {
				t.Errorf("%s: %q: error %v, %v", name, row.in, err, s.Err())
			}
			if s.Offset() != row.at {
				t.Errorf("%s: %q: found at %d, want %d", name, row.in, s.Offset(), row.at)
			}
		}
	}
}

// walk consumes a value through the typed methods, down to its leaves.
func walk(s *codec.Scanner) {
	switch s.Kind() {
	case codec.Object:
		for s.Object(); s.Key(); {
			walk(s)
		}
	case codec.Array:
		for s.Array(); s.Elem(); {
			walk(s)
		}
	case codec.String:
		s.Text()
	case codec.Number:
		s.Int()
	case codec.Bool:
		s.Bool()
	default:
		s.Skip()
	}
}

// TestScannerErrorsStick shows that nothing is found, moved or forgotten after the first error.
func TestScannerErrorsStick(t *testing.T) {
	var s codec.Scanner
	s.Reset([]byte(`{"a":tru , "b":1}`))
	s.Object()
	if !s.Key() {
		t.Fatal("no member")
	}
	if v, ok := s.Bool(); v || ok {
		t.Errorf("Bool of a broken literal: %v, %v", v, ok)
	}
	first, at := s.Err(), s.Offset()
	if !errors.Is(first, codec.ErrSyntax) || at != 5 {
		t.Fatalf("%v at %d", first, at)
	}
	s.Object()
	s.Array()
	s.Skip()
	text, isText := s.Text()
	n, isInt := s.Int()
	_, isBool := s.Bool()
	if s.Key() || s.Elem() || isText || text != nil || isInt || n != 0 || isBool || s.Raw() != nil || s.Kind() != codec.Invalid {
		t.Error("something was found behind an error")
	}
	if s.Err() != first || s.End() != first || s.Offset() != at {
		t.Errorf("the error became %v at %d", s.Err(), s.Offset())
	}
	s.Reset([]byte(`{"b":1}`))
	if got := flat(&s); s.End() != nil || !slices.Equal(got, []string{"b=1"}) {
		t.Errorf("after Reset: %v, %v", got, s.End())
	}
}

func TestScannerKinds(t *testing.T) {
	for in, want := range map[string]codec.Kind{
		`null`: codec.Null, `true`: codec.Bool, ` false`: codec.Bool, `0`: codec.Number, "\t-1": codec.Number, `9`: codec.Number,
		`"a"`: codec.String, `[]`: codec.Array, "\n{}": codec.Object,
		``: codec.Invalid, ` `: codec.Invalid, `}`: codec.Invalid, `]`: codec.Invalid, `,`: codec.Invalid, `x`: codec.Invalid, `+1`: codec.Invalid, "\xff": codec.Invalid,
	} {
		var s codec.Scanner
		s.Reset([]byte(in))
		if k := s.Kind(); k != want || s.Kind() != want {
			t.Errorf("%q is of kind %d, want %d", in, k, want)
		}
		if s.Err() != nil {
			t.Errorf("%q: asking for the kind failed: %v", in, s.Err())
		}
	}
}

// TestScannerWrongKinds asks each typed method for a value of each other kind: it is passed over, and what follows is found.
func TestScannerWrongKinds(t *testing.T) {
	values := map[codec.Kind]string{
		codec.Null: `null`, codec.Bool: `true`, codec.Number: `12`, codec.String: `"x\"]}"`, codec.Array: `[1,[2],{"a":3}]`, codec.Object: `{"a":[{"b":"}"}]}`,
	}
	asks := map[codec.Kind]func(s *codec.Scanner) bool{
		codec.Bool:   func(s *codec.Scanner) bool { _, ok := s.Bool(); return ok },
		codec.Number: func(s *codec.Scanner) bool { _, ok := s.Int(); return ok },
		codec.String: func(s *codec.Scanner) bool { _, ok := s.Text(); return ok },
	}
	for kind, value := range values {
		for asked, ask := range asks {
			var s codec.Scanner
			s.Reset([]byte(`{"a": ` + value + ` ,"b":"next"}`))
			s.Object()
			s.Key()
			if ok := ask(&s); ok != (kind == asked) {
				t.Errorf("kind %d asked for as %d: %v", kind, asked, ok)
			}
			if !s.Key() || string(s.Name()) != "b" || string(s.Raw()) != `"next"` || s.Key() || s.End() != nil {
				t.Errorf("kind %d asked for as %d: the next member was lost: %v", kind, asked, s.End())
			}
		}
		for open, enter := range map[codec.Kind]func(s *codec.Scanner){codec.Object: (*codec.Scanner).Object, codec.Array: (*codec.Scanner).Array} {
			var s codec.Scanner
			s.Reset([]byte(value))
			if enter(&s); (s.Err() == nil) != (kind == open) {
				t.Errorf("kind %d entered as %d: %v", kind, open, s.Err())
			}
		}
	}
}

func TestScannerNesting(t *testing.T) {
	var s codec.Scanner
	s.Reset([]byte(`{"a":{"b":[1,{"c":"x"},[],"y"],"d":{}},"e":[]}`))
	var got []string
	for s.Object(); s.Key(); {
		switch string(s.Name()) {
		case "a":
			for s.Object(); s.Key(); {
				if s.Kind() != codec.Array {
					s.Skip()
					continue
				}
				for s.Array(); s.Elem(); {
					if s.Kind() == codec.Object {
						got = append(got, flat(&s)...)
					} else {
						got = append(got, string(s.Raw()))
					}
				}
			}
		case "e":
			for s.Array(); s.Elem(); {
				t.Error("an element in an empty array")
				s.Skip()
			}
			got = append(got, "e")
		}
	}
	if want := []string{"1", `c="x"`, "[]", `"y"`, "e"}; s.End() != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, s.End(), want)
	}

	s.Reset([]byte(`[[1`))
	s.Array()
	s.Elem()
	s.Array()
	s.Elem()
	s.Skip()
	if s.Err() != nil || s.End() != codec.ErrSyntax {
		t.Error("End did not notice that two arrays stand open")
	}

	// A value that the caller forgets to consume is not taken for a key or an element.
	for _, in := range []string{`{"a":"b":1}`, `{"a":"b","c":1}`, `[1,2]`} {
		s.Reset([]byte(in))
		if s.Kind() == codec.Object {
			s.Object()
			s.Key()
			s.Key()
		} else {
			s.Array()
			s.Elem()
			s.Elem()
		}
		if s.Err() != codec.ErrSyntax {
			t.Errorf("%s: a value was forgotten, and %v", in, s.Err())
		}
	}
}

// TestScannerDepth nests to the limit and beyond it, with every share of levels entered by the caller and passed over.
func TestScannerDepth(t *testing.T) {
	for _, n := range []int{codec.MaxDepth - 1, codec.MaxDepth, codec.MaxDepth + 1, 2 * codec.MaxDepth} {
		want := error(nil)
		if n > codec.MaxDepth {
			want = codec.ErrDepth
		}
		arrays, objects := deep("[", "", "]", n), deep(`{"a":`, "{}", "}", n-1)
		for entered := range n {
			var s codec.Scanner
			s.Reset(arrays)
			for range entered {
				s.Array()
				s.Elem()
			}
			s.Skip()
			for range entered {
				if s.Elem() {
					t.Fatal("an element too many")
				}
			}
			if !errors.Is(s.End(), want) {
				t.Fatalf("%d arrays, %d entered: %v, want %v", n, entered, s.End(), want)
			}
			s.Reset(objects)
			for range entered {
				s.Object()
				s.Key()
			}
			s.Raw()
			for range entered {
				if s.Key() {
					t.Fatal("a member too many")
				}
			}
			if !errors.Is(s.End(), want) {
				t.Fatalf("%d objects, %d entered: %v, want %v", n, entered, s.End(), want)
			}
		}
		mixed := deep(`[{"a":`, "1", "}]", n/2)
		for name, in := range map[string][]byte{"arrays": arrays, "objects": objects, "mixed": mixed, "unclosed": arrays[:n]} {
			err := codec.Validate(in)
			switch {
			case name == "mixed" && n == codec.MaxDepth+1: // an even number of levels
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			case name == "unclosed" && want == nil:
				if !errors.Is(err, codec.ErrSyntax) {
					t.Errorf("%s: %v", name, err)
				}
			case !errors.Is(err, want):
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, in := range []string{"0", "-0", "1", "-1", "10", "1234567890", "0.0", "0.5", "-0.50", "1e5", "1E5", "1e+5", "1e-5", "0e0", "0E-0", "1.25e10", "-1.25E-10",
		"9223372036854775807", "123456789012345678901234567890.123456789e123"} {
		var s codec.Scanner
		s.Reset([]byte("[" + in + "," + in + " ]"))
		for s.Array(); s.Elem(); {
			if got := string(s.Raw()); got != in {
				t.Errorf("%s came out as %s", in, got)
			}
		}
		if s.End() != nil || codec.Validate([]byte(in)) != nil {
			t.Errorf("%s: %v", in, s.End())
		}
	}
}

func TestInt(t *testing.T) {
	for _, row := range []struct {
		in   string
		want int64
		ok   bool
	}{
		{"0", 0, true}, {"7", 7, true}, {"1234567890", 1234567890, true}, {"999999999999999", 999999999999999, true},
		{"1000000000000000", 1000000000000000, true}, {"9007199254740991", 1<<53 - 1, true},
		{"9007199254740992", 0, false}, {"9007199254740993", 0, false}, {"9223372036854775807", 0, false}, {"9223372036854775808", 0, false}, {"1e400", 0, false},
		{"1e2", 100, true}, {"1.0", 1, true}, {"12.50e1", 125, true}, {"100e-2", 1, true}, {"-0", 0, true}, {"0.0", 0, true}, {"0e5", 0, true},
		{"-1", 0, false}, {"-1e2", 0, false}, {"0.5", 0, false}, {"1.5", 0, false}, {"1e-1", 0, false}, {"-0.5", 0, false}, {"1e300", 0, false},
		{`"7"`, 0, false}, {"null", 0, false}, {"true", 0, false}, {"[7]", 0, false}, {"{}", 0, false},
	} {
		var s codec.Scanner
		s.Reset([]byte(row.in))
		n, ok := s.Int()
		if n != row.want || ok != row.ok || s.End() != nil {
			t.Errorf("%s: %d, %v, %v, want %d, %v", row.in, n, ok, s.End(), row.want, row.ok)
		}
	}
	for _, in := range []string{"-", "1.", "01", "x", "", "+1", "1e"} {
		var s codec.Scanner
		s.Reset([]byte(in))
		if n, _ := s.Int(); n != 0 || !errors.Is(s.End(), codec.ErrSyntax) {
			t.Errorf("%q: %d, %v", in, n, s.End())
		}
	}
}

func TestBool(t *testing.T) {
	for _, row := range []struct {
		in    string
		v, ok bool
		err   error
	}{
		{"true", true, true, nil}, {"false", false, true, nil}, {"null", false, false, nil}, {"1", false, false, nil}, {`"true"`, false, false, nil},
		{"tru", false, false, codec.ErrSyntax}, {"fals", false, false, codec.ErrSyntax}, {"", false, false, codec.ErrSyntax},
	} {
		var s codec.Scanner
		s.Reset([]byte(row.in))
		if v, ok := s.Bool(); v != row.v || ok != row.ok || !errors.Is(s.End(), row.err) {
			t.Errorf("%q: %v, %v, %v", row.in, v, ok, s.End())
		}
	}
}

// TestControlCharacters: text is repaired later and so let through, raw values are passed on as they are and so must be strict.
func TestControlCharacters(t *testing.T) {
	for c := range byte(' ') {
		str := []byte(`"a?b"`)
		str[2] = c
		for _, in := range [][]byte{str, []byte(`[` + string(str) + `]`), []byte(`{"k":` + string(str) + `}`), []byte(`{` + string(str) + `:1}`)} {
			var s codec.Scanner
			s.Reset(in)
			if s.Skip(); s.End() != nil {
				t.Errorf("Skip(%q): %v", in, s.End())
			}
			s.Reset(in)
			if walk(&s); s.End() != nil {
				t.Errorf("walk(%q): %v", in, s.End())
			}
			s.Reset(in)
			if raw := s.Raw(); raw != nil || !errors.Is(s.End(), codec.ErrSyntax) {
				t.Errorf("Raw(%q) = %q, %v", in, raw, s.End())
			}
			if err := codec.Validate(in); !errors.Is(err, codec.ErrSyntax) {
				t.Errorf("Validate(%q) = %v", in, err)
			}
		}
		if c == '\t' || c == '\r' || c == '\n' {
			continue
		}
		for _, in := range []string{"[1?]", "{?}", "?1", "1?", `{"a"?:1}`} { // between values nothing is let through
			in = strings.ReplaceAll(in, "?", string(rune(c)))
			var s codec.Scanner
			s.Reset([]byte(in))
			if s.Skip(); !errors.Is(s.End(), codec.ErrSyntax) {
				t.Errorf("Skip(%q): %v", in, s.End())
			}
		}
	}
}

// TestRawBorrows: a value is the very bytes of the input, without the space around it.
func TestRawBorrows(t *testing.T) {
	in := []byte(`{"a" :  {"n": 9223372036854775807, "s":"\ud800"}  , "b":1}`)
	var s codec.Scanner
	s.Reset(in)
	s.Object()
	s.Key()
	raw := s.Raw()
	if want := `{"n": 9223372036854775807, "s":"\ud800"}`; string(raw) != want {
		t.Fatalf("%s", raw)
	}
	in[8+1] = '#'
	if raw[1] != '#' {
		t.Error("Raw copies")
	}
}

// TestCleanIsOfTheLastText: what came before, on this line or another, does not count.
func TestCleanIsOfTheLastText(t *testing.T) {
	var s codec.Scanner
	s.Reset([]byte("[\"a\tb\",\"c\",\"\\ud800\",\"d\"]"))
	var got []bool
	for s.Array(); s.Elem(); {
		s.Text()
		got = append(got, s.Clean())
	}
	if want := []bool{false, true, false, true}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestHugeValues is T-DEEP: hostile size costs linear time and no stack.
func TestHugeValues(t *testing.T) {
	var keys strings.Builder
	for i := range 1_000_000 {
		fmt.Fprintf(&keys, `,"k%d":%d`, i, i)
	}
	for _, row := range []struct {
		name string
		in   string
		err  error
	}{
		{"100,000 arrays", strings.Repeat("[", 100_000), codec.ErrDepth},
		{"100,000 objects", strings.Repeat(`{"a":`, 100_000), codec.ErrDepth},
		{"1 M keys", "{" + keys.String()[1:] + "}", nil},
		{"1 M digits", strings.Repeat("7", 1_000_000), nil},
		{"1 M decimals", "0." + strings.Repeat("7", 1_000_000), nil},
		{"100 MB string", `"` + strings.Repeat("a", 100<<20) + `"`, nil},
		{"4 MB of escapes", `"` + strings.Repeat(`\ud83d`, 700_000) + `"`, nil},
		{"8 MB of backslashes", `"` + strings.Repeat(`\\`, 4<<20) + `"`, nil},
	} {
		in := []byte(row.in)
		start := time.Now()
		if err := codec.Validate(in); !errors.Is(err, row.err) {
			t.Errorf("%s: %v", row.name, err)
		}
		var s codec.Scanner
		s.Reset(in)
		if walk(&s); !errors.Is(s.End(), row.err) {
			t.Errorf("%s, through the typed methods: %v", row.name, s.End())
		}
		if d := time.Since(start); d > slow*time.Second {
			t.Errorf("%s took %v", row.name, d)
		}
	}
}

// event is what a decoder takes of a line.
type event struct {
	typ, id, text, finish codec.Text
	usage                 []byte
	tokens                int64
}

func (e *event) read(s *codec.Scanner, line []byte) error {
	s.Reset(line)
	for s.Object(); s.Key(); {
		switch string(s.Name()) {
		case "type":
			e.typ, _ = s.Text()
		case "id":
			e.id, _ = s.Text()
		case "text":
			e.text, _ = s.Text()
		case "finishReason":
			e.finish, _ = s.Text()
		case "usage":
			e.usage = s.Raw()
		default:
			s.Skip()
		}
	}
	if err := s.End(); err != nil || e.usage == nil {
		return err
	}
	s.Reset(e.usage)
	for s.Object(); s.Key(); {
		if string(s.Name()) == "totalTokens" {
			e.tokens, _ = s.Int()
		} else {
			s.Skip()
		}
	}
	return s.End()
}

func TestScannerAllocs(t *testing.T) {
	var s codec.Scanner
	for _, line := range []string{textDelta, finishStep, `{"\u0074ype":"a","usage":{"totalTokens":1.2e3}}`} {
		b := []byte(line)
		var e event
		if n := testing.AllocsPerRun(100, func() {
			if e.read(&s, b) != nil {
				t.Fatal("not read")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", line, n)
		}
		if len(e.typ) == 0 {
			t.Errorf("%s: no type", line)
		}
		if n := testing.AllocsPerRun(100, func() { _ = codec.Validate(b) }); n != 0 {
			t.Errorf("Validate(%s): %v allocations", line, n)
		}
	}
	var e event
	if err := e.read(&s, []byte(finishStep)); err != nil || e.tokens != 1285 || string(e.finish) != "stop" {
		t.Errorf("%+v, %v", e, err)
	}
}

func ExampleScanner() {
	var s codec.Scanner
	var text codec.Text
	s.Reset([]byte(`{"id":"1","text":"say \"hi\"","more":{"a":[1,2]}}`))
	for s.Object(); s.Key(); {
		switch string(s.Name()) {
		case "text":
			text, _ = s.Text()
		default:
			s.Skip()
		}
	}
	fmt.Println(string(text), s.Clean(), s.End())
	// Output: say \"hi\" true <nil>
}

// TestSpan: what is scanned again may be sloppier than what is passed on.
func TestSpan(t *testing.T) {
	var s codec.Scanner
	for _, in := range []string{"{\"a\":\"tab\tin\"}", `[1,{"b":"c"}]`, `"x"`} {
		s.Reset([]byte(in))
		if got := s.Span(); string(got) != in || s.End() != nil {
			t.Errorf("%q: %q, %v", in, got, s.End())
		}
	}
	for _, in := range []string{`{"a"}`, "[1,]", `"x`} {
		s.Reset([]byte(in))
		if got := s.Span(); got != nil || s.End() == nil {
			t.Errorf("%q: %q, %v", in, got, s.End())
		}
	}
}
