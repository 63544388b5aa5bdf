package upstreamtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"amplifier-agent/pipeline"
)

var errLeft = errors.New("the client has gone")

// left is an upstream that says something, waits for the client to close without another byte, and tells when it has.
func left(t *testing.T, said func(p *peer)) (up *server, heard, gone chan bool) {
	t.Helper()
	heard, gone = make(chan bool, 1), make(chan bool, 1)
	up = serve(t, func(p *peer) bool {
		said(p)
		heard <- true
		p.wait()
		gone <- true
		return false
	})
	return up, heard, gone
}

func await(t *testing.T, what string, c <-chan bool) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(never):
		t.Fatalf("not within %s: %s", never, what)
	}
}

// testCancel: the end of the context ends the round wherever it is, its cause is what the error wraps, and the upstream sees the
// connection close at once.
func (s *suite) testCancel(t *testing.T) {
	begin := func(p *peer) { p.begin() }
	for name, row := range map[string]struct {
		said func(p *peer)
		text bool // the client goes once it has seen text
	}{
		"before the header": {func(p *peer) {}, false},
		"inside the header": {func(p *peer) { p.send("HTTP/1.1 200 OK\r\nContent-") }, false},
		"before a token":    {begin, false},
		"inside a line": {func(p *peer) {
			p.begin()
			p.chunk(s.d.said("hello")[:5])
		}, false},
		"in mid-stream": {func(p *peer) {
			p.begin()
			p.chunk(s.d.said("hello"))
		}, true},
		"inside a chunk": {func(p *peer) {
			p.begin()
			p.chunk(s.d.said("hello"))
			p.send("40\r\nhalf")
		}, true},
		"in a refusal": {func(p *peer) { p.send("HTTP/1.1 500 No\r\nContent-Length: 99\r\n\r\nhalf") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, heard, gone := left(t, row.said)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if !row.text {
				go func() {
					select {
					case <-heard:
						cancel(errLeft)
					case <-ctx.Done():
					}
				}()
			}
			o := run(ctx, t, s.make(t, up.url), s.turn(), func(ev *pipeline.Event) bool {
				if row.text && ev.Kind == pipeline.Text {
					cancel(errLeft)
				}
				return true
			})
			if o.err == nil || o.err.Code != pipeline.CodeAborted && name != "in a refusal" || o.err.Code == pipeline.CodeAborted && !errors.Is(o.err, errLeft) {
				t.Errorf("%s: %v", o, o.err)
			}
			await(t, "the upstream sees the close", gone)
			if n := up.requests.Load(); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
	t.Run("in a pause", func(t *testing.T) {
		t.Parallel()
		asked := make(chan bool, 9)
		up := serve(t, func(p *peer) bool {
			p.plain(503, "", "Retry-After: 9")
			asked <- true
			return true
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		go func() {
			<-asked
			cancel(errLeft)
		}()
		o := run(ctx, t, s.make(t, up.url, func(o *Options) { o.Tries = 3 }), s.turn(), nil)
		if o.err == nil || o.err.Code != pipeline.CodeAborted || !errors.Is(o.err, errLeft) || up.requests.Load() != 1 {
			t.Errorf("%s after %d requests", o, up.requests.Load())
		}
	})
}

// testConsumerStops: a consumer that says no ends the exchange. That nothing is yielded behind it, run sees.
func (s *suite) testConsumerStops(t *testing.T) {
	calls := &Script{Parts: []Part{{Reasoning: "hm"}, {Text: "hello"}, {Calls: []Call{{"a", "f", []string{`{"x":`, `1}`}}}}}}
	said, _ := s.d.Write(calls)
	for name, at := range map[string]pipeline.Kind{
		"at reasoning": pipeline.Reasoning, "at text": pipeline.Text, "at a fragment": pipeline.ToolDelta, "at a flush": pipeline.Flush, "in silence": pipeline.Idle,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, _, gone := left(t, func(p *peer) {
				p.begin()
				for _, piece := range said {
					p.chunk(piece)
				}
			})
			turn := s.turn()
			turn.Silence = 10 * time.Millisecond
			o := run(t.Context(), t, s.make(t, up.url, func(o *Options) { o.Tries = 3 }), turn, func(ev *pipeline.Event) bool { return ev.Kind != at })
			if o.err != nil {
				t.Error(o)
			}
			if at != pipeline.Flush && at != pipeline.Idle { // before those the request may not have been sent
				await(t, "the upstream sees the close", gone)
			}
			if n := up.requests.Load(); n > 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// testSilence: silence is told, in each phase of an answer, and ends nothing.
func (s *suite) testSilence(t *testing.T) {
	said, end := s.d.Write(&Script{Parts: []Part{{Text: "hello"}}, Finish: pipeline.ReasonStop})
	pieces := append([]string{""}, append(said, end...)...) // the first stands for the header
	for at := range len(said) + 2 {                         // once it has finished, the rest is waited for in another way
		idle := make(chan bool, 1)
		up := serve(t, func(p *peer) bool {
			for i, piece := range pieces {
				if i == at {
					select {
					case <-idle: // and only then the answer goes on
					case <-time.After(never):
						t.Error("nobody was told of the silence")
					}
				}
				if i == 0 {
					p.begin()
				}
				p.chunk(piece)
			}
			return p.end()
		})
		turn := s.turn()
		turn.Silence = time.Millisecond
		o := run(t.Context(), t, s.make(t, up.url), turn, func(ev *pipeline.Event) bool {
			if ev.Kind == pipeline.Idle {
				ev.Wake = time.Millisecond
				if n := len(idle); n == 0 {
					idle <- true
				}
			}
			return true
		})
		if o.err != nil || o.Text != "hello" || o.idles == 0 {
			t.Errorf("silence before piece %d: %s, %d times idle", at, o, o.idles)
		}
	}
}

// testIdleLimit: an upstream that stays silent for too long has stalled, before its header and behind.
func (s *suite) testIdleLimit(t *testing.T) {
	for name, said := range map[string]func(p *peer){
		"before the header": func(p *peer) {},
		"before a token":    func(p *peer) { p.begin() },
		"in mid-stream": func(p *peer) {
			p.begin()
			p.chunk(s.d.said("hello"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, _, gone := left(t, said)
			o := s.ask(t, s.make(t, up.url, func(o *Options) { o.Idle = 100 * time.Millisecond }))
			want{code: pipeline.CodeStalled, retry: true, says: "the upstream has been silent for 100ms"}.check(t, o)
			await(t, "the upstream sees the close", gone)
		})
	}
}
