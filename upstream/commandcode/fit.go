package commandcode

import (
	"slices"
	"strings"

	"amplifier-agent/pipeline"
)

// maxMaxTokens is what the gateway allows at most for max_tokens.
const maxMaxTokens = 200000

// efforts are the words that the gateway takes for reasoning_effort, the least first.
var efforts = []string{"low", "medium", "high", "xhigh", "max"}

// fit is a round as the gateway takes it, on either surface: the model by its id, with what that model is known to take. It shares
// with r what it does not change.
func (p *Provider) fit(r *pipeline.Round) *pipeline.Round {
	fitting := *r
	q := &fitting
	q.Model = p.resolved(r.Model)
	k, known := catalogue()[q.Model]
	q.Sampling.MaxTokens = p.maxTokens(r.Sampling.MaxTokens, k.output)
	q.Sampling.Effort = p.effort(r.Sampling.Effort, q.Model)
	if strings.HasPrefix(q.Model, "google/") {
		q.Tools = nullableTools(r.Tools)
	}
	if known && !k.vision && slices.ContainsFunc(r.Messages, hasImage) {
		if _, said := p.blind.LoadOrStore(q.Model, true); !said {
			p.cfg.Log.Warn("the model is not known to see images: it ignores or refuses those of its conversations", "provider", p.cfg.ID, "model", q.Model)
		}
	}
	return q
}

func hasImage(m pipeline.Message) bool {
	return slices.ContainsFunc(m.Parts, func(p pipeline.Part) bool { return p.Image != "" })
}

// maxTokens is the client's wish or the default, within what the gateway takes and what the model can do; output is 0 if that is
// not known.
func (p *Provider) maxTokens(wish, output int64) int64 {
	n := int64(p.cfg.MaxTokens)
	if wish > 0 {
		n = wish
	}
	if n = min(n, maxMaxTokens); output > 0 {
		n = min(n, output)
	}
	return n
}

// effort is how much a model is asked to think, "" to say nothing: the client's wish or the configured one, as the nearest that the
// model takes below it, else its least. A model that the catalogue does not know is taken at its word.
func (p *Provider) effort(wish, model string) string {
	if wish == "" {
		wish = p.cfg.Effort
	}
	if wish == "" {
		return ""
	}
	word := effortWord(wish)
	rank := slices.Index(efforts, word)
	if rank < 0 {
		if word != "" {
			p.cfg.Log.Debug("the gateway does not know this reasoning effort: it is left out", "provider", p.cfg.ID, "effort", pipeline.Short(wish))
		}
		return ""
	}
	k, known := catalogue()[model]
	if !known {
		return word
	}
	if len(k.efforts) == 0 {
		p.cfg.Log.Debug("the model takes no reasoning effort: it is left out", "provider", p.cfg.ID, "model", model, "effort", word)
		return ""
	}
	nearest := k.efforts[0]
	for _, e := range k.efforts {
		if slices.Index(efforts, e) <= rank {
			nearest = e
		}
	}
	return nearest
}

// effortWord is the gateway's word for an effort, "" for the wish that a model should not think: it refuses that one.
func effortWord(wish string) string {
	switch word := strings.ToLower(strings.TrimSpace(wish)); word {
	case "none", "off":
		return ""
	case "minimal":
		return efforts[0]
	default:
		return word
	}
}
