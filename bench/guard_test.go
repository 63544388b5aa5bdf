package bench

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/routes/chat"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/commandcode"
)

// Limits of the guards, about 1.6 times what was measured when they were set. They are ratios of two times in one run, so that they
// hold on any machine.
const (
	maxDeltaFloors     = 2.4 // decode and encode one text delta, against floorDelta
	maxTranslateFloors = 3.8 // bytes in to frames out, against floor
	// guardRounds is how often each side has its turn at least. The fastest of so many was not disturbed.
	guardRounds = 500
)

// guard fails if ours takes more than limit times as long as floor does for the same n events. They run by turns, and the fastest
// turn of each counts, so that what else the machine does cannot decide.
func guard(b *testing.B, limit float64, n int, ours, floor func()) {
	sides := [2]func(){ours, floor}
	best := [2]time.Duration{math.MaxInt64, math.MaxInt64}
	round := func() {
		for i, f := range sides {
			start := time.Now()
			f()
			best[i] = min(best[i], time.Since(start))
		}
	}
	for b.Loop() {
		round()
	}
	for rounds := b.N; rounds < guardRounds; rounds++ {
		round()
	}
	ratio := float64(best[0]) / float64(best[1])
	b.ReportMetric(ratio, "x-floor")
	b.ReportMetric(float64(best[0].Nanoseconds())/float64(n), "ns/event")
	if ratio > limit {
		b.Fatalf("%v is %.1f times the floor's %v; the limit is %.1f", best[0], ratio, best[1], limit)
	}
}

// BenchmarkGuardDelta guards the hot path at its narrowest: a line of text to a chunk. It fails beyond maxDeltaFloors.
func BenchmarkGuardDelta(b *testing.B) {
	const lines = 1000
	line := []byte(`{"type":"text-delta","id":"txt-0","text":"word 000000, \"so\" it is "}`)
	var out codec.SSE
	head := []byte(strings.TrimPrefix(string(floorHead), "data: ") + `"`) // the rest is the encoder's
	tail := `"` + strings.TrimSpace(string(floorTail))
	emit := upstream.NewEmitter(func(ev *pipeline.Event, _ error) bool {
		out.Text(head, "", ev.Text, tail)
		return true
	})
	d := commandcode.NewDecoder(nil)
	buf := make([]byte, 0, 4<<10)
	guard(b, maxDeltaFloors, lines, func() {
		for range lines {
			out.Reset()
			d.Line(line, emit)
		}
	}, func() {
		for range lines {
			buf = floorDelta(buf[:0], line)
		}
	})
	if !bytes.Equal(out.Bytes(), buf) {
		b.Fatalf("not the same work: %s and %s", out.Bytes(), buf)
	}
}

// BenchmarkGuardTranslate guards the whole translation in memory: it fails beyond maxTranslateFloors, or if a further delta allocates.
func BenchmarkGuardTranslate(b *testing.B) {
	const size = 4 << 10 // of a read
	src, buf := body(deltasPerBody), make([]byte, 0, 64<<10)
	guard(b, maxTranslateFloors, deltasPerBody, func() { translate(src, size, chat.SSE, drop) }, func() { floor(src, size, buf, drop) })
	allocs := func(src []byte) float64 {
		return testing.AllocsPerRun(20, func() { translate(src, size, chat.SSE, drop) })
	}
	if few, many := allocs(body(100)), allocs(body(100+deltasPerBody)); many-few > deltasPerBody/100 { // what pools lose to the collector is less
		b.Fatalf("%.0f allocations for 100 deltas, %.0f for %d more", few, many, deltasPerBody)
	}
}
