package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// row is what a workload showed of a subject.
type row struct {
	load    workload
	subject string
	tally
	took       time.Duration
	cpu        time.Duration // of the subject's process
	idle, held int64         // bytes, before the first client and with all of them
	open       int           // streams under way at the end
	others     float64       // part of the machine that nobody here used
}

// units are what processor time is spent on.
func (r *row) units() float64 {
	if r.load.whole {
		return float64(r.answers)
	}
	return float64(r.deltas)
}

// perUnit is processor time per delta, or per answer where they come in one piece.
func (r *row) perUnit() float64 {
	if r.units() == 0 {
		return 0
	}
	return float64(r.cpu.Microseconds()) / r.units()
}

func (r *row) perSecond() float64 { return r.units() / r.took.Seconds() }

// perStream is memory per open stream.
func (r *row) perStream() float64 {
	return max(float64(r.held-r.idle), 0) / 1024 / float64(r.load.streams)
}

func printTable(w io.Writer, rows []row) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "workload\tsubject\tunits/s\tCPU µs/unit\tp50 ms\tp99 ms\ttext MB/s\tRSS KiB/stream\tidle MiB\tfailures\tothers\t")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(t, "%s\t%s\t%.0f\t%.2f\t%.3f\t%.3f\t%.1f\t%.1f\t%.1f\t%d\t%.0f %%\t\n", r.load.name, r.subject, r.perSecond(), r.perUnit(),
			milliseconds(r.latency.quantile(0.5)), milliseconds(r.latency.quantile(0.99)), float64(r.bytes)/r.took.Seconds()/1e6, r.perStream(),
			float64(r.idle)/(1<<20), r.failures, r.others*100)
	}
	_ = t.Flush()
	for i := range rows {
		if r := &rows[i]; r.failure != nil {
			fmt.Fprintf(w, "%s, %s: %v\n", r.load.name, r.subject, r.failure)
		}
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
