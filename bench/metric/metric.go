// Package metric names what benchmarks report beside their time, so that the figures of different packages can be laid side by
// side. It imports nothing of ours, and only tests import it.
//
//	events/s        events of the upstream that got through, a second
//	ns/event        what each took
//	writes/event    frames handed over, each of which is one write, for an event
//	ns/first-chunk  from the request to the first byte of its answer
package metric

import (
	"testing"
	"time"
)

// Events reports events/s and ns/event of a benchmark whose loop is over; each operation passed n events.
func Events(b *testing.B, n int) {
	events := float64(b.N) * float64(n)
	b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/events, "ns/event")
}

// Writes reports writes/event: so many writes for so many events.
func Writes(b *testing.B, writes, events int) {
	b.ReportMetric(float64(writes)/float64(events), "writes/event")
}

// FirstChunk reports ns/first-chunk: what so many answers took in sum.
func FirstChunk(b *testing.B, sum time.Duration, answers int) {
	b.ReportMetric(float64(sum.Nanoseconds())/float64(answers), "ns/first-chunk")
}
