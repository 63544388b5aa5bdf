package chatcompletions

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
)

const maxModelsBytes = 8 << 20

// Models implements pipeline.Provider.
func (p *Provider) Models(ctx context.Context) ([]pipeline.Model, error) {
	if len(p.cfg.Models) > 0 {
		models := make([]pipeline.Model, len(p.cfg.Models))
		for i, id := range p.cfg.Models {
			models[i] = pipeline.Model{ID: id, Defaults: p.defaults()}
		}
		return models, nil
	}
	var document codec.RawMessage
	if err := p.t.Get(ctx, &upstream.Call{Method: "GET", Path: "/models" + p.query, Header: p.header}, maxModelsBytes, &document, p.refusal); err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	var list struct {
		Data []codec.RawMessage `json:"data"`
	}
	var into any = &list
	if document = bytes.TrimSpace(document); bytes.HasPrefix(document, []byte("[")) {
		into = &list.Data // some answer the list alone
	}
	if err := codec.Unmarshal(document, into); err != nil {
		return nil, fmt.Errorf("list models: %w: is the base URL right?", err)
	}
	models := make([]pipeline.Model, 0, len(list.Data))
	for _, raw := range list.Data {
		m, ok := readModel(raw)
		if !ok {
			p.cfg.Log.Warn("an entry of the upstream's list of models is not understood: it is left out", "provider", p.cfg.ID, "entry", pipeline.Short(string(raw)))
			continue
		}
		m.Defaults = p.defaults()
		models = append(models, m)
	}
	return models, nil
}

// readModel reads an entry, of which only the id is needed. The length of the context has a name of its own everywhere.
func readModel(raw []byte) (m pipeline.Model, ok bool) {
	var s codec.Scanner
	s.Reset(raw)
	if s.Kind() != codec.Object {
		return m, false
	}
	var length, window, maxLen int64
	for s.Object(); s.Key(); {
		switch string(s.Name()) {
		case "id":
			t, _ := s.Text()
			m.ID = t.String()
		case "name", "display_name":
			if t, ok := s.Text(); ok {
				m.Name = t.String()
			}
		case "context_length":
			length, _ = s.Int()
		case "context_window":
			window, _ = s.Int()
		case "max_model_len":
			maxLen, _ = s.Int()
		default:
			s.Skip()
		}
	}
	m.ContextTokens = cmp.Or(length, window, maxLen)
	return m, s.End() == nil && m.ID != ""
}

// defaults are what a model does unless the client wishes otherwise.
func (p *Provider) defaults() []byte {
	if p.cfg.MaxTokens == 0 {
		return nil
	}
	return fmt.Appendf(nil, `{"max_tokens":%d}`, p.cfg.MaxTokens)
}
