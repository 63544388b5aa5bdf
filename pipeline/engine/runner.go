package engine

import (
	"context"
	"strings"

	"amplifier-agent/pipeline"
)

// Runner runs the rounds of a turn.
type Runner struct {
	// Round are the stages that wrap each single answer of a model, nearest the client first.
	Round []pipeline.Stage
	// ForwardSampling passes the client's settings on to the model (rulings 8).
	ForwardSampling bool
	// Failover asks the turn's fallbacks; nil asks nobody else.
	Failover *Failover
}

// Run is the stream of the turn, whose Request halves must have passed. It is lazy: the exchange starts when it is ranged over.
func (r *Runner) Run(ctx context.Context, t *pipeline.Turn) pipeline.Stream {
	round := &pipeline.Round{
		Model:    t.UpstreamID,
		System:   t.System,
		Messages: t.History,
		Tools:    t.HostTools,
		Silence:  t.Silence,
	}
	if len(t.Reminders) > 0 {
		round.System = strings.TrimPrefix(round.System+"\n\n"+strings.Join(t.Reminders, "\n\n"), "\n\n")
	}
	if t.Header.SessionID != "" {
		round.Conversation = t.Session
	}
	if r.ForwardSampling {
		round.Sampling = t.Sampling
	}
	if t.Prompt != nil {
		round.Messages = append(t.History[:len(t.History):len(t.History)], *t.Prompt)
	}
	var src pipeline.Stream
	if r.Failover != nil && len(t.Fallbacks) > 0 {
		src = r.Failover.stream(ctx, t, round)
	} else {
		src = t.Provider.Stream(ctx, round)
	}
	return pipeline.Chain(r.Round, t, src)
}
