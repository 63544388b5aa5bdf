package stages_test

import (
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/stages"
)

func TestModel(t *testing.T) {
	turn := &pipeline.Turn{Model: "m"}
	if err := stages.Model(models{}).Request(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	if turn.Provider != (provider{}) || turn.UpstreamID != "vendor/m" || turn.Model != "m" {
		t.Errorf("got %+v", turn)
	}
	for _, model := range []string{"M", " m", "other", ""} {
		err := stages.Model(models{}).Request(t.Context(), &pipeline.Turn{Model: model})
		wantError(t, err, pipeline.CodeUnknownModel, "", "no such model")
	}
}
