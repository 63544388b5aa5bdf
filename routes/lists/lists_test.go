package lists

import (
	"context"
	"testing"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

type named string

func (n named) Name() string                                          { return string(n) }
func (named) Models(context.Context) ([]pipeline.Model, error)        { return nil, nil }
func (named) Stream(context.Context, *pipeline.Round) pipeline.Stream { return nil }

// TestOf: what a provider does not say is left out, but for the name, for which the id stands.
func TestOf(t *testing.T) {
	got, err := codec.Marshal(Of([]pipeline.Served{
		{ID: "p/a", Provider: named("p"), Model: pipeline.Model{ID: "a"}},
		{ID: "b", Provider: named("q"), Model: pipeline.Model{ID: "b", Name: "Model B", ContextTokens: 7}},
		{ID: "c", Provider: named("q"), Model: pipeline.Model{ID: "c", OutputTokens: 8, Capabilities: []string{"tools", "thinking"}, Defaults: []byte(`{"max_tokens":1}`)}},
		{ID: "d", Provider: named("q"), Model: pipeline.Model{ID: "d", Capabilities: []string{"vision"}}},
	}, time.Unix(1_700_000_000, 0)))
	want := `{"object":"list","data":[` +
		`{"id":"p/a","object":"model","created":1700000000,"owned_by":"amplifier-agent","_provider":"p","display_name":"a"},` +
		`{"id":"b","object":"model","created":1700000000,"owned_by":"amplifier-agent","_provider":"q","display_name":"Model B","limit":{"context":7,"output":0}},` +
		`{"id":"c","object":"model","created":1700000000,"owned_by":"amplifier-agent","_provider":"q","display_name":"c","limit":{"context":0,"output":8},` +
		`"capabilities":["tools","thinking"],"reasoning":true,"defaults":{"max_tokens":1}},` +
		`{"id":"d","object":"model","created":1700000000,"owned_by":"amplifier-agent","_provider":"q","display_name":"d","capabilities":["vision"],"reasoning":false}]}`
	if err != nil || string(got) != want {
		t.Errorf("error %v\ngot  %s\nwant %s", err, got, want)
	}
	if got, _ := codec.Marshal(Of(nil, time.Now())); string(got) != `{"object":"list","data":[]}` {
		t.Errorf("nothing is listed as %s", got)
	}
}
