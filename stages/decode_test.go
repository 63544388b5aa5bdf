package stages_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/stages"
)

func decode(t testing.TB, body string) (*pipeline.Turn, error) {
	t.Helper()
	turn := &pipeline.Turn{Body: []byte(body)}
	return turn, stages.Decode(stages.DecodeOptions{}).Request(t.Context(), turn)
}

// invalid checks that body is refused at param.
func invalid(t *testing.T, body, param string) {
	t.Helper()
	_, err := decode(t, body)
	if err == nil {
		t.Fatalf("%.200s was accepted", body)
	}
	wantError(t, err, pipeline.CodeInvalidRequest, param, "")
	if pipeline.AsError(err).Origin != pipeline.OriginClient {
		t.Errorf("origin of %v", err)
	}
}

const hello = `"messages":[{"role":"user","content":"hi"}]`

// with is a good request with one more field.
func with(field string) string { return `{"model":"m",` + hello + `,` + field + `}` }

// TestDecodeFields goes through the contract's request table.
func TestDecodeFields(t *testing.T) {
	for _, row := range []struct{ field, good, bad string }{
		{"temperature", `0 0.7 -1 1e2 2E-3 null`, `"0.7" true [] {}`},
		{"top_p", `0 1 0.95 null`, `"1" false [] {}`},
		{"max_tokens", `0 1 4096 -1 100.0 1e3 12345678901234567890 null`, `1.5 "5" true [] {} 1e999`},
		{"max_completion_tokens", `0 128000 null`, `0.5 "5" true [] {}`},
		{"stream", `true false null`, `"true" 1 0 [] {}`},
		{"user", `"u" "" null`, `1 true [] {}`},
		{"stop", `"x" [] ["a","b"] null`, `1 true {}`},
		{"tool_choice", `"auto" {} {"type":"function","function":{"name":"f"}} null`, `1 true []`},
		{"stream_options", `{} {"include_usage":true} {"include_usage":false} {"include_usage":null} {"other":1} null`, `1 "x" true []`},
		{"tools", `[] null`, `1 "x" true {}`},
		// What is not in the table is accepted and ignored (rulings 37).
		{"n", `1 "x" null {} [[[]]]`, ``},
		{"reasoning_effort", `"high" null 0.5 true {} []`, ``}, // clients put all kinds of things in there
		{"reasoning", `{"effort":"high"} {"effort":7} {} "x" true null [1]`, ``},
		{"response_format", `{"type":"json_object"} 5`, ``},
		{"logprobs", `true "x"`, ``},
		{"parallel_tool_calls", `false "x"`, ``},
		{"seed", `1 "x"`, ``},
		{"metadata", `null {"a":{"b":[1,2,{"c":null}]}}`, ``},
		{"x-unknown", `"\ud800" -0.0e-0`, ``},
	} {
		for _, v := range strings.Fields(row.good) {
			if _, err := decode(t, with(fmt.Sprintf("%q:%s", row.field, v))); err != nil {
				t.Errorf("%s %s: %v", row.field, v, err)
			}
		}
		for _, v := range strings.Fields(row.bad) {
			invalid(t, with(fmt.Sprintf("%q:%s", row.field, v)), row.field)
		}
	}
	invalid(t, with(`"stop":[1]`), "stop[0]")
	invalid(t, with(`"stop":["a","b",null]`), "stop[2]")
	invalid(t, with(`"stream_options":{"include_usage":1}`), "stream_options.include_usage")
}

// TestDecodeEffort: the name of this API counts, then that of others.
func TestDecodeEffort(t *testing.T) {
	for fields, want := range map[string]string{
		`"reasoning_effort":"high"`:                                            "high",
		`"reasoning_effort":"h\u0069gh"`:                                       "high",
		`"reasoning":{"summary":{"effort":"x"},"effort":"low","exclude":true}`: "low",
		`"reasoning":{"effort":"low"},"reasoning_effort":"high"`:               "high",
		`"reasoning_effort":"high","reasoning":{"effort":"low"}`:               "high",
		`"reasoning_effort":"","reasoning":{"effort":"low"}`:                   "low",
		`"reasoning_effort":null`:                                              "",
		`"reasoning_effort":{"effort":"low"},"reasoning":"high"`:               "",
		`"reasoning":{"effort":null}`:                                          "",
	} {
		turn, err := decode(t, with(fields))
		if err != nil || turn.Sampling.Effort != want {
			t.Errorf("%s: %q, %v", fields, turn.Sampling.Effort, err)
		}
	}
}

func TestDecodeRequired(t *testing.T) {
	for name, row := range map[string]struct{ body, param string }{
		"empty object":    {`{}`, "model"},
		"no model":        {`{` + hello + `}`, "model"},
		"model null":      {`{"model":null,` + hello + `}`, "model"},
		"model number":    {`{"model":5,` + hello + `}`, "model"},
		"model empty":     {`{"model":"",` + hello + `}`, "model"},
		"model other key": {`{"Model":"m",` + hello + `}`, "model"},
		"no messages":     {`{"model":"m"}`, "messages"},
		"messages null":   {`{"model":"m","messages":null}`, "messages"},
		"messages empty":  {`{"model":"m","messages":[]}`, "messages"},
		"messages text":   {`{"model":"m","messages":"hi"}`, "messages"},
		"messages object": {`{"model":"m","messages":{"role":"user"}}`, "messages"},
		"array":           {`[]`, ""},
		"string":          {`"x"`, ""},
		"null":            {`null`, ""},
		"number":          {`1`, ""},
	} {
		t.Run(name, func(t *testing.T) { invalid(t, row.body, row.param) })
	}
}

func TestDecodeStream(t *testing.T) {
	for field, want := range map[string]string{`"x":1`: "unset", `"stream":null`: "unset", `"stream":true`: "true", `"stream":false`: "false"} {
		turn, err := decode(t, with(field))
		got := "unset"
		if turn.Stream != nil {
			got = fmt.Sprint(*turn.Stream)
		}
		if err != nil || got != want || turn.Model != "m" || len(turn.Messages) != 1 {
			t.Errorf("%s: got %s, %v", field, got, err)
		}
	}
}

// TestDecodeSyntax checks that what is no JSON is refused as such, with the place where it breaks.
func TestDecodeSyntax(t *testing.T) {
	good := `{"model":"m","messages":[{"role":"user","content":"hi \u00e4 ☃"}],"n":[1,true,null]}`
	if _, err := decode(t, good); err != nil {
		t.Fatal(err)
	}
	for i := range len(good) {
		invalid(t, good[:i], "")
	}
	for body, at := range map[string]int{
		"":                                  0,
		"not json":                          0,
		`{"model":"m",}`:                    13,
		`{"model":"m"} x`:                   13,
		`{"model":"m"}{}`:                   13,
		`{'model':'m'}`:                     1,
		`{"a":01}`:                          6,
		"{\"a\":\"x\ny\"}":                  5,
		`{"a":"\x"}`:                        5,
		`{"a":NaN}`:                         5,
		"\xEF\xBB\xBF{}":                    0,
		`{"` + strings.Repeat("\xAE", 1024): 1,
	} {
		_, err := decode(t, body)
		wantError(t, err, pipeline.CodeInvalidRequest, "", fmt.Sprintf("the request body is not valid JSON (at byte %d)", at))
	}
}

// TestDecodeHostile sends what has brought other servers down.
func TestDecodeHostile(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 100_000)
	for name, body := range map[string]string{
		"open":       deep,
		"closed":     with(`"x":` + deep + `1` + strings.Repeat("}", 100_000)),
		"arrays":     with(`"x":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)),
		"parameters": with(`"tools":[{"type":"function","function":{"name":"f","parameters":` + deep + `1` + strings.Repeat("}", 100_000) + `}}]`),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decode(t, body)
			wantError(t, err, pipeline.CodeInvalidRequest, "", fmt.Sprintf("the request body is nested deeper than %d levels", codec.MaxDepth))
		})
	}
	nested := func(n int) string { return with(`"x":` + strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if _, err := decode(t, nested(codec.MaxDepth-1)); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	invalid(t, nested(codec.MaxDepth), "")

	var keys strings.Builder
	for i := range 1_000_000 {
		fmt.Fprintf(&keys, `"k%d":%d,`, i, i)
	}
	turn := &pipeline.Turn{Body: []byte(`{` + keys.String() + `"model":"m",` + hello + `}`)}
	if n := testing.AllocsPerRun(1, func() {
		if err := stages.Decode(stages.DecodeOptions{}).Request(t.Context(), turn); err != nil || turn.Model != "m" || turn.Messages[0].Text() != "hi" {
			t.Errorf("a million keys: %v", err)
		}
	}); n > 100 {
		t.Errorf("a million ignored keys cost %v allocations", n)
	}
}

// TestDecodeDuplicates checks that the last member of a name counts.
func TestDecodeDuplicates(t *testing.T) {
	turn, err := decode(t, `{"model":"a","messages":[{"role":"user","content":"x"},{"role":"user","content":"y"}],"stream":true,"tools":[{"type":"function","function":{"name":"f"}}],`+
		`"model":"b","messages":[{"role":"user","content":"p","content":"q","role":"system"}],"stream":null,"tools":null}`)
	if err != nil || turn.Model != "b" || len(turn.Messages) != 1 || turn.Stream != nil || len(turn.Tools) != 0 {
		t.Fatalf("got %+v, %v", turn, err)
	}
	if m := turn.Messages[0]; m.Role != pipeline.RoleSystem || m.Text() != "q" {
		t.Errorf("got %+v", m)
	}
	invalid(t, `{"model":"m",`+hello+`,"messages":[]}`, "messages")
	if turn, err := decode(t, `{"mod\u0065l":"m",`+hello+`}`); err != nil || turn.Model != "m" {
		t.Errorf("escaped key: %v", err)
	}
}

func TestDecodeTools(t *testing.T) {
	for name, row := range map[string]struct{ in, want string }{
		"whole":           {`{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true},"x":1}`, `f/d/{"type":"object"}`},
		"name alone":      {`{"type":"function","function":{"name":"f"}}`, `f//`},
		"nulls":           {`{"type":"function","function":{"name":"f","description":null,"parameters":null}}`, `f//`},
		"order of keys":   {`{"function":{"parameters":{},"name":"f"},"type":"function"}`, `f//{}`},
		"escapes":         {`{"type":"functi\u006fn","function":{"n\u0061me":"f\u00fc","description":"a\nb"}}`, "fü/a\nb/"},
		"schema kept":     {`{"type":"function","function":{"name":"f","parameters":{ "b" : 1e2, "a": 12345678901234567890, "a": "\u00e9" }}}`, `f//{ "b" : 1e2, "a": 12345678901234567890, "a": "\u00e9" }`},
		"other type":      {`{"type":"web_search"},{"type":"function","function":{"name":"g"}}`, `g//`},
		"other, function": {`{"type":"other","function":{"name":"f"}}`, ``},
		"custom":          {`{"type":"custom","custom":{"name":"c"}}`, ``},
		"no type":         {`{"function":{"name":"f"}}`, ``},
		"type null":       {`{"type":null,"function":{"name":"f"}}`, ``},
		"no function":     {`{"type":"function"}`, ``},
		"function null":   {`{"type":"function","function":null}`, ``},
		"function text":   {`{"type":"function","function":"f"}`, ``},
		"no name":         {`{"type":"function","function":{"description":"d"}}`, ``},
		"empty name":      {`{"type":"function","function":{"name":""}}`, ``},
		"name number":     {`{"type":"function","function":{"name":5}}`, ``},
		"name null":       {`{"type":"function","function":{"name":null}}`, ``},
		"not objects":     {`null,5,"x",[],true,{"type":"function","function":{"name":"f"}}`, `f//`},
		"empty object":    {`{}`, ``},
		"duplicates stay": {`{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}`, `f// f//`},
	} {
		t.Run(name, func(t *testing.T) {
			turn, err := decode(t, with(`"tools":[`+row.in+`]`))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, tool := range turn.Tools {
				got = append(got, fmt.Sprintf("%s/%s/%s", tool.Name, tool.Description, tool.Parameters))
			}
			if s := strings.Join(got, " "); s != row.want {
				t.Errorf("got %q, want %q", s, row.want)
			}
		})
	}
	for param, tool := range map[string]string{
		"tools[0].function.parameters":  `{"type":"function","function":{"name":"f","parameters":[]}}`,
		"tools[0].function.description": `{"type":"function","function":{"name":"f","description":5}}`,
		"tools[2].function.parameters":  `{"type":"x"},{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f","parameters":"{}"}}`,
	} {
		invalid(t, with(`"tools":[`+tool+`]`), param)
	}
}

// TestDecodeKeepsBody checks that decoding changes nothing in the body, from which the turn borrows.
func TestDecodeKeepsBody(t *testing.T) {
	body := openCodeRequest()
	turn := &pipeline.Turn{Body: []byte(body)}
	if err := stages.Decode(stages.DecodeOptions{}).Request(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	if string(turn.Body) != body {
		t.Error("the body was changed")
	}
}

// TestDecodeError checks that the error of a stage is found behind its name.
func TestDecodeError(t *testing.T) {
	err := pipeline.Prepare(t.Context(), []pipeline.Stage{stages.Decode(stages.DecodeOptions{})}, &pipeline.Turn{Body: []byte(`{"model":"m"}`)})
	var e *pipeline.Error
	if !errors.As(err, &e) || err.Error() != "decode: messages is required" {
		t.Errorf("got %v", err)
	}
}

// TestDecodeSampling: what the client wants of the model's settings is kept as it was spelt; null is no wish.
func TestDecodeSampling(t *testing.T) {
	const messages = `"model":"m","messages":[{"role":"user","content":"x"}]`
	for body, want := range map[string]pipeline.Sampling{
		`"temperature":0.50,"top_p":1e-1,"stop":"END","tool_choice":"none"`:                {Temperature: []byte("0.50"), TopP: []byte("1e-1"), Stop: []string{"END"}, ToolChoice: []byte(`"none"`)},
		`"stop":["a","\u0062"],"tool_choice":{"type":"function","function":{"name":"f"}}`:  {Stop: []string{"a", "b"}, ToolChoice: []byte(`{"type":"function","function":{"name":"f"}}`)},
		`"temperature":null,"top_p":null,"stop":null,"tool_choice":null,"max_tokens":null`: {},
		`"max_tokens":5`: {MaxTokens: 5},
		`"max_completion_tokens":7,"max_tokens":5`:      {MaxTokens: 7},
		`"max_completion_tokens":null,"max_tokens":5.0`: {MaxTokens: 5},
		`"max_tokens":-1`:    {MaxTokens: -1},
		`"max_tokens":1e300`: {MaxTokens: 1<<31 - 1},
	} {
		turn := &pipeline.Turn{Body: []byte(`{` + messages + `,` + body + `}`)}
		if err := stages.Decode(stages.DecodeOptions{}).Request(t.Context(), turn); err != nil {
			t.Errorf("%s: %v", body, err)
		} else if !reflect.DeepEqual(turn.Sampling, want) {
			t.Errorf("%s: got %+v", body, turn.Sampling)
		}
	}
}

// TestDecodeRaw: each message is also there as the client wrote it.
func TestDecodeRaw(t *testing.T) {
	const first, second = `{"role":"user", "content":"x" ,"x":[1, 2]}`, "{\n\"content\":null,\"role\":\"assistant\"}"
	turn := &pipeline.Turn{Body: []byte("{\"messages\": [ " + first + " ,\t" + second + " ],\"model\":\"m\"}")}
	if err := stages.Decode(stages.DecodeOptions{}).Request(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{first, second} {
		if got := string(turn.Messages[i].Raw); got != want {
			t.Errorf("message %d: got %q, want %q", i, got, want)
		}
	}
}
