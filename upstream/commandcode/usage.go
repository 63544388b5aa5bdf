package commandcode

import (
	"strings"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// finish translates the two finish reasons of an event. Either may name what happened; the worse counts.
func finish(unified, raw codec.Text) pipeline.StepInfo {
	a, b := normalise(unified), normalise(raw)
	info := pipeline.StepInfo{Raw: a}
	if a != b {
		info.Raw = strings.Trim(a+"/"+b, "/")
	}
	for _, r := range []pipeline.Reason{pipeline.ReasonFault, pipeline.ReasonContentFilter, pipeline.ReasonLength, pipeline.ReasonToolCalls, pipeline.ReasonStop} {
		if reasons[a] == r || reasons[b] == r {
			info.Reason = r
			break
		}
	}
	return info
}

func normalise(t codec.Text) string {
	if w, ok := words[string(t)]; ok { // most
		return w
	}
	return strings.ReplaceAll(strings.ToLower(t.String()), "_", "-")
}

// reasons are the gateway's words with "_" written as "-". pause-turn is a turn that the provider cut short.
var reasons = map[string]pipeline.Reason{
	"error":            pipeline.ReasonFault,
	"network-error":    pipeline.ReasonFault,
	"connection-error": pipeline.ReasonFault,
	"upstream-error":   pipeline.ReasonFault,

	"content-filter": pipeline.ReasonContentFilter,
	"refusal":        pipeline.ReasonContentFilter,

	"length":                        pipeline.ReasonLength,
	"max-tokens":                    pipeline.ReasonLength,
	"max-output-tokens":             pipeline.ReasonLength,
	"model-context-window-exceeded": pipeline.ReasonLength,
	"pause-turn":                    pipeline.ReasonLength,

	"tool-calls": pipeline.ReasonToolCalls,
	"tool-use":   pipeline.ReasonToolCalls,

	"stop":          pipeline.ReasonStop,
	"end-turn":      pipeline.ReasonStop,
	"stop-sequence": pipeline.ReasonStop,
}

// words are those that are written as here already.
var words = func() map[string]string {
	m := map[string]string{"": ""}
	for w := range reasons {
		m[w] = w
	}
	return m
}()

// counts are the members of a usage object. -1 stands for not said.
type counts struct {
	input, uncached, cacheRead, cacheWrite, output, reasoning int64
}

// usage reads a usage object in any of the gateway's spellings. inputTokens includes the cached ones (rulings 23). What it does not
// say of the cache comes from the metadata of the model's maker, if that does; else written, which is what is known from elsewhere,
// counts as written.
func usage(s *codec.Scanner, raw, metadata []byte, written int64) pipeline.Usage {
	c := counts{-1, -1, -1, -1, -1, -1}
	if isObject(raw) {
		s.Reset(raw)
		c.read(s, false)
	}
	if (c.cacheRead < 0 || c.cacheWrite < 0) && isObject(metadata) {
		c.maker(s, metadata)
	}
	if c.cacheWrite < 0 {
		c.cacheWrite = written
	}
	if c.input < 0 && (c.uncached >= 0 || c.cacheRead >= 0) { // the parts were said, the total was not
		c.input = max(c.uncached, 0) + max(c.cacheRead, 0) + max(c.cacheWrite, 0)
	}
	u := pipeline.InclusiveUsage(max(c.input, 0), max(c.cacheRead, 0), max(c.cacheWrite, 0))
	if c.input >= 0 {
		u.Has |= pipeline.HasInput
	}
	if c.cacheRead >= 0 {
		u.Has |= pipeline.HasCache
	}
	if c.output >= 0 {
		u.Output = c.output
		u.Has |= pipeline.HasOutput
	}
	if c.reasoning >= 0 {
		u.Reasoning = c.reasoning
		u.Has |= pipeline.HasReasoning
	}
	return u
}

// read takes the members of a usage object, or of the details inside it. The first spelling that brings a number counts.
func (c *counts) read(s *codec.Scanner, details bool) {
	for s.Object(); s.Key(); {
		var to *int64
		switch string(s.Name()) {
		case "inputTokens", "promptTokens", "input_tokens", "prompt_tokens":
			to = &c.input
		case "outputTokens", "completionTokens", "output_tokens", "completion_tokens":
			to = &c.output
		case "noCacheTokens", "no_cache_tokens":
			to = &c.uncached
		case "cachedInputTokens", "cacheReadTokens", "cached_input_tokens", "cache_read_tokens", "cached_tokens":
			to = &c.cacheRead
		case "cacheWriteTokens", "cache_write_tokens":
			to = &c.cacheWrite
		case "reasoningTokens", "reasoning_tokens":
			to = &c.reasoning
		case "inputTokenDetails", "inputTokensDetails", "outputTokenDetails", "outputTokensDetails",
			"input_token_details", "output_token_details", "prompt_tokens_details", "completion_tokens_details":
			if !details && s.Kind() == codec.Object {
				c.read(s, true)
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

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// maker takes what the makers of models say of the cache in their own words, where nothing has said it yet.
func (c *counts) maker(s *codec.Scanner, metadata []byte) {
	hit, miss, written := int64(-1), int64(-1), int64(-1)
	s.Reset(metadata)
	for s.Object(); s.Key(); {
		maker := string(s.Name())
		if maker != "anthropic" && maker != "deepseek" || s.Kind() != codec.Object {
			s.Skip()
			continue
		}
		for s.Object(); s.Key(); {
			switch name := string(s.Name()); {
			case maker == "deepseek" && name == "promptCacheHitTokens":
				hit = said(s)
			case maker == "deepseek" && name == "promptCacheMissTokens":
				miss = said(s)
			case maker == "anthropic" && name == "usage" && s.Kind() == codec.Object:
				for s.Object(); s.Key(); {
					if string(s.Name()) == "cache_creation" && s.Kind() == codec.Object {
						written = creation(s)
					} else {
						s.Skip()
					}
				}
			default:
				s.Skip()
			}
		}
	}
	if c.cacheRead < 0 && hit >= 0 {
		c.cacheRead = hit
		if c.uncached < 0 {
			c.uncached = miss
		}
	}
	if c.cacheWrite < 0 {
		c.cacheWrite = written
	}
}

// creation adds up what was written to the cache, by how long it is kept; -1 if it says nothing.
func creation(s *codec.Scanner) int64 {
	sum := int64(-1)
	for s.Object(); s.Key(); {
		switch string(s.Name()) {
		case "ephemeral_1h_input_tokens", "ephemeral_5m_input_tokens":
			if n := said(s); n >= 0 {
				sum = max(sum, 0) + n
			}
		default:
			s.Skip()
		}
	}
	return sum
}

// said reads a count, -1 if it is none.
func said(s *codec.Scanner) int64 {
	if n, ok := s.Int(); ok {
		return n
	}
	return -1
}

// cost reads providerMetadata.gateway: the cost in US dollars and the id of the call that it is for. What is no number is
// skipped.
func cost(s *codec.Scanner, raw []byte) (p pipeline.Price, generation string) {
	if !isObject(raw) {
		return p, ""
	}
	s.Reset(raw)
	for s.Object(); s.Key(); {
		if string(s.Name()) != "gateway" || s.Kind() != codec.Object {
			s.Skip()
			continue
		}
		for s.Object(); s.Key(); {
			switch string(s.Name()) {
			case "cost":
				p = price(s)
			case "generationId":
				t, _ := s.Text()
				generation = t.String()
			default:
				s.Skip()
			}
		}
	}
	return p, generation
}

// price reads an amount that is written as a string or as a number.
func price(s *codec.Scanner) (p pipeline.Price) {
	switch s.Kind() {
	case codec.String:
		t, _ := s.Text()
		p, _ = pipeline.ParsePrice(t.String())
	case codec.Number:
		p, _ = pipeline.ParsePrice(string(s.Raw()))
	default:
		s.Skip()
	}
	return p
}
