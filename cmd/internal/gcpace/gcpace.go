// Package gcpace sets the pace of the garbage collector of a server. Go lets the heap double between two collections, which for the small
// heap of a server with few streams means dozens of collections a second under load. Here the heap may always grow by so many bytes, and
// doubles only where that is more. It imports the standard library alone.
package gcpace

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	growth     = 16 << 20 // bytes between two collections, at least: bench/README.md has the figures
	least      = 100      // percent of what lives
	usualStart = 4 << 20  // bytes up to which a heap at 100 % is never collected
	slack      = 8        // a change by less than one in so many does not count
)

// Start sets the pace until stop is called. It does nothing if the user has set one with GOGC.
func Start() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	p := &pacer{percent: growth * 100 / usualStart, live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}}
	before := debug.SetGCPercent(p.percent)
	debug.FreeOSMemory() // what starting has left behind
	p.await()
	return func() {
		p.stopped.Store(true)
		debug.SetGCPercent(before)
	}
}

type pacer struct {
	percent int
	live    []metrics.Sample
	stopped atomic.Bool
}

// sentinel dies with each collection. It holds a pointer so that it is an allocation of its own.
type sentinel struct{ p *pacer }

// await has the pace adjusted after the next collection, on the goroutine that runs finalizers.
func (p *pacer) await() {
	runtime.SetFinalizer(&sentinel{p}, func(s *sentinel) {
		if !s.p.stopped.Load() {
			s.p.adjust()
			s.p.await()
		}
	})
}

func (p *pacer) adjust() {
	metrics.Read(p.live)
	var live uint64
	for _, s := range p.live {
		live += s.Value.Uint64()
	}
	percent := Percent(live)
	if d := percent - p.percent; max(d, -d) > p.percent/slack {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
}

// Percent is the value of GOGC at which a heap may grow enough before the next collection, where live bytes live: those of the heap, of
// stacks and of globals.
func Percent(live uint64) int {
	return int(max(least, growth*100/max(live, usualStart)))
}
