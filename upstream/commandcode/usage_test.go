package commandcode

import (
	"strings"
	"testing"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// TestUsage holds the spellings of a usage object (facts/commandcode.md §5; rulings 23).
func TestUsage(t *testing.T) {
	const in, cache, out, reason = pipeline.HasInput, pipeline.HasCache, pipeline.HasOutput, pipeline.HasReasoning
	for raw, want := range map[string]pipeline.Usage{
		`{"inputTokens":5418,"outputTokens":32,"totalTokens":5450,"cachedInputTokens":5376,"inputTokenDetails":{"noCacheTokens":42,"cacheReadTokens":5376},` +
			`"outputTokenDetails":{"textTokens":3,"reasoningTokens":29},"reasoningTokens":29,"raw":{"prompt_tokens":1,"completion_tokens":1,"completion_tokens_details":{"reasoning_tokens":1}}}`: {Input: 42, CacheRead: 5376, Output: 32, Reasoning: 29, Has: in | cache | out | reason},
		`{"raw":{"prompt_tokens":1,"completion_tokens":1},"inputTokens":7,"outputTokens":2}`:                                                       {Input: 7, Output: 2, Has: in | out},
		`{"promptTokens":7,"completionTokens":2}`:                                                                                                  {Input: 7, Output: 2, Has: in | out},
		`{"input_tokens":7,"output_tokens":2,"cached_input_tokens":3,"reasoning_tokens":1}`:                                                        {Input: 4, CacheRead: 3, Output: 2, Reasoning: 1, Has: in | cache | out | reason},
		`{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":1}}`: {Input: 4, CacheRead: 3, Output: 2, Reasoning: 1, Has: in | cache | out | reason},
		`{"inputTokens":7,"inputTokensDetails":{"cacheReadTokens":3,"cacheWriteTokens":2}}`:                                                        {Input: 2, CacheRead: 3, CacheWrite: 2, Has: in | cache},
		`{"inputTokenDetails":{"cacheReadTokens":3},"cachedInputTokens":4,"inputTokens":7}`:                                                        {Input: 4, CacheRead: 3, Has: in | cache},
		`{"inputTokens":null,"promptTokens":7,"outputTokens":null}`:                                                                                {Input: 7, Has: in},
		`{"inputTokens":null,"inputTokenDetails":{"noCacheTokens":42,"cacheReadTokens":100,"cacheWriteTokens":8}}`:                                 {Input: 42, CacheRead: 100, CacheWrite: 8, Has: in | cache},
		`{"inputTokens":null,"outputTokens":2,"cachedInputTokens":null,"inputTokenDetails":null}`:                                                  {Output: 2, Has: out},
		`{"inputTokens":0,"outputTokens":0,"cachedInputTokens":0}`:                                                                                 {Has: in | cache | out},
		`{"inputTokens":7.0,"outputTokens":2e2}`:                                                                                                   {Input: 7, Output: 200, Has: in | out},
		`{"inputTokens":7.5,"outputTokens":"2","reasoningTokens":true}`:                                                                            {},
		`{"inputTokens":-7,"outputTokens":-0}`:                                                                                                     {Has: out},
		`{"inputTokens":9007199254740993,"outputTokens":1e300}`:                                                                                    {}, // above 2^53 no float tells neighbours apart
		`{"inputTokens":18446744073709551617}`:                                                                                                     {},
		`{"inputTokens":7,"cachedInputTokens":9,"cacheWriteTokens":5}`:                                                                             {CacheRead: 7, Has: in | cache}, // parts that claim more than the whole are cut
		`{"inputTokens":7,"cachedInputTokens":4,"cacheWriteTokens":5}`:                                                                             {CacheRead: 4, CacheWrite: 3, Has: in | cache},
		`{"inputTokens":7,"inputTokenDetails":{"inputTokenDetails":{"cacheReadTokens":3}}}`:                                                        {Input: 7, Has: in},
		`{"inputTokens":7,"inputTokenDetails":[1]}`:                                                                                                {Input: 7, Has: in},
		`{}`: {}, `null`: {}, `7`: {}, `[]`: {}, `"x"`: {}, ``: {},
	} {
		var s codec.Scanner
		got := usage(&s, []byte(raw), nil, -1)
		if got != want {
			t.Errorf("%.120s\n is %+v\nnot %+v", raw, got, want)
		}
		if raw != "" && raw[0] == '{' && s.End() != nil {
			t.Errorf("%.120s: %v", raw, s.End())
		}
	}
}

// TestUsageOfMakers: what the usage does not say of the cache is in the metadata of the model's maker; what both say counts once.
func TestUsageOfMakers(t *testing.T) {
	const in, cache = pipeline.HasInput, pipeline.HasCache
	const both = `{"anthropic":{"cacheCreationInputTokens":99,"usage":{"cache_creation":{"ephemeral_1h_input_tokens":3,"x":[9],"ephemeral_5m_input_tokens":2}}},"gateway":{"cost":"1"}}`
	const seek = `{"deepseek":{"promptCacheHitTokens":6,"promptCacheMissTokens":4}}`
	for _, row := range []struct {
		usage, metadata string
		written         int64
		want            pipeline.Usage
	}{
		{`{"inputTokens":20,"cachedInputTokens":10}`, both, -1, pipeline.Usage{Input: 5, CacheRead: 10, CacheWrite: 5, Has: in | cache}},
		{`{"inputTokens":20,"cachedInputTokens":10,"cacheWriteTokens":7}`, both, 9, pipeline.Usage{Input: 3, CacheRead: 10, CacheWrite: 7, Has: in | cache}},
		{`{"inputTokens":20,"cachedInputTokens":10,"inputTokenDetails":{"cacheWriteTokens":0}}`, both, 9, pipeline.Usage{Input: 10, CacheRead: 10, Has: in | cache}},
		{`{"inputTokens":20}`, both, 9, pipeline.Usage{Input: 15, CacheWrite: 5, Has: in}},
		{`{"inputTokens":20}`, `{"gateway":{}}`, 9, pipeline.Usage{Input: 11, CacheWrite: 9, Has: in}},
		{`{"inputTokens":20}`, `{"anthropic":{"usage":{"cache_creation":{"ephemeral_1h_input_tokens":null,"ephemeral_5m_input_tokens":2}}}}`, -1, pipeline.Usage{Input: 18, CacheWrite: 2, Has: in}},
		{`{"inputTokens":20}`, `{"anthropic":{"usage":{"cache_creation":null}}}`, -1, pipeline.Usage{Input: 20, Has: in}},
		{`{"inputTokens":20}`, `{"anthropic":{"usage":7}, "deepseek":[]}`, -1, pipeline.Usage{Input: 20, Has: in}},
		{`{"inputTokens":20}`, `null`, -1, pipeline.Usage{Input: 20, Has: in}},
		{`{"inputTokens":10}`, seek, -1, pipeline.Usage{Input: 4, CacheRead: 6, Has: in | cache}},
		{`{"inputTokens":10,"cachedInputTokens":0}`, seek, -1, pipeline.Usage{Input: 10, Has: in | cache}},
		{`{"inputTokens":10,"inputTokenDetails":{"cacheReadTokens":2}}`, seek, -1, pipeline.Usage{Input: 8, CacheRead: 2, Has: in | cache}},
		{`{"inputTokens":null}`, seek, -1, pipeline.Usage{Input: 4, CacheRead: 6, Has: in | cache}},
		{`null`, seek, -1, pipeline.Usage{Input: 4, CacheRead: 6, Has: in | cache}},
		{`null`, `{"deepseek":{}}`, -1, pipeline.Usage{}},
	} {
		var s codec.Scanner
		if got := usage(&s, []byte(row.usage), []byte(row.metadata), row.written); got != row.want {
			t.Errorf("%s with %s\n is %+v\nnot %+v", row.usage, row.metadata, got, row.want)
		}
	}
	// A total that is silent of what its steps have written does not take it away, and does not add it again.
	r := body(t, strings.NewReader(`{"type":"text-delta","text":"x"}`+"\n"+
		strings.Repeat(`{"type":"finish-step","finishReason":"stop","usage":{"inputTokens":20,"cachedInputTokens":10},"providerMetadata":`+both+`}`+"\n", 2)+
		`{"type":"finish","finishReason":"stop","totalUsage":{"inputTokens":40,"cachedInputTokens":20,"outputTokens":1}}`+"\n"))
	if want := (pipeline.Usage{Input: 10, CacheRead: 20, CacheWrite: 10, Output: 1, Has: in | cache | pipeline.HasOutput}); r.Err != nil || r.Turn.Usage != want {
		t.Errorf("%+v, %v", r.Turn.Usage, r.Err)
	}
}

func TestCost(t *testing.T) {
	for gateway, want := range map[string]string{
		`{"cost":"0.000065598","marketCost":"9"}`: "0.000065598",
		`{"cost":"0.10"}`:                         "0.10",
		`{"cost":0.25}`:                           "0.25",
		`{"cost":2.5e-7}`:                         "0.00000025",
		`{"cost":"0"}`:                            "0",
		`{"cost":" 1 "}`:                          "1",
		`{"cost":"\u0031"}`:                       "1",
		`{"cost":"1e3"}`:                          "1000",
		`{"cost":1e999999999}`:                    "",
		`{"cost":"free"}`:                         "",
		`{"cost":""}`:                             "",
		`{"cost":null}`:                           "",
		`{"cost":true}`:                           "",
		`{"cost":{"usd":"1"}}`:                    "",
		`{"cost":["1"]}`:                          "",
		`{"cost":"NaN"}`:                          "",
		`{"cost":"0x10"}`:                         "",
		`{"inferenceCost":"1"}`:                   "",
		`{}`:                                      "",
		`null`:                                    "",
		`"1"`:                                     "",
	} {
		var s codec.Scanner
		p, generation := cost(&s, []byte(`{"deepseek":{"cost":"9"},"gateway":`+gateway+`,"cost":"9"}`))
		if p.String() != want || p.Known() != (want != "") || generation != "" {
			t.Errorf("%s is %q %q, want %q", gateway, p, generation, want)
		}
		if s.End() != nil {
			t.Errorf("%s: %v", gateway, s.End())
		}
	}
	var s codec.Scanner
	if p, generation := cost(&s, []byte(`{"gateway":{"generationId":"gen_\"1","cost":"1"}}`)); p.String() != "1" || generation != `gen_"1` {
		t.Error(p, generation)
	}
	for _, raw := range []string{"", "null", "7", `"x"`} {
		if p, _ := cost(&s, []byte(raw)); p.Known() {
			t.Errorf("%q is %s", raw, p)
		}
	}
}
