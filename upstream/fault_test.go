package upstream

import (
	"strings"
	"testing"
	"time"

	"amplifier-agent/codec"
)

// TestFaultShapes: what the gateways of different makers wrap their words in.
func TestFaultShapes(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"words","type":"t"}}`:                                           "words",
		`{"error":"words"}`:                                                                  "words",
		`{"message":"words"}`:                                                                "words",
		`[{"error":{"code":400,"message":"words"}}]`:                                         "words",
		`{"detail":"words"}`:                                                                 "words",
		`{"detail":[{"loc":["body"],"message":"words"}]}`:                                    "words",
		`{"detail":{"error":{"message":"words"}}}`:                                           "words",
		`{"error":{"message":"502 <HTML lang=en>"}}`:                                         "502 (an HTML page)",
		`{"error":{"message":"no <htmlish> page"}}`:                                          "no <htmlish> page",
		`{"error":{"message":"{\"message\":\"in\",\"rateLimit\":{\"window\":\"weekly\"}}"}}`: "in (weekly limit)",
		`{"error":{"message":"m","rateLimit":{"window":"w","reset":-1}}}`:                    "m (w limit)",
		`[]`: "the upstream reports an error without a message",
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000): "the upstream reports an error without a message",
	} {
		var f Fault
		var s codec.Scanner
		s.Reset([]byte(body))
		f.Read(&s)
		if e := f.Err(nil); e.Message != want {
			t.Errorf("%.60s: got %q, want %q", body, e.Message, want)
		}
	}
}

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
