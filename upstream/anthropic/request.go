package anthropic

import (
	"strconv"
	"strings"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
)

// appendRequest appends the body of POST /v1/messages.
func (p *Provider) appendRequest(dst []byte, r *pipeline.Round) []byte {
	dst = append(dst, `{"model":`...)
	dst = codec.AppendString(dst, r.Model)
	dst = append(dst, `,"max_tokens":`...)
	dst = strconv.AppendInt(dst, p.maxTokens(r), 10)
	if system := system(r); system != "" {
		dst = append(dst, `,"system":`...)
		dst = codec.AppendString(dst, system)
	}
	exchanges, dropped := arrange(r.Messages)
	if dropped > 0 {
		p.cfg.Log.Debug("tool results are left out that answer no call of the message before them", "provider", p.cfg.ID, "results", dropped)
	}
	dst = append(dst, `,"messages":`...)
	dst = appendMessages(dst, exchanges)
	if len(r.Tools) > 0 {
		dst = append(dst, `,"tools":`...)
		dst = appendTools(dst, r.Tools)
		if choice := toolChoice(r.Sampling.ToolChoice); choice != nil {
			dst = append(append(dst, `,"tool_choice":`...), choice...)
		}
	}
	dst = appendSampling(dst, &r.Sampling)
	return append(dst, `,"stream":true}`...)
}

// maxTokens is the client's wish, else the configured number, as far as the model goes.
func (p *Provider) maxTokens(r *pipeline.Round) int64 {
	n := int64(p.cfg.MaxTokens)
	if r.Sampling.MaxTokens > 0 {
		n = r.Sampling.MaxTokens
	}
	if limits := p.limits.Load(); limits != nil && (*limits)[r.Model] > 0 {
		n = min(n, (*limits)[r.Model])
	}
	return n
}

// appendSampling appends the client's settings as far as the API takes them: temperatures above 1 are 1, top_p stands for itself
// only as newer models refuse it beside a temperature, and sequences of white space cannot end an answer.
func appendSampling(dst []byte, s *pipeline.Sampling) []byte {
	switch {
	case s.Temperature != nil:
		dst = append(dst, `,"temperature":`...)
		if t, _ := strconv.ParseFloat(string(s.Temperature), 64); t > 1 {
			dst = append(dst, '1')
		} else {
			dst = append(dst, s.Temperature...)
		}
	case s.TopP != nil:
		dst = append(append(dst, `,"top_p":`...), s.TopP...)
	}
	first := true
	for _, stop := range s.Stop {
		if isBlank(stop) {
			continue
		}
		if first {
			dst = append(dst, `,"stop_sequences":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst, first = codec.AppendString(dst, stop), false
	}
	if !first {
		dst = append(dst, ']')
	}
	return dst
}

// toolChoice translates the client's choice; nil for one that says nothing the API knows.
func toolChoice(choice []byte) []byte {
	word, function := upstream.ToolChoice(choice)
	switch {
	case function != "":
		return append(codec.AppendString([]byte(`{"type":"tool","name":`), function), '}')
	case word == "none":
		return []byte(`{"type":"none"}`)
	case word == "required":
		return []byte(`{"type":"any"}`)
	case word == "auto":
		return []byte(`{"type":"auto"}`)
	}
	return nil
}

// system is the system prompt with the developer's messages behind it, as the API knows no such role (rulings 30); "" if there is
// none.
func system(r *pipeline.Round) string {
	texts := make([]string, 0, 1)
	if !isBlank(r.System) {
		texts = append(texts, r.System)
	}
	for i := range r.Messages {
		if m := &r.Messages[i]; m.Role == pipeline.RoleSystem || m.Role == pipeline.RoleDeveloper {
			if text := m.Text(); !isBlank(text) {
				texts = append(texts, text)
			}
		}
	}
	return strings.Join(texts, "\n\n")
}

// appendTools appends the tools. The API insists that a schema says that it is an object's.
func appendTools(dst []byte, tools []pipeline.ToolSpec) []byte {
	dst = append(dst, '[')
	for i, t := range tools {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"name":`...)
		dst = codec.AppendString(dst, t.Name)
		if !isBlank(t.Description) {
			dst = append(dst, `,"description":`...)
			dst = codec.AppendString(dst, t.Description)
		}
		dst = append(dst, `,"input_schema":`...)
		dst = appendSchema(dst, t.Parameters)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendSchema(dst, schema []byte) []byte {
	var s codec.Scanner
	s.Reset(schema)
	members := 0
	if s.Kind() == codec.Object {
		for s.Object(); s.Key(); members++ {
			if string(s.Name()) == "type" {
				return append(dst, schema...)
			}
			s.Skip()
		}
	}
	dst = append(dst, `{"type":"object"`...)
	if members == 0 {
		return append(dst, '}')
	}
	dst = append(dst, ',')
	_, inner, _ := strings.Cut(string(schema), "{")
	return append(dst, inner...)
}

// isBlank reports whether the API would take s for no text.
func isBlank(s string) bool { return strings.TrimSpace(s) == "" }
