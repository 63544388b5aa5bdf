package chatcompletions

import (
	"testing"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

func TestUsage(t *testing.T) {
	const in, cache, out, reason = pipeline.HasInput, pipeline.HasCache, pipeline.HasOutput, pipeline.HasReasoning
	for raw, want := range map[string]pipeline.Usage{
		`{}`: {},
		`{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}`:                                                    {Input: 7, Output: 3, Has: in | out},
		`{"prompt_tokens":0,"completion_tokens":0}`:                                                                      {Has: in | out},
		`{"prompt_tokens":7}`:                                                                                            {Input: 7, Has: in},
		`{"completion_tokens":3,"total_tokens":10}`:                                                                      {Output: 3, Has: out},
		`{"prompt_tokens":null,"completion_tokens":"3"}`:                                                                 {},
		`{"prompt_tokens":-1,"completion_tokens":1.5}`:                                                                   {},
		`{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":0}}`:                              {Input: 6, CacheRead: 4, Has: in | cache},
		`{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":5}}`:                        {Input: 1, CacheRead: 4, CacheWrite: 5, Has: in | cache},
		`{"prompt_tokens":10,"prompt_tokens_details":null}`:                                                              {Input: 10, Has: in},
		`{"prompt_tokens":10,"prompt_tokens_details":{}}`:                                                                {Input: 10, Has: in},
		`{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}`:                                                {CacheRead: 3, Has: in | cache},
		`{"prompt_cache_hit_tokens":4,"prompt_tokens":10,"prompt_cache_miss_tokens":6}`:                                  {Input: 6, CacheRead: 4, Has: in | cache},
		`{"prompt_tokens":10,"cached_tokens":4}`:                                                                         {Input: 6, CacheRead: 4, Has: in | cache},
		`{"prompt_tokens_details":{"cached_tokens":4}}`:                                                                  {},
		`{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12,"completion_tokens_details":{"reasoning_tokens":2}}`: {Input: 7, Output: 5, Reasoning: 2, Has: in | out | reason},
		`{"prompt_tokens":7,"completion_tokens":5,"total_tokens":14,"completion_tokens_details":{"reasoning_tokens":2}}`: {Input: 7, Output: 7, Reasoning: 2, Has: in | out | reason}, // left out of completion_tokens
		`{"prompt_tokens":7,"completion_tokens":5,"total_tokens":40}`:                                                    {Input: 7, Output: 33, Has: in | out},
		`{"prompt_tokens":7,"completion_tokens":5,"total_tokens":1}`:                                                     {Input: 7, Output: 5, Has: in | out},
		`{"prompt_tokens":7,"prompt_tokens_details":{"prompt_tokens_details":{"cached_tokens":4}}}`:                      {Input: 7, Has: in},
	} {
		var s codec.Scanner
		if got, cost := usage(&s, []byte(raw)); got != want || cost.Known() {
			t.Errorf("%s\n is %+v, cost %s\nnot %+v", raw, got, cost, want)
		}
	}
}

func TestCost(t *testing.T) {
	for raw, want := range map[string]string{
		`{"cost":0.00012300}`: "0.00012300", `{"cost":"0.1"}`: "0.1", `{"cost_usd":1e-7}`: "0.0000001", `{"cost":0}`: "0", `{"cost":12345678901234567890.123}`: "12345678901234567890.123",
		`{"cost":null}`: "", `{"cost":"free"}`: "", `{"cost":{"total":1}}`: "", `{}`: "", `{"cost":true}`: "", `{"prompt_tokens_details":{"cost":1}}`: "",
	} {
		var s codec.Scanner
		if u, got := usage(&s, []byte(raw)); got.String() != want || got.Known() != (want != "") || u.Known() {
			t.Errorf("%s is %q, %+v", raw, got, u)
		}
	}
}
