package upstreamtest

import (
	"testing"

	"amplifier-agent/pipeline"
)

// Bucket is where tokens are counted (rulings 23).
type Bucket string

// The buckets. All is input, cached and not: no bucket of its own, but what some wires count.
const (
	Input      Bucket = "input"
	CacheRead  Bucket = "cache_read"
	CacheWrite Bucket = "cache_write"
	All        Bucket = "input + cache_read + cache_write"
	Output     Bucket = "output"
	Reasoning  Bucket = "reasoning"
)

// openAI is the members of an OpenAI usage that tell of the bucket.
func (b Bucket) openAI() string {
	switch b {
	case CacheRead:
		return "`prompt_tokens_details.cached_tokens`, and in `prompt_tokens`"
	case Input, CacheWrite:
		return "in `prompt_tokens`"
	case All:
		return "`prompt_tokens`"
	case Reasoning:
		return "`completion_tokens_details.reasoning_tokens`, and in `completion_tokens`"
	default:
		return "`completion_tokens`"
	}
}

func (b Bucket) of(u pipeline.Usage) int64 {
	return map[Bucket]int64{Input: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, All: u.Prompt(), Output: u.Output, Reasoning: u.Reasoning}[b]
}

// Usage is a row of the table of usage: where a member of a wire's usage object is counted.
type Usage struct {
	Provider string
	Member   string // with that which it is in
	Bucket   Bucket
	Sample   string // a usage object in which Bucket is 7, thanks to the member
}

// Usages is the table. The first of a provider's spellings that brings a number counts. The table is read only.
var Usages = []Usage{
	{"commandcode", "inputTokens", All, `{"inputTokens":7,"cachedInputTokens":3,"outputTokens":1}`},
	{"commandcode", "promptTokens, input_tokens, prompt_tokens", All, `{"prompt_tokens":7,"outputTokens":1}`},
	{"commandcode", "inputTokenDetails.noCacheTokens, if the total is missing", Input, `{"inputTokenDetails":{"noCacheTokens":7,"cacheReadTokens":2},"outputTokens":1}`},
	{"commandcode", "inputTokenDetails.cacheReadTokens", CacheRead, `{"inputTokens":10,"inputTokenDetails":{"noCacheTokens":3,"cacheReadTokens":7},"outputTokens":1}`},
	{"commandcode", "cachedInputTokens, cached_tokens", CacheRead, `{"inputTokens":10,"cachedInputTokens":7,"outputTokens":1}`},
	{"commandcode", "inputTokenDetails.cacheWriteTokens", CacheWrite, `{"inputTokens":10,"inputTokenDetails":{"cacheWriteTokens":7},"outputTokens":1}`},
	{"commandcode", "outputTokens", Output, `{"inputTokens":1,"outputTokens":7,"reasoningTokens":5}`},
	{"commandcode", "completionTokens, output_tokens, completion_tokens", Output, `{"inputTokens":1,"completionTokens":7}`},
	{"commandcode", "outputTokenDetails.reasoningTokens", Reasoning, `{"inputTokens":1,"outputTokens":9,"outputTokenDetails":{"textTokens":2,"reasoningTokens":7}}`},
	{"commandcode", "reasoningTokens", Reasoning, `{"inputTokens":1,"outputTokens":9,"reasoningTokens":7}`},

	{"chat-completions", "prompt_tokens", All, `{"prompt_tokens":7,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":3}}`},
	{"chat-completions", "prompt_tokens_details.cached_tokens", CacheRead, `{"prompt_tokens":10,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":7}}`},
	{"chat-completions", "prompt_cache_hit_tokens", CacheRead, `{"prompt_tokens":10,"completion_tokens":1,"prompt_cache_hit_tokens":7}`},
	{"chat-completions", "cache_read_input_tokens", CacheRead, `{"prompt_tokens":10,"completion_tokens":1,"cache_read_input_tokens":7}`},
	{"chat-completions", "prompt_tokens_details.cache_write_tokens", CacheWrite, `{"prompt_tokens":10,"completion_tokens":1,"prompt_tokens_details":{"cache_write_tokens":7}}`},
	{"chat-completions", "cache_creation_tokens, cache_creation_input_tokens", CacheWrite, `{"prompt_tokens":10,"completion_tokens":1,"cache_creation_input_tokens":7}`},
	{"chat-completions", "completion_tokens", Output, `{"prompt_tokens":1,"completion_tokens":7,"total_tokens":8}`},
	{"chat-completions", "total_tokens, if it is more than both others: reasoning that completion_tokens leaves out", Output, `{"prompt_tokens":1,"completion_tokens":2,"total_tokens":8}`},
	{"chat-completions", "completion_tokens_details.reasoning_tokens", Reasoning, `{"prompt_tokens":1,"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":7}}`},

	{"anthropic", "input_tokens", Input, `{"input_tokens":7,"cache_read_input_tokens":2,"cache_creation_input_tokens":3,"output_tokens":1}`},
	{"anthropic", "cache_read_input_tokens", CacheRead, `{"input_tokens":1,"cache_read_input_tokens":7,"output_tokens":1}`},
	{"anthropic", "cache_creation_input_tokens", CacheWrite, `{"input_tokens":1,"cache_creation_input_tokens":7,"output_tokens":1}`},
	{"anthropic", "output_tokens", Output, `{"input_tokens":1,"output_tokens":7}`},
}

// testUsageTable runs the rows of the table.
func (s *suite) testUsageTable(t *testing.T) {
	own := 0
	for _, row := range Usages {
		if row.Provider != s.d.Provider {
			continue
		}
		own++
		o := s.answer(t, &Script{Parts: []Part{{Text: "hello"}}, RawUsage: row.Sample, Finish: pipeline.ReasonStop})
		if got := row.Bucket.of(o.usage); got != 7 || o.err != nil {
			t.Errorf("%s: %d in %s: %s", row.Sample, got, row.Bucket, o)
		}
	}
	if own == 0 {
		t.Errorf("no row is of %s", s.d.Provider)
	}
}

// End is a row of the table of finish reasons.
type End struct {
	Provider string
	Word     string          // commandcode: finishReason/rawFinishReason
	Reason   pipeline.Reason // of an answer with text in it; ReasonFault for an error
}

// Ends is the table. The table is read only.
var Ends = []End{
	{"commandcode", "stop/end_turn", pipeline.ReasonStop},
	{"commandcode", "stop/stop_sequence", pipeline.ReasonStop},
	{"commandcode", "length/max_tokens", pipeline.ReasonLength},
	{"commandcode", "other/max_output_tokens", pipeline.ReasonLength},
	{"commandcode", "unknown/model_context_window_exceeded", pipeline.ReasonLength},
	{"commandcode", "other/pause_turn", pipeline.ReasonLength},
	{"commandcode", "content-filter/", pipeline.ReasonContentFilter},
	{"commandcode", "stop/refusal", pipeline.ReasonContentFilter},
	{"commandcode", "other/content_filter", pipeline.ReasonContentFilter},
	{"commandcode", "error/", pipeline.ReasonFault},
	{"commandcode", "/network-error", pipeline.ReasonFault},
	{"commandcode", "other/connection_error", pipeline.ReasonFault},
	{"commandcode", "stop/upstream_error", pipeline.ReasonFault},
	{"commandcode", "other/", pipeline.ReasonStop},
	{"commandcode", "unknown/from_the_future", pipeline.ReasonStop},

	{"chat-completions", "stop", pipeline.ReasonStop},
	{"chat-completions", "end_turn", pipeline.ReasonStop},
	{"chat-completions", "stop_sequence", pipeline.ReasonStop},
	{"chat-completions", "eos", pipeline.ReasonStop},
	{"chat-completions", "STOP", pipeline.ReasonStop},
	{"chat-completions", "length", pipeline.ReasonLength},
	{"chat-completions", "max_tokens", pipeline.ReasonLength},
	{"chat-completions", "max_output_tokens", pipeline.ReasonLength},
	{"chat-completions", "model_length", pipeline.ReasonLength},
	{"chat-completions", "model_context_window_exceeded", pipeline.ReasonLength},
	{"chat-completions", "pause_turn", pipeline.ReasonLength},
	{"chat-completions", "content_filter", pipeline.ReasonContentFilter},
	{"chat-completions", "content-filter", pipeline.ReasonContentFilter},
	{"chat-completions", "safety", pipeline.ReasonContentFilter},
	{"chat-completions", "recitation", pipeline.ReasonContentFilter},
	{"chat-completions", "refusal", pipeline.ReasonContentFilter},
	{"chat-completions", "sensitive", pipeline.ReasonContentFilter},
	{"chat-completions", "error", pipeline.ReasonFault},
	{"chat-completions", "abort", pipeline.ReasonFault},
	{"chat-completions", "network_error", pipeline.ReasonFault},
	{"chat-completions", "connection-error", pipeline.ReasonFault},
	{"chat-completions", "upstream_error", pipeline.ReasonFault},
	{"chat-completions", "malformed_function_call", pipeline.ReasonFault},
	{"chat-completions", "insufficient_system_resource", pipeline.ReasonFault},
	{"chat-completions", "from_the_future", pipeline.ReasonStop},

	{"anthropic", "end_turn", pipeline.ReasonStop},
	{"anthropic", "stop_sequence", pipeline.ReasonStop},
	{"anthropic", "max_tokens", pipeline.ReasonLength},
	{"anthropic", "model_context_window_exceeded", pipeline.ReasonLength},
	{"anthropic", "pause_turn", pipeline.ReasonLength},
	{"anthropic", "refusal", pipeline.ReasonContentFilter},
	{"anthropic", "from_the_future", pipeline.ReasonStop},
}

// testFinishTable runs the rows of the table.
func (s *suite) testFinishTable(t *testing.T) {
	own := 0
	for _, row := range Ends {
		if row.Provider != s.d.Provider {
			continue
		}
		own++
		o := s.answer(t, &Script{Parts: []Part{{Text: "hello"}}, RawFinish: row.Word})
		switch {
		case row.Reason == pipeline.ReasonFault:
			want{code: pipeline.CodeUpstream, retry: true, says: "the upstream's provider failed"}.check(t, o)
		case o.err != nil || o.reason != row.Reason:
			t.Errorf("%s: %s, want %s", row.Word, o, row.Reason)
		}
	}
	if own == 0 {
		t.Errorf("no row is of %s", s.d.Provider)
	}
}
