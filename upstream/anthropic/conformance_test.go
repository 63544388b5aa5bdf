package anthropic_test

import (
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/upstream/anthropic"
	"amplifier-agent/upstream/upstreamtest"
)

func TestConformance(t *testing.T) {
	d := upstreamtest.Messages()
	d.New = func(_ *testing.T, o upstreamtest.Options) (pipeline.Provider, error) {
		return anthropic.New(anthropic.Config{
			BaseURL: o.BaseURL, Key: o.Key, Tries: o.Tries, Idle: o.Idle, CAFile: o.CAFile, MaxLine: o.MaxLine,
		})
	}
	upstreamtest.Run(t, d)
}
