package commandcode

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/commandcode/fixtures"
	"amplifier-agent/upstream/simulator"
)

// events tells what a body becomes, without any stage.
func events(src io.Reader) string {
	names := map[pipeline.Kind]string{
		pipeline.Text: "text", pipeline.Reasoning: "reasoning", pipeline.ToolStart: "start", pipeline.ToolDelta: "delta", pipeline.ToolEnd: "end",
		pipeline.ToolCall: "call", pipeline.ToolCancel: "cancel", pipeline.Step: "step", pipeline.Cost: "cost", pipeline.Finish: "finish",
	}
	var b strings.Builder
	for ev, err := range bodyStream(src, NewDecoder(testMask())) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		if err != nil {
			b.WriteString("error")
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
	return strings.ReplaceAll(b.String(), " 0/0/0/0/0  }", "}")
}

// TestEvents gives each line alone to the decoder. What comes at the end of such a body is not shown.
func TestEvents(t *testing.T) {
	for line, want := range map[string]string{
		// The document.
		`{"type":"start"}`: "",
		`{"type":"start-step","request":{"body":{"type":"text-delta","text":"echo"}},"warnings":[]}`:    "",
		`{"type":"reasoning-start","id":"r","providerMetadata":{"gateway":{"generationId":"g"}}}`:       "",
		`{"type":"reasoning-delta","id":"r","text":"Let me "}`:                                          "reasoning<Let me >",
		`{"type":"reasoning-end","id":"r"}`:                                                             "",
		`{"type":"text-start","id":"t"}`:                                                                "",
		`{"type":"text-delta","id":"t","text":"Here"}`:                                                  "text<Here>",
		`{"type":"text-end","id":"t"}`:                                                                  "",
		`{"type":"tool-input-start","id":"c","toolName":"w","dynamic":false}`:                           "start[c w]",
		`{"type":"tool-input-delta","id":"c","delta":"{\""}`:                                            `delta[c ]<{\">`,
		`{"type":"tool-input-end","id":"c"}`:                                                            "end[c ]",
		`{"type":"tool-call","toolCallId":"c","toolName":"w","input":{"a": 1.0,"a":"é\u00e9"}}`:         `call[c w]<{\"a\": 1.0,\"a\":\"é\\u00e9\"}>`,
		`{"type":"finish-step","finishReason":"tool-calls","rawFinishReason":"tool_calls"}`:             "step{4/tool-calls}",
		`{"type":"finish-step","finishReason":"stop","usage":{"inputTokens":9,"outputTokens":2}}`:       "step{1/stop 9/0/0/2/0  }",
		`{"type":"finish-step","providerMetadata":{"gateway":{"cost":"0.1","generationId":"g"}}}`:       "step{0/ 0/0/0/0/0 0.1 g}",
		`{"type":"provider-metadata","providerMetadata":{"gateway":{"cost":"0.1","generationId":"g"}}}`: "cost{0/ 0/0/0/0/0 0.1 g}",
		`{"type":"provider-metadata","providerMetadata":{"gateway":{"generationId":"g"}}}`:              "",
		`{"type":"provider-metadata"}`:                                                                  "",
		`{"type":"error","error":"x"}`:                                                                  "error",
		`{"type":"abort"}`:                                                                              "error",
		// Other names, older forms, gaps.
		`{"type":"text-delta","delta":"Here"}`:                                                        "text<Here>",
		`{"type":"text\u002ddelta","text":"yes"}`:                                                     "text<yes>",
		`{"type":"text\\u002ddelta","text":"no"}`:                                                     "",
		`{"type":"\\","text":"no"}`:                                                                   "",
		`{"type":"error","error":"a	b"}`:                                                              "error",
		`{"type":"text-delta","delta":"no","text":"yes"}`:                                             "text<yes>",
		`{"type":"text-delta","text":null,"delta":"yes"}`:                                             "text<yes>",
		`{"type":"text-delta","text":""}`:                                                             "",
		`{"type":"text-delta"}`:                                                                       "",
		`{"type":"text-delta","text":{"a":1}}`:                                                        "",
		`{"text":"first","type":"text-delta"}`:                                                        "text<first>",
		` { "text" : "spaced" , "type" : "text-delta" } `:                                             "text<spaced>",
		`{"type":"text-delta","te\u0078t":"escaped key"}`:                                             "text<escaped key>",
		`{"type":"text-delta","data":{"text":"legacy"}}`:                                              "text<legacy>",
		`{"type":"text-delta","data":"no object","text":"x"}`:                                         "text<x>",
		`{"type":"reasoning-delta","delta":"x"}`:                                                      "reasoning<x>",
		`{"type":"tool-input-delta","id":"c","text":"x"}`:                                             "delta[c ]<x>",
		`{"type":"tool-input-start","toolCallId":"c","name":"w"}`:                                     "start[c w]",
		`{"type":"tool-input-start","id":"a","toolCallId":"b","toolName":"w"}`:                        "start[a w]",
		`{"type":"tool-call","id":"a","toolCallId":"b","toolName":"w"}`:                               "call[b w]",
		`{"type":"tool-call","id":"a","toolName":"w"}`:                                                "call[a w]",
		`{"type":"tool-call","toolCallId":"\"c\u00e9","toolName":"w\n","input":"{\"a\":\"é\"}"}`:      "call[\"cé w\n]<{\\\"a\\\":\\\"é\\\"}>",
		`{"type":"tool-call","toolCallId":"c","toolName":"w","args":{"a":1}}`:                         `call[c w]<{\"a\":1}>`,
		`{"type":"tool-call","toolCallId":"c","toolName":"w","arguments":{"a":1}}`:                    `call[c w]<{\"a\":1}>`,
		`{"type":"tool-call","toolCallId":"c","toolName":"w","arguments":"3","args":"2","input":"1"}`: `call[c w]<1>`,
		`{"type":"tool-call","toolCallId":"c","toolName":"w","input":"1","args":"2","arguments":"3"}`: `call[c w]<1>`,
		`{"type":"tool-call","toolCallId":"c","toolName":"w","input":null,"arguments":"3"}`:           `call[c w]<3>`,
		`{"type":"tool-call","toolCallId":"c","toolName":"w","input":null}`:                           `call[c w]`,
		`{"type":"tool-call-delta","toolCallId":"c","name":"w","arguments":"{\"a"}`:                   `start[c w] delta[c w]<{\"a>`,
		`{"type":"tool-call-delta","data":{"toolCallId":"c","name":"w","arguments":"x"}}`:             `start[c w] delta[c w]<x>`,
		// What the gateway runs itself.
		`{"type":"tool-input-start","id":"c","toolName":"w","providerExecuted":true}`:             "cancel[c w]",
		`{"type":"tool-call","toolCallId":"c","toolName":"w","input":{},"providerExecuted":true}`: "cancel[c w]",
		`{"type":"tool-call","toolCallId":"c","toolName":"w","providerExecuted":false}`:           "call[c w]",
		`{"type":"tool-call","toolCallId":"c","toolName":"w","providerExecuted":null}`:            "call[c w]",
		`{"type":"tool-result","toolCallId":"c","toolName":"w","output":"x"}`:                     "cancel[c w]",
		// What nobody knows, and what is no event.
		`{"type":"from-the-future","text":"x","delta":"y"}`: "",
		`{"type":"source"}`: "", `{"type":"file"}`: "", `{"type":"raw"}`: "", `{"type":"response-metadata"}`: "", `{"type":"message-metadata"}`: "",
		`{"type":"tool-output-denied"}`: "", `{"type":"tool-approval-request"}`: "", `{"type":"tool-error","toolCallId":"c","error":"x"}`: "cancel[c ]",
		`{"type":"raw","data":{"type":"text-delta","text":"LEAK"}}`:                                   "",
		"{\"type\":\"tool-call\",\"toolCallId\":\"c\",\"toolName\":\"w\",\"input\":{\"a\":\"x\ty\"}}": "error",
		`{"type":7,"text":"x"}`: "", `{"type":null}`: "", `{"text":"x"}`: "", `{}`: "", `[]`: "", `7`: "", `"x"`: "", `null`: "",
		`not json`: "", `{"type":"text-delta","text":"x"`: "", `{"type":"text-delta","text":"x"}}`: "", `{"type":"text-delta","text":"x"} y`: "",
		"\xff\xfe": "", `{"type":"text-delta","text":"\q"}`: "", `{"type":"text-delta","text":"` + "\t" + `raw"}`: "text<\traw>",
		`{"type":"text-delta","text":"x","deep":` + strings.Repeat("[", codec.MaxDepth) + strings.Repeat("]", codec.MaxDepth) + `}`: "",
		`{"type":"text-delta","text":"x","data":` + strings.Repeat(`{"data":`, 600) + "1" + strings.Repeat("}", 601):                "",
	} {
		got := events(strings.NewReader(line))
		got = strings.TrimSuffix(strings.TrimSuffix(got, "error"), " ")
		if want == "error" {
			want = ""
		}
		if i := strings.Index(got, " finish"); strings.HasPrefix(got, "step") && i > 0 {
			got = got[:i]
		}
		if got != want {
			t.Errorf("%.100s\n is %q\nnot %q", line, got, want)
		}
	}
}

func script(lines ...string) io.Reader { return strings.NewReader(strings.Join(lines, "\n")) }

const (
	hello = `{"type":"text-delta","text":"hello"}`
	step  = `{"type":"finish-step","finishReason":"stop","usage":{"inputTokens":5,"outputTokens":2},"providerMetadata":{"gateway":{"cost":"0.25","generationId":"g"}}}`
	ended = `{"type":"finish","finishReason":"stop","totalUsage":{"inputTokens":7,"outputTokens":3}}`
	spent = `{"type":"provider-metadata","providerMetadata":{"gateway":{"cost":"0.50","generationId":"g"}}}`
)

// TestOrder holds whole rounds whose events come in all the orders that were seen.
func TestOrder(t *testing.T) {
	noCost := strings.Replace(step, `"cost":"0.25",`, "", 1)
	for name, row := range map[string]struct {
		lines []string
		want  string
	}{
		"plain":                {[]string{hello, step, ended}, "text<hello> step{1/stop 5/0/0/2/0 0.25 g} finish{1/stop 7/0/0/3/0  }"},
		"step only":            {[]string{hello, step}, "text<hello> step{1/stop 5/0/0/2/0 0.25 g} finish{1/stop}"},
		"finish only":          {[]string{hello, ended}, "text<hello> finish{1/stop 7/0/0/3/0  }"},
		"neither":              {[]string{hello}, "text<hello> error"},
		"nothing":              {nil, "error"},
		"cost behind":          {[]string{hello, noCost, ended, spent}, "text<hello> step{1/stop 5/0/0/2/0  g} cost{0/ 0/0/0/0/0 0.50 g} finish{1/stop 7/0/0/3/0  }"},
		"cost behind a cost":   {[]string{hello, step, ended, spent}, "text<hello> step{1/stop 5/0/0/2/0 0.25 g} finish{1/stop 7/0/0/3/0  }"},
		"cost in front":        {[]string{spent, hello, noCost, ended}, "cost{0/ 0/0/0/0/0 0.50 g} text<hello> step{1/stop 5/0/0/2/0  g} finish{1/stop 7/0/0/3/0  }"},
		"cost in finish":       {[]string{hello, `{"type":"finish","providerMetadata":{"gateway":{"cost":1}}}`}, "text<hello> finish{0/ 0/0/0/0/0 1 }"},
		"a bad cost behind":    {[]string{hello, ended, strings.Replace(spent, "0.50", "free", 1), spent}, "text<hello> cost{0/ 0/0/0/0/0 0.50 g} finish{1/stop 7/0/0/3/0  }"},
		"two finishes":         {[]string{hello, ended, strings.Replace(ended, "stop", "length", 1)}, "text<hello> finish{1/stop 7/0/0/3/0  }"},
		"text behind finish":   {[]string{ended, hello}, "finish{1/stop 7/0/0/3/0  }"},
		"error behind finish":  {[]string{hello, ended, `{"type":"error","error":"x"}`}, "text<hello> finish{1/stop 7/0/0/3/0  }"},
		"abort behind finish":  {[]string{hello, ended, `{"type":"abort"}`}, "text<hello> finish{1/stop 7/0/0/3/0  }"},
		"error behind step":    {[]string{hello, step, `{"type":"error","error":"x"}`}, "text<hello> step{1/stop 5/0/0/2/0 0.25 g} error"},
		"text behind error":    {[]string{`{"type":"error","error":"x"}`, hello, ended}, "error"},
		"text behind its end":  {[]string{`{"type":"text-start"}`, `{"type":"text-end"}`, hello, ended}, "text<hello> finish{1/stop 7/0/0/3/0  }"},
		"two steps":            {[]string{step, hello, step, ended}, "step{1/stop 5/0/0/2/0 0.25 g} text<hello> step{1/stop 5/0/0/2/0 0.25 g} finish{1/stop 7/0/0/3/0  }"},
		"steps end in tools":   {[]string{step, strings.Replace(step, `"stop"`, `"tool-calls"`, 1)}, "step{1/stop 5/0/0/2/0 0.25 g} step{4/tool-calls 5/0/0/2/0 0.25 g} finish{4/tool-calls}"},
		"usage as total":       {[]string{strings.Replace(ended, "totalUsage", "usage", 1)}, "finish{1/stop 7/0/0/3/0  }"},
		"total null":           {[]string{strings.Replace(ended, `"totalUsage"`, `"totalUsage":null,"usage"`, 1)}, "finish{1/stop 7/0/0/3/0  }"},
		"carriage returns":     {[]string{hello + "\r", ended + "\r"}, "text<hello> finish{1/stop 7/0/0/3/0  }"},
		"server-sent events":   {[]string{": ping", "event: x", "data: " + hello, "", "data:" + ended, "data: [DONE]"}, "text<hello> finish{1/stop 7/0/0/3/0  }"},
		"byte order mark":      {[]string{"\xEF\xBB\xBF" + hello, ended}, "text<hello> finish{1/stop 7/0/0/3/0  }"},
		"broken line between":  {[]string{hello, `{"type":"text-delta","text":"x`, ended}, "text<hello> finish{1/stop 7/0/0/3/0  }"},
		"finish without a why": {[]string{hello, `{"type":"finish"}`}, "text<hello> finish{0/}"},
	} {
		if got := events(script(row.lines...)); got != row.want {
			t.Errorf("%s\n is %q\nnot %q", name, got, row.want)
		}
	}
}

// TestCalls holds what tool events mean behind the stages.
func TestCalls(t *testing.T) {
	end := `{"type":"finish","finishReason":"tool-calls"}`
	for name, row := range map[string]struct {
		lines []string
		want  string // name(arguments), or an error's code
	}{
		"fragments and the whole":       {[]string{`{"type":"tool-input-start","id":"a","toolName":"f"}`, `{"type":"tool-input-delta","id":"a","delta":"{\"x\":"}`, `{"type":"tool-input-delta","id":"a","delta":"1}"}`, `{"type":"tool-input-end","id":"a"}`, `{"type":"tool-call","toolCallId":"a","toolName":"f","input":{"x":1}}`, end}, `a f({"x":1})`},
		"fragments only":                {[]string{`{"type":"tool-input-start","id":"a","toolName":"f"}`, `{"type":"tool-input-delta","id":"a","delta":"{\"x\": 1}"}`, end}, `a f({"x": 1})`},
		"the whole only":                {[]string{`{"type":"tool-call","toolCallId":"a","toolName":"f","input":{ "x" : 1.50 }}`, end}, `a f({ "x" : 1.50 })`},
		"the whole first":               {[]string{`{"type":"tool-call","toolCallId":"a","toolName":"f","input":{"x":1}}`, `{"type":"tool-input-delta","id":"a","delta":"{}"}`, end}, `a f({"x":1})`},
		"the whole twice":               {[]string{`{"type":"tool-call","toolCallId":"a","toolName":"f","input":{"x":1}}`, `{"type":"tool-call","toolCallId":"a","toolName":"f","input":{"x":2}}`, end}, `a f({"x":1})`},
		"order of the first sight":      {[]string{`{"type":"tool-input-start","id":"a","toolName":"f"}`, `{"type":"tool-call","toolCallId":"b","toolName":"g","input":{}}`, `{"type":"tool-call","toolCallId":"a","toolName":"f","input":{}}`, end}, `a f({}) b g({})`},
		"older form":                    {[]string{`{"type":"tool-call-delta","data":{"toolCallId":"a","name":"f","arguments":"{\"x\""}}`, `{"type":"tool-call-delta","toolCallId":"a","arguments":":1}"}`, end}, `a f({"x":1})`},
		"executed there":                {[]string{hello, `{"type":"tool-call","toolCallId":"a","toolName":"f","input":{},"providerExecuted":true}`, `{"type":"tool-result","toolCallId":"a","toolName":"f","output":1}`, end}, ``},
		"executed there, told late":     {[]string{hello, `{"type":"tool-input-start","id":"a","toolName":"f"}`, `{"type":"tool-input-delta","id":"a","delta":"{"}`, `{"type":"tool-result","toolCallId":"a","toolName":"f"}`, end}, ``},
		"executed beside one of ours":   {[]string{`{"type":"tool-call","toolCallId":"a","toolName":"f","input":{},"providerExecuted":true}`, `{"type":"tool-call","toolCallId":"b","toolName":"g","input":{}}`, end}, `b g({})`},
		"no arguments":                  {[]string{`{"type":"tool-input-start","id":"a","toolName":"f"}`, `{"type":"tool-input-end","id":"a"}`, end}, `a f({})`},
		"call without arguments":        {[]string{`{"type":"tool-call","toolCallId":"a","toolName":"f"}`, end}, `a f({})`},
		"half":                          {[]string{`{"type":"tool-input-start","id":"a","toolName":"f"}`, `{"type":"tool-input-delta","id":"a","delta":"{\"x\""}`, end}, `invalid_tool_call`},
		"half, cut off by the length":   {[]string{hello, `{"type":"tool-input-start","id":"a","toolName":"f"}`, `{"type":"tool-input-delta","id":"a","delta":"{\"x\""}`, `{"type":"finish","finishReason":"length"}`}, ``},
		"half, and an older pair":       {[]string{`{"type":"tool-input-start","id":"a","toolName":"f"}`, `{"type":"tool-input-delta","id":"a","delta":"{\"x\":\"\ud83d"}`, `{"type":"tool-input-delta","id":"a","delta":"\ude00\"}"}`, end}, `a f({"x":"😀"})`},
		"large numbers keep all digits": {[]string{`{"type":"tool-call","toolCallId":"a","toolName":"f","input":{"n":12345678901234567890123,"m":1e400}}`, end}, `a f({"n":12345678901234567890123,"m":1e400})`},
	} {
		r := body(t, script(row.lines...))
		if got := r.Told(); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

// TestFinishReasons holds the pairs of reasons (facts/commandcode.md §2). "" is an error.
func TestFinishReasons(t *testing.T) {
	for pair, want := range map[string]string{
		"stop/stop": "stop", "stop/": "stop", "/stop": "stop", "stop/end_turn": "stop", "/end_turn": "stop", "stop/stop_sequence": "stop",
		"length/max_tokens": "length", "length/": "length", "/max_output_tokens": "length", "other/model_context_window_exceeded": "length", "other/pause_turn": "length", "unknown/MAX_TOKENS": "length",
		"content-filter/": "content_filter", "other/content_filter": "content_filter", "stop/refusal": "content_filter",
		"error/": "", "stop/network-error": "", "/network_error": "", "/connection_error": "", "other/upstream_error": "",
		"other/": "stop", "unknown/": "stop", "/": "stop", "other/whatever": "stop", // with output; without it these are errors
		"tool-calls/tool_calls": "stop", // no call came
	} {
		unified, raw, _ := strings.Cut(pair, "/")
		for _, kind := range []string{"finish", "finish-step"} {
			r := body(t, script(hello, fmt.Sprintf(`{"type":%q,"finishReason":%q,"rawFinishReason":%q}`, kind, unified, raw)))
			got := ""
			if r.Err == nil {
				got = r.Finish.Reason.String()
			}
			if got != want {
				t.Errorf("%s %s is %q, want %q (%v)", kind, pair, got, want, r.Err)
			}
		}
	}
}

// TestDecoderSplitAtEveryByte: wherever the network cuts the bytes, the events are the same.
func TestDecoderSplitAtEveryByte(t *testing.T) {
	for _, name := range fixtures.Names() {
		b := string(fixtures.Body(name))
		want := events(strings.NewReader(b))
		if got := events(iotest.OneByteReader(strings.NewReader(b))); got != want {
			t.Errorf("%s: one byte a read\n is %q\nnot %q", name, got, want)
		}
		if got := events(strings.NewReader(strings.ReplaceAll(b, "\n", "\r\n"))); got != want {
			t.Errorf("%s: with CR\n is %q\nnot %q", name, got, want)
		}
		if len(b) > 4<<10 {
			continue
		}
		for i := range b {
			if got := events(io.MultiReader(strings.NewReader(b[:i]), strings.NewReader(b[i:]))); got != want {
				t.Errorf("%s: cut at %d\n is %q\nnot %q", name, i, got, want)
			}
		}
	}
}

// TestFixtures holds what each recorded body means.
func TestFixtures(t *testing.T) {
	codes := map[string]pipeline.Code{
		"upstream": pipeline.CodeUpstream, "rate_limit": pipeline.CodeRateLimit, "plan": pipeline.CodePlan, "invalid_tool_call": pipeline.CodeInvalidToolCall,
		"truncated": pipeline.CodeTruncated, "aborted": pipeline.CodeAborted, "empty": pipeline.CodeEmpty,
	}
	for name, want := range fixtures.Expected() {
		t.Run(name, func(t *testing.T) {
			r := body(t, iotest.HalfReader(strings.NewReader(string(fixtures.Body(name)))))
			str := func(what string, got string, want *string) {
				if want == nil && got != "" || want != nil && got != *want {
					t.Errorf("%s %q, want %v", what, got, want)
				}
			}
			str("content", r.Text, want.Content)
			str("reasoning", r.Reasoning, want.Reasoning)
			if want.Error == nil || want.Error.Class != "invalid_tool_call" {
				if len(r.Calls) != len(want.ToolCalls) {
					t.Fatalf("calls %v", r.Calls)
				}
				for i, c := range want.ToolCalls {
					if g := r.Calls[i]; g.ID != c.ID || g.Name != c.Name || string(g.Arguments) != c.Arguments {
						t.Errorf("call %s %s %s, want %+v", g.ID, g.Name, g.Arguments, c)
					}
				}
			}
			if want.Error != nil {
				e := pipeline.AsError(r.Err)
				status := e.Status
				if status == 0 {
					status = 502 // the face's own
				}
				if e.Code != codes[want.Error.Class] || status != want.Error.Status || e.Retry != want.Error.Retryable {
					t.Errorf("error %+v, want %+v", e, want.Error)
				}
				return
			}
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			if got := r.Finish.Reason.String(); got != *want.FinishReason {
				t.Errorf("finish %q, want %q", got, *want.FinishReason)
			}
			cost := ""
			if want.CostUSD != nil {
				cost = *want.CostUSD
			}
			if got := r.Turn.Cost.String(); got != cost || r.Finish.Cost.String() != cost {
				t.Errorf("cost %q, want %q", got, cost)
			}
			u := r.Turn.Usage
			if want.Usage == nil {
				if u.Known() {
					t.Errorf("usage %+v", u)
				}
				return
			}
			if u.Prompt() != want.Usage.Prompt || u.Output != want.Usage.Completion || r.Finish.Usage != u {
				t.Errorf("usage %+v, want %+v", u, want.Usage)
			}
			if d := want.Usage.PromptDetails; d != nil && u.CacheRead != d.Cached || (d == nil) != (u.Has&(pipeline.HasCache|pipeline.HasInput) == 0) {
				t.Errorf("cached %+v, want %+v", u, d)
			}
			if d := want.Usage.CompletionDetails; d != nil && u.Reasoning != d.Reasoning || (d == nil) != (u.Has&pipeline.HasReasoning == 0) {
				t.Errorf("reasoning %+v, want %+v", u, d)
			}
		})
	}
}

// TestCostWait measures how long the end of a round is kept back for a cost (rulings 22). A busy machine has ten tries for what has
// to be there before some time.
func TestCostWait(t *testing.T) {
	noCost := strings.Replace(step, `"cost":"0.25",`, "", 1)
	rows := []struct {
		name  string
		lines []string
		pause time.Duration // before the last line
		end   simulator.End
		cost  string
		waits bool // for costWait, from the text to the finish; for less if not
	}{
		{"in the step", []string{hello, step, ended, spent}, time.Second, simulator.EndHang, "0.25", false},
		{"soon", []string{hello, noCost, ended, spent}, 100 * time.Millisecond, simulator.EndHang, "0.50", false},
		{"too late", []string{hello, noCost, ended, spent}, never, simulator.EndHang, "", true},
		{"never", []string{hello, noCost, ended}, 0, simulator.EndHang, "", true},
		{"never, body ends", []string{hello, noCost, ended}, 0, simulator.EndEOF, "", false},
		{"never, connection ends", []string{hello, noCost, ended}, 0, simulator.EndCut, "", false},
	}
	s := simulate(t, simulator.Options{})
	p := connect(t, s.URL())
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s.Script(func(*simulator.Request) *simulator.Answer {
				b := []byte(strings.Join(row.lines, "\n") + "\n")
				a := &simulator.Answer{Body: b, End: row.end}
				if row.pause > 0 {
					a.Pauses = []simulator.Pause{{At: simulator.LineOffset(b, len(row.lines)-1), For: row.pause}}
				}
				return a
			})
			ctx, cancel := context.WithTimeout(t.Context(), never)
			defer cancel()
			try := func() (time.Duration, string) {
				var text, finished time.Time
				r := ask("hi")
				r.Silence = 10 * time.Millisecond
				src := p.Stream(ctx, r)
				got := collect(t, func(yield func(*pipeline.Event, error) bool) {
					for ev, err := range src {
						if err == nil && ev.Kind == pipeline.Text {
							text = time.Now()
						}
						if err == nil && ev.Kind == pipeline.Finish {
							finished = time.Now()
						}
						if !yield(ev, err) {
							return
						}
					}
				})
				if got.Err != nil || got.Turn.Usage.Prompt() != 7 {
					t.Errorf("%v, usage %+v", got.Err, got.Turn.Usage)
				}
				return finished.Sub(text), got.Turn.Cost.String()
			}
			d, cost := try()
			low, high := time.Duration(0), costWait
			if row.waits {
				low, high = costWait, 2*costWait
			}
			for tries := 1; tries < 10 && d >= low && (d >= high || cost != row.cost); tries++ {
				d, cost = try()
			}
			if cost != row.cost || d < low || d >= high {
				t.Errorf("finish after %s, cost %q", d, cost)
			}
			if ctx.Err() != nil {
				t.Error("the exchange goes on behind the wait")
			}
		})
	}
	until(t, "all exchanges over", func() bool { return s.Active() == 0 })
}

// TestEcho: a start-step of any size is passed over, any other long line is an error.
func TestEcho(t *testing.T) {
	for head, want := range map[string]bool{
		`{"type":"start-step","request"`: true, " \t{\"type\":\"start-step\"}": true, `{"type":"start-stepper"`: false, `{"type":"text-delta"`: false, "": false, `{`: false,
	} {
		if IsEcho([]byte(head)) != want {
			t.Errorf("%q: %v", head, !want)
		}
	}
	long := strings.Repeat("x", 2<<20)
	for line, ok := range map[string]bool{`{"type":"start-step","x":"` + long + `"}`: true, `{"type":"text-delta","text":"` + long + `"}`: false, long: false} {
		out := upstream.NewEmitter(func(*pipeline.Event, error) bool { return true })
		_, err := upstream.Drive(script(hello, line, hello), codec.LineOptions{MaxBytes: 1 << 20, Skip: IsEcho}, NewDecoder(nil), out, nil)
		if (err == nil) != ok {
			t.Errorf("%.30s: %v", line, err)
		}
	}
}

// TestDecoderAllocatesNothing for the events that a stream consists of.
func TestDecoderAllocatesNothing(t *testing.T) {
	out := upstream.NewEmitter(func(*pipeline.Event, error) bool { return true })
	for _, l := range []string{
		`{"type":"text-delta","id":"txt-0","text":"some words, \"quoted\" é"}`,
		`{"type":"reasoning-delta","id":"r","text":"hm"}`,
		`{"type":"tool-input-delta","id":"call_0","delta":"{\"a\":"}`,
		`{"type":"tool-call","toolCallId":"call_0","toolName":"f","input":{"a":[1,2,3]}}`,
		`{"type":"from-the-future","x":{"y":[1,2]}}`,
	} {
		d, line := NewDecoder(testMask()), []byte(l)
		if n := testing.AllocsPerRun(100, func() { d.Line(line, out) }); n > 0 {
			t.Errorf("%v allocations for %s", n, l)
		}
	}
}
