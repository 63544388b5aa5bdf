package anthropic

import (
	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// reasons are the API's stop reasons. pause_turn is a turn that the API cut short.
var reasons = map[string]pipeline.Reason{
	"end_turn":      pipeline.ReasonStop,
	"stop_sequence": pipeline.ReasonStop,

	"max_tokens":                    pipeline.ReasonLength,
	"model_context_window_exceeded": pipeline.ReasonLength,
	"pause_turn":                    pipeline.ReasonLength,

	"tool_use": pipeline.ReasonToolCalls,
	"refusal":  pipeline.ReasonContentFilter,
}

// readUsage takes what a usage object says into u. The API's buckets are disjoint (rulings 23), and each object counts the whole
// message so far: the last word counts, unless it is a zero behind a number, as servers write it that leave the field empty.
func readUsage(s *codec.Scanner, raw []byte, u *pipeline.Usage) {
	if len(raw) == 0 || raw[0] != '{' {
		return
	}
	s.Reset(raw)
	for s.Object(); s.Key(); {
		var to *int64
		var has pipeline.Fields
		switch string(s.Name()) {
		case "input_tokens":
			to, has = &u.Input, pipeline.HasInput
		case "cache_read_input_tokens":
			to, has = &u.CacheRead, pipeline.HasCache
		case "cache_creation_input_tokens":
			to, has = &u.CacheWrite, pipeline.HasCache
		case "output_tokens":
			to, has = &u.Output, pipeline.HasOutput
		default:
			s.Skip()
			continue
		}
		if n, ok := s.Int(); ok {
			u.Has |= has
			if n > 0 {
				*to = n
			}
		}
	}
}
