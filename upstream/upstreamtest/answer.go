package upstreamtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
)

// speech has what decoders stumble over: characters of every length, quotes, line separators, words of the wire itself.
var speech = []string{"Grüße, ", "世界 🌍\n", `"quoted\" `, "\u2028 data: [DONE]", "</p> é🎉e\u0301 ", "{\"type\":\"error\"}", "\t."}

// answer plays a script whole, and returns what came of it.
func (s *suite) answer(t *testing.T, script *Script) *outcome {
	t.Helper()
	return s.play(t, s.d.body(script))
}

// play plays a body.
func (s *suite) play(t *testing.T, body string) *outcome {
	t.Helper()
	up := serve(t, func(p *peer) bool { return p.plain(200, body) })
	return s.ask(t, s.make(t, up.url))
}

func (s *suite) testText(t *testing.T) {
	script := &Script{Finish: pipeline.ReasonStop}
	for _, part := range speech {
		script.Parts = append(script.Parts, Part{Reasoning: "R " + part})
	}
	for _, part := range speech {
		script.Parts = append(script.Parts, Part{Text: part})
	}
	o := s.answer(t, script)
	if o.Text != strings.Join(speech, "") || o.Reasoning != "R "+strings.Join(speech, "R ") || o.reason != pipeline.ReasonStop {
		t.Error(o)
	}
}

// arguments are spelled as models do, and as no marshaller would.
var arguments = [][]string{
	{`{"city":"Köln"}`},
	{`{`, ` "b" : 1.0,`, "\t\"a\":12345678901234567890123,", ` "b":1e-7, "c":"\u00e9\ud83d\ude00\/" `, `}`},
	{`{"q":"`, `say \"hi\"`, ` 🌍`, `\n`, `"}`},
	{`{`, `}`},
	{`{"deep":{"list":[1,[2,[3]],{}],"null":null,"yes":true}}`},
}

func (s *suite) testCalls(t *testing.T) {
	for i, fragments := range arguments {
		call := Call{ID: fmt.Sprintf("call_%d", i), Name: "look_up", Arguments: fragments}
		o := s.answer(t, &Script{Parts: []Part{{Text: "let me see"}, {Calls: []Call{call}}}, Finish: pipeline.ReasonToolCalls})
		s.wantCalls(t, o, call)
	}
	var parts []Part
	var all []Call
	for i, fragments := range arguments {
		call := Call{ID: fmt.Sprintf("call_%d", i), Name: fmt.Sprintf("tool_%d", i%2), Arguments: fragments}
		all = append(all, call)
		parts = append(parts, Part{Calls: []Call{call}})
	}
	s.wantCalls(t, s.answer(t, &Script{Parts: parts, Finish: pipeline.ReasonToolCalls}), all...)
}

func (s *suite) testInterleavedCalls(t *testing.T) {
	var all []Call
	for i, fragments := range arguments {
		all = append(all, Call{ID: fmt.Sprintf("call_%d", i), Name: "look_up", Arguments: fragments})
	}
	s.wantCalls(t, s.answer(t, &Script{Parts: []Part{{Calls: all}}, Finish: pipeline.ReasonToolCalls}), all...)
}

// wantCalls: each call arrives once, whole and in its place, its arguments as they were spelled.
func (s *suite) wantCalls(t *testing.T, o *outcome, calls ...Call) {
	t.Helper()
	same := slices.EqualFunc(o.Calls, calls, func(got pipeline.Call, c Call) bool {
		want := c.Whole()
		return got.ID == want.ID && got.Name == want.Name && string(got.Arguments) == string(want.Arguments)
	})
	if !same || o.reason != pipeline.ReasonToolCalls {
		t.Errorf("%s\nwant %q", o, calls)
	}
}

// testUsage: the buckets are disjoint, whatever the wire counts where (rulings 23).
func (s *suite) testUsage(t *testing.T) {
	_, noReasoning := s.d.Lacks[ReasoningTokens]
	for _, k := range []Tokens{
		{Input: 100, CacheRead: 40, CacheWrite: 8, Output: 30, Reasoning: 12},
		{Input: 100, CacheRead: 100, Output: 1},
		{Input: 7, Output: 5},
		{Input: 3 << 31, CacheRead: 2 << 31, Output: 1 << 31},
	} {
		o := s.answer(t, &Script{Parts: []Part{{Reasoning: "hm"}, {Text: "hello"}}, Usage: k, Finish: pipeline.ReasonStop})
		want := k.Buckets()
		if noReasoning {
			want.Reasoning = 0
		}
		if want.Has = o.usage.Has; o.usage != want || want.Has&(pipeline.HasInput|pipeline.HasOutput) != pipeline.HasInput|pipeline.HasOutput {
			t.Errorf("%+v is %+v, want %+v", k, o.usage, want)
		}
	}
	if o := s.answer(t, &Script{Parts: []Part{{Text: "hello"}}, Finish: pipeline.ReasonStop}); o.usage.Known() || o.cost != "" || o.Text != "hello" {
		t.Errorf("nothing was told, and yet: %s", o)
	}
}

// testCost: an amount keeps every digit (rulings 22).
func (s *suite) testCost(t *testing.T) {
	for _, cost := range []string{"0.000123456789012345678", "12.50", "0", "98765432109876543210.1"} {
		o := s.answer(t, &Script{Parts: []Part{{Text: "hello"}}, Usage: Tokens{Input: 9, Output: 1}, Cost: cost, Finish: pipeline.ReasonStop})
		if o.cost != cost {
			t.Errorf("%s is %q", cost, o.cost)
		}
	}
}

// testEnds holds what an end means, whoever reports it (rulings 15, 20).
func (s *suite) testEnds(t *testing.T) {
	for name, row := range map[string]struct {
		part   Part
		finish pipeline.Reason
		reason pipeline.Reason
		err    pipeline.Code // in place of reason
		calls  int
	}{
		"stop":                    {Part{Text: "x"}, pipeline.ReasonStop, pipeline.ReasonStop, "", 0},
		"length":                  {Part{Text: "x"}, pipeline.ReasonLength, pipeline.ReasonLength, "", 0},
		"content filter":          {Part{Text: "x"}, pipeline.ReasonContentFilter, pipeline.ReasonContentFilter, "", 0},
		"calls":                   {Part{Calls: []Call{{"a", "f", []string{"{}"}}}}, pipeline.ReasonToolCalls, pipeline.ReasonToolCalls, "", 1},
		"calls, and stop":         {Part{Calls: []Call{{"a", "f", []string{"{}"}}}}, pipeline.ReasonStop, pipeline.ReasonToolCalls, "", 1},
		"no calls":                {Part{Text: "x"}, pipeline.ReasonToolCalls, pipeline.ReasonStop, "", 0},
		"nothing, and stop":       {Part{}, pipeline.ReasonStop, 0, pipeline.CodeEmpty, 0},
		"nothing, and length":     {Part{}, pipeline.ReasonLength, pipeline.ReasonLength, "", 0},
		"reasoning only":          {Part{Reasoning: "x"}, pipeline.ReasonStop, pipeline.ReasonStop, "", 0},
		"reasoning only, calls":   {Part{Reasoning: "x"}, pipeline.ReasonToolCalls, 0, pipeline.CodeEmpty, 0},
		"no end":                  {Part{Text: "x"}, pipeline.ReasonNone, 0, pipeline.CodeTruncated, 0},
		"no end behind a call":    {Part{Calls: []Call{{"a", "f", []string{"{}"}}}}, pipeline.ReasonNone, 0, pipeline.CodeTruncated, -1},
		"no end behind reasoning": {Part{Reasoning: "x"}, pipeline.ReasonNone, 0, pipeline.CodeTruncated, 0},
	} {
		script := &Script{Finish: row.finish, Parts: []Part{row.part}}
		if row.part.Text+row.part.Reasoning == "" && row.part.Calls == nil {
			script.Parts = nil
		}
		o := s.answer(t, script)
		switch {
		case row.err != "":
			if o.err == nil || o.err.Code != row.err || !o.err.Retry {
				t.Errorf("%s: %s, want %s", name, o, row.err)
			}
		case o.err != nil || o.reason != row.reason || len(o.Calls) != row.calls:
			t.Errorf("%s: %s, want %s and %d calls", name, o, row.reason, row.calls)
		}
	}
}

// testSplit: an answer means the same wherever its bytes are cut. A reader gets the bytes of one chunk at a time.
func (s *suite) testSplit(t *testing.T) {
	script := &Script{
		Parts:  []Part{{Reasoning: "hm, 世🌍"}, {Text: "Grüße\u2028\n\"🎉🎉"}, {Calls: []Call{{"call_1", "f", arguments[0]}}}, {Calls: []Call{{"call_2", "g", arguments[2]}}}},
		Usage:  Tokens{Input: 100, CacheRead: 40, Output: 30},
		Finish: pipeline.ReasonToolCalls,
	}
	if _, lacks := s.d.Lacks[Cost]; !lacks {
		script.Cost = "0.000123"
	}
	body := s.d.body(script)
	at := 0 // where the body is cut; 0 for between all of its bytes
	up := serve(t, func(p *peer) bool {
		p.begin()
		if at > 0 {
			p.chunk(body[:at])
			p.chunk(body[at:])
			return p.end()
		}
		var b strings.Builder
		for i := range len(body) {
			b.WriteString("1\r\n" + body[i:i+1] + "\r\n")
		}
		p.send("%s", b.String())
		return p.end()
	})
	p := s.make(t, up.url)
	want := s.play(t, body).String()
	if !strings.Contains(want, "Grüße") || !strings.Contains(want, "call_2 g {\"q\"") || !strings.Contains(want, "finish tool_calls") {
		t.Fatal(want)
	}
	for ; at < len(body); at += max(s.d.Stride, 1) {
		if got := s.ask(t, p).String(); got != want {
			t.Fatalf("cut at %d:\n%s\nwant %s", at, got, want)
		}
	}
}
