package anthropic

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
)

// events tells what a body becomes, without any stage.
func events(src io.Reader) string {
	names := map[pipeline.Kind]string{
		pipeline.Text: "text", pipeline.Reasoning: "reasoning", pipeline.ToolStart: "start", pipeline.ToolDelta: "delta", pipeline.ToolEnd: "end",
		pipeline.ToolCall: "call", pipeline.ToolCancel: "cancel", pipeline.Step: "step", pipeline.Finish: "finish",
	}
	var list []string
	for ev, err := range bodyStream(src) {
		if err != nil {
			list = append(list, "error("+string(pipeline.AsError(err).Code)+")")
			continue
		}
		s := names[ev.Kind]
		if len(ev.ID) > 0 || len(ev.Name) > 0 {
			s += fmt.Sprintf("[%s %s]", ev.ID, ev.Name)
		}
		if ev.Text != nil {
			s += fmt.Sprintf("<%s>", []byte(ev.Text)) // as it is, still escaped
		}
		if i := ev.Step; i != nil {
			u := i.Usage
			s += fmt.Sprintf("{%d/%s %d/%d/%d/%d %b}", i.Reason, i.Raw, u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Has)
		}
		list = append(list, s)
	}
	return strings.Join(list, " ")
}

const (
	begun   = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":3,"cache_read_input_tokens":100,"output_tokens":1}}}`
	opened  = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	hello   = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}`
	closed  = `{"type":"content_block_stop","index":0}`
	why     = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}`
	stopped = `{"type":"message_stop"}`

	ended = ` finish{1/end_turn 25/100/3/15 111}` // what begun, why and stopped come to
)

func toolBlock(index int, id, name string, fragments ...string) []string {
	list := []string{fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%q,"name":%q,"input":{}}}`, index, id, name)}
	for _, f := range fragments {
		list = append(list, fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%q}}`, index, f))
	}
	return append(list, fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index))
}

// TestEvents gives each line alone to the decoder, between a start and an end.
func TestEvents(t *testing.T) {
	for line, want := range map[string]string{
		// The documented ones.
		`{"type":"ping"}`: "",
		opened:            "", hello: "text<hello>", closed: "",
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"early"}}`:                                                                               "text<early>",
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`:                                                             "",
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"hm"}}`:                                                                          "reasoning<hm>",
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me "}}`:                                                                       "reasoning<Let me >",
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"}}`:                                                "",
		`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"type":"char_location","cited_text":"LEAK"}}}`:                                   "",
		`{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix"}}`:                                                    "",
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}`:                                                     "start[toolu_1 f]",
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{ }}}`:                                                    "start[toolu_1 f]",
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"f"}}`:                                                                "start[toolu_1 f]",
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":null}}`:                                                         "start[t f]",
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":{"a": 1.0,"b":"\u00e9"}}}`:                                      `start[t f] call[t f]<{\"a\": 1.0,\"b\":\"\\u00e9\"}>`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"srv","name":"web_search","input":{}}}`:                                         "cancel[srv web_search]",
		`{"type":"content_block_start","index":1,"content_block":{"type":"mcp_tool_use","id":"mcp","name":"x","server_name":"s","input":{}}}`:                                   "cancel[mcp x]",
		`{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"srv","content":[{"type":"web_search_result","text":"LEAK"}]}}`: "",
		// Odd ones.
		`{"index":0,"delta":{"text":"any order","type":"text_delta"},"type":"content_block_delta"}`:       "text<any order>",
		`{"type":"content_block\u005fdelta","delta":{"type":"text\u005fdelta","text":"yes"}}`:             "text<yes>",
		`{"type":"content_block_delta","delta":{"type":"text_delta","text":"\"q\" é \u00e9\n\ud83d"}}`:    `text<\"q\" é \u00e9\n\ud83d>`,
		`{"type":"content_block_delta","delta":{"type":"text_delta","text":""}}`:                          "",
		`{"type":"content_block_delta","delta":{"type":"text_delta","text":null}}`:                        "",
		`{"type":"content_block_delta","delta":{"type":"text_delta","text":{"a":1}}}`:                     "",
		`{"type":"content_block_delta","delta":{"type":"text_delta","thinking":"other field"}}`:           "",
		`{"type":"content_block_delta","delta":{"type":"from_the_future","text":"LEAK"}}`:                 "",
		`{"type":"content_block_delta","delta":"LEAK"}`:                                                   "",
		`{"type":"content_block_delta"}`:                                                                  "",
		`{"type":"content_block_delta","index":7,"delta":{"type":"input_json_delta","partial_json":"x"}}`: "", // of no block
		`{"type":"content_block_stop","index":7}`:                                                         "",
		`{"type":"content_block_start","content_block":null}`:                                             "",
		`{"type":"content_block_start"}`:                                                                  "",
		`{"type":"message_delta","delta":{"stop_reason":null},"usage":null}`:                              "",
		`{"type":"message_delta"}`:                                                                        "",
		`{"type":"message_start"}`:                                                                        "",
		`{"type":"from_the_future","delta":{"type":"text_delta","text":"LEAK"}}`:                          "",
		`{"type":7}`: "", `{"type":null}`: "", `{}`: "", `[]`: "", `7`: "", `null`: "", `not json`: "", "\xff\xfe": "", `[DONE]`: "",
		`{"type":"content_block_delta","delta":{"type":"text_delta","text":"x"}`:   "",
		`{"type":"content_block_delta","delta":{"type":"text_delta","text":"\q"}}`: "",
	} {
		want = strings.TrimPrefix(want+ended, " ")
		if got := events(script(begun, line, why, stopped)); got != want {
			t.Errorf("%.120s\n is %q\nnot %q", line, got, want)
		}
	}
}

// TestOrder holds whole rounds.
func TestOrder(t *testing.T) {
	for name, row := range map[string]struct {
		lines []string
		want  string
	}{
		"plain":                   {[]string{begun, opened, `{"type":"ping"}`, hello, hello, closed, why, stopped}, "text<hello> text<hello>" + ended},
		"no message_stop":         {[]string{begun, hello, why}, "text<hello>" + ended},
		"no stop_reason":          {[]string{begun, hello, stopped}, "text<hello> finish{0/ 25/100/3/1 111}"},
		"neither":                 {[]string{begun, hello}, "text<hello> step{0/ 25/100/3/1 111} error(truncated)"},
		"only begun":              {[]string{begun}, "error(truncated)"},
		"nothing":                 {nil, "error(truncated)"},
		"no event":                {[]string{"{}"}, "error(truncated)"},
		"usage twice":             {[]string{begun, why, strings.Replace(why, "15", "20", 1), stopped}, "finish{1/end_turn 25/100/3/20 111}"},
		"usage of all kinds late": {[]string{begun, strings.Replace(why, `"output_tokens":15`, `"input_tokens":30,"cache_read_input_tokens":200,"cache_creation_input_tokens":0,"output_tokens":15`, 1), stopped}, "finish{1/end_turn 30/200/3/15 111}"},
		"usage late only":         {[]string{strings.Replace(begun, `"usage"`, `"x"`, 1), strings.Replace(why, `"output`, `"input_tokens":7,"output`, 1), stopped}, "finish{1/end_turn 7/0/0/15 101}"},
		"no usage":                {[]string{hello, strings.Replace(why, `"usage"`, `"x"`, 1), stopped}, "text<hello> finish{1/end_turn 0/0/0/0 0}"},
		"nulls in the usage":      {[]string{`{"type":"message_start","message":{"usage":{"input_tokens":9,"cache_read_input_tokens":null,"cache_creation_input_tokens":null,"cache_creation":{"ephemeral_5m_input_tokens":0}}}}`, why, stopped}, "finish{1/end_turn 9/0/0/15 101}"},
		"text behind the end":     {[]string{begun, why, stopped, hello, stopped, `{"type":"error","error":{}}`}, strings.TrimSpace(ended)},
		"text behind the reason":  {[]string{begun, why, hello, stopped}, "text<hello>" + ended},
		"error first":             {[]string{`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, hello, stopped}, "error(upstream_error)"},
		"error behind the start":  {[]string{begun, opened, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`}, "error(upstream_error)"},
		"error in the middle":     {[]string{begun, hello, `{"type":"error","error":{"type":"api_error","message":"x"}}`, why, stopped}, "text<hello> step{0/ 25/100/3/1 111} error(upstream_error)"},
		"one call":                {slices.Concat([]string{begun}, toolBlock(0, "a", "f", "", `{"x":`, `1}`), []string{why, stopped}), `start[a f] delta[a ]<{\"x\":> delta[a ]<1}> end[a ]` + ended},
		"blocks without an index": {[]string{begun, `{"type":"content_block_start","content_block":{"type":"tool_use","id":"a","name":"f"}}`, `{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{}"}}`, `{"type":"content_block_stop"}`, why}, "start[a f] delta[a ]<{}> end[a ]" + ended},
		"an index anew":           {[]string{begun, toolBlock(0, "a", "f")[0], toolBlock(0, "b", "g")[0], toolBlock(0, "", "", "{}")[1], closed, closed, why}, "start[a f] start[b g] delta[b ]<{}> end[b ]" + ended},
		"bad input":               {[]string{begun, "{\"type\":\"content_block_start\",\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{\"a\":\"x\ty\"}}}", why}, "start[a f] step{0/ 25/100/3/1 111} error(invalid_tool_call)"},
	} {
		if got := events(script(row.lines...)); got != row.want {
			t.Errorf("%s\n is %q\nnot %q", name, got, row.want)
		}
	}
	for name, framing := range map[string]string{"carriage returns": "\r\n", "lines only": "\n"} {
		lines := strings.Join([]string{begun, hello, why, stopped}, framing)
		if got := events(strings.NewReader(lines)); got != "text<hello>"+ended {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestCalls holds what tool blocks mean behind the stages.
func TestCalls(t *testing.T) {
	tool := strings.Replace(why, "end_turn", "tool_use", 1)
	whole := `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{"x":1}}}`
	two, b := toolBlock(0, "a", "f", `{"x"`, `: 1.50}`), toolBlock(1, "b", "g", `{"y":`, `2}`)
	for name, row := range map[string]struct {
		lines []string
		want  string // calls, or an error's code
	}{
		"fragments":                 {slices.Concat(two, []string{tool}), `a f({"x": 1.50})`},
		"two in a row":              {slices.Concat(two, b, []string{tool}), `a f({"x": 1.50}) b g({"y":2})`},
		"two at once":               {[]string{two[0], b[0], two[1], b[1], b[2], two[2], b[3], two[3], tool}, `a f({"x": 1.50}) b g({"y":2})`},
		"no arguments":              {slices.Concat(toolBlock(0, "a", "f", ""), []string{tool}), `a f({})`},
		"whole at its start":        {[]string{whole, closed, tool}, `a f({"x":1})`},
		"whole, and fragments":      {slices.Concat([]string{whole}, two[1:], []string{tool}), `a f({"x":1})`},
		"run by the API":            {[]string{hello, `{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"s","name":"web_search"}}`, toolBlock(1, "", "", "{}")[1], why}, ``},
		"half":                      {[]string{two[0], two[1], closed, tool}, `invalid_tool_call`},
		"half, cut off by the size": {[]string{hello, two[0], two[1], strings.Replace(why, "end_turn", "max_tokens", 1)}, ``},
		"nothing of it, cut off":    {slices.Concat([]string{hello}, toolBlock(0, "a", "f", ""), []string{strings.Replace(why, "end_turn", "max_tokens", 1)}), ``},
		"no id":                     {slices.Concat(toolBlock(0, "", "f", `{"x":1}`), []string{tool}), `call_turn_0 f({"x":1})`},
		"half a pair":               {slices.Concat(two[:1], []string{`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"x\":\"\ud83d"}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\ude00\"}"}}`, closed, tool}), `a f({"x":"😀"})`},
	} {
		r := body(t, row.lines...)
		if got := r.Told(); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

// TestStopReasons holds what each comes to behind some text, and behind nothing at all ("" is an error).
func TestStopReasons(t *testing.T) {
	for reason, want := range map[string][2]string{
		"end_turn": {"stop", ""}, "stop_sequence": {"stop", ""}, "max_tokens": {"length", "length"}, "model_context_window_exceeded": {"length", "length"},
		"pause_turn": {"length", "length"}, "refusal": {"content_filter", "content_filter"}, "tool_use": {"stop", ""}, "from_the_future": {"stop", ""},
	} {
		end := strings.Replace(why, "end_turn", reason, 1)
		for i, lines := range [][]string{{begun, hello, end, stopped}, {begun, end, stopped}} {
			r := body(t, lines...)
			got := ""
			if r.Err == nil {
				got = r.Finish.Reason.String()
			}
			if got != want[i] || r.Err == nil && r.Finish.Raw != reason {
				t.Errorf("%s is %q, want %q (%v)", reason, got, want[i], r.Err)
			}
		}
	}
}

// TestUsageReachesTheTurn also if the answer breaks off.
func TestUsageReachesTheTurn(t *testing.T) {
	all := pipeline.HasInput | pipeline.HasCache | pipeline.HasOutput
	for want, lines := range map[pipeline.Usage][]string{
		{Input: 25, CacheRead: 100, CacheWrite: 3, Output: 15, Has: all}: {begun, hello, why, stopped},
		{Input: 25, CacheRead: 100, CacheWrite: 3, Output: 1, Has: all}:  {begun, hello},
	} {
		r := body(t, lines...)
		if r.Turn.Usage != want || r.Finish != nil && r.Finish.Usage != want || want.Prompt() != 128 {
			t.Errorf("%+v, want %+v", r.Turn.Usage, want)
		}
	}
}

// recorded is a body with everything in it.
func recorded() string {
	return framed(slices.Concat([]string{begun, `{"type":"ping"}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm, \"so\" é"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"Eq=="}}`, closed, opened, hello, closed},
		toolBlock(2, "toolu_1", "read", "", `{"path":`, `"a\n"}`), []string{strings.Replace(why, "end_turn", "tool_use", 1), stopped})...)
}

// TestDecoderSplitAtEveryByte: wherever the network cuts the bytes, the events are the same.
func TestDecoderSplitAtEveryByte(t *testing.T) {
	b := recorded()
	want := events(strings.NewReader(b))
	if strings.Count(want, "[toolu_1") != 4 || !strings.Contains(want, `reasoning<Hm, \"so\" é> text<hello> start`) {
		t.Fatal(want)
	}
	if got := events(iotest.OneByteReader(strings.NewReader(b))); got != want {
		t.Errorf("one byte a read\n is %q\nnot %q", got, want)
	}
	for i := range b {
		if got := events(io.MultiReader(strings.NewReader(b[:i]), strings.NewReader(b[i:]))); got != want {
			t.Fatalf("cut at %d\n is %q\nnot %q", i, got, want)
		}
	}
}

// TestDecoderAllocatesNothing for the events that a stream consists of.
func TestDecoderAllocatesNothing(t *testing.T) {
	out := upstream.NewEmitter(func(*pipeline.Event, error) bool { return true })
	d := NewDecoder(testMask())
	d.Line([]byte(toolBlock(2, "toolu_1", "f")[0]), out)
	for _, l := range []string{
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"some words, \"quoted\" é"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"signature_delta","signature":"Eq=="}}`,
		`{"type":"ping"}`, begun,
	} {
		line := []byte(l)
		if n := testing.AllocsPerRun(100, func() { d.Line(line, out) }); n > 0 {
			t.Errorf("%v allocations for %s", n, l)
		}
	}
}
