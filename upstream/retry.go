package upstream

import (
	"context"
	"math/rand/v2"
	"time"

	"amplifier-agent/pipeline"
)

// Bounds of asking again (rulings 14).
const (
	// DefaultTries is how often a turn is asked at most.
	DefaultTries = 3

	maxTrying     = 30 * time.Second       // from the first try to the last
	maxHonoured   = 10 * time.Second       // that an upstream may ask to wait; when it asks for more the client is told instead
	maxHeld       = 12 * time.Second       // that the face may take to settle for a status, while it is asked again
	firstPause    = 300 * time.Millisecond // doubled with each try, and varied by half
	lookEvery     = 500 * time.Millisecond // while a pause lasts, for a client that has gone
	pauseVariance = 0.5
)

// again decides whether to ask once more after err, the try-th of tries, took spent since the first; and after which pause.
func again(err error, try, tries int, spent time.Duration) (pause time.Duration, ok bool) {
	e := pipeline.AsError(err)
	if !e.Retry || e.Origin != pipeline.OriginUpstream || try >= tries {
		return 0, false
	}
	pause = firstPause << (try - 1)
	pause += time.Duration((2*rand.Float64() - 1) * pauseVariance * float64(pause))
	if e.RetryAfter > 0 {
		if e.RetryAfter > maxHonoured {
			return 0, false
		}
		pause = max(pause, e.RetryAfter)
	}
	return pause, spent+pause <= maxTrying
}

// pause waits for d, and reports false if nobody wants more of the stream.
func (e *Emitter) pause(ctx context.Context, d time.Duration) bool {
	end := time.Now().Add(d)
	timer := time.NewTimer(min(d, lookEvery))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
		}
		left := time.Until(end)
		if left <= 0 {
			return true
		}
		next := lookEvery
		if !e.Silent(&next) {
			return false
		}
		timer.Reset(max(min(left, next), time.Millisecond))
	}
}
