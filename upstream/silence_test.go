package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"amplifier-agent/pipeline"
)

// TestFirstTick comes when it is asked for, whatever arrives before it; later ones are a tick apart.
func TestFirstTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := piped(t, 0, func(p *peer) {
			if !p.request() {
				return
			}
			p.begin()
			for range 60 {
				p.chunk("x\n")
				time.Sleep(5 * time.Millisecond)
			}
			p.wait()
		})
		call := get()
		call.Silence = 100 * time.Millisecond
		start := time.Now()
		var ticks []time.Duration
		stream(t.Context(), tr, call, &texts{}, func(ev *pipeline.Event) bool {
			if ev.Kind == pipeline.Idle {
				ticks = append(ticks, time.Since(start))
			}
			return len(ticks) < 3
		})
		if ticks[0] != call.Silence {
			t.Errorf("first tick after %s", ticks[0])
		}
		// The stream fell silent at 295 ms; a tick counts from somewhere in the quarter of a tick before.
		if low, high := 295*time.Millisecond+tick*3/4, 295*time.Millisecond+tick; ticks[1] < low || ticks[1] > high {
			t.Errorf("second tick after %s, want %s to %s", ticks[1], low, high)
		}
		if d := ticks[2] - ticks[1]; d != tick {
			t.Errorf("third tick after %s", d)
		}
	})
}

// TestFirstTickSpansPhases: it counts from the call, not from the last thing that happened.
func TestFirstTickSpansPhases(t *testing.T) {
	accepted := make(chan time.Time, 1)
	_, tr := serveTLS(t, func(p *peer) {
		accepted <- time.Now()
		time.Sleep(20 * time.Millisecond) // in the handshake
		if p.request() {
			time.Sleep(20 * time.Millisecond)
			p.begin()
			p.chunk("x\n")
			p.wait()
		}
	})
	call := get()
	call.Silence = time.Hour
	start := time.Now()
	r, err := tr.Open(t.Context(), call, &watch{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(false)
	if _, err := io.ReadFull(r.Body, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	from := r.c.deadline.Add(-call.Silence)
	if at := <-accepted; from.Before(start) || from.After(at) {
		t.Errorf("it counts from %s behind the call, connected after %s", from.Sub(start), at.Sub(start))
	}
}

// TestDefaultTick: without Silence the first tick is an ordinary one.
func TestDefaultTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := piped(t, 0, func(p *peer) { p.request(); p.wait() })
		start := time.Now()
		w := &watch{}
		w.onSilent = func(next *time.Duration) bool {
			if *next != tick {
				t.Errorf("next %s", *next)
			}
			if d := time.Since(start); d != time.Duration(w.silent)*tick {
				t.Errorf("tick %d after %s", w.silent, d)
			}
			return w.silent < 2
		}
		if _, err := tr.Open(t.Context(), get(), w); !errors.Is(err, errStopped) || w.silent != 2 {
			t.Errorf("%v behind %d ticks", err, w.silent)
		}
	})
}

// TestWatcherLowersTick: the next tick comes as soon as the watcher has asked for, in each phase; one that asks for none does
// not make the reader spin.
func TestWatcherLowersTick(t *testing.T) {
	const (
		short, none = 8, 16 // ticks after which 10 ms are asked for, and nothing
		least       = short*10*time.Millisecond + (none-1)*time.Millisecond
	)
	type clock struct {
		idles       int
		first, last time.Time
	}
	lower := func(c *clock, ev *pipeline.Event) bool {
		if ev.Kind != pipeline.Idle {
			return true
		}
		c.last = time.Now()
		if c.idles++; c.idles == 1 {
			c.first = c.last
		}
		if ev.Wake = 10 * time.Millisecond; c.idles > short {
			ev.Wake = 0
		}
		return c.idles < short+none
	}
	for _, ph := range phases {
		if ph.whole {
			continue
		}
		t.Run(ph.name, func(t *testing.T) {
			call := get()
			call.Silence = time.Millisecond
			var c clock
			ready := make(chan bool)
			ph.run(t, t.Context(), call, func(ev *pipeline.Event) bool {
				if lower(&c, ev) {
					return true
				}
				close(ready)
				return false
			}, func() {
				select {
				case <-ready:
				case <-time.After(never):
					t.Error("there are no more ticks")
				}
			})
			// As long as ticks take that nobody lowers.
			if d, most := c.last.Sub(c.first), (short+none-1)*tick; d < least || d >= most {
				t.Errorf("%d ticks take %s, want %s, less than %s", c.idles, d, least, most)
			}
		})
		if !ph.pipes() {
			continue
		}
		t.Run(ph.name+", exactly", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				call := get()
				call.Silence = time.Millisecond
				start := time.Now()
				var c clock
				stream(t.Context(), piped(t, 0, func(p *peer) { ph.serve(p); p.wait() }), call, &texts{}, func(ev *pipeline.Event) bool { return lower(&c, ev) })
				if first, d := c.first.Sub(start), c.last.Sub(c.first); first != call.Silence || d != least {
					t.Errorf("the first tick comes after %s, the last %s behind it, want %s", first, d, least)
				}
			})
		})
	}
}

// TestNoTickWhileBytesArrive, be they ever so few.
func TestNoTickWhileBytesArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := piped(t, 0, func(p *peer) {
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
		o := stream(t.Context(), tr, call, &texts{}, nil)
		if o.err != nil || !o.finished || o.idles != 1 { // the first
			t.Errorf("%d ticks, %v", o.idles, o.err)
		}
	})
}

// TestIdleLimit: an upstream that is silent for too long has stalled, in each phase in which it is asked to read.
func TestIdleLimit(t *testing.T) {
	const limit, wake = 400 * time.Millisecond, 20 * time.Millisecond
	stall := func(t *testing.T, tr *Transport) (ticks int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), never)
		defer cancel()
		call := get()
		call.Silence = wake
		start := time.Now()
		o := stream(ctx, tr, call, &texts{}, func(ev *pipeline.Event) bool {
			switch ev.Kind {
			case pipeline.Flush:
				ticks = 0
			case pipeline.Idle:
				ticks++
				ev.Wake = wake
			}
			return true
		})
		if e := wantError(t, o.err, pipeline.CodeStalled, "the upstream has been silent for 400ms"); !e.Retry || e.Origin != pipeline.OriginUpstream {
			t.Errorf("%+v", e)
		}
		if d := time.Since(start); d < limit {
			t.Errorf("the end after %s", d)
		}
		return ticks
	}
	for _, ph := range phases {
		if !ph.pipes() || ph.whole {
			continue // these have limits of their own
		}
		t.Run(ph.name, func(t *testing.T) {
			gone := make(chan bool, 1)
			g := serve(t, func(p *peer) { ph.serve(p); p.wait(); gone <- true })
			// Ticks are at least so far apart, but for the first, which was due already.
			if n := stall(t, transport(t, g.url, limit)); n > int(limit/wake)+1 {
				t.Errorf("%d ticks behind the last read", n)
			}
			select {
			case <-gone:
			case <-time.After(soon):
				t.Error("the connection is open")
			}
		})
		t.Run(ph.name+", exactly", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				stall(t, piped(t, limit, func(p *peer) { ph.serve(p); p.wait() }))
				if d := time.Since(start); d != limit {
					t.Errorf("the end after %s", d)
				}
			})
		})
	}
}

// TestIdleLimitIsResetByAnyByte and is no limit on the whole.
func TestIdleLimitIsResetByAnyByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := piped(t, 30*time.Millisecond, func(p *peer) {
			if !p.request() {
				return
			}
			for _, c := range "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx\nfinish\n" {
				p.send("%c", c)
				time.Sleep(20 * time.Millisecond)
			}
			p.wait()
		})
		call := get()
		call.Silence = time.Millisecond
		o := stream(t.Context(), tr, call, &texts{}, func(ev *pipeline.Event) bool {
			ev.Wake = 5 * time.Millisecond
			return true
		})
		if o.err != nil || !o.finished {
			t.Errorf("%+v", o)
		}
	})
}

// TestSlowConsumer does not count as a silent upstream.
func TestSlowConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := piped(t, 150*time.Millisecond, func(p *peer) {
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
		call := get()
		call.Silence = time.Millisecond
		o := stream(t.Context(), tr, call, &texts{}, func(ev *pipeline.Event) bool {
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
	})
}

// logging writes what happens on a connection into a log: r for a read of the socket, R for the call before it, i for a tick.
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
		case pipeline.Idle: // on a busy machine
			log.WriteByte('i')
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
	if got := strings.ReplaceAll(log.String(), "ir", ""); strings.ReplaceAll(got, "Rr", "") != "" || len(got) > 2*30 {
		t.Errorf("%s", got)
	}
}

// TestBigRequest is sent whole although the gateway takes it slowly, and the watcher hears of it.
func TestBigRequest(t *testing.T) {
	const size = 16 << 20
	heard := make(chan bool)
	g := serve(t, func(p *peer) {
		select {
		case <-heard:
		case <-time.After(never):
			t.Error("the watcher hears of no silence")
		}
		if !p.request() || len(p.body) != size {
			t.Errorf("%d bytes arrived", len(p.body))
		}
		p.plain("finish\n")
		p.wait()
	})
	call := &Call{Method: "POST", Path: "/", Body: make([]byte, size), Silence: 10 * time.Millisecond}
	idles := 0
	o := stream(t.Context(), transport(t, g.url, 0), call, &texts{}, func(ev *pipeline.Event) bool {
		if ev.Kind == pipeline.Idle {
			ev.Wake = 10 * time.Millisecond
			if idles++; idles == 5 {
				close(heard)
			}
		}
		return true
	})
	if o.err != nil || !o.finished {
		t.Errorf("%+v", o)
	}
}
