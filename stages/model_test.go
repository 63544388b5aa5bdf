package stages_test

import (
	"log/slog"
	"maps"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/stages"
)

func TestModel(t *testing.T) {
	turn := &pipeline.Turn{Model: "m"}
	if err := stages.Model(models{}, nil).Request(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	if turn.Provider != (provider{}) || turn.UpstreamID != "vendor/m" || turn.Model != "m" {
		t.Errorf("got %+v", turn)
	}
	for _, model := range []string{"M", " m", "other", ""} {
		err := stages.Model(models{}, nil).Request(t.Context(), &pipeline.Turn{Model: model})
		wantError(t, err, pipeline.CodeUnknownModel, "", "no such model")
	}
}

// TestFallbacks: a turn gets those of the model that serves it, whatever the client called it.
func TestFallbacks(t *testing.T) {
	others := []pipeline.Target{{Provider: provider{}, Model: "vendor/other"}}
	stage := stages.Fallbacks(map[pipeline.Target][]pipeline.Target{{Provider: provider{}, Model: "vendor/m"}: others})
	for model, want := range map[string]int{"vendor/m": 1, "m": 0} {
		turn := &pipeline.Turn{Model: "m", Provider: provider{}, UpstreamID: model}
		if err := stage.Request(t.Context(), turn); err != nil || len(turn.Fallbacks) != want {
			t.Errorf("%s: %v, %v", model, turn.Fallbacks, err)
		}
	}
}

// TestModeAliases: each mode has one, over the smallest id; real models keep their names (rulings 13).
func TestModeAliases(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	got := stages.ModeAliases([]string{"plan", "zen"}, []string{"b/x", "a/y", "mode-zen"}, log)
	if want := map[string]stages.Alias{"mode-plan": {Model: "a/y", Mode: "plan"}}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := stages.ModeAliases([]string{"plan"}, nil, log); len(got) != 0 {
		t.Errorf("without models: %v", got)
	}
	if got := stages.ModeAliases(nil, []string{"m"}, log); len(got) != 0 {
		t.Errorf("without modes: %v", got)
	}
}

func TestModelAlias(t *testing.T) {
	set := stages.Model(models{}, map[string]stages.Alias{"mode-plan": {Model: "m", Mode: "plan"}, "mode-lost": {Model: "gone", Mode: "lost"}})
	turn := &pipeline.Turn{Model: "mode-plan"}
	if err := set.Request(t.Context(), turn); err != nil || turn.UpstreamID != "vendor/m" || turn.Mode != "plan" {
		t.Errorf("got %+v, %v", turn, err)
	}
	wantError(t, set.Request(t.Context(), &pipeline.Turn{Model: "mode-lost"}), pipeline.CodeUnknownModel, "", "")
	wantError(t, set.Request(t.Context(), &pipeline.Turn{Model: "mode-none"}), pipeline.CodeUnknownModel, "", "")
}
