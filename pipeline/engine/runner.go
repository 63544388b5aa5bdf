package engine

import (
	"context"

	"amplifier-agent/pipeline"
)

// Runner runs the rounds of a turn.
type Runner struct {
	// Round are the stages that wrap each single answer of a model, nearest the client first.
	Round []pipeline.Stage
}

// Run is the stream of the turn, whose Request halves must have passed. It is lazy: the exchange starts when it is ranged over.
func (r *Runner) Run(ctx context.Context, t *pipeline.Turn) pipeline.Stream {
	round := &pipeline.Round{
		Model:        t.UpstreamID,
		System:       t.System,
		Messages:     t.History,
		Tools:        t.HostTools,
		Conversation: t.Header.SessionID,
		Silence:      t.Silence,
	}
	if t.Prompt != nil {
		round.Messages = append(t.History[:len(t.History):len(t.History)], *t.Prompt)
	}
	return pipeline.Chain(r.Round, t, t.Provider.Stream(ctx, round))
}
