package commandcode

import (
	"strconv"
	"strings"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// maxMaxTokens is what the gateway allows at most for params.max_tokens.
const maxMaxTokens = 200000

// appendRequest appends the body of POST /alpha/generate. Every member of config is required by the gateway's schema, whatever
// its value; params.tools and params.system are always sent.
func (p *Provider) appendRequest(dst []byte, r *pipeline.Round, now time.Time) []byte {
	dst = append(dst, `{"config":{"workingDir":`...)
	dst = codec.AppendString(dst, p.cfg.WorkingDir)
	dst = append(dst, `,"date":"`...)
	dst = now.AppendFormat(dst, time.DateOnly)
	dst = append(dst, `","environment":"production","structure":[],"isGitRepo":false,"currentBranch":"","mainBranch":"","gitStatus":"","recentCommits":[]},`+
		`"memory":"","taste":null,"skills":null,"permissionMode":"standard","params":{"model":`...)
	dst = codec.AppendString(dst, r.Model)
	dst = append(dst, `,"system":`...)
	dst = codec.AppendString(dst, system(r))
	dst = append(dst, `,"messages":`...)
	dst = appendMessages(dst, r.Messages)
	dst = append(dst, `,"tools":`...)
	dst = appendTools(dst, r.Tools)
	dst = append(dst, `,"max_tokens":`...)
	dst = strconv.AppendInt(dst, int64(min(p.cfg.MaxTokens, maxMaxTokens)), 10)
	return append(dst, `,"stream":true}}`...)
}

// system is the system prompt with the developer's messages behind it, as the gateway knows no such role (rulings 30). It is
// never empty.
func system(r *pipeline.Round) string {
	texts := make([]string, 0, 1)
	if r.System != "" {
		texts = append(texts, r.System)
	}
	for i := range r.Messages {
		if isSystem(&r.Messages[i]) {
			if text := r.Messages[i].Text(); strings.TrimSpace(text) != "" {
				texts = append(texts, text)
			}
		}
	}
	if len(texts) == 0 {
		return " "
	}
	return strings.Join(texts, "\n\n")
}

func isSystem(m *pipeline.Message) bool {
	return m.Role == pipeline.RoleSystem || m.Role == pipeline.RoleDeveloper
}

func appendTools(dst []byte, tools []pipeline.ToolSpec) []byte {
	dst = append(dst, '[')
	for i, t := range tools {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"name":`...)
		dst = codec.AppendString(dst, t.Name)
		dst = append(dst, `,"description":`...)
		dst = codec.AppendString(dst, t.Description)
		dst = append(dst, `,"input_schema":`...)
		dst = append(dst, t.Parameters...)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}
