package chatcompletions

import (
	"strings"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// finish translates a finish reason.
func finish(t codec.Text) (r pipeline.Reason, raw string) {
	raw = pipeline.Short(t.String())
	return reasons[strings.ReplaceAll(strings.ToLower(raw), "-", "_")], raw
}

// reasons are the words of the API, and those that upstreams leave as their own models say them, with "-" written as "_".
var reasons = map[string]pipeline.Reason{
	"stop":          pipeline.ReasonStop,
	"end_turn":      pipeline.ReasonStop,
	"stop_sequence": pipeline.ReasonStop,
	"eos":           pipeline.ReasonStop,

	"length":                        pipeline.ReasonLength,
	"max_tokens":                    pipeline.ReasonLength,
	"max_output_tokens":             pipeline.ReasonLength,
	"model_length":                  pipeline.ReasonLength,
	"model_context_window_exceeded": pipeline.ReasonLength,
	"pause_turn":                    pipeline.ReasonLength, // the provider cut the turn short

	"tool_calls":    pipeline.ReasonToolCalls,
	"function_call": pipeline.ReasonToolCalls,
	"tool_use":      pipeline.ReasonToolCalls,

	"content_filter": pipeline.ReasonContentFilter,
	"safety":         pipeline.ReasonContentFilter,
	"recitation":     pipeline.ReasonContentFilter,
	"refusal":        pipeline.ReasonContentFilter,
	"sensitive":      pipeline.ReasonContentFilter,

	"error":                        pipeline.ReasonFault,
	"abort":                        pipeline.ReasonFault,
	"network_error":                pipeline.ReasonFault,
	"connection_error":             pipeline.ReasonFault,
	"upstream_error":               pipeline.ReasonFault,
	"malformed_function_call":      pipeline.ReasonFault,
	"insufficient_system_resource": pipeline.ReasonFault,
}

// counts are the members of a usage object. -1 stands for not said.
type counts struct {
	prompt, completion, total, cacheRead, cacheWrite, reasoning int64

	cost []byte // a number, or a string that holds one
}

// usage reads a usage object, and the cost that some put into it. prompt_tokens includes the cached ones (rulings 23). A total above both counts tells of reasoning
// that completion_tokens leaves out.
func usage(s *codec.Scanner, raw []byte) (u pipeline.Usage, cost pipeline.Price) {
	if raw == nil {
		return u, cost
	}
	c := counts{-1, -1, -1, -1, -1, -1, nil}
	s.Reset(raw)
	c.read(s, false)
	if c.prompt >= 0 {
		u = pipeline.InclusiveUsage(c.prompt, max(c.cacheRead, 0), max(c.cacheWrite, 0))
		u.Has |= pipeline.HasInput
		if c.cacheRead >= 0 {
			u.Has |= pipeline.HasCache
		}
	}
	if c.completion >= 0 {
		u.Output = c.completion
		if c.prompt >= 0 {
			u.Output = max(c.completion, c.total-c.prompt)
		}
		u.Has |= pipeline.HasOutput
	}
	if c.reasoning >= 0 {
		u.Reasoning = c.reasoning
		u.Has |= pipeline.HasReasoning
	}
	return u, price(s, c.cost)
}

// read takes the members of a usage object, or of the details inside it. The first spelling that brings a number counts.
func (c *counts) read(s *codec.Scanner, details bool) {
	for s.Object(); s.Key(); {
		var to *int64
		switch string(s.Name()) {
		case "prompt_tokens":
			to = &c.prompt
		case "completion_tokens":
			to = &c.completion
		case "total_tokens":
			to = &c.total
		case "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens":
			to = &c.cacheRead
		case "cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens":
			to = &c.cacheWrite
		case "reasoning_tokens":
			to = &c.reasoning
		case "prompt_tokens_details", "completion_tokens_details":
			if !details && s.Kind() == codec.Object {
				c.read(s, true)
				continue
			}
		case "cost", "cost_usd":
			if !details {
				c.cost = s.Span()
				continue
			}
		}
		if to == nil {
			s.Skip()
			continue
		}
		if n, ok := s.Int(); ok && *to < 0 {
			*to = n
		}
	}
}

// price reads an amount that is written as a string or as a number. What is neither is skipped (rulings 22).
func price(s *codec.Scanner, raw []byte) (p pipeline.Price) {
	s.Reset(raw)
	switch s.Kind() {
	case codec.String:
		t, _ := s.Text()
		p, _ = pipeline.ParsePrice(t.String())
	case codec.Number:
		p, _ = pipeline.ParsePrice(string(raw))
	default: // nil too
	}
	return p
}
