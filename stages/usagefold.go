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
			f := &fold{turn: t, log: log, yield: yield}
			defer f.close()
			in(f.next)
		}
	}}
}

type fold struct {
	turn   *pipeline.Turn
	log    *slog.Logger
	yield  func(*pipeline.Event, error) bool
	steps  pipeline.Usage
	costs  []spent
	room   [1]spent // of costs, for most rounds
	closed bool
}

// spent is what one model call has cost.
type spent struct {
	generation string // "" if the upstream does not name the call
	cost       pipeline.Price
}

func (f *fold) next(ev *pipeline.Event, err error) bool {
	switch {
	case err != nil:
		f.close() // whoever reports the error knows what it has cost
	case ev.Step != nil:
		f.take(ev)
	}
	return f.yield(ev, err)
}

func (f *fold) take(ev *pipeline.Event) {
	switch ev.Kind {
	case pipeline.Step:
		f.steps = f.steps.Add(ev.Step.Usage)
		f.step(ev.Step)
	case pipeline.Cost:
		f.late(ev.Step)
	case pipeline.Finish:
		f.late(ev.Step)
		f.total(ev.Step.Usage)
		ev.Step.Usage, ev.Step.Cost = f.steps, f.cost()
		f.close()
	}
}

// of returns the call that generation names, nil if it is not known.
func (f *fold) of(generation string) *spent {
	for i := range f.costs {
		if generation != "" && f.costs[i].generation == generation {
			return &f.costs[i]
		}
	}
	return nil
}

// step takes the cost of a step, which may have come before it.
func (f *fold) step(s *pipeline.StepInfo) {
	switch c := f.of(s.Generation); {
	case c == nil && f.costs == nil:
		f.costs = append(f.room[:0], spent{s.Generation, s.Cost})
	case c == nil:
		f.costs = append(f.costs, spent{s.Generation, s.Cost})
	case s.Cost.Known():
		c.cost = s.Cost
	}
}

// late takes a cost that came apart from its step: that of the call it names, or of the last one if either has no name.
func (f *fold) late(s *pipeline.StepInfo) {
	if !s.Cost.Known() {
		return
	}
	c := f.of(s.Generation)
	if n := len(f.costs); c == nil && n > 0 && (s.Generation == "" || f.costs[n-1].generation == "") {
		c = &f.costs[n-1]
	}
	if c == nil {
		f.costs = append(f.costs, spent{s.Generation, s.Cost})
		return
	}
	c.cost = s.Cost
	if s.Generation != "" {
		c.generation = s.Generation
	}
}

func (f *fold) cost() (sum pipeline.Price) {
	for _, c := range f.costs {
		sum = sum.Add(c.cost)
	}
	return sum
}

// total replaces what the steps add up to by what the upstream calls the total, as far as it says.
func (f *fold) total(u pipeline.Usage) {
	s := f.steps
	switch {
	case !u.Known():
		return
	case u.Has&pipeline.HasInput == 0 && s.Has&pipeline.HasInput != 0:
		u.Input, u.CacheRead, u.CacheWrite = s.Input, s.CacheRead, s.CacheWrite
	case u.Has&pipeline.HasCache == 0:
		split := pipeline.InclusiveUsage(u.Prompt(), s.CacheRead, max(s.CacheWrite, u.CacheWrite)) // writes may be told alone
		u.Input, u.CacheRead, u.CacheWrite = split.Input, split.CacheRead, split.CacheWrite
	}
	if u.Has&pipeline.HasOutput == 0 {
		u.Output = s.Output
	}
	if u.Has&pipeline.HasReasoning == 0 {
		u.Reasoning = s.Reasoning
	}
	u.Has |= s.Has
	if s.Known() && (s.Prompt() != u.Prompt() || s.Output != u.Output) {
		f.log.Debug("usage: the total is not the sum of the steps", "turn", f.turn.ID,
			"steps_prompt", s.Prompt(), "total_prompt", u.Prompt(), "steps_output", s.Output, "total_output", u.Output)
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
	f.turn.Cost = f.turn.Cost.Add(f.cost())
}
