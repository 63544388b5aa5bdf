package simulator

import (
	"net/http"
	"strings"

	"amplifier-agent/codec"
)

// modelsCreated is the creation time of every model: one constant, so that lists compare equal from run to run.
const modelsCreated = 1764500000

// Model is one row of GET /provider/v1/models.
type Model struct {
	ID            string // canonical id; the gateway tells upper from lower case
	Name          string // for people; "" is ID
	ContextLength int    // tokens; 0 is 200000
	Plan          string // plans that have it, e.g. "Max"; not empty: the caller's plan does not, and generate answers 403
	// Prices in 1e-12 USD a token (so 1e6 is 1 USD a million tokens). All zero: those of the first built-in model.
	InputPrice, CachePrice, OutputPrice int64
}

func builtinModels() []Model {
	return []Model{
		{ID: "deepseek/deepseek-v4-pro", Name: "DeepSeek V4 Pro", ContextLength: 1000000, InputPrice: 660_000, CachePrice: 22_000, OutputPrice: 1_980_000},
		{ID: "claude-sonnet-5", Name: "Claude Sonnet 5", ContextLength: 1000000, InputPrice: 2_000_000, CachePrice: 200_000, OutputPrice: 10_000_000},
		{ID: "moonshotai/Kimi-K3", Name: "Kimi K3", ContextLength: 1000000, InputPrice: 3_000_000, CachePrice: 300_000, OutputPrice: 15_000_000},
		{ID: "zai-org/GLM-5.3", Name: "GLM-5.3", ContextLength: 1000000, InputPrice: 1_400_000, CachePrice: 260_000, OutputPrice: 4_400_000},
		{ID: "Qwen/Qwen3.8-Max", Name: "Qwen 3.8 Max", ContextLength: 1000000, InputPrice: 2_000_000, CachePrice: 250_000, OutputPrice: 6_000_000},
		{ID: "gpt-6-sol", Name: "GPT-6 Sol", ContextLength: 1050000, InputPrice: 2_000_000, CachePrice: 200_000, OutputPrice: 10_000_000},
		{ID: "claude-opus-5", Name: "Claude Opus 5", ContextLength: 1000000, Plan: "Max", InputPrice: 5_000_000, CachePrice: 500_000, OutputPrice: 25_000_000},
	}
}

// vendor is the namespace of the id; the families without one are told by their first word.
func (m Model) vendor() string {
	if ns, _, ok := strings.Cut(m.ID, "/"); ok {
		return strings.ToLower(ns)
	}
	switch family, _, _ := strings.Cut(m.ID, "-"); family {
	case "claude":
		return "anthropic"
	case "gpt":
		return "openai"
	default:
		return family
	}
}

func (m Model) title() string {
	if m.Name == "" {
		return m.ID
	}
	return m.Name
}

func (s *Server) listModels(w http.ResponseWriter, r *http.Request) {
	type row struct {
		ID            string `json:"id"`
		Object        string `json:"object"`
		Name          string `json:"name"`
		ContextLength int    `json:"context_length"`
		Created       int64  `json:"created"`
		OwnedBy       string `json:"owned_by"`
	}
	list := struct {
		Object string `json:"object"`
		Data   []row  `json:"data"`
	}{Object: "list", Data: make([]row, 0, len(s.models))}
	for _, m := range s.models {
		context := m.ContextLength
		if context == 0 {
			context = 200000
		}
		list.Data = append(list.Data, row{m.ID, "model", m.title(), context, modelsCreated, m.vendor()})
	}
	body, err := codec.Marshal(list)
	if err != nil {
		s.plain(w, r, refusal{http.StatusInternalServerError, "INTERNAL_SERVER_ERROR", "encode models: " + err.Error()}.answer())
		return
	}
	s.plain(w, r, &Answer{ContentType: "application/json", Body: body, WriteSize: Coalesce})
}
