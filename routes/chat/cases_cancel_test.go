package chat_test

import (
	"testing"
	"testing/synctest"
	"time"

	"amplifier-agent/pipeline"
	"amplifier-agent/routes/chat"
	"amplifier-agent/upstream/simulator"
)

// TestCaseGoneClientIsNoticed: B062 and B065. A client that leaves is noticed within a second, whether the upstream is silent or
// busy, and whether anything is written to the client or not.
func TestCaseGoneClientIsNoticed(t *testing.T) {
	const leaves = 10 * time.Second
	for upstream, in := range map[string]func() pipeline.Stream{
		"silent": func() pipeline.Stream { return silent(50*time.Millisecond, time.Hour) },
		"busy":   func() pipeline.Stream { return chatter(time.Hour) },
	} {
		for face, encode := range map[string]func(*pipeline.Turn, pipeline.Stream, chat.Wire) pipeline.Frames{"sse": chat.SSE, "json": chat.JSON} {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				for range encode(&pipeline.Turn{}, in(), wire(func() bool { return time.Since(start) < leaves })) {
				}
				if d := time.Since(start); d < leaves || d > leaves+time.Second {
					t.Errorf("%s, %s: the turn ends after %s", face, upstream, d)
				}
			})
		}
	}
}

// TestCaseBusyUpstreamIsLeft: B062, over sockets. Deltas flow without a pause, so that there is no silence to look in.
func TestCaseBusyUpstreamIsLeft(t *testing.T) {
	for _, stream := range []bool{true, false} {
		s := start(t, setup{extra: patient, sim: simulator.Options{Pace: 5 * time.Millisecond}})
		c := s.dial(t)
		raw(c, "HTTP/1.1", ask(stream, "Count slowly to 1000000"))
		eventually(t, "the upstream has been asked", func() bool { return s.sim.Active() == 1 })
		c.Close()
		eventually(t, "the upstream exchange is closed", func() bool { return s.sim.Active() == 0 })
		if s.sim.Gone() != 1 {
			t.Errorf("stream=%v: %d exchanges were given up, want 1", stream, s.sim.Gone())
		}
	}
}
