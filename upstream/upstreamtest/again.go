package upstreamtest

import (
	"testing"

	"amplifier-agent/pipeline"
)

// testAskedAgain: what failed in passing before anything was said is asked once more, as often as the provider is told, and is one
// answer then (rulings 14).
func (s *suite) testAskedAgain(t *testing.T) {
	hello := s.d.hello()
	fails := map[string]func(p *peer) bool{
		"refused":         func(p *peer) bool { return p.plain(503, s.d.Refusal(503, "busy")) },
		"asked to wait":   func(p *peer) bool { return p.plain(429, s.d.Refusal(429, "busy"), "Retry-After: 1") },
		"closed":          func(p *peer) bool { return false },
		"an error first":  func(p *peer) bool { return p.plain(200, s.d.said()+s.d.Event(s.d.Fault(529, "Overloaded"))) },
		"an empty answer": func(p *peer) bool { return p.plain(200, "") },
	}
	for _, e := range Ends {
		if e.Provider == s.d.Provider && e.Reason == pipeline.ReasonFault {
			fails["ends in "+e.Word] = func(p *peer) bool { return p.plain(200, s.d.body(&Script{RawFinish: e.Word})) }
		}
	}
	for name, fail := range fails {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := serve(t, func(p *peer) bool {
				if p.n == 1 {
					return fail(p)
				}
				return p.plain(200, hello)
			})
			o := s.ask(t, s.make(t, up.url, func(o *Options) { o.Tries = 3 }))
			if n := up.requests.Load(); o.err != nil || o.Text != "hello" || n != 2 || o.usage.Output > 1 {
				t.Errorf("%s after %d requests", o, n)
			}
		})
	}
	t.Run("as often as told", func(t *testing.T) {
		t.Parallel()
		up := serve(t, func(p *peer) bool { return p.plain(503, s.d.Refusal(503, "busy")) })
		o := s.ask(t, s.make(t, up.url, func(o *Options) { o.Tries = 2 }))
		want{code: pipeline.CodeUpstream, status: 503, retry: true, says: "busy"}.check(t, o)
		if n := up.requests.Load(); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

// testAskedOnce: what was said is never asked for again, nor what fails for good or for long.
func (s *suite) testAskedOnce(t *testing.T) {
	for name, answer := range map[string]func(p *peer) bool{
		"cut off behind text": func(p *peer) bool {
			p.begin()
			p.chunk(s.d.said("hello"))
			return false
		},
		"cut off behind reasoning": func(p *peer) bool {
			p.begin()
			p.chunk(s.pieces(Part{Reasoning: "hm"}))
			return false
		},
		"cut off behind a call": func(p *peer) bool {
			p.begin()
			p.chunk(s.pieces(Part{Calls: []Call{{"a", "f", []string{`{"x":1`}}}}))
			return false
		},
		"a bad chunk behind text": func(p *peer) bool {
			p.begin()
			p.chunk(s.d.said("hello"))
			p.send("chunk\r\n")
			return false
		},
		"an error behind text": func(p *peer) bool { return p.plain(200, s.d.said("hello")+s.d.Event(s.d.Fault(529, "Overloaded"))) },
		"a bad request":        func(p *peer) bool { return p.plain(400, s.d.Refusal(400, "no")) },
		"a bad key":            func(p *peer) bool { return p.plain(401, s.d.Refusal(401, "no")) },
		"no plan":              func(p *peer) bool { return p.plain(402, s.d.Refusal(402, "no")) },
		"a long wait":          func(p *peer) bool { return p.plain(429, s.d.Refusal(429, "no"), "Retry-After: 20") },
		"what nobody can read": func(p *peer) bool { return p.plain(200, "x", "Content-Encoding: compress") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := serve(t, answer)
			o := s.ask(t, s.make(t, up.url, func(o *Options) { o.Tries = 3 }))
			if n := up.requests.Load(); o.err == nil || n != 1 {
				t.Errorf("%s after %d requests", o, n)
			}
		})
	}
}
