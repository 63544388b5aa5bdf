package stages

import (
	"context"
	"log/slog"
	"slices"

	"amplifier-agent/pipeline"
)

// ModelSet resolves the models that are served. Its error is CodeUnknownModel and names the closest id.
type ModelSet interface {
	Lookup(model string) (p pipeline.Provider, id string, err error)
}

// Alias is a name that stands for a model in a mode.
type Alias struct {
	Model string // served id
	Mode  string
}

// ModeAliases returns an alias mode-<name> for each mode, over the smallest of the served model ids, so that it is the same at each
// start (http-face.md, "mode-<name> aliases are routing-only"). A model of that name keeps it (rulings 13).
func ModeAliases(modes, models []string, log *slog.Logger) map[string]Alias {
	if len(models) == 0 {
		return nil
	}
	base := slices.Min(models)
	aliases := make(map[string]Alias, len(modes))
	for _, mode := range modes {
		name := "mode-" + mode
		if slices.Contains(models, name) {
			log.Warn("a model has the name of a mode's alias: the model is served, the mode is reached by its directive", "model", name)
			continue
		}
		aliases[name] = Alias{Model: base, Mode: mode}
	}
	return aliases
}

// Model finds who serves the model that the client asked for, by its own name or by an alias (http-face.md, "Rejections", 2 and
// 3). There is no fallback: see Fallbacks.
func Model(set ModelSet, aliases map[string]Alias) pipeline.Stage {
	return pipeline.Stage{Name: "model", Request: func(_ context.Context, t *pipeline.Turn) (err error) {
		model := t.Model
		if a, ok := aliases[model]; ok {
			model, t.Mode = a.Model, a.Mode
		}
		t.Provider, t.UpstreamID, err = set.Lookup(model)
		return err
	}}
}

// Fallbacks gives a turn the models that are asked, in turn, if its own fails before it has answered (host config, fallbacks): of
// holds them by what is asked first.
func Fallbacks(of map[pipeline.Target][]pipeline.Target) pipeline.Stage {
	return pipeline.Stage{Name: "fallbacks", Request: func(_ context.Context, t *pipeline.Turn) error {
		t.Fallbacks = of[pipeline.Target{Provider: t.Provider, Model: t.UpstreamID}]
		return nil
	}}
}
