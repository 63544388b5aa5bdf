package anthropic

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
)

const (
	maxModels      = 1000 // what the API lists at most in one answer
	maxModelsBytes = 8 << 20
)

// listed is one entry of the API's list. Older versions of the API, and other servers that speak it, tell the names only.
type listed struct {
	ID           string `json:"id"`
	Name         string `json:"display_name"`
	MaxInput     int64  `json:"max_input_tokens"`
	MaxOutput    int64  `json:"max_tokens"`
	Capabilities struct {
		Vision   supported `json:"image_input"`
		Thinking supported `json:"thinking"`
	} `json:"capabilities"`
}

type supported struct {
	Supported *bool `json:"supported"`
}

// Models implements pipeline.Provider.
func (p *Provider) Models(ctx context.Context) ([]pipeline.Model, error) {
	path := fmt.Sprintf("/v1/models?limit=%d", maxModels)
	var list struct {
		Data []codec.RawMessage `json:"data"`
		More bool               `json:"has_more"`
	}
	if err := p.t.Get(ctx, &upstream.Call{Method: "GET", Path: path, Header: p.header}, maxModelsBytes, &list, p.refusal); err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	if list.More {
		p.cfg.Log.Warn("the API has more models than it lists at once: the rest is left out", "provider", p.cfg.ID, "models", len(list.Data))
	}
	models := make([]pipeline.Model, 0, len(list.Data))
	limits := map[string]int64{}
	for _, raw := range list.Data {
		m, ok := readListed(raw)
		if !ok {
			p.cfg.Log.Warn("an entry of the API's list of models is not understood: it is left out", "provider", p.cfg.ID, "entry", pipeline.Short(string(raw)))
			continue
		}
		if m.MaxOutput > 0 {
			limits[m.ID] = m.MaxOutput
		}
		models = append(models, m.model(p.cfg.MaxTokens))
	}
	p.limits.Store(&limits)
	return models, nil
}

// readListed reads an entry; one whose details are not understood still counts by its names.
func readListed(raw []byte) (m listed, ok bool) {
	if codec.Unmarshal(raw, &m) == nil {
		return m, m.ID != ""
	}
	var names struct {
		ID   string `json:"id"`
		Name string `json:"display_name"`
	}
	err := codec.Unmarshal(raw, &names)
	return listed{ID: names.ID, Name: names.Name}, err == nil && names.ID != ""
}

func (m *listed) model(maxTokens int) pipeline.Model {
	limit := int64(maxTokens)
	if m.MaxOutput > 0 {
		limit = min(limit, m.MaxOutput)
	}
	return pipeline.Model{ID: m.ID, Name: m.Name, ContextTokens: max(m.MaxInput, 0), OutputTokens: max(m.MaxOutput, 0),
		Capabilities: m.capabilities(), Defaults: fmt.Appendf(nil, `{"max_tokens":%d}`, limit)}
}

// thoughtless are the Claude models that came before thinking did.
var thoughtless = regexp.MustCompile(`^claude-(instant|[12]|3-(opus|sonnet|haiku|5))\b`)

// capabilities in the words of GET /v1/models: what the API tells, else what is known of all models of that name. Of models that
// are no Claude nothing is known.
func (m *listed) capabilities() (list []string) {
	claude := strings.HasPrefix(m.ID, "claude-")
	if claude {
		list = append(list, "tools")
	}
	if m.Capabilities.Vision.or(claude) {
		list = append(list, "vision")
	}
	if m.Capabilities.Thinking.or(claude && !thoughtless.MatchString(m.ID)) {
		list = append(list, "thinking")
	}
	return list
}

func (s supported) or(otherwise bool) bool {
	if s.Supported != nil {
		return *s.Supported
	}
	return otherwise
}
