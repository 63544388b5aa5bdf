package main

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"amplifier-agent/routes/chat/chattest"
)

// offered are the tools of the last request to the gateway, each as "name: description schema".
func (w *world) offered(t *testing.T) (list []string) {
	t.Helper()
	for _, tool := range w.last(t).Tools {
		list = append(list, tool.Name+": "+tool.Description+" "+string(tool.InputSchema))
	}
	return list
}

// TestContractToolsOffered: function tools are offered under their names, with their schema as it was written; what is none, or has no
// name, is skipped, and of two with one name the last counts.
func TestContractToolsOffered(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	const empty = `{"type":"object","properties":{}}`
	for tools, want := range map[string][]string{
		`null`: nil,
		`[]`:   nil,
		`[{"type":"function","function":{"name":"f","description":"does f","parameters":{"type":"object","properties":{"z":{"type":"number","maximum":1.50},"a":{}},"required":["z"]}}}]`: {
			`f: does f {"type":"object","properties":{"z":{"type":"number","maximum":1.50},"a":{}},"required":["z"]}`},
		`[{"function":{"name":"f"},"type":"function"},{"type":"function","function":{"name":"g","description":null,"parameters":null}},{"type":"function","function":{"parameters":{},"name":"h"}}]`: {
			"f:  " + empty, "g:  " + empty, "h:  {}"},
		`[7,"x",null,[],{},{"type":"function"},{"type":"function","function":null},{"type":"function","function":7},{"function":{"name":"f"}},{"type":"web_search"},{"type":"retrieval","function":{"name":"f"}},` +
			`{"type":null,"function":{"name":"f"}},{"type":"custom","custom":{"name":"f"}},{"type":"function","function":{}},{"type":"function","function":{"name":""}},{"type":"function","function":{"name":null}},` +
			`{"type":"function","function":{"name":7}},{"type":"function","function":{"description":"nameless"}},{"type":"function","function":{"name":"real"}}]`: {"real:  " + empty},
		`[{"type":"function","function":{"name":"f","description":"first"}},{"type":"function","function":{"name":"g"}},{"type":"function","function":{"name":"f","description":"last"}}]`: {
			"f: last " + empty, "g:  " + empty},
		`[{"type":"function","function":{"name":"bash"}},{"type":"function","function":{"name":"Read-File_2"}}]`: {"bash:  " + empty, "Read-File_2:  " + empty},
	} {
		w.chat(t, body(hello, `,"tools":`+tools))
		if got := w.offered(t); !slices.Equal(got, want) {
			t.Errorf("%s\noffered %q\nwant    %q", tools, got, want)
		}
	}
	w.chat(t, body(hello))
	if got := w.offered(t); got != nil {
		t.Errorf("without tools %q are offered", got)
	}
}

// TestContractToolArguments: they come as one JSON string, in one chunk, byte for byte as the model wrote them: the order of keys, the
// spelling of numbers, spaces, escapes (rulings 25).
func TestContractToolArguments(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	for _, arguments := range []string{
		`{}`, `{"a":1}`, `{"z":1,"a":2,"z":3}`, `{ "b" : 1.0 , "a":[ 1e3,1E+3, -0 ] }`, `{"n":12345678901234567890,"f":0.1000,"big":1e400}`,
		`{"s":"é\u00e9\/\n\t\"\\","😀":"\ud83d\ude00","<&>":"</script>"}`, `{"sep":"a` + "\u2028\u2029\u0085" + `b","esc":"\u2028"}`, `{"command":"echo 'x' > \"y\" && cat"}`,
		`{"deep":{"er":[{"x":{}},null,true,false]}}`, `{"long":"` + strings.Repeat("0123456789", 10_000) + `"}`,
	} {
		for _, way := range ways {
			b := w.rawAnswer(t, say("Call the tool f once with these arguments: "+arguments+".", way, fTools))
			a, err := chattest.Parser(way == ways[0])([]byte(b))
			if err != nil || len(a.Calls) != 1 || a.Calls[0].Function.Arguments != arguments || a.Calls[0].Function.Name != "f" || a.Calls[0].Type != "function" || a.Calls[0].ID == "" || a.Finish != "tool_calls" {
				t.Errorf("%.200s%s: %v, %.500s", arguments, way, err, b)
			}
			if n := strings.Count(b, `"tool_calls":[`); n != 1 || strings.ContainsAny(b, "\u2028\u2029\u0085") {
				t.Errorf("%.200s%s: in %d pieces: %.500s", arguments, way, n, b)
			}
		}
	}
	// As fragments alone, and as a string that holds JSON.
	for _, lines := range [][]string{
		{`{"type":"tool-input-start","id":"a","toolName":"f"}`, `{"type":"tool-input-delta","id":"a","delta":"{ \"b\": 1."}`, `{"type":"tool-input-delta","id":"a","delta":"50 }"}`, `{"type":"tool-input-end","id":"a"}`},
		{`{"type":"tool-call","toolCallId":"a","toolName":"f","input":"{ \"b\": 1.50 }"}`},
		{`{"type":"tool-input-start","id":"a","toolName":"f"}`, `{"type":"tool-input-delta","id":"a","delta":"{\"b\":2}"}`, `{"type":"tool-call","toolCallId":"a","toolName":"f","input":{ "b": 1.50 }}`},
	} {
		w.script(append(lines, askLine)...)
		for _, way := range ways {
			if a := w.chat(t, say("x", way, fTools)); len(a.Calls) != 1 || a.Calls[0].Function.Arguments != `{ "b": 1.50 }` || a.Calls[0].ID != "a" {
				t.Errorf("%s%s: %+v", lines, way, a)
			}
		}
	}
}

// TestContractToolCalls: all calls of an answer go out, each whole, with the indexes 0, 1, 2 in the order in which they were first seen;
// what is told beside them is not lost, and the end carries usage and the mode.
func TestContractToolCalls(t *testing.T) {
	t.Parallel()
	w := stage(t, zenScene())
	w.script(thought, saidLine,
		`{"type":"tool-input-start","id":"a","toolName":"f"}`, `{"type":"tool-input-start","id":"b","toolName":"g"}`, `{"type":"tool-input-delta","id":"b","delta":"{\"y\":"}`,
		`{"type":"tool-input-delta","id":"a","delta":"{\"x\":"}`, `{"type":"tool-input-delta","id":"b","delta":"2}"}`, `{"type":"tool-input-delta","id":"a","delta":"1}"}`,
		`{"type":"tool-call","toolCallId":"c","toolName":"f","input":{"z":3}}`, `{"type":"tool-call","toolCallId":"b","toolName":"g","input":{"y":2}}`, `{"type":"tool-call","toolCallId":"a","toolName":"f","input":{"x":1}}`,
		step(`{"inputTokens":100,"cachedInputTokens":30,"outputTokens":7}`, `"0.25"`), askLine)
	for _, way := range ways {
		a := w.chat(t, body(message("system", directive("zen"))+","+message("user", "x"), way, fTools))
		var got []string
		for i, c := range a.Calls {
			if got = append(got, c.ID+" "+c.Function.Name+" "+c.Function.Arguments); way == ways[0] && (c.Index == nil || *c.Index != i) || way == ways[1] && c.Index != nil {
				t.Errorf("%s: call %d is %+v", way, i, c)
			}
		}
		if want := []string{`a f {"x":1}`, `b g {"y":2}`, `c f {"z":3}`}; !slices.Equal(got, want) {
			t.Errorf("%s: calls %q, want %q", way, got, want)
		}
		if a.Finish != "tool_calls" || a.Content != "said" || a.Reasoning != "thought" || a.Mode == nil || *a.Mode != "zen" || a.Usage.Prompt != 100 || a.Usage.PromptDetails.Cached != 30 || a.Usage.Cost == nil {
			t.Errorf("%s: %+v, usage %+v", way, a, a.Usage)
		}
	}
}

// TestContractToolRoundTrip: a conversation with a tool, as a client runs it: the call goes out, its result comes back in a request of its
// own, and the model goes on. Nothing is kept in between.
func TestContractToolRoundTrip(t *testing.T) {
	t.Parallel()
	first, second := stage(t, scene{}), stage(t, scene{})
	const arguments = `{ "path":"a/b.txt", "n": 1.50 }`
	prompt := message("user", "Call the tool f once with these arguments: "+arguments+".\nThen report what the tool said.")
	for _, way := range ways {
		a := first.chat(t, body(message("system", "Be brief.")+","+prompt, way, fTools))
		if a.Finish != "tool_calls" || len(a.Calls) != 1 || a.Calls[0].Function.Arguments != arguments {
			t.Fatalf("%s: %+v", way, a)
		}
		a.Calls[0].Index = nil
		answer, err := json.Marshal(map[string]any{"role": "assistant", "content": nil, "reasoning_content": a.Reasoning, "tool_calls": a.Calls})
		if err != nil {
			t.Fatal(err)
		}
		said := `{"role":"tool","tool_call_id":"` + a.Calls[0].ID + `","content":"kit-42\n"}`
		for _, w := range []*world{first, second} { // the second one has never heard of the call
			b := w.chat(t, body(message("system", "Be brief.")+","+prompt+","+string(answer)+","+said, way, fTools))
			if b.Content != "The tool said: kit-42\n" || b.Finish != "stop" || len(b.Calls) > 0 || b.Usage.PromptDetails == nil {
				t.Errorf("%s: %+v", way, b)
			}
			got := conversation(w.last(t))
			if n := len(got); n < 4 || got[n-2] != "call "+a.Calls[0].ID+" f "+arguments || got[n-1] != "tool "+a.Calls[0].ID+": kit-42\n" {
				t.Errorf("the gateway got %q", got)
			}
			if n := len(w.offered(t)); n != 1 {
				t.Errorf("%d tools are offered again", n)
			}
		}
	}
}

// TestContractToolResults: results may be text, parts, pictures, nothing, or report a failure; each answers its call.
func TestContractToolResults(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	two := `{"role":"assistant","content":"ok","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":""}}]}`
	w.chat(t, body(message("user", "go")+","+two+`,{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]},{"role":"tool","tool_call_id":"c1","content":null,"name":"f"}`, fTools))
	got := conversation(w.last(t))
	want := []string{"user: go", "assistant: ok", `call c1 f {"a":1}`, "call c2 f {}"}
	if len(got) != 6 || !reflect.DeepEqual(got[:4], want) || !slices.Contains(got, "tool c2: b c") || !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "tool c1: ") }) {
		t.Errorf("the gateway got %q", got)
	}
	w.chat(t, body(message("user", "go")+","+calls+`,{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"`+pixel+`"}}]}`, fTools))
	pictures := 0
	for _, m := range w.last(t).Messages {
		for _, p := range m.Parts {
			if p.Type == "image" && p.Image == pixel && m.Role == "user" {
				pictures++
			}
		}
	}
	if got := conversation(w.last(t)); pictures != 1 || !slices.Contains(got, "tool c1: see") {
		t.Errorf("%d pictures, the gateway got %q", pictures, got)
	}
}

// TestContractBrokenToolCall: a call that never became whole is not passed on as one.
func TestContractBrokenToolCall(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{config: patiently})
	half := []string{`{"type":"tool-input-start","id":"a","toolName":"f"}`, `{"type":"tool-input-delta","id":"a","delta":"{\"x\":"}`}
	for name, row := range map[string]struct {
		lines  []string
		status int
		says   string
	}{
		"cut off":            {half, http.StatusBadGateway, "cut off"},
		"finished":           {append(half[:2:2], askLine), http.StatusBadGateway, "incomplete arguments"},
		"behind text":        {append([]string{saidLine}, append(half[:2:2], askLine)...), http.StatusOK, "InvalidToolCallError"},
		"at the end of text": {append([]string{saidLine}, append(half[:2:2], `{"type":"finish","finishReason":"length"}`)...), http.StatusOK, ""},
	} {
		w.script(row.lines...)
		for _, way := range ways {
			resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", say("x", way, fTools))
			if resp.StatusCode != row.status || !strings.Contains(b, row.says) || strings.Contains(b, `"tool_calls":[`) {
				t.Errorf("%s%s: status %d: %s", name, way, resp.StatusCode, b)
			}
		}
	}
}
