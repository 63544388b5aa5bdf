package upstream

import (
	"testing"
	"testing/synctest"
	"time"

	"amplifier-agent/pipeline"
)

// TestCaseLongThinking: B066. By default an upstream may be silent for minutes, before its answer and in the middle of it; the
// consumer hears of the silence all the while, so that its client can be kept.
func TestCaseLongThinking(t *testing.T) {
	for silence, stalled := range map[time.Duration]bool{120 * time.Second: false, 713 * time.Second: false, DefaultIdle - time.Second: false, DefaultIdle + time.Second: true} {
		for name, thinkFirst := range map[string]bool{"before the answer": true, "in the middle": false} {
			t.Run(silence.String()+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tr := piped(t, 0, func(p *peer) {
						if !p.request() {
							return
						}
						if thinkFirst {
							time.Sleep(silence)
						}
						p.begin()
						p.chunk("one\n")
						if !thinkFirst {
							time.Sleep(silence)
						}
						p.chunk("two\nfinish\n")
						p.end()
						p.wait()
					})
					start, last := time.Now(), time.Now()
					o := stream(t.Context(), tr, get(), &texts{}, func(ev *pipeline.Event) bool {
						if d := time.Since(last); d > 3*time.Second {
							t.Errorf("nothing was heard for %s", d)
						}
						last = time.Now()
						return true
					})
					switch d := time.Since(start); {
					case stalled:
						wantError(t, o.err, pipeline.CodeStalled, "the upstream has been silent for 15m0s")
					case o.err != nil || !o.finished || len(o.lines) != 2 || d < silence:
						t.Errorf("%+v after %s", o, d)
					}
				})
			})
		}
	}
	if DefaultIdle < 15*time.Minute {
		t.Errorf("the limit is %s", DefaultIdle)
	}
}
