package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/engine"
)

// scripted is a provider that does one thing for each time that it is asked; the last one again and again.
type scripted struct {
	name  string
	does  []pipeline.Stream
	asked []*pipeline.Round
}

func (p *scripted) Name() string                                   { return p.name }
func (*scripted) Models(context.Context) ([]pipeline.Model, error) { return nil, nil }
func (p *scripted) Stream(_ context.Context, r *pipeline.Round) pipeline.Stream {
	p.asked = append(p.asked, r)
	return p.does[min(len(p.asked), len(p.does))-1]
}

func provider(name string, does ...pipeline.Stream) *scripted {
	return &scripted{name: name, does: does}
}

var (
	down    = &pipeline.Error{Code: pipeline.CodeUpstream, Origin: pipeline.OriginUpstream, Retry: true, Message: "down", Status: 503}
	refuses = &pipeline.Error{Code: pipeline.CodeUpstreamRequest, Origin: pipeline.OriginUpstream, Message: "bad request", Status: 400}
)

// window is a rate limit that no retry helps with.
func window(d time.Duration) *pipeline.Error {
	return &pipeline.Error{Code: pipeline.CodeRateLimit, Origin: pipeline.OriginUpstream, RetryAfter: d, Message: "window", Status: 429}
}

// silent is so for d, in ticks as a connection reports them, and then is then.
func silent(d time.Duration, then pipeline.Stream) pipeline.Stream {
	return func(yield func(*pipeline.Event, error) bool) {
		for end := time.Now().Add(d); time.Now().Before(end); {
			ev := pipeline.Event{Kind: pipeline.Idle, Wake: time.Second}
			if !yield(&ev, nil) {
				return
			}
			time.Sleep(min(ev.Wake, time.Until(end)))
		}
		then(yield)
	}
}

// fails says texts and fails with err.
func fails(err error, texts ...string) pipeline.Stream {
	return func(yield func(*pipeline.Event, error) bool) {
		for _, s := range texts {
			if !yield(&pipeline.Event{Kind: pipeline.Text, Clean: true, Text: []byte(s)}, nil) {
				return
			}
		}
		yield(nil, err)
	}
}

// turnOf is a turn at the first of several providers, whose model is called m and their name.
func turnOf(list ...*scripted) *pipeline.Turn {
	t := &pipeline.Turn{Provider: list[0], UpstreamID: "m-" + list[0].name}
	for _, p := range list[1:] {
		t.Fallbacks = append(t.Fallbacks, pipeline.Target{Provider: p, Model: "m-" + p.name})
	}
	return t
}

// run tells what a turn brought: texts, "idle" and the error, and who serves it.
func run(ctx context.Context, r *engine.Runner, t *pipeline.Turn) string {
	var b strings.Builder
	for ev, err := range r.Run(ctx, t) {
		switch {
		case err != nil:
			fmt.Fprintf(&b, "%v ", err)
		case ev.Kind == pipeline.Text:
			fmt.Fprintf(&b, "%s ", ev.Text)
		case ev.Kind == pipeline.Idle && !strings.HasSuffix(b.String(), "idle "):
			b.WriteString("idle ")
		}
	}
	return b.String() + "by " + t.Upstream()
}

func TestFailover(t *testing.T) {
	for name, row := range map[string]struct {
		does [][]pipeline.Stream // of a, b, c
		want string
	}{
		"the first answers":                {[][]pipeline.Stream{{say("yes")}, {say("no")}}, "yes by a/m-a"},
		"the first is down":                {[][]pipeline.Stream{{fails(down)}, {say("yes")}}, "yes by b/m-b"},
		"two are down":                     {[][]pipeline.Stream{{fails(down)}, {fails(down)}, {say("yes")}}, "yes by c/m-c"},
		"all are down":                     {[][]pipeline.Stream{{fails(down)}, {fails(down)}}, "down by b/m-b"},
		"its window is used up":            {[][]pipeline.Stream{{fails(window(time.Hour))}, {say("yes")}}, "yes by b/m-b"},
		"it refuses for good":              {[][]pipeline.Stream{{fails(refuses)}, {say("no")}}, "bad request by a/m-a"},
		"it fails in the middle":           {[][]pipeline.Stream{{fails(down, "half")}, {say("no")}}, "half down by a/m-a"},
		"it fails after a while":           {[][]pipeline.Stream{{silent(5*time.Second, fails(down))}, {say("yes")}}, "yes by b/m-b"},
		"it fails once the client is told": {[][]pipeline.Stream{{silent(13*time.Second, fails(down))}, {say("no")}}, "idle down by a/m-a"},
		"the last one is slow":             {[][]pipeline.Stream{{fails(down)}, {silent(time.Second, say("yes"))}}, "idle yes by b/m-b"},
		"a slow one that answers":          {[][]pipeline.Stream{{silent(20*time.Second, say("yes"))}, {say("no")}}, "idle yes by a/m-a"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var list []*scripted
				for i, does := range row.does {
					list = append(list, provider(string(rune('a'+i)), does...))
				}
				if got := run(t.Context(), &engine.Runner{Failover: new(engine.Failover)}, turnOf(list...)); got != row.want {
					t.Errorf("got  %s\nwant %s", got, row.want)
				}
				for i, p := range list {
					for _, r := range p.asked {
						if want := "m-" + p.name; r.Model != want {
							t.Errorf("%s was asked for %s", p.name, r.Model)
						}
						if hasty := r.Tries == 1; hasty != (i < len(list)-1) {
							t.Errorf("%s may try %d times", p.name, r.Tries)
						}
					}
				}
			})
		})
	}
}

// TestFailoverOff: nobody else is asked without fallbacks, and nothing is held back.
func TestFailoverOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := provider("a", silent(time.Second, fails(down)))
		if got := run(t.Context(), &engine.Runner{Failover: new(engine.Failover)}, turnOf(a)); got != "idle down by a/m-a" || a.asked[0].Tries != 0 {
			t.Errorf("got %s with %d tries", got, a.asked[0].Tries)
		}
	})
}

// TestRests: a model that asked to be left alone is not asked until then (cases B074), and a provider that keeps failing rests.
func TestRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &engine.Runner{Failover: new(engine.Failover)}
		a, b := provider("a", fails(window(time.Minute)), say("a again")), provider("b", say("b"), say("b"), fails(window(40*time.Second)), say("b again"))
		for range 2 {
			if got := run(t.Context(), r, turnOf(a, b)); got != "b by b/m-b" {
				t.Error(got)
			}
		}
		if len(a.asked) != 1 {
			t.Errorf("a was asked %d times", len(a.asked))
		}
		other := turnOf(a, b)
		other.UpstreamID = "another" // of the same provider, which said nothing about it
		if got := run(t.Context(), r, other); got != "a again by a/another" {
			t.Error(got)
		}

		if got := run(t.Context(), r, turnOf(a, b)); got != "window by b/m-b" {
			t.Error(got)
		}
		time.Sleep(10 * time.Second)
		for ev, err := range r.Run(t.Context(), turnOf(a, b)) { // all rest: told at once, with the shortest wait
			e := pipeline.AsError(err)
			if ev != nil || e.RetryAfter != 30*time.Second || e.Code != pipeline.CodeRateLimit || !strings.Contains(e.Message, "rests") || !strings.Contains(e.Message, "window") {
				t.Errorf("got %v, %v, wait %v", ev, err, e.RetryAfter)
			}
		}
		if len(a.asked)+len(b.asked) != 5 {
			t.Errorf("asked %d and %d times", len(a.asked), len(b.asked))
		}
		time.Sleep(30 * time.Second)
		if got := run(t.Context(), r, turnOf(a, b)); got != "b again by b/m-b" {
			t.Error(got)
		}
		time.Sleep(20 * time.Second)
		if got := run(t.Context(), r, turnOf(a, b)); got != "a again by a/m-a" {
			t.Error(got)
		}
	})
}

// TestShortestWait: a client waits for the first that is back, not for the last that was asked.
func TestShortestWait(t *testing.T) {
	for name, row := range map[string]struct {
		fails []*pipeline.Error
		want  time.Duration
	}{
		"the first is back first":     {[]*pipeline.Error{window(20 * time.Second), window(time.Hour)}, 20 * time.Second},
		"the last is back first":      {[]*pipeline.Error{window(time.Hour), window(20 * time.Second)}, 20 * time.Second},
		"that between is back first":  {[]*pipeline.Error{window(time.Hour), window(20 * time.Second), window(time.Minute)}, 20 * time.Second},
		"one asks for no wait at all": {[]*pipeline.Error{down, window(time.Hour)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var list []*scripted
			for i, err := range row.fails {
				list = append(list, provider(string(rune('a'+i)), fails(err)))
			}
			for _, err := range (&engine.Runner{Failover: new(engine.Failover)}).Run(t.Context(), turnOf(list...)) {
				if e := pipeline.AsError(err); e.RetryAfter != row.want || e.Message != row.fails[len(row.fails)-1].Message {
					t.Errorf("got %v, wait %s, want %s", e, e.RetryAfter, row.want)
				}
			}
		})
	}
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &engine.Runner{Failover: new(engine.Failover)}
		a, b := provider("a", fails(down)), provider("b", say("b"))
		for range 5 {
			if got := run(t.Context(), r, turnOf(a, b)); got != "b by b/m-b" {
				t.Error(got)
			}
		}
		if len(a.asked) != 3 {
			t.Errorf("a was asked %d times", len(a.asked))
		}
		time.Sleep(31 * time.Second)
		// One turn tries it again. Those that come meanwhile do not wait for that.
		back := make(chan bool)
		a.does = []pipeline.Stream{func(yield func(*pipeline.Event, error) bool) { <-back; say("a is back")(yield) }}
		trial := make(chan string)
		go func() { trial <- run(t.Context(), r, turnOf(a, b)) }()
		synctest.Wait()
		if got := run(t.Context(), r, turnOf(a, b)); got != "b by b/m-b" {
			t.Error(got)
		}
		close(back)
		if got := <-trial; got != "a is back by a/m-a" {
			t.Error(got)
		}
		a.does = []pipeline.Stream{say("a")}
		if got := run(t.Context(), r, turnOf(a, b)); got != "a by a/m-a" {
			t.Error(got)
		}
		// It answers from its first word on: those that come meanwhile do not wait for the end of the turn that tries it.
		a.asked, a.does = nil, []pipeline.Stream{fails(down), fails(down), fails(down), func(yield func(*pipeline.Event, error) bool) {
			if yield(&pipeline.Event{Kind: pipeline.Text, Clean: true, Text: []byte("long")}, nil) {
				<-back
			}
		}, say("a")}
		for range 3 {
			run(t.Context(), r, turnOf(a, b))
		}
		time.Sleep(31 * time.Second)
		back = make(chan bool)
		go func() { trial <- run(t.Context(), r, turnOf(a, b)) }()
		synctest.Wait()
		if got := run(t.Context(), r, turnOf(a, b)); got != "a by a/m-a" {
			t.Error(got)
		}
		close(back)
		if got := <-trial; got != "long by a/m-a" {
			t.Error(got)
		}
		// A success in between starts the count anew.
		a.asked, a.does = nil, []pipeline.Stream{fails(down), fails(down), say("a"), fails(down), fails(down), fails(down), say("no")}
		for range 7 {
			run(t.Context(), r, turnOf(a, b))
		}
		if len(a.asked) != 6 {
			t.Errorf("a was asked %d times", len(a.asked))
		}
	})
}

// TestOutage: when all rest after failures, one turn at a time asks all the same, one provider after the other: nobody gains by waiting.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &engine.Runner{Failover: new(engine.Failover)}
		a, b := provider("a", fails(down)), provider("b", fails(down))
		for range 3 {
			if got := run(t.Context(), r, turnOf(a, b)); got != "down by b/m-b" {
				t.Error(got)
			}
			time.Sleep(time.Second)
		}
		// The first is tried, and those that come meanwhile are at the second.
		back := make(chan bool)
		a.does = []pipeline.Stream{func(yield func(*pipeline.Event, error) bool) { <-back; yield(nil, down) }}
		b.does = []pipeline.Stream{say("b is back"), func(yield func(*pipeline.Event, error) bool) { <-back; say("b")(yield) }}
		b.asked = nil
		trial := make(chan string)
		go func() { trial <- run(t.Context(), r, turnOf(a, b)) }()
		synctest.Wait()
		if got := run(t.Context(), r, turnOf(a, b)); got != "b is back by b/m-b" {
			t.Error(got)
		}
		close(back)
		if got := <-trial; got != "down by a/m-a" {
			t.Error(got)
		}
		if got := run(t.Context(), r, turnOf(a, b)); got != "b by b/m-b" || len(a.asked) != 4 {
			t.Errorf("got %s, a was asked %d times", got, len(a.asked))
		}
	})
}

// TestLimitOfAModel: a model that keeps reaching its limit and does not say until when rests, and its provider does not.
func TestLimitOfAModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &engine.Runner{Failover: new(engine.Failover)}
		a, b := provider("a", fails(window(0)), fails(window(0)), fails(window(0)), say("a")), provider("b", say("b"))
		for range 5 {
			if got := run(t.Context(), r, turnOf(a, b)); got != "b by b/m-b" {
				t.Error(got)
			}
		}
		if len(a.asked) != 3 {
			t.Errorf("a was asked %d times", len(a.asked))
		}
		other := turnOf(a, b)
		other.UpstreamID = "another"
		if got := run(t.Context(), r, other); got != "a by a/another" {
			t.Error(got)
		}
		time.Sleep(31 * time.Second)
		if got := run(t.Context(), r, turnOf(a, b)); got != "a by a/m-a" {
			t.Error(got)
		}
	})
}

// TestRestsOfBothKinds: what a provider failed with is forgotten over the limit that its model has reached since.
func TestRestsOfBothKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &engine.Runner{Failover: new(engine.Failover)}
		a, b := provider("a", fails(down), fails(down), fails(down), fails(window(20*time.Minute))), provider("b", say("b"), say("b"), say("b"), fails(window(40*time.Minute)))
		for range 3 {
			run(t.Context(), r, turnOf(a, b))
		}
		time.Sleep(31 * time.Second)
		if got := run(t.Context(), r, turnOf(a, b)); got != "window by b/m-b" || len(a.asked) != 4 {
			t.Errorf("%s, a was asked %d times", got, len(a.asked))
		}
		for _, err := range r.Run(t.Context(), turnOf(a, b)) {
			if e := pipeline.AsError(err); e.RetryAfter != 20*time.Minute || e.Code != pipeline.CodeRateLimit {
				t.Errorf("got %v, wait %v", err, e.RetryAfter)
			}
		}
		if len(a.asked)+len(b.asked) != 8 {
			t.Errorf("asked %d and %d times", len(a.asked), len(b.asked))
		}
	})
}

// TestTrialIsGivenUp: whoever tries a provider again and never hears of it leaves it to the next one.
func TestTrialIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &engine.Runner{Failover: new(engine.Failover)}
		a, b := provider("a", fails(down), fails(down), fails(down), silent(time.Hour, say("never")), silent(time.Hour, say("never")), say("a")), provider("b", say("b"))
		for range 3 {
			run(t.Context(), r, turnOf(a, b))
		}
		time.Sleep(31 * time.Second)
		for range r.Run(t.Context(), turnOf(a, b)) {
			break // the client leaves
		}
		func() {
			defer func() { _ = recover() }()
			for range r.Run(t.Context(), turnOf(a, b)) {
				panic("a stage")
			}
		}()
		if got := run(t.Context(), r, turnOf(a, b)); got != "a by a/m-a" {
			t.Error(got)
		}
	})
}

// TestFailoverEndsWithTheClient: nobody else is asked for one that has gone.
func TestFailoverEndsWithTheClient(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := provider("b", say("b"))
	a := provider("a", func(yield func(*pipeline.Event, error) bool) { cancel(); yield(nil, down) })
	if got := run(ctx, &engine.Runner{Failover: new(engine.Failover)}, turnOf(a, b)); got != "down by a/m-a" || len(b.asked) != 0 {
		t.Error(got)
	}
}
