package stages

import (
	"log/slog"

	"amplifier-agent/pipeline"
)

// UsageFold sums the tokens and the cost of a round into the turn, in one place (http-face.md, "Usage accounting"; rulings 22,
// 23). The steps of a round are summed; if Finish brings a total, the total counts and the steps do not. The cost that arrives
// apart from its step takes the place of what that step has said. A round that fails adds what is known by then. Finish goes on
// with the round's sums in its Step.
func UsageFold(log *slog.Logger) pipeline.Stage {
	return pipeline.Stage{Name: "usage fold", Events: func(t *pipeline.Turn, in pipeline.Stream) pipeline.Stream {
		return func(yield func(*pipeline.Event, error) bool) {
			f := fold{turn: t, log: log}
			defer f.close()
			for ev, err := range in {
				if err == nil && ev.Step != nil {
					f.take(ev)
				}
				if !yield(ev, err) {
					return
				}
			}
		}
	}}
}

type fold struct {
	turn       *pipeline.Turn
	log        *slog.Logger
	steps      pipeline.Usage
	cost, last pipeline.Price // of the steps before the last one, and of the last one
	generation string         // of the last one
	closed     bool
}

func (f *fold) take(ev *pipeline.Event) {
	switch ev.Kind {
	case pipeline.Step:
		f.steps = f.steps.Add(ev.Step.Usage)
		f.cost, f.last, f.generation = f.cost.Add(f.last), ev.Step.Cost, ev.Step.Generation
	case pipeline.Cost:
		f.late(ev.Step)
	case pipeline.Finish:
		f.late(ev.Step)
		f.total(ev.Step.Usage)
		ev.Step.Cost = f.cost.Add(f.last)
		ev.Step.Usage = f.steps
		f.close()
	}
}

// late takes a cost that came apart from its step.
func (f *fold) late(s *pipeline.StepInfo) {
	if !s.Cost.Known() {
		return
	}
	if f.generation != "" && s.Generation != "" && f.generation != s.Generation {
		f.cost = f.cost.Add(f.last)
	}
	f.last = s.Cost
	if s.Generation != "" {
		f.generation = s.Generation
	}
}

// total replaces what the steps add up to by what the upstream calls the total, as far as it says.
func (f *fold) total(u pipeline.Usage) {
	if !u.Known() {
		return
	}
	if f.steps.Known() && (f.steps.Prompt() != u.Prompt() || f.steps.Output != u.Output) {
		f.log.Debug("usage: the total is not the sum of the steps", "turn", f.turn.ID,
			"steps_prompt", f.steps.Prompt(), "total_prompt", u.Prompt(), "steps_output", f.steps.Output, "total_output", u.Output)
	}
	f.steps = u
}

// close adds the round to the turn, once.
func (f *fold) close() {
	if f.closed {
		return
	}
	f.closed = true
	f.turn.Usage = f.turn.Usage.Add(f.steps)
	f.turn.Cost = f.turn.Cost.Add(f.cost.Add(f.last))
}
