package upstream

import (
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for field, want := range map[string]time.Duration{
		"": 0, "x": 0, "-1": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "99999999999": maxRetryAfter * time.Second,
		"Mon, 30 Nov 2026 12:00:30 GMT": 30 * time.Second, "Mon, 30 Nov 2026 11:00:00 GMT": 0, "Monday, 30-Nov-26 12:01:00 GMT": time.Minute,
	} {
		if got := retryAfter(field, now); got != want {
			t.Errorf("%q: got %v, want %v", field, got, want)
		}
	}
}
