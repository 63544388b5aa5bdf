package upstream

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"amplifier-agent/pipeline"
)

// TestCross runs a thousand streams through one Transport, each with a marker of its own, and cancels half of them in the middle
// of a read: no stream sees another's marker (cases B041), and no exchange is left.
func TestCross(t *testing.T) {
	streams, rounds := 1000, 2
	if testing.Short() {
		streams = 100
	}
	var open atomic.Int64
	g := serve(t, func(p *peer) {
		open.Add(1)
		defer open.Add(-1)
		for p.request() {
			marker := p.last.Header.Get("X-Marker")
			p.begin()
			for i := range 20 {
				p.chunk(strings.Repeat(fmt.Sprintf("%s %d\n", marker, i), 5))
			}
			if strings.HasSuffix(marker, "odd") {
				p.send("40\r\n%s and half", marker) // and the client leaves here
				p.wait()
				return
			}
			p.chunk("finish\n")
			p.end()
		}
	})
	tr := transport(t, g.url, 0)
	for round := range rounds {
		var wg sync.WaitGroup
		for i := range streams {
			wg.Go(func() {
				marker := fmt.Sprintf("m-%d-%d-%s", round, i, []string{"even", "odd"}[i%2])
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				call := get()
				call.Header = [][2]string{{"X-Marker", marker}}
				seen := 0
				d := &texts{onLine: func(line string) {
					if !strings.HasPrefix(line, marker+" ") && line != "finish" {
						t.Errorf("%s sees %q", marker, line)
					}
					if seen++; seen == 100 && i%2 == 1 {
						time.AfterFunc(time.Duration(i%7)*time.Millisecond, cancel) // while it reads
					}
				}}
				o := stream(ctx, tr, call, d, nil)
				if i%2 == 0 && (o.err != nil || !o.finished || len(o.lines) != 100) {
					t.Errorf("%s: %d lines, %v", marker, len(o.lines), o.err)
				}
				if i%2 == 1 {
					if e, ok := o.err.(*pipeline.Error); !ok || e.Code != pipeline.CodeAborted || o.finished {
						t.Errorf("%s: %v", marker, o.err)
					}
				}
			})
		}
		wg.Wait()
	}
	tr.Close()
	until(t, "all connections closed", never, func() bool { return open.Load() == 0 })
}
