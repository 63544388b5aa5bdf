package commandcode_test

import (
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/upstream/commandcode"
	"amplifier-agent/upstream/upstreamtest"
)

// surface makes providers for a surface as the suite wants them.
func surface(name string) func(*testing.T, upstreamtest.Options) (pipeline.Provider, error) {
	return func(_ *testing.T, o upstreamtest.Options) (pipeline.Provider, error) {
		return commandcode.New(commandcode.Config{
			BaseURL: o.BaseURL, Key: o.Key, Surface: name, Tries: o.Tries, Idle: o.Idle, CAFile: o.CAFile, MaxLine: o.MaxLine,
		})
	}
}

func TestConformance(t *testing.T) {
	generate := upstreamtest.Generate()
	chat := upstreamtest.ChatCompletions()
	chat.Gateway, chat.Model = generate.Provider, generate.Model
	for name, d := range map[string]upstreamtest.Dialect{commandcode.SurfaceGenerate: generate, commandcode.SurfaceProvider: chat} {
		t.Run(name, func(t *testing.T) {
			d.New = surface(name)
			upstreamtest.Run(t, d)
		})
	}
}
