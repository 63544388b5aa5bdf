package codec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"amplifier-agent/codec"
)

// body is the shape of what is decoded off the hot path.
type body struct {
	Name     string           `json:"name"`
	Text     *string          `json:"text,omitempty"`
	N        int64            `json:"n"`
	On       bool             `json:"on"`
	List     []body           `json:"list"`
	Metadata map[string]any   `json:"metadata"`
	Input    codec.RawMessage `json:"input"`
	Any      any              `json:"any"`
}

func TestUnmarshalRefuses(t *testing.T) {
	for _, row := range broken {
		var v any
		if err := codec.Unmarshal([]byte(row.in), &v); !errors.Is(err, codec.ErrSyntax) || v != nil {
			t.Errorf("%q: %v, %v", row.in, v, err)
		}
	}
	for name, in := range map[string]string{
		"arrays":     strings.Repeat("[", 100_000),
		"parameters": `{"tools":[{"function":{"parameters":` + strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000) + "}}]}",
		"one more":   string(deep("[", "", "]", codec.MaxDepth+1)),
	} {
		var v any
		if err := codec.Unmarshal([]byte(in), &v); !errors.Is(err, codec.ErrDepth) || v != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var v any
	if err := codec.Unmarshal(deep("[", "", "]", codec.MaxDepth), &v); err != nil {
		t.Error(err)
	}
}

// TestMisfit: a value of the wrong type is told of in words of the document.
func TestMisfit(t *testing.T) {
	for in, want := range map[string]string{
		`{"n":"x"}`:                    "n: expected a whole number, got a string",
		`{"n":1.5}`:                    "n: expected a whole number, got 1.5",
		`{"n":9999999999999999999999}`: "n: expected a whole number, got 9999999999999999999999",
		`{"n":[]}`:                     "n: expected a whole number, got a list",
		`{"name":1}`:                   "name: expected a string, got a number",
		`{"name":{}}`:                  "name: expected a string, got an object",
		`{"on":"yes"}`:                 "on: expected true or false, got a string",
		`{"list":true}`:                "list: expected a list, got true or false",
		`{"list":[{"n":"x"}]}`:         "list.0.n: expected a whole number, got a string",
		`{"metadata":[]}`:              "metadata: expected an object, got a list",
		`[]`:                           "expected an object, got a list",
	} {
		var v body
		if err := codec.Unmarshal([]byte(in), &v); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

// TestUnmarshalAlternates is B031: a broken body must not spoil the next one through a pooled decoder.
func TestUnmarshalAlternates(t *testing.T) {
	bad := []string{`{"\`, `{"h\A>\`, `{"name":"\`, `{"n":`, `{"list":[{"name":"\u12`, `{"metadata":{"a`, `{"` + strings.Repeat("\xAE", 1024)}
	good := []byte(`{"name":"a\n\"b\"","n":7,"on":true,"list":[{"name":"c"}],"metadata":{"k":[1,null]},"input":{"id":9223372036854775807}}`)
	for i := range 20_000 {
		var v body
		if err := codec.Unmarshal([]byte(bad[i%len(bad)]), &v); !errors.Is(err, codec.ErrSyntax) {
			t.Fatalf("%q: %v", bad[i%len(bad)], err)
		}
		v = body{}
		err := codec.Unmarshal(good, &v)
		if err != nil || v.Name != "a\n\"b\"" || v.N != 7 || !v.On || len(v.List) != 1 || v.List[0].Name != "c" || len(v.Metadata) != 1 || string(v.Input) != `{"id":9223372036854775807}` {
			t.Fatalf("round %d: %+v, %v", i, v, err)
		}
	}
}

// TestBadBytes is B033.
func TestBadBytes(t *testing.T) {
	for _, n := range []int{1, 510, 511, 512, 513, 1024, 4096, 100_000} {
		in := `{"` + strings.Repeat("\xAE", n)
		var v any
		if err := codec.Read(strings.NewReader(in), 1<<20, &v); !errors.Is(err, codec.ErrSyntax) {
			t.Errorf("%d bad bytes: %v", n, err)
		}
		var m map[string]int
		if err := codec.Read(strings.NewReader(in+`":1}`), 1<<20, &m); err != nil || len(m) != 1 {
			t.Errorf("%d bad bytes as a key: %d members, %v", n, len(m), err)
		}
	}
}

// TestRunesSurvive is B034: no buffer of a decoder may cut a character.
func TestRunesSurvive(t *testing.T) {
	for n := 2600; n <= 2760; n++ {
		want := strings.Repeat("あ", n)
		for name, src := range map[string]io.Reader{
			"at once": strings.NewReader(`"` + want + `"`), "one by one": iotest.OneByteReader(strings.NewReader(`"` + want + `"`)),
		} {
			var got string
			if err := codec.Read(src, 1<<20, &got); err != nil || got != want {
				t.Fatalf("%d characters %s: %d bytes, %v", n, name, len(got), err)
			}
		}
	}
}

// TestDigitsSurvive is B036: raw values keep what a float64 would round.
func TestDigitsSurvive(t *testing.T) {
	const in = `{"input":{"id":9223372036854775807,"f":0.1000000000000000055511151231257827,"e":1E+2}}`
	var v struct {
		Input codec.RawMessage `json:"input"`
	}
	if err := codec.Unmarshal([]byte(in), &v); err != nil {
		t.Fatal(err)
	}
	if out, err := codec.Marshal(v); err != nil || string(out) != in {
		t.Errorf("%s, %v", out, err)
	}
}

// TestNulls is B039: null is accepted for everything and leaves it empty.
func TestNulls(t *testing.T) {
	var v body
	if err := codec.Unmarshal([]byte(`{"name":null,"text":null,"n":null,"on":null,"list":null,"metadata":null,"input":null,"any":null}`), &v); err != nil {
		t.Fatal(err)
	}
	if v.Name != "" || v.Text != nil || v.N != 0 || v.On || v.List != nil || v.Metadata != nil || v.Any != nil {
		t.Errorf("%+v", v)
	}
	m := map[string]string{"a": "b"}
	if err := codec.Unmarshal([]byte("null"), &m); err != nil || m != nil {
		t.Errorf("%v, %v", m, err)
	}
}

// TestReadIsLinear is the rest of B039.
func TestReadIsLinear(t *testing.T) {
	item := `{"name":"` + strings.Repeat("x", 80) + `","n":1,"metadata":null},`
	in := "[" + strings.Repeat(item, 30<<20/len(item)) + "{}]"
	start := time.Now()
	var v []body
	if err := codec.Read(strings.NewReader(in), 32<<20, &v); err != nil || len(v) != strings.Count(in, "{") {
		t.Fatalf("%d items, %v", len(v), err)
	}
	if d := time.Since(start); d > slow*time.Second {
		t.Errorf("30 MB took %v", d)
	}
}

func TestRead(t *testing.T) {
	const in = ` {"name":"x"} `
	broken := errors.New("broken")
	for _, row := range []struct {
		name  string
		src   io.Reader
		limit int64
		err   error
	}{
		{"exactly the limit", strings.NewReader(in), int64(len(in)), nil},
		{"one byte less", strings.NewReader(in), int64(len(in)) - 1, codec.ErrTooLarge},
		{"space behind the limit", strings.NewReader(in + " "), int64(len(in)), codec.ErrTooLarge},
		{"without end", &endless{head: `"`, n: 1 << 40}, 1 << 10, codec.ErrTooLarge},
		{"nothing", strings.NewReader(""), 10, codec.ErrSyntax},
		{"two documents", strings.NewReader(in + in), 100, codec.ErrSyntax},
		{"an error of the source", io.MultiReader(strings.NewReader(in), iotest.ErrReader(broken)), 100, broken},
		{"one by one", iotest.OneByteReader(strings.NewReader(in)), 100, nil},
	} {
		var v body
		if err := codec.Read(row.src, row.limit, &v); err != row.err || (err == nil) != (v.Name == "x") {
			t.Errorf("%s: %+v, %v", row.name, v, err)
		}
	}
}

// TestUnmarshalOwns: nothing that was decoded changes with the bytes it came from, which may be borrowed.
func TestUnmarshalOwns(t *testing.T) {
	in := []byte(`{"name":"plain","text":"es\"caped","list":[{"name":"x"}],"metadata":{"key":"value"},"input":{"a":"b"},"any":["c"]}`)
	var v body
	if err := codec.Unmarshal(in, &v); err != nil {
		t.Fatal(err)
	}
	before, err := codec.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for i := range in {
		in[i] = '!'
	}
	if after, err := codec.Marshal(v); err != nil || !bytes.Equal(before, after) {
		t.Errorf("%s became %s, %v", before, after, err)
	}
}

func TestMarshal(t *testing.T) {
	for _, row := range []struct {
		v    any
		want string
	}{
		{"<a href=\"x\">&</a>", `"<a href=\"x\">&</a>"`},
		{"tab\tnul\x00", `"tab\tnul\u0000"`},
		{"\u0085\u2028\u2029 é 東 😀", `"\u0085\u2028\u2029 é 東 😀"`},
		{"\u0085", `"\u0085"`},
		{"a\xffb", `"a\ufffdb"`},
		{map[string]any{"\u0085k": "v\u2028"}, `{"\u0085k":"v\u2028"}`},
		{codec.RawMessage("{\"n\": 1.50, \"s\":\"\u2028\u0085\xff東\"}"), "{\"n\":1.50,\"s\":\"\\u2028\\u0085\uFFFD東\"}"},
		{[]codec.RawMessage{codec.RawMessage(`9223372036854775807`)}, `[9223372036854775807]`},
		{struct {
			A *int `json:"a"`
			B int  `json:"b,omitempty"`
		}{}, `{"a":null}`},
		{[]int(nil), `null`},
	} {
		got, err := codec.Marshal(row.v)
		if err != nil || string(got) != row.want {
			t.Errorf("%q: %q, %v, want %q", row.v, got, err, row.want)
		}
		if codec.Validate(got) != nil || !json.Valid(got) {
			t.Errorf("%q is not valid", got)
		}
	}
	for _, v := range []any{func() {}, codec.RawMessage(`{"a":}`), codec.RawMessage("\"a\nb\"")} {
		if b, err := codec.Marshal(v); err == nil {
			t.Errorf("%v became %q", v, b)
		}
	}
	got, err := codec.MarshalIndent(map[string]any{"a": []string{"<\u2028"}})
	if want := "{\n  \"a\": [\n    \"<\\u2028\"\n  ]\n}"; err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
