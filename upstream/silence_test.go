package upstream

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"amplifier-agent/pipeline"
)

// late is how much later than asked a tick may come on a busy machine.
const late = 250 * time.Millisecond

func between(t *testing.T, what string, d, low, high time.Duration) {
	t.Helper()
	if d < low || d > high+late {
		t.Errorf("%s after %s, want %s to %s", what, d, low, high)
	}
}

// TestFirstTick comes when it is asked for, whatever arrives before it; later ones are a tick apart.
func TestFirstTick(t *testing.T) {
	g := serve(t, func(p *peer) {
		if !p.request() {
			return
		}
		p.begin()
		for start := time.Now(); time.Since(start) < 300*time.Millisecond; time.Sleep(5 * time.Millisecond) {
			p.chunk("x\n")
		}
		p.wait()
	})
	call := get()
	call.Silence = 100 * time.Millisecond
	start := time.Now()
	var ticks []time.Duration
	stream(t.Context(), transport(t, g.url, 0), call, &texts{}, func(ev *pipeline.Event) bool {
		if ev.Kind == pipeline.Idle {
			ticks = append(ticks, time.Since(start))
		}
		return len(ticks) < 3
	})
	between(t, "first tick", ticks[0], 100*time.Millisecond, 110*time.Millisecond)
	// The stream fell silent at 300 ms; a tick counts from somewhere in the quarter of a tick before.
	between(t, "second tick", ticks[1], 295*time.Millisecond+tick*3/4, 310*time.Millisecond+tick)
	between(t, "third tick", ticks[2]-ticks[1], tick-10*time.Millisecond, tick)
}

// TestFirstTickSpansPhases: it counts from the call, not from the last thing that happened.
func TestFirstTickSpansPhases(t *testing.T) {
	_, tr := serveTLS(t, func(p *peer) {
		time.Sleep(60 * time.Millisecond) // in the handshake
		if p.request() {
			time.Sleep(60 * time.Millisecond)
			p.begin()
			p.chunk("x\n")
			p.wait()
		}
	})
	call := get()
	call.Silence = 180 * time.Millisecond
	start := time.Now()
	idles := 0
	stream(t.Context(), tr, call, &texts{}, func(ev *pipeline.Event) bool {
		if ev.Kind == pipeline.Idle {
			idles++
		}
		return idles == 0
	})
	between(t, "first tick", time.Since(start), 180*time.Millisecond, 190*time.Millisecond)
}

// TestDefaultTick: without Silence the first tick is an ordinary one.
func TestDefaultTick(t *testing.T) {
	g := serve(t, func(p *peer) { p.request(); p.wait() })
	start := time.Now()
	w := &watch{}
	w.onSilent = func(next *time.Duration) bool {
		if *next != tick {
			t.Errorf("next %s", *next)
		}
		return w.silent < 2
	}
	_, err := transport(t, g.url, 0).Open(t.Context(), get(), w)
	if !errors.Is(err, errStopped) {
		t.Fatal(err)
	}
	between(t, "first tick", w.ticks[0].Sub(start), tick-10*time.Millisecond, tick)
	between(t, "second tick", w.ticks[1].Sub(w.ticks[0]), tick-10*time.Millisecond, tick)
}

// TestWatcherLowersTick: the next tick comes as soon as the watcher has asked for, in each phase; one that asks for none does
// not make the reader spin.
func TestWatcherLowersTick(t *testing.T) {
	for _, ph := range phases {
		if ph.whole {
			continue
		}
		t.Run(ph.name, func(t *testing.T) {
			call := get()
			call.Silence = time.Millisecond
			idles := 0
			var start time.Time
			ready := make(chan bool)
			ph.run(t, t.Context(), call, func(ev *pipeline.Event) bool {
				if ev.Kind != pipeline.Idle {
					return true
				}
				if idles++; idles == 1 {
					start = time.Now()
				}
				ev.Wake = 10 * time.Millisecond
				if idles > 8 {
					ev.Wake = 0
				}
				if idles == 60 {
					close(ready)
				}
				return idles < 60
			}, func() { <-ready })
			// Bytes that come behind the first tick put the next one off by a whole one.
			between(t, "60 ticks", time.Since(start), 7*10*time.Millisecond+50*time.Millisecond, 200*time.Millisecond+tick)
		})
	}
}

// TestNoTickWhileBytesArrive, be they ever so few.
func TestNoTickWhileBytesArrive(t *testing.T) {
	g := serve(t, func(p *peer) {
		if !p.request() {
			return
		}
		p.begin()
		for range 40 {
			time.Sleep(50 * time.Millisecond)
			p.chunk("x")
		}
		p.chunk("\nfinish\n")
		p.end()
		p.wait()
	})
	call := get()
	call.Silence = time.Millisecond
	o := stream(t.Context(), transport(t, g.url, 0), call, &texts{}, nil)
	if o.err != nil || !o.finished || o.idles > 2 { // the first, and one more if the machine hangs for half a second
		t.Errorf("%d ticks, %v", o.idles, o.err)
	}
}

// TestIdleLimit: an upstream that is silent for too long has stalled, in each phase in which it is asked to read.
func TestIdleLimit(t *testing.T) {
	const limit = 400 * time.Millisecond
	for _, ph := range phases {
		if ph.serve == nil || ph.scheme == "https" || ph.big || ph.whole {
			continue // these have limits of their own
		}
		t.Run(ph.name, func(t *testing.T) {
			gone := make(chan bool, 1)
			g := serve(t, func(p *peer) { ph.serve(p); p.wait(); gone <- true })
			call := get()
			call.Silence = 20 * time.Millisecond
			start := time.Now()
			o := stream(t.Context(), transport(t, g.url, limit), call, &texts{}, func(ev *pipeline.Event) bool {
				ev.Wake = 20 * time.Millisecond
				return true
			})
			if e := wantError(t, o.err, pipeline.CodeStalled, "the upstream has been silent for 400ms"); !e.Retry || e.Origin != pipeline.OriginUpstream {
				t.Errorf("%+v", e)
			}
			between(t, "the end", time.Since(start), limit, limit+40*time.Millisecond)
			select {
			case <-gone:
			case <-time.After(soon):
				t.Error("the connection is open")
			}
		})
	}
}

// TestIdleLimitIsResetByAnyByte and is no limit on the whole.
func TestIdleLimitIsResetByAnyByte(t *testing.T) {
	g := serve(t, func(p *peer) {
		if !p.request() {
			return
		}
		for _, c := range "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx\nfinish\n" {
			p.send("%c", c)
			time.Sleep(20 * time.Millisecond)
		}
		p.wait()
	})
	o := stream(t.Context(), transport(t, g.url, 500*time.Millisecond), get(), &texts{}, func(ev *pipeline.Event) bool {
		ev.Wake = 10 * time.Millisecond
		return true
	})
	if o.err != nil || !o.finished {
		t.Errorf("%+v", o)
	}
}

// TestSlowConsumer does not count as a silent upstream.
func TestSlowConsumer(t *testing.T) {
	g := serve(t, func(p *peer) {
		if p.request() {
			p.begin()
			for i := range 4 {
				p.chunk(fmt.Sprintf("line %d\n", i))
				time.Sleep(10 * time.Millisecond)
			}
			p.chunk("finish\n")
			p.end()
			p.wait()
		}
	})
	o := stream(t.Context(), transport(t, g.url, 150*time.Millisecond), get(), &texts{}, func(ev *pipeline.Event) bool {
		switch ev.Kind {
		case pipeline.Text:
			time.Sleep(400 * time.Millisecond)
		case pipeline.Idle:
			ev.Wake = 10 * time.Millisecond
		}
		return true
	})
	if o.err != nil || !o.finished || len(o.lines) != 4 {
		t.Errorf("%+v", o)
	}
}

// logging writes what happens on a connection into a log: r for a read of the socket, R for the call before it.
type logging struct {
	net.Conn
	log *strings.Builder
}

func (l logging) Read(p []byte) (int, error) {
	l.log.WriteByte('r')
	return l.Conn.Read(p)
}

// TestReadingComesBeforeEachRead of the socket and at no other time: many lines in one read are one flush.
func TestReadingComesBeforeEachRead(t *testing.T) {
	g := serve(t, func(p *peer) {
		if !p.request() {
			return
		}
		p.begin()
		for i := range 20 {
			p.chunk(strings.Repeat("line\n", 50))
			if i%5 == 0 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		p.chunk("finish\n")
		p.end()
		p.wait()
	})
	var log strings.Builder
	tr := transport(t, g.url, 0)
	lines := 0
	out := NewEmitter(func(ev *pipeline.Event, err error) bool {
		if err != nil {
			t.Error(err)
			return false
		}
		switch ev.Kind {
		case pipeline.Flush:
			log.WriteByte('R')
		case pipeline.Text:
			lines++
		}
		return true
	})
	r, err := tr.Open(t.Context(), get(), out)
	if err != nil {
		t.Fatal(err)
	}
	log.Reset()
	r.c.Conn = logging{r.c.Conn, &log}
	done, err := Drive(r.Body, lineOptions, &texts{}, out, r.Limit)
	if !done || err != nil || lines != 1000 {
		t.Fatalf("%v %v, %d lines", done, err, lines)
	}
	r.Close(done)
	if got := log.String(); strings.ReplaceAll(got, "Rr", "") != "" || len(got) > 2*30 {
		t.Errorf("%s", got)
	}
}

// TestBigRequest is sent whole although the gateway takes it slowly, and the watcher hears of it.
func TestBigRequest(t *testing.T) {
	const size = 16 << 20
	g := serve(t, func(p *peer) {
		time.Sleep(200 * time.Millisecond)
		if !p.request() || len(p.body) != size {
			t.Errorf("%d bytes arrived", len(p.body))
		}
		p.plain("finish\n")
		p.wait()
	})
	call := &Call{Method: "POST", Path: "/", Body: make([]byte, size), Silence: 10 * time.Millisecond}
	o := stream(t.Context(), transport(t, g.url, 0), call, &texts{}, func(ev *pipeline.Event) bool {
		ev.Wake = 10 * time.Millisecond
		return true
	})
	if o.err != nil || !o.finished || o.idles < 5 {
		t.Errorf("%+v", o)
	}
}
