package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// play is what the gateway is asked for, in the prompt.
type play struct {
	deltas int           // in one answer
	bytes  int           // of text in a delta, the stamp included
	batch  int           // deltas in one write
	every  time.Duration // from one write to the next; 0 is full speed
}

const playMark = "play:"

// prompt asks for p.
func (p play) prompt() string {
	return fmt.Sprintf("%s%d,%d,%d,%d", playMark, p.deltas, p.bytes, p.batch, p.every.Microseconds())
}

// readPlay finds what a request asks for; a request that asks for nothing gets two deltas.
func readPlay(body string) play {
	p := play{deltas: 2, bytes: minBytes, batch: 1}
	_, rest, ok := strings.Cut(body, playMark)
	if !ok {
		return p
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r != ',' && (r < '0' || r > '9') })
	if end < 0 {
		end = len(rest)
	}
	n := make([]int, 4)
	for i, field := range strings.SplitN(rest[:end], ",", len(n)) {
		n[i], _ = strconv.Atoi(field)
	}
	return play{deltas: n[0], bytes: max(n[1], minBytes), batch: max(n[2], 1), every: time.Duration(n[3]) * time.Microsecond}
}

// workload is one row of the table.
type workload struct {
	name    string
	what    string
	streams int // at a time
	stalled int // of them, that read nothing once they have begun
	whole   bool
	play    play
	warm    time.Duration
	measure time.Duration
}

func workloads(quick bool) []workload {
	list := []workload{
		{name: "alone", what: "one request after the other, answered in one piece", streams: 1, whole: true, play: play{2, minBytes, 1, 0}, warm: time.Second, measure: 3 * time.Second},
		{name: "short64", what: "64 clients, short answers in one piece", streams: 64, whole: true, play: play{2, minBytes, 1, 0}, warm: time.Second, measure: 5 * time.Second},
		{name: "full64", what: "64 streams at full speed, a write a delta", streams: 64, play: play{200, minBytes, 1, 0}, warm: time.Second, measure: 5 * time.Second},
		{name: "batched64", what: "64 streams at full speed, 50 deltas a write", streams: 64, play: play{200, minBytes, 50, 0}, warm: time.Second, measure: 5 * time.Second},
		{name: "paced1k", what: "1,000 streams, 20 deltas a second each", streams: 1000, play: play{4000, minBytes, 1, 50 * time.Millisecond}, warm: 4 * time.Second, measure: 10 * time.Second},
		{name: "slow1k", what: "the same, and 100 of them read nothing", streams: 1000, stalled: 100, play: play{4000, minBytes, 1, 50 * time.Millisecond}, warm: 4 * time.Second, measure: 10 * time.Second},
		{name: "open5k", what: "5,000 streams, 4 deltas a second each", streams: 5000, play: play{800, minBytes, 1, 250 * time.Millisecond}, warm: 8 * time.Second, measure: 10 * time.Second},
		{name: "large", what: "one answer of 10 MB after the other", streams: 1, play: play{40960, 256, 16, 0}, warm: time.Second, measure: 5 * time.Second},
	}
	if quick {
		for i := range list {
			w := &list[i]
			w.warm, w.measure = w.warm/2, w.measure/3
		}
	}
	return list
}
