package simulator

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	textTypes = "start start-step reasoning-start reasoning-delta text-start reasoning-end text-delta text-end finish-step finish provider-metadata"
	callTypes = "start start-step reasoning-start reasoning-delta reasoning-end tool-input-start tool-input-delta tool-input-end tool-call finish-step finish provider-metadata"
)

func TestReplyWithExactly(t *testing.T) {
	g := serve(t, Options{})
	for _, want := range []string{
		"kit-1", "two\nlines\n\nand more", `quo"tes and back\slashes`, "emoji 👩‍👩‍👧 🌍 Grüße 世界", "line\u2028separator", "nul\x00 tab\t del\x7f bell\a",
		"<b>&amp;</b>", "Reply with exactly: nested", "```go\nfunc main() {}\n```", strings.Repeat("long ", 20000) + "end", "Call the tool x once",
		"nel\u0085",
	} {
		a := g.ask("Reply with exactly: " + want)
		if a.text != want {
			t.Errorf("got %.60q\nwant %.60q", a.text, want)
		}
		if a.types != textTypes || a.reason != "stop" || a.raw != "stop" || a.reasoning == "" || a.bad > 0 {
			t.Errorf("%q: %s, %q", want, a.types, a.reason)
		}
	}
	// Trimmed as JavaScript trims.
	if a := g.ask("please. Reply with exactly:  \ufeff\u2028 x y \u00a0\n\u3000"); a.text != "x y" {
		t.Errorf("%q", a.text)
	}
}

func TestLastNonEmptyUserMessage(t *testing.T) {
	g := serve(t, Options{})
	img := m{"type": "image", "image": "data:image/png;base64,iVBORw0KGgo="}
	block := instructionsOpen + "\nReply with exactly: wrong\n" + instructionsClose
	for name, row := range map[string][]any{
		"instructions first":  {user(block), user("Reply with exactly: right")},
		"instructions merged": {m{"role": "user", "content": []any{m{"type": "text", "text": block}, m{"type": "text", "text": "Reply with exactly: right"}}}},
		"one text":            {m{"role": "user", "content": block + "\n\nReply with exactly: right"}},
		"history":             {user("Reply with exactly: wrong"), assistant(m{"type": "text", "text": "wrong"}), user("Reply with exactly: right")},
		"image at the end":    {user("Reply with exactly: right"), m{"role": "user", "content": []any{img}}},
		"blank at the end":    {user("Reply with exactly: right"), user("  \n")},
		"parts":               {m{"role": "user", "content": []any{img, m{"type": "text", "text": "Reply with exactly:"}, m{"type": "text", "text": "right"}}}},
		"assistant at end":    {user("Reply with exactly: right"), assistant(m{"type": "text", "text": "Reply with exactly: wrong"})},
	} {
		if a := g.events(body(row...)); a.text != "right" {
			t.Errorf("%s: %q", name, a.text)
		}
	}
	if a := g.events(body(user(block))); a.text != "wrong\n"+instructionsClose {
		t.Errorf("alone, the block is the prompt: %q", a.text)
	}
}

func TestCallTheTool(t *testing.T) {
	g := serve(t, Options{})
	for _, args := range []string{
		`{"command":"echo kit-42 > made.txt && cat made.txt","description":"Prints a line"}`,
		`{}`, `{"n":12345678901234567890,"f":1.50,"z":1,"a":2}`, `{"s":"a }. b } { \" é \u00e9 🌍"}`, `{"deep":{"er":[{"x":{}}]}}`, "{ \"spaced\" :\t1 }",
	} {
		prompt := "Call the tool bash once with these arguments: " + args + ".\nThen report what the tool said."
		a := g.events(withTools(body(user(prompt)), tool("read", m{"type": "object"}), tool("bash", m{"type": "object"})))
		if len(a.calls) != 1 || a.calls[0].Name != "bash" || string(a.calls[0].Input) != args || a.fragments != args {
			t.Errorf("%s: %+v, fragments %s", args, a.calls, a.fragments)
			continue
		}
		if out, _ := a.usage["outputTokens"].(float64); int(out) < tokens(len(args)) {
			t.Errorf("arguments are not counted: %v", a.usage)
		}
		if a.types != callTypes || a.reason != "tool-calls" || a.raw != "tool_calls" || a.text != "" || a.calls[0].ID == "" {
			t.Errorf("%s %q %q", a.types, a.reason, a.text)
		}
		for _, l := range a.lines {
			if strings.Contains(l, `"tool-input-`) && !strings.Contains(l, `"id":"`+a.calls[0].ID+`"`) {
				t.Errorf("id in %s", l)
			}
		}
		b := withTools(body(user(prompt), assistant(callPart(a.calls[0].ID, "bash", a.calls[0].Input)), result(a.calls[0].ID, "bash", "it said\n\"kit-42\"")), tool("bash", m{}))
		if a := g.events(b); !strings.Contains(a.text, "it said\n\"kit-42\"") || a.types != textTypes || len(a.calls) > 0 {
			t.Errorf("after the result: %s %q", a.types, a.text)
		}
	}
	// Line breaks between tokens cannot stay in an NDJSON value.
	a := g.events(withTools(body(user("Call the tool bash once with these arguments: {\n  \"a\": 1\n}\n")), tool("bash", m{})))
	if len(a.calls) != 1 || string(a.calls[0].Input) != `{   "a": 1 }` || a.fragments != "{\n  \"a\": 1\n}" {
		t.Errorf("%+v %q", a.calls, a.fragments)
	}
	for name, b := range map[string]m{
		"not offered": withTools(body(user(`Call the tool bash once with these arguments: {}.`)), tool("read", m{})),
		"no tools":    body(user(`Call the tool bash once with these arguments: {}.`)),
		"no JSON":     withTools(body(user(`Call the tool bash once with these arguments: {x}.`)), tool("bash", m{})),
		"no end":      withTools(body(user(`Call the tool bash once with these arguments: {"a":`)), tool("bash", m{})),
	} {
		if a := g.events(b); len(a.calls) > 0 || a.text == "" {
			t.Errorf("%s: %+v", name, a.calls)
		}
	}
}

func TestToolResults(t *testing.T) {
	g := serve(t, Options{})
	calls := assistant(callPart("c1", "f", m{}), callPart("c2", "f", m{}))
	a := g.events(body(user("Reply with exactly: no"), calls, result("c1", "f", "first"), result("c2", "f", "second")))
	if !strings.Contains(a.text, "first") || !strings.Contains(a.text, "second") {
		t.Errorf("%q", a.text)
	}
	a = g.events(body(user("Hi"), calls, result("c1", "f", "first"), result("c2", "f", "second"), user("Reply with exactly: yes")))
	if a.text != "yes" {
		t.Errorf("results before the last user message count: %q", a.text)
	}
}

func TestSilenceAndCount(t *testing.T) {
	g := serve(t, Options{})
	start := time.Now()
	if a := g.ask("Stay silent for 1 seconds, then say you are awake."); !strings.Contains(a.text, "awake") || a.types != textTypes {
		t.Errorf("%s %q", a.types, a.text)
	}
	if d := time.Since(start); d < time.Second {
		t.Errorf("silent for %v", d)
	}
	start = time.Now()
	a := g.ask("Count slowly to 5, one number at a time.")
	if a.text != "1 2 3 4 5 " || strings.Count(strings.Join(a.lines, ""), `"text-delta"`) != 5 {
		t.Errorf("%q", a.text)
	}
	if d := time.Since(start); d < 5*countGap {
		t.Errorf("counted in %v", d)
	}
	if p := planFor(&Request{Messages: []Message{{Role: "user", Parts: []Part{{Type: "text", Text: "Stay silent for 99999999999999999999 seconds"}}}}}); p.silence != maxSilence {
		t.Errorf("%v", p.silence)
	}
}

func TestDemoAnswer(t *testing.T) {
	g := serve(t, Options{Pace: time.Microsecond})
	a := g.ask("What is this\nMODEL?")
	for _, want := range []string{"amplifier-agent", "`deepseek/deepseek-v4-pro`", "> What is this MODEL?", "NDJSON", "SSE"} {
		if !strings.Contains(a.text, want) {
			t.Errorf("no %q in\n%s", want, a.text)
		}
	}
	if n := strings.Count(strings.Join(a.lines, ""), `"text-delta"`); n < 50 || a.types == "" || len(a.reasoning) < 20 {
		t.Errorf("%d deltas, %s", n, a.types)
	}
	if a := g.ask(strings.Repeat("é", 1000)); !strings.Contains(a.text, "> "+strings.Repeat("é", maxExcerpt)+"…\n") {
		t.Error("long prompts are not cut")
	}
}

func TestDemoTool(t *testing.T) {
	g := serve(t, Options{})
	schema := m{"type": "object", "required": []any{"unit", "location"}, "properties": m{"location": m{"type": "string"}, "unit": m{"enum": []any{"C", "F"}}, "x": m{}}}
	tools := []any{tool("read_file", m{}), tool("get_weather", schema)}
	for prompt, want := range map[string]string{
		"Please use get_weather now.": "get_weather", "GET_WEATHER!": "get_weather", "use some tool": "read_file", "get_weather_2": "", "hello": "",
	} {
		a := g.events(withTools(body(user(prompt)), tools...))
		if want == "" {
			if len(a.calls) > 0 || a.reason != "stop" {
				t.Errorf("%q called %+v", prompt, a.calls)
			}
			continue
		}
		if len(a.calls) != 1 || a.calls[0].Name != want || a.text == "" || a.fragments != string(a.calls[0].Input) || a.reason != "tool-calls" {
			t.Errorf("%q: %+v", prompt, a)
		}
		if want == "get_weather" && a.fragments != `{"unit":"C","location":"Paris"}` {
			t.Errorf("arguments %s", a.fragments)
		}
	}
}

func TestArguments(t *testing.T) {
	for schema, want := range map[string]string{
		`{}`: `{}`,
		`{"type":"object","properties":{"a":{"type":"string"}}}`:                                                                `{}`,
		`{"required":["a","b"],"properties":{"a":{"type":"integer","minimum":3},"b":{"type":"boolean"}}}`:                       `{"a":3,"b":true}`,
		`{"required":["a"],"properties":{"a":{"type":["null","number"]}}}`:                                                      `{"a":1}`,
		`{"required":["a"],"properties":{"a":{"type":"array","items":{"type":"string"}}}}`:                                      `{"a":[]}`,
		`{"required":["a"],"properties":{"a":{"items":{"type":"string"},"minItems":2}}}`:                                        `{"a":["example","example"]}`,
		`{"required":["a"],"properties":{"a":{"anyOf":[{"type":"object","required":["b"],"properties":{"b":{"const":"c"}}}]}}}`: `{"a":{"b":"c"}}`,
		`{"required":["q\"uote"]}`: `{"q\"uote":"example"}`,
		`{"required":["a"],"properties":{"a":{"enum":[null],"default":1}}}`: `{"a":null}`,
		`{"required":["command"],"properties":{"command":{}}}`:              `{"command":"echo hello"}`,
	} {
		if got := arguments([]byte(schema)); got != want || !json.Valid([]byte(got)) {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
	deep := strings.Repeat(`{"type":"object","required":["a"],"properties":{"a":`, 50) + `{}` + strings.Repeat("}}", 50)
	if got := arguments([]byte(deep)); !json.Valid([]byte(got)) {
		t.Errorf("%s", got)
	}
}

func TestUsageAndCost(t *testing.T) {
	g := serve(t, Options{})
	n := func(a answer, key string) int { f, _ := a.usage[key].(float64); return int(f) }
	first := g.ask("Reply with exactly: hello there")
	if n(first, "inputTokens") == 0 || n(first, "outputTokens") == 0 || n(first, "cachedInputTokens") != 0 || n(first, "reasoningTokens") == 0 {
		t.Errorf("%v", first.usage)
	}
	if n(first, "totalTokens") != n(first, "inputTokens")+n(first, "outputTokens") {
		t.Errorf("%v", first.usage)
	}
	again := g.ask("Reply with exactly: hello there")
	if again.cost != first.cost || again.stepCost != first.cost || first.cost == "" {
		t.Errorf("costs %q %q %q", first.cost, again.cost, again.stepCost)
	}
	later := g.events(body(user("hi"), assistant(m{"type": "text", "text": "hello"}), user("Reply with exactly: x")))
	if c := n(later, "cachedInputTokens"); c == 0 || c >= n(later, "inputTokens") {
		t.Errorf("%v", later.usage)
	}
	// By hand: (input-cached)·0.66 + cached·0.022 + output·1.98 USD a million.
	pico := (n(later, "inputTokens")-n(later, "cachedInputTokens"))*660_000 + n(later, "cachedInputTokens")*22_000 + n(later, "outputTokens")*1_980_000
	if want := decimal(int64(pico)); later.cost != want {
		t.Errorf("cost %s, want %s", later.cost, want)
	}
	b := body(user("Reply with exactly: hello there"))
	delete(params(b), "system")
	if d := n(g.events(b), "inputTokens") - n(first, "inputTokens"); d < 7490 || d > 7500 {
		t.Errorf("no system prompt costs %d more", d)
	}
	for pico, want := range map[int64]string{0: "0", 65_598_000: "0.000065598", 1: "0.000000000001", picoUSD: "1", picoUSD + picoUSD/2: "1.5", 12 * picoUSD: "12"} {
		if got := decimal(pico); got != want {
			t.Errorf("%d: %s, want %s", pico, got, want)
		}
	}
}

func TestStartStepEchoesTheRequest(t *testing.T) {
	g := serve(t, Options{})
	raw, err := json.MarshalIndent(body(user("Reply with exactly: x")), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	a := g.events(raw)
	var step struct {
		Request struct{ Body map[string]any }
	}
	if err := json.Unmarshal([]byte(a.lines[1]), &step); err != nil || step.Request.Body["messages"] == nil || step.Request.Body["model"] == nil {
		t.Errorf("%v %s", err, a.lines[1])
	}
}

func TestPieces(t *testing.T) {
	for _, s := range []string{"", "a", "12345678", "123456789", "äöü€𝄞äöü€𝄞", "\xff\xfe", strings.Repeat("x", 100_000)} {
		got := pieces(s, replyPiece)
		if strings.Join(got, "") != s || len(got) > maxReplyPieces {
			t.Errorf("%.20q: %d pieces", s, len(got))
		}
	}
	for n := range 12 {
		s := "  a b\n\nc  d " + strings.Repeat("e ", n)
		if got := words(s, 3); strings.Join(got, "") != s {
			t.Errorf("%q: %q", s, got)
		}
	}
	if got := string(appendString(nil, "\b\f\n\r\t\x1f\u2028\"\\/")); got != `"\b\f\n\r\t\u001f`+"\u2028"+`\"\\/"` {
		t.Error(strconv.Quote(got))
	}
}
