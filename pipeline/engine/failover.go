package engine

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"amplifier-agent/pipeline"
)

const (
	// failuresToRest is after how many failures in a row a provider or a model rests, failureRest for how long.
	failuresToRest = 3
	failureRest    = 30 * time.Second
	// maxRest bounds how long an upstream can keep itself from being asked by what it says.
	maxRest = time.Hour
	// failoverHold is how long a turn waits with its status while another provider could still be asked: after that the client gets
	// its 200, and nobody else is asked any more.
	failoverHold = 12 * time.Second
	// lookEvery is how often the face looks meanwhile whether its client is still there.
	lookEvery = 500 * time.Millisecond
)

// Failover asks another provider when one fails before it has answered (host config, fallbacks). It remembers who fails, and passes
// them over for a while:
//
//   - a provider that failed failuresToRest times in a row, or a model that reached its limit as often, for failureRest; then one
//     turn at a time tries it again, and a provider earlier if everybody else rests too;
//   - a model that asked to be left alone (Retry-After, a plan's window), until then.
//
// Only failures of a passing kind count: those that are retried, and rate limits, whatever their window. What the upstream refuses
// for good, another is not asked. Safe for concurrent use. The zero value is ready.
type Failover struct {
	Log *slog.Logger // nil logs nothing

	mu    sync.Mutex
	rests map[restKey]*rest
}

// restKey names a model of a provider, or with no model the provider.
type restKey struct{ provider, model string }

// rest is what is remembered of one that has failed.
type rest struct {
	failures int
	until    time.Time
	tried    bool            // a turn tries it again
	why      *pipeline.Error // the last failure
}

// passing reports whether another provider may do better with what failed with e.
func passing(e *pipeline.Error) bool {
	return e.Origin == pipeline.OriginUpstream && (e.Retry || e.Code == pipeline.CodeRateLimit)
}

// stream is the round's stream at the first of the turn's targets that answers. The turn names that one from its first event on,
// and from its first Idle.
func (f *Failover) stream(ctx context.Context, t *pipeline.Turn, round *pipeline.Round) pipeline.Stream {
	return func(yield func(*pipeline.Event, error) bool) {
		list := append([]pipeline.Target{{Provider: t.Provider, Model: t.UpstreamID}}, t.Fallbacks...)
		r := relay{ctx: ctx, yield: yield, held: time.Now().Add(failoverHold)}
		var last *pipeline.Error
		f.wake(list)
		for i, target := range list {
			if !f.take(target) {
				continue
			}
			t.Provider, t.UpstreamID = target.Provider, target.Model
			ask := *round
			ask.Model = target.Model
			if r.others = f.awake(list[i+1:]); r.others {
				ask.Tries = 1 // another is quicker
			}
			err := f.ask(&r, target, &ask)
			if err == nil {
				return
			}
			if r.said || r.committed || ctx.Err() != nil || !passing(err) || !r.others {
				yield(nil, sooner(err, last))
				return
			}
			if f.Log != nil {
				f.Log.Warn("a provider has failed before it answered: another is asked", "turn", t.ID, "upstream", t.Upstream(), "code", err.Code, "error", err)
			}
			last = sooner(err, last)
		}
		if last == nil {
			last = f.rested(list)
		}
		yield(nil, last)
	}
}

// sooner is err with the wait of before, a failure of another of the turn's targets, if that is shorter: the client need not wait for
// all of them. Before may be nil.
func sooner(err, before *pipeline.Error) *pipeline.Error {
	if before == nil || before.RetryAfter >= err.RetryAfter {
		return err
	}
	e := *err
	e.RetryAfter = before.RetryAfter
	return &e
}

// ask runs the stream at target, which was taken.
func (f *Failover) ask(r *relay, target pipeline.Target, round *pipeline.Round) (err *pipeline.Error) {
	r.answers = func() { f.settle(target, nil, true) } // others need not wait for its end
	defer func() {
		if !r.said {
			f.settle(target, err, false) // also if the consumer panics
		}
	}()
	return r.run(target.Provider.Stream(r.ctx, round))
}

// take reports whether target may be asked now. Whoever takes one settles it.
func (f *Failover) take(target pipeline.Target) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	both := f.of(target)
	for _, r := range both {
		if now.Before(r.until) || r.tried {
			return false
		}
	}
	for _, r := range both {
		r.tried = r.why != nil && r.failures >= failuresToRest
	}
	return true
}

// awake reports whether one of list does not rest.
func (f *Failover) awake(list []pipeline.Target) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	return slices.ContainsFunc(list, func(t pipeline.Target) bool {
		return !slices.ContainsFunc(f.of(t), func(r *rest) bool { return now.Before(r.until) || r.tried })
	})
}

// wake ends the rest of a provider if all of list rest: of the one that has rested longest after failures, which may be over. Who
// asked to be left alone is left alone.
func (f *Failover) wake(list []pipeline.Target) {
	if f.awake(list) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	var first *rest
	for _, t := range list {
		names := keys(t)
		r, model := f.rests[names[0]], f.rests[names[1]]
		asked := model != nil && now.Before(model.until)
		if r != nil && !asked && !r.tried && (first == nil || r.until.Before(first.until)) {
			first = r
		}
	}
	if first != nil {
		first.until = now
	}
}

// of returns what is remembered of a target: of its provider, and of the model there.
func (f *Failover) of(t pipeline.Target) (list []*rest) {
	for _, key := range keys(t) {
		if r := f.rests[key]; r != nil {
			list = append(list, r)
		}
	}
	return list
}

// keys are those of a target's provider and of its model there.
func keys(t pipeline.Target) [2]restKey {
	return [2]restKey{{t.Provider.Name(), ""}, {t.Provider.Name(), t.Model}}
}

// settle notes how a target did, once: that it answers, or with what it failed before; err is nil if nobody waited for that.
func (f *Failover) settle(target pipeline.Target, err *pipeline.Error, answers bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.of(target) {
		r.tried = false
	}
	names := keys(target)
	switch {
	case answers:
		for _, key := range names {
			delete(f.rests, key)
		}
	case err == nil || !passing(err): // says nothing about whether it can be reached
	case err.RetryAfter > 0:
		f.at(names[1]).put(err, err.RetryAfter)
	default:
		key := names[0]
		if err.Code == pipeline.CodeRateLimit { // other models of that provider have limits of their own
			key = names[1]
		}
		r := f.at(key)
		if r.failures++; r.failures >= failuresToRest {
			r.put(err, failureRest)
		}
	}
}

func (f *Failover) at(key restKey) *rest {
	if f.rests == nil {
		f.rests = map[restKey]*rest{}
	}
	if f.rests[key] == nil {
		f.rests[key] = new(rest)
	}
	return f.rests[key]
}

func (r *rest) put(why *pipeline.Error, d time.Duration) {
	r.until, r.why = time.Now().Add(min(d, maxRest)), why
}

// rested is the error for a turn whose targets all rest: the failure of the one that is back first, and how long that takes.
func (f *Failover) rested(list []pipeline.Target) *pipeline.Error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var first *rest
	for _, t := range list {
		var longest *rest // of what is remembered of this one
		for _, r := range f.of(t) {
			if r.why != nil && (longest == nil || r.until.After(longest.until)) {
				longest = r
			}
		}
		if longest != nil && (first == nil || longest.until.Before(first.until)) {
			first = longest
		}
	}
	if first == nil { // it is tried again at this moment, by another turn
		return &pipeline.Error{Code: pipeline.CodeUpstream, Origin: pipeline.OriginUpstream, Retry: true, RetryAfter: time.Second, Message: "no upstream can be asked at the moment"}
	}
	e := *first.why
	e.RetryAfter = max(time.Until(first.until), time.Second)
	e.Message = "every upstream for this model rests after failures; the last one was: " + e.Message
	return &e
}

// relay hands the events of one target after the other to the turn.
type relay struct {
	ctx       context.Context
	yield     func(*pipeline.Event, error) bool
	held      time.Time
	others    bool   // somebody else can still be asked
	answers   func() // is called once something of an answer has come
	said      bool   // something of an answer was handed over
	committed bool   // so was an Idle: the face may have settled for a status
}

// run hands over a stream and keeps its error.
func (r *relay) run(in pipeline.Stream) *pipeline.Error {
	for ev, err := range in {
		if err != nil {
			return pipeline.AsError(err)
		}
		switch ev.Kind {
		case pipeline.Flush:
		case pipeline.Idle:
			if r.others && !r.said && !r.committed && time.Now().Before(r.held) {
				ev.Kind = pipeline.Flush // which has the face look whether its client is there
				if !r.yield(ev, nil) {
					return nil
				}
				ev.Wake = min(ev.Wake, lookEvery)
				continue
			}
			r.committed = true
		default:
			if !r.said {
				r.said = true
				r.answers()
			}
		}
		if !r.yield(ev, nil) {
			return nil
		}
	}
	return nil
}
