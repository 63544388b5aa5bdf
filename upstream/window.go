package upstream

import (
	"regexp"
	"strings"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// Window is a limit of the plan's that was reached. Waiting a little does not help.
type Window struct {
	Name  string    // as the gateway calls it, such as weekly; "" if it does not say
	Model string    // the one that it is for; "" for all
	Reset time.Time // when it opens again; zero if it does not say
}

const (
	// maxResetSeconds is the year 5138: a larger number counts milliseconds, as other routes of the gateway do.
	maxResetSeconds = 100_000_000_000
	resetLayout     = "2006-01-02 15:04:05 UTC"
)

// readWindow reads {window, reset, model}; nil if that is no object.
func readWindow(s *codec.Scanner) *Window {
	if s.Kind() != codec.Object {
		s.Skip()
		return nil
	}
	w := new(Window)
	for s.Object(); s.Key(); {
		switch string(s.Name()) {
		case "window":
			t, _ := s.Text()
			w.Name = pipeline.Short(t.String())
		case "model":
			t, _ := s.Text()
			w.Model = pipeline.Short(t.String())
		case "reset":
			if s.Kind() == codec.String {
				t, _ := s.Text()
				w.Reset, _ = isoTime(t.String())
				continue
			}
			switch n, _ := s.Int(); {
			case n > maxResetSeconds:
				w.Reset = time.UnixMilli(n)
			case n > 0:
				w.Reset = time.Unix(n, 0)
			}
		default:
			s.Skip()
		}
	}
	return w
}

// resets finds when a window opens again in words for people.
var resets = regexp.MustCompile(`(?i)\bresets? (?:at|on) (\d{4}-\d\d-\d\d(?:T[0-9:.]*[0-9](?:Z|[+-]\d\d:\d\d)?)?)`)

// proseWindow reads a window of which only words tell, and returns them with its time in UTC; nil if they tell of none.
func proseWindow(message string) (string, *Window) {
	at := resets.FindStringSubmatchIndex(message)
	if at == nil {
		return message, nil
	}
	reset, ok := isoTime(message[at[2]:at[3]])
	if !ok {
		return message, nil
	}
	return message[:at[2]] + reset.UTC().Format(resetLayout) + message[at[3]:], &Window{Reset: reset}
}

// isoTime reads a time or a date, which is in UTC unless it says otherwise.
func isoTime(s string) (t time.Time, ok bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return t, false
}

// beside is what is worth saying of the window beside a message, as far as that does not say it.
func (w *Window) beside(message string) string {
	var parts []string
	switch w.Name {
	case "":
	case "fiveHour":
		parts = append(parts, "five-hour limit")
	default:
		parts = append(parts, w.Name+" limit")
	}
	if w.Model != "" {
		parts = append(parts, "of model "+w.Model)
	}
	if reset := w.Reset.UTC().Format(resetLayout); !w.Reset.IsZero() && !strings.Contains(message, reset) {
		parts = append(parts, "resets at "+reset)
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// wait is how long it takes from now until the window opens; 0 if that is not known, or past.
func (w *Window) wait(now time.Time) time.Duration {
	if w.Reset.IsZero() {
		return 0
	}
	return max(0, min(w.Reset.Sub(now), maxRetryAfter*time.Second))
}
