package chatcompletions

import (
	"cmp"
	"strconv"
	"strings"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
)

// appendRequest appends the body of POST /chat/completions.
func (p *Provider) appendRequest(dst []byte, r *pipeline.Round) []byte {
	dst = append(dst, `{"model":`...)
	dst = codec.AppendString(dst, r.Model)
	dst = append(dst, `,"messages":`...)
	dst, moved := p.appendMessages(dst, r)
	if moved > 0 {
		p.cfg.Log.Debug("images go where the upstream takes them, into a user message", "provider", p.cfg.ID, "images", moved)
	}
	dst = appendTools(dst, r.Tools)
	if n := cmp.Or(max(r.Sampling.MaxTokens, 0), int64(p.cfg.MaxTokens)); n > 0 {
		dst = append(dst, `,"`+p.preset.MaxTokens+`":`...)
		dst = strconv.AppendInt(dst, n, 10)
	}
	if effort := cmp.Or(r.Sampling.Effort, p.cfg.Effort); effort != "" {
		dst = append(dst, `,"reasoning_effort":`...)
		dst = codec.AppendString(dst, effort)
	}
	dst = upstream.AppendSampling(dst, &r.Sampling)
	if r.Sampling.ToolChoice != nil && len(r.Tools) > 0 { // without tools it is refused
		dst = append(append(dst, `,"tool_choice":`...), r.Sampling.ToolChoice...)
	}
	return append(dst, `,"stream":true,"stream_options":{"include_usage":true}}`...)
}

// appendTools appends the member with the tools. An empty list is refused by some upstreams, so that there is none then.
func appendTools(dst []byte, tools []pipeline.ToolSpec) []byte {
	for i, t := range tools {
		if i == 0 {
			dst = append(dst, `,"tools":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"type":"function","function":{"name":`...)
		dst = codec.AppendString(dst, t.Name)
		if t.Description != "" {
			dst = append(dst, `,"description":`...)
			dst = codec.AppendString(dst, t.Description)
		}
		if len(t.Parameters) > 0 {
			dst = append(append(dst, `,"parameters":`...), t.Parameters...)
		}
		if dst = append(dst, `}}`...); i == len(tools)-1 {
			dst = append(dst, ']')
		}
	}
	return dst
}

// system is the system prompt. Where the upstream does not know the role developer, the system and developer messages of the
// conversation are behind it (rulings 30): templates of open models refuse them anywhere else.
func (p *Provider) system(r *pipeline.Round) string {
	texts := make([]string, 0, 1)
	if r.System != "" {
		texts = append(texts, r.System)
	}
	for i := range r.Messages {
		if m := &r.Messages[i]; !p.preset.Developer && isSystem(m) {
			if text := m.Text(); strings.TrimSpace(text) != "" {
				texts = append(texts, text)
			}
		}
	}
	return strings.Join(texts, "\n\n")
}

func isSystem(m *pipeline.Message) bool {
	return m.Role == pipeline.RoleSystem || m.Role == pipeline.RoleDeveloper
}
