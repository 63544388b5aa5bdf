package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// What the guard lets pass, 1.5 to 2 times what was measured when it was set. Two are ratios to the relay of the same run, and
// memory is the same on any machine, so that the speed of a machine does not matter. It is run again once before it fails: what
// else a machine does meanwhile does matter, to runs as short as these.
const (
	maxBatchedTime = 2.4 // processor time for a delta where many come at once, in that of the relay
	maxStreamKiB   = 44  // resident memory of an open stream
	maxLargeTime   = 1.1 // time for a large answer, in that of the relay
)

// bound is the most that a figure may be.
type bound struct {
	load  workload
	what  string
	most  float64
	value func(server, relay *row) float64
}

// bounds are short runs of workloads that give much the same each time.
func bounds() []bound {
	find := func(name string, warm, measure time.Duration) workload {
		list := workloads(false)
		w := list[slices.IndexFunc(list, func(w workload) bool { return w.name == name })]
		w.warm, w.measure = warm, measure
		return w
	}
	return []bound{
		{find("batched64", 500*time.Millisecond, 2*time.Second), "processor time for a delta, in the relay's", maxBatchedTime,
			func(server, relay *row) float64 { return server.perUnit() / relay.perUnit() }},
		{find("paced1k", time.Second, 2*time.Second), "KiB of memory for a stream", maxStreamKiB,
			func(server, _ *row) float64 { return server.perStream() }},
		{find("large", 500*time.Millisecond, 2*time.Second), "time for its text, in the relay's", maxLargeTime,
			func(server, relay *row) float64 { return relay.perSecond() / server.perSecond() }},
	}
}

// guard runs what has bounds, and once more what is beyond its own. The error says what is still beyond, and by how much.
func (o *options) guard(ctx context.Context, stdout, progress io.Writer) error {
	list := bounds()
	for again := false; ; again = true {
		beyond, err := o.check(ctx, list, stdout, progress)
		if err == nil || ctx.Err() != nil || again {
			return err
		}
		fmt.Fprintf(progress, "once more: %v\n", err)
		list = beyond
	}
}

// check runs list, and returns what of it is beyond its bound.
func (o *options) check(ctx context.Context, list []bound, stdout, progress io.Writer) (beyond []bound, err error) {
	var loads []workload
	for _, b := range list {
		loads = append(loads, b.load)
	}
	guarded := options{subjects: "relay,server", server: o.server}
	rows, err := guarded.measure(ctx, loads, progress)
	printTable(stdout, rows)
	if err != nil {
		return list, err
	}
	var faults []error
	for i, b := range list {
		fault := b.fault(&rows[2*i+1], &rows[2*i])
		if fault != nil {
			beyond, faults = append(beyond, b), append(faults, fault)
		}
	}
	return beyond, errors.Join(faults...)
}

// fault is how the rows of a workload are beyond its bound. What did not work shows nothing.
func (b *bound) fault(server, relay *row) error {
	for _, r := range []*row{server, relay} {
		if r.failures > 0 {
			return fmt.Errorf("%s, %s: %d failures: %w", b.load.name, r.subject, r.failures, r.failure)
		}
		if r.units() == 0 || r.cpu == 0 {
			return fmt.Errorf("%s, %s: %.0f units in %s of processor time", b.load.name, r.subject, r.units(), r.cpu)
		}
	}
	if v := b.value(server, relay); v > b.most {
		return fmt.Errorf("%s: %s: %.2f, which is %.0f %% beyond the limit of %.2f", b.load.name, b.what, v, (v/b.most-1)*100, b.most)
	}
	return nil
}
