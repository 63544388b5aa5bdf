package chatcompletions

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
)

// madeID is an id that is given here.
var madeID = regexp.MustCompile(`call_[A-Z2-7]{26}`)

// events tells what a body becomes, without any stage. An id that is given here is shown as <id>.
func events(src io.Reader) string {
	names := map[pipeline.Kind]string{
		pipeline.Text: "text", pipeline.Reasoning: "reasoning", pipeline.ToolStart: "start", pipeline.ToolDelta: "delta", pipeline.ToolEnd: "end",
		pipeline.Finish: "finish",
	}
	var b strings.Builder
	for ev, err := range bodyStream(src, NewDecoder(testMask())) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		if err != nil {
			b.WriteString(string(pipeline.AsError(err).Code))
			continue
		}
		b.WriteString(names[ev.Kind])
		if len(ev.ID) > 0 || len(ev.Name) > 0 {
			fmt.Fprintf(&b, "[%s %s]", ev.ID, ev.Name)
		}
		if ev.Text != nil {
			fmt.Fprintf(&b, "<%s>", []byte(ev.Text)) // as it is, still escaped
		}
		if s := ev.Step; s != nil {
			fmt.Fprintf(&b, "{%d/%s %d/%d/%d/%d/%d %s %s}", s.Reason, s.Raw, s.Usage.Input, s.Usage.CacheRead, s.Usage.CacheWrite, s.Usage.Output, s.Usage.Reasoning, s.Cost, s.Generation)
		}
	}
	return madeID.ReplaceAllString(strings.ReplaceAll(b.String(), " 0/0/0/0/0  }", "}"), "<id>")
}

const (
	role   = `{"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	hello  = `{"id":"x","choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}`
	stop   = `{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	tools  = `{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
	length = `{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`
	spent  = `{"id":"x","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`
)

func delta(members string) string { return `{"choices":[{"index":0,"delta":{` + members + `}}]}` }

func callDelta(members string) string { return delta(`"tool_calls":[{` + members + `}]`) }

// TestDeltas gives each delta alone to the decoder, with a finish behind it.
func TestDeltas(t *testing.T) {
	for line, want := range map[string]string{
		role: "", hello: "text<hello>",
		delta(`"content":"a\n\u00e9é"`):                                                       `text<a\n\u00e9é>`,
		delta(`"content":null,"reasoning_content":"hm"`):                                      "reasoning<hm>",
		delta(`"content":"a","reasoning_content":"hm"`):                                       "reasoning<hm> text<a>",
		delta(`"reasoning":"hm"`):                                                             "reasoning<hm>",
		delta(`"reasoning":"hm","reasoning_content":"hm"`):                                    "reasoning<hm>",
		delta(`"reasoning":"hm","reasoning_content":""`):                                      "reasoning<hm>",
		delta(`"reasoning":{"text":"hm"}`):                                                    "reasoning<hm>",
		delta(`"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm"}]`): "reasoning<hm>",
		delta(`"reasoning_details":[{"type":"reasoning.text","text":"hm"},7,{"type":"reasoning.summary","summary":"so"},{"data":"x"}]`): "reasoning<hm> reasoning<so>",
		delta(`"refusal":"no"`): "text<no>", delta(`"refusal":null`): "",
		delta(`"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"},null,"b"]`): "reasoning<hm> text<a>",
		delta(`"content":{"a":1}`): "", delta(`"content":7`): "", delta(`"unknown":{"content":"no"}`): "", delta(``): "",
		`{"choices":[{"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`: "text<a> text<b>",
		`{"choices":[{"delta":null}]}`: "", `{"choices":[7,null,[]]}`: "", `{"choices":[]}`: "", `{"choices":null}`: "", `{}`: "", `[]`: "", `7`: "",
		`{"choices":[{"delta":{"content":"a"}}],"error":null}`:                        "text<a>",
		`{"choices":[{"delta":{"content":"a"},"error":null}],"error":{}}`:             "text<a>",
		`{"choices":[{"delta":{"content":"a"},"message":{"content":"no"}}]}`:          "text<a>",
		`{"object":"chat.completion","choices":[{"message":{"content":"a"}}]}`:        "text<a>",
		`{"object":"chat.completion.chunk","choices":[{"message":{"content":"no"}}]}`: "",
		`{"choi\u0063es":[{"delta":{"content":"a"}}]}`:                                "text<a>",
		`{"choices":[{"delta":{"content":"no"}}]`:                                     "", `{"choices":[{"delta":{"content":"no"}}]} x`: "", `not json`: "", "\xff\xfe": "",
		callDelta(`"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}`):         "start[c f] end[c ]",
		callDelta(`"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\": 1.0}"}`):               `start[c f] delta[c ]<{\"a\": 1.0}> end[c ]`,
		callDelta(`"index":0,"id":"c","function":{"name":"f","arguments":{ "a" : 1.0 }}`):                `start[c f] delta[c ]<{ \"a\" : 1.0 }> end[c ]`,
		callDelta(`"index":0,"id":"c","function":{"name":"f","arguments":null}`):                         "start[c f] end[c ]",
		callDelta(`"index":0,"id":null,"function":{"name":"f"}`):                                         "start[<id> f] end[<id> ]",
		callDelta(`"index":0,"id":"\"c\u00e9","function":{"name":"f\n"}`):                                "start[\"cé f\n] end[\"cé ]",
		callDelta("\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":\"\t\"}}"): "start[c f] invalid_tool_call",
		delta(`"tool_calls":null`): "", delta(`"tool_calls":{}`): "", delta(`"tool_calls":[]`): "", delta(`"function_call":null`): "",
		delta(`"function_call":{"name":"f","arguments":"{}"}`): "start[<id> f] delta[<id> ]<{}> end[<id> ]",
	} {
		got := events(strings.NewReader(line + "\n" + stop))
		if got = strings.TrimSuffix(strings.TrimSuffix(got, "finish{1/stop}"), " "); got != want {
			t.Errorf("%.100s\n is %q\nnot %q", line, got, want)
		}
	}
}

// TestOrder holds whole answers, framed in all the ways that were seen.
func TestOrder(t *testing.T) {
	const whole = "text<hello> finish{1/stop 7/0/0/3/0  }"
	beside := strings.Replace(stop, `{"id"`, `{"usage":{"prompt_tokens":7,"completion_tokens":3},"id"`, 1)
	zeros := strings.Replace(stop, `{"id"`, `{"usage":{"prompt_tokens":0,"completion_tokens":0},"id"`, 1)
	for name, row := range map[string]struct {
		lines []string
		want  string
	}{
		"plain":                     {[]string{"data: " + role, "", "data: " + hello, "", "data: " + stop, "", "data: " + spent, "", "data: [DONE]", ""}, whole},
		"no space behind data":      {[]string{"data:" + hello, "data:" + stop, "data:" + spent, "data:[DONE]"}, whole},
		"no data at all":            {[]string{hello, stop, spent}, whole},
		"other fields":              {[]string{": ping", "event: message", "id: 7", "retry: 10", "data: " + hello, "event: x", "data: " + stop, ": ping", "data: " + spent}, whole},
		"carriage returns":          {[]string{"data: " + hello + "\r", "\r", "data: " + stop + "\r", "data: " + spent + "\r"}, whole},
		"byte order mark":           {[]string{"\xEF\xBB\xBFdata: " + hello, stop, spent}, whole},
		"no [DONE]":                 {[]string{hello, stop, spent}, whole},
		"[DONE] in front of usage":  {[]string{hello, stop, "data: [DONE]", spent}, whole},
		"usage beside the finish":   {[]string{hello, beside}, whole},
		"usage in the choice":       {[]string{hello, strings.Replace(stop, `"delta"`, `"usage":{"prompt_tokens":7,"completion_tokens":3},"delta"`, 1)}, whole},
		"usage twice":               {[]string{hello, beside, spent}, whole},
		"usage in front":            {[]string{spent, hello, stop}, whole},
		"usage grows":               {[]string{strings.Replace(hello, `{"id"`, `{"usage":{"prompt_tokens":7,"completion_tokens":1},"id"`, 1), beside}, whole},
		"zeros beside the finish":   {[]string{hello, zeros, spent}, whole},
		"no usage":                  {[]string{hello, stop}, "text<hello> finish{1/stop}"},
		"usage null":                {[]string{hello, strings.Replace(stop, `{"id"`, `{"usage":null,"id"`, 1)}, "text<hello> finish{1/stop}"},
		"no finish":                 {[]string{hello}, "text<hello> truncated"},
		"no finish but [DONE]":      {[]string{hello, "data: [DONE]"}, "text<hello> truncated"},
		"no finish but usage":       {[]string{hello, spent}, "text<hello> truncated"},
		"an empty finish is none":   {[]string{strings.Replace(hello, `null}]`, `""}]`, 1), stop}, "text<hello> finish{1/stop}"},
		"nothing":                   {nil, "truncated"},
		"a page":                    {[]string{"<html>", "</html>"}, "truncated"},
		"two finishes":              {[]string{hello, stop, length}, "text<hello> finish{2/length}"},
		"text behind finish":        {[]string{stop, hello}, "text<hello> finish{1/stop}"},
		"text behind usage":         {[]string{beside, hello}, "text<hello> finish{1/stop 7/0/0/3/0  }"}, // usage beside a choice is not the last word
		"text behind its end":       {[]string{stop, spent, hello}, "finish{1/stop 7/0/0/3/0  }"},
		"filter results in front":   {[]string{`{"choices":[],"prompt_filter_results":[{"x":1}]}`, hello, stop, spent}, whole},
		"error first":               {[]string{`{"error":{"message":"x","code":400}}`, hello, stop}, "upstream_request"},
		"error between":             {[]string{hello, `{"error":"x"}`, stop}, "text<hello> upstream_error"},
		"error in the choice":       {[]string{hello, `{"choices":[{"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"x"}}]}`}, "text<hello> upstream_error"},
		"error behind finish":       {[]string{hello, stop, `{"error":"x"}`, `{"choices":[{"error":"x"}]}`}, "text<hello> finish{1/stop}"},
		"cost beside usage":         {[]string{hello, stop, strings.Replace(spent, `"usage"`, `"cost":"0.5","usage"`, 1)}, "text<hello> finish{1/stop 7/0/0/3/0 0.5 x}"},
		"cost in usage":             {[]string{hello, stop, strings.Replace(spent, `"usage":{`, `"usage":{"cost":0.00012300,`, 1)}, "text<hello> finish{1/stop 7/0/0/3/0 0.00012300 x}"},
		"broken line between":       {[]string{hello, `{"choices":[{`, stop}, "text<hello> finish{1/stop}"},
		"one object, and no stream": {[]string{`{"id":"x","object":"chat.completion","choices":[{"message":{"role":"assistant","content":"hello","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`}, "text<hello> start[c f] delta[c ]<{}> end[c ] finish{4/tool_calls 7/0/0/3/0  }"},
		"length ends no call":       {[]string{callDelta(`"index":0,"id":"c","function":{"name":"f"}`), length}, "start[c f] finish{2/length}"},
	} {
		if got := events(script(row.lines...)); got != row.want {
			t.Errorf("%s\n is %q\nnot %q", name, got, row.want)
		}
	}
}

func script(lines ...string) io.Reader { return strings.NewReader(strings.Join(lines, "\n")) }

func TestFinishReasons(t *testing.T) {
	for raw, want := range map[string]pipeline.Reason{
		"stop": pipeline.ReasonStop, "STOP": pipeline.ReasonStop, "length": pipeline.ReasonLength, "tool_calls": pipeline.ReasonToolCalls, "function_call": pipeline.ReasonToolCalls,
		"content_filter": pipeline.ReasonContentFilter, "error": pipeline.ReasonFault, "from the future": pipeline.ReasonNone,
	} {
		d := NewDecoder(nil)
		out := upstream.NewEmitter(func(*pipeline.Event, error) bool { return true })
		d.Line([]byte(strings.Replace(stop, `"stop"`, `"`+raw+`"`, 1)), out)
		if d.Tail() != usageWait || d.end.Reason != want || d.end.Raw != raw {
			t.Errorf("%s: %+v, tail %s", raw, d.end, d.Tail())
		}
	}
	d := NewDecoder(nil)
	d.Line([]byte(hello), upstream.NewEmitter(func(*pipeline.Event, error) bool { return true }))
	if d.Tail() != 0 {
		t.Errorf("tail %s in the midst", d.Tail())
	}
}

// TestLateUsage: a usage that comes after the finish reason counts, and from that reason on reads are bounded.
func TestLateUsage(t *testing.T) {
	var limits []time.Duration
	var end pipeline.StepInfo
	out := upstream.NewEmitter(func(ev *pipeline.Event, err error) bool {
		if err != nil {
			t.Error(err)
		} else if ev.Kind == pipeline.Finish {
			end = *ev.Step
		}
		return true
	})
	src := io.MultiReader(strings.NewReader(stream(hello)), strings.NewReader(stream(stop)), strings.NewReader(": ping\n"), strings.NewReader(stream(spent)))
	done, err := upstream.Drive(src, codec.LineOptions{}, NewDecoder(nil), out, func(d time.Duration) { limits = append(limits, d) })
	if !done || err != nil || end.Usage.Prompt() != 7 || len(limits) != 1 || limits[0] != usageWait {
		t.Errorf("done %v, %v, %+v, limits %v", done, err, end, limits)
	}
}

// TestSplitAtEveryByte: where reads cut the bytes changes nothing.
func TestSplitAtEveryByte(t *testing.T) {
	data := []byte(": hi\r\n" + stream(role, delta(`"reasoning":"hm \ud83d\ude00"`), hello, callDelta(`"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\":"}`),
		callDelta(`"index":0,"function":{"arguments":"\"é\"}"}`), tools, spent, "[DONE]"))
	want := events(bytes.NewReader(data))
	if !strings.HasSuffix(want, "end[c ] finish{4/tool_calls 7/0/0/3/0  }") {
		t.Fatal(want)
	}
	for i := range data {
		if got := events(io.MultiReader(bytes.NewReader(data[:i]), bytes.NewReader(data[i:]))); got != want {
			t.Fatalf("cut at %d: %s, want %s", i, got, want)
		}
	}
	if got := events(iotest.OneByteReader(bytes.NewReader(data))); got != want {
		t.Errorf("byte by byte: %s", got)
	}
}

// TestDecoderAllocatesNothing for the deltas that a stream consists of.
func TestDecoderAllocatesNothing(t *testing.T) {
	out := upstream.NewEmitter(func(*pipeline.Event, error) bool { return true })
	for _, l := range []string{
		hello,
		delta(`"content":"some words, \"quoted\" é"`),
		delta(`"reasoning_content":"hm"`),
		delta(`"reasoning_details":[{"type":"reasoning.text","text":"hm"}]`),
		callDelta(`"index":0,"id":"c\u0031","function":{"name":"f","arguments":"{\"a\":"}`),
		callDelta(`"index":0,"function":{"arguments":"1}"}`),
		callDelta(`"index":0,"function":{"arguments":{"a":[1,2]}}`),
		delta(`"function_call":{"arguments":"1}"}`),
		`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`,
		`{"from":"the future","x":{"y":[1,2]}}`,
	} {
		d, line := NewDecoder(testMask()), []byte(l)
		if n := testing.AllocsPerRun(100, func() { d.Line(line, out) }); n > 0 {
			t.Errorf("%v allocations for %s", n, l)
		}
	}
}
