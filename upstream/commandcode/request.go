package commandcode

import (
	"strconv"
	"strings"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
)

// appendRequest appends the body of POST /alpha/generate for a round that fits (see fit). Every member of config is required by the
// gateway's schema, whatever its value; params.tools and params.system are always sent.
func (p *Provider) appendRequest(dst []byte, r *pipeline.Round, session string, now time.Time) []byte {
	dst = append(dst, `{"config":{"workingDir":`...)
	dst = codec.AppendString(dst, p.cfg.WorkingDir)
	dst = append(dst, `,"date":"`...)
	dst = now.AppendFormat(dst, time.DateOnly)
	dst = append(dst, `","environment":"production","structure":[],"isGitRepo":false,"currentBranch":"","mainBranch":"","gitStatus":"","recentCommits":[]},`+
		`"memory":"","taste":null,"skills":null,"permissionMode":"standard"`...)
	if p.cfg.ThreadID {
		dst = append(append(append(dst, `,"threadId":"`...), session...), '"')
	}
	dst = append(dst, `,"params":{"model":`...)
	dst = codec.AppendString(dst, r.Model)
	dst = append(dst, `,"system":`...)
	dst = codec.AppendString(dst, system(r))
	dst = append(dst, `,"messages":`...)
	dst, moved := appendMessages(dst, r.Messages)
	if moved > 0 {
		p.cfg.Log.Debug("images go where the gateway takes them, into a user message: it drops or refuses them elsewhere", "provider", p.cfg.ID, "images", moved)
	}
	choice, tools := toolChoice(&r.Sampling, r.Tools)
	dst = append(dst, `,"tools":`...)
	dst = appendTools(dst, tools)
	dst = append(dst, `,"max_tokens":`...)
	dst = strconv.AppendInt(dst, r.Sampling.MaxTokens, 10)
	if r.Sampling.Effort != "" {
		dst = append(append(append(dst, `,"reasoning_effort":"`...), r.Sampling.Effort...), '"')
	}
	dst = upstream.AppendSampling(dst, &r.Sampling) // the gateway takes temperature; what it makes of the others is not known
	if choice != nil {
		dst = append(append(dst, `,"tool_choice":`...), choice...)
	}
	return append(dst, `,"stream":true}}`...)
}

// toolChoice translates the client's choice, and says which tools to offer: the gateway knows no "none", so that none are. A
// choice that names nothing it knows is left out.
func toolChoice(s *pipeline.Sampling, tools []pipeline.ToolSpec) (choice []byte, offered []pipeline.ToolSpec) {
	if len(tools) == 0 {
		return nil, tools
	}
	word, function := upstream.ToolChoice(s.ToolChoice)
	switch {
	case function != "":
		choice = append(codec.AppendString([]byte(`{"type":"tool","name":`), function), '}')
	case word == "none":
		return nil, nil
	case word == "required":
		choice = []byte(`{"type":"any"}`)
	case word == "auto":
		choice = []byte(`{"type":"auto"}`)
	}
	return choice, tools
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

// noParameters is the schema of a tool that brings none: the gateway insists on one.
const noParameters = `{"type":"object","properties":{}}`

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
		if len(t.Parameters) == 0 {
			dst = append(dst, noParameters...)
		}
		dst = append(dst, t.Parameters...)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}
