package chatcompletions_test

import (
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/upstream/chatcompletions"
	"amplifier-agent/upstream/upstreamtest"
)

// TestConformance runs the suite for the preset of which nothing is known, and for one that is used in the strictest way.
func TestConformance(t *testing.T) {
	for _, preset := range []string{chatcompletions.PresetPlain, "openai"} {
		t.Run(preset, func(t *testing.T) {
			d := upstreamtest.ChatCompletions()
			d.New = func(_ *testing.T, o upstreamtest.Options) (pipeline.Provider, error) {
				return chatcompletions.New(chatcompletions.Config{
					Preset: preset, BaseURL: o.BaseURL, Key: o.Key, Tries: o.Tries, Idle: o.Idle, CAFile: o.CAFile, MaxLine: o.MaxLine,
				})
			}
			upstreamtest.Run(t, d)
		})
	}
}
