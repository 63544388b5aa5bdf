package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"amplifier-agent/routes/chat/chattest"
	"amplifier-agent/upstream/simulator"
)

func step(usage, cost string) string {
	line := `{"type":"finish-step","finishReason":"stop"`
	if usage != "" {
		line += `,"usage":` + usage
	}
	if cost != "" {
		line += `,"providerMetadata":{"gateway":{"cost":` + cost + `}}`
	}
	return line + "}"
}

func total(usage string) string {
	return `{"type":"finish","finishReason":"stop","totalUsage":` + usage + `}`
}

func lateCost(cost string) string {
	return `{"type":"provider-metadata","providerMetadata":{"gateway":{"cost":` + cost + `}}}`
}

// TestContractUsage: prompt, completion and cached tokens, and the cost, of all that the gateway tells in a turn: its steps summed, or its
// total, never both; what it does not tell is not made up, and zero is not nothing. There is one block, in the terminal chunk.
func TestContractUsage(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	const one, two = `{"inputTokens":100,"cachedInputTokens":30,"outputTokens":7,"reasoningTokens":3}`, `{"inputTokens":50,"cachedInputTokens":10,"outputTokens":2,"reasoningTokens":1}`
	const both = `"prompt_tokens":150,"completion_tokens":9,"total_tokens":159,"prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":4}`
	const nothing = `"prompt_tokens":0,"completion_tokens":0,"total_tokens":0`
	for name, row := range map[string]struct {
		lines []string
		want  string
	}{
		"a step": {[]string{step(one, `"0.0421"`), stopLine},
			`"prompt_tokens":100,"completion_tokens":7,"total_tokens":107,"prompt_tokens_details":{"cached_tokens":30},"completion_tokens_details":{"reasoning_tokens":3},"cost_usd":"0.0421"`},
		"a step and no finish": {[]string{step(one, `"0.0421"`)},
			`"prompt_tokens":100,"completion_tokens":7,"total_tokens":107,"prompt_tokens_details":{"cached_tokens":30},"completion_tokens_details":{"reasoning_tokens":3},"cost_usd":"0.0421"`},
		"a total": {[]string{total(one)},
			`"prompt_tokens":100,"completion_tokens":7,"total_tokens":107,"prompt_tokens_details":{"cached_tokens":30},"completion_tokens_details":{"reasoning_tokens":3}`},
		"steps are summed":         {[]string{step(one, ""), step(two, ""), stopLine}, both},
		"but not with their total": {[]string{step(one, ""), step(two, ""), total(`{"inputTokens":150,"cachedInputTokens":40,"outputTokens":9,"reasoningTokens":4}`)}, both},
		"running totals": {[]string{step(one, ""), step(`{"inputTokens":150,"cachedInputTokens":40,"outputTokens":9,"reasoningTokens":4}`, ""),
			total(`{"inputTokens":150,"cachedInputTokens":40,"outputTokens":9,"reasoningTokens":4}`)}, both},
		"details": {[]string{total(`{"inputTokens":100,"inputTokenDetails":{"noCacheTokens":50,"cacheReadTokens":30,"cacheWriteTokens":20},"outputTokens":7,"outputTokenDetails":{"textTokens":4,"reasoningTokens":3}}`)},
			`"prompt_tokens":100,"completion_tokens":7,"total_tokens":107,"prompt_tokens_details":{"cached_tokens":30},"completion_tokens_details":{"reasoning_tokens":3}`},
		"parts without their sum": {[]string{total(`{"inputTokenDetails":{"noCacheTokens":50,"cacheReadTokens":30,"cacheWriteTokens":20},"outputTokens":7}`)},
			`"prompt_tokens":100,"completion_tokens":7,"total_tokens":107,"prompt_tokens_details":{"cached_tokens":30}`},
		"input without a cache": {[]string{total(`{"inputTokens":100,"outputTokens":7}`)}, `"prompt_tokens":100,"completion_tokens":7,"total_tokens":107,"prompt_tokens_details":{"cached_tokens":0}`},
		"output alone":          {[]string{total(`{"outputTokens":7}`)}, `"prompt_tokens":0,"completion_tokens":7,"total_tokens":7`},
		"zero": {[]string{step(`{"inputTokens":0,"cachedInputTokens":0,"outputTokens":0,"reasoningTokens":0}`, "0"), stopLine},
			nothing + `,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0},"cost_usd":"0"`},
		"nothing":         {[]string{stopLine}, nothing},
		"empty":           {[]string{step(`{}`, ""), total(`{}`)}, nothing},
		"null":            {[]string{step(`{"inputTokens":null,"outputTokens":null}`, "null"), total(`null`)}, nothing},
		"no numbers":      {[]string{step(`{"inputTokens":"many","outputTokens":{}}`, `"much"`), total(`"all"`)}, nothing},
		"a number as one": {[]string{step("", "0.25"), stopLine}, nothing + `,"cost_usd":"0.25"`},
		"costs are exact": {[]string{step("", `"0.1"`), step("", `"0.2"`), step("", `"0.000000000001"`), stopLine}, nothing + `,"cost_usd":"0.300000000001"`},
		"more digits than a float has": {[]string{step("", `"0.10000000000000000000001"`), step("", `"0.2"`), stopLine},
			nothing + `,"cost_usd":"0.30000000000000000000001"`},
		"plain notation":           {[]string{step("", "1e-7"), step("", "2E-7"), stopLine}, nothing + `,"cost_usd":"0.0000003"`},
		"what is none is skipped":  {[]string{step("", `"NaN"`), step("", `"0.5"`), step("", `"Infinity"`), step("", `{}`), step("", `"1,5"`), step("", `""`), step("", "true"), stopLine}, nothing + `,"cost_usd":"0.5"`},
		"only such":                {[]string{step("", `"NaN"`), stopLine}, nothing},
		"a cost behind its step":   {[]string{step("", ""), lateCost(`"0.25"`), stopLine}, nothing + `,"cost_usd":"0.25"`},
		"a cost behind the end":    {[]string{step("", ""), stopLine, lateCost(`"0.25"`)}, nothing + `,"cost_usd":"0.25"`},
		"a cost said twice":        {[]string{step("", `"0.25"`), stopLine, lateCost(`"0.25"`)}, nothing + `,"cost_usd":"0.25"`},
		"large":                    {[]string{total(`{"inputTokens":9007199254740990,"outputTokens":1}`)}, `"prompt_tokens":9007199254740990,"completion_tokens":1,"total_tokens":9007199254740991,"prompt_tokens_details":{"cached_tokens":0}`},
		"more cached than came in": {[]string{total(`{"inputTokens":10,"cachedInputTokens":30,"outputTokens":1}`)}, `"prompt_tokens":10,"completion_tokens":1,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":10}`},
	} {
		t.Run(name, func(t *testing.T) {
			w.script(append([]string{saidLine}, row.lines...)...)
			for _, way := range ways {
				b := w.rawAnswer(t, say("x", way))
				if strings.Count(b, `"usage":`) != 1 || !strings.Contains(b, `"activeMode":null,"usage":{`+row.want+`}}`) {
					t.Errorf("%s: want usage %s: %s", way, row.want, b)
				}
				if _, err := chattest.Parser(way == ways[0])([]byte(b)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestContractUsageOfAnswers: what the client is told is what the gateway has told, for answers as they are, calls of tools and long
// conversations among them, and whatever the client says about usage.
func TestContractUsageOfAnswers(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	var told []byte
	w.sim.Script(func(r *simulator.Request) *simulator.Answer {
		a := w.sim.Default(r)
		told = a.Body // the exchanges come one by one
		return a
	})
	totals := regexp.MustCompile(`"totalUsage":(\{.*\})\}\n`)
	costs := regexp.MustCompile(`"cost":"([0-9.]+)"`)
	for _, messages := range []string{
		hello, message("user", "What is this?"), message("user", `Call the tool f once with these arguments: {"a":1}.`), message("user", "go") + "," + calls + "," + result,
		message("user", "one") + "," + message("assistant", strings.Repeat("long ", 2000)) + "," + hello, message("system", directive("plan")) + "," + hello,
	} {
		for _, options := range []string{"", `,"stream_options":{"include_usage":true}`, `,"stream_options":{"include_usage":false}`, `,"stream_options":{}`, `,"stream_options":null`} {
			for _, way := range ways {
				a := w.chat(t, body(messages, way, options, fTools))
				m := totals.FindSubmatch(told)
				var u struct {
					Input     int64 `json:"inputTokens"`
					Cached    int64 `json:"cachedInputTokens"`
					Output    int64 `json:"outputTokens"`
					Reasoning int64 `json:"reasoningTokens"`
				}
				if m == nil || json.Unmarshal(m[1], &u) != nil {
					t.Fatalf("the gateway told %s", told)
				}
				cost := string(costs.FindSubmatch(told)[1])
				switch g := a.Usage; {
				case g.Prompt != u.Input, g.Completion != u.Output, g.Total != u.Input+u.Output, g.PromptDetails == nil, g.CompletionDetails == nil, g.Cost == nil:
					t.Errorf("got %+v, the gateway told %+v, %s", g, u, cost)
				case g.PromptDetails.Cached != u.Cached, g.CompletionDetails.Reasoning != u.Reasoning, *g.Cost != cost:
					t.Errorf("got %+v, %+v, %+v, %s, the gateway told %+v, %s", g, g.PromptDetails, g.CompletionDetails, *g.Cost, u, cost)
				}
			}
		}
	}
}

// TestContractCostTooLate: a cost that does not come is not waited for: the answer ends without it, though the gateway keeps its own open.
func TestContractCostTooLate(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	w.sim.Script(func(*simulator.Request) *simulator.Answer {
		return &simulator.Answer{Body: []byte(saidLine + "\n" + step(`{"inputTokens":5,"outputTokens":2}`, "") + "\n" + stopLine + "\n"), End: simulator.EndHang}
	})
	for _, way := range ways {
		a := w.chat(t, say("x", way))
		if a.Content != "said" || a.Finish != "stop" || a.Usage.Prompt != 5 || a.Usage.Completion != 2 || a.Usage.Cost != nil {
			t.Errorf("%s: %+v, usage %+v", way, a, a.Usage)
		}
	}
	eventually(t, "the gateway is let go", func() bool { return w.sim.Active() == 0 })
}

// TestContractUsageOfErrors: an answer that breaks off tells what is known of its usage by then.
func TestContractUsageOfErrors(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{config: patiently})
	w.script(saidLine, step(`{"inputTokens":100,"outputTokens":7}`, `"0.25"`), saidLine, `{"type":"error","error":"lost"}`)
	for _, way := range ways {
		a := w.chat(t, say("x", way))
		if !strings.Contains(a.Content, "lost]") || a.Usage.Prompt != 100 || a.Usage.Completion != 7 || a.Usage.Cost == nil || *a.Usage.Cost != "0.25" {
			t.Errorf("%s: %+v, usage %+v", way, a, a.Usage)
		}
	}
}
