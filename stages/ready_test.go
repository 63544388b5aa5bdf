package stages_test

import (
	"errors"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/stages"
)

func TestReady(t *testing.T) {
	var state error
	s := stages.Ready(func() error { return state })
	if err := s.Request(t.Context(), &pipeline.Turn{}); err != nil {
		t.Fatal(err)
	}
	state = errors.New("shutting down") // it asks each time
	err := s.Request(t.Context(), &pipeline.Turn{})
	wantError(t, err, pipeline.CodeUnavailable, "", "")
	if !errors.Is(err, state) || !pipeline.AsError(err).Retry {
		t.Errorf("got %v", err)
	}
}
