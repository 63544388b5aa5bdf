package lifecycle

import "time"

// slack is how much younger than its file a process may seem to be: clocks are read in seconds and ticks.
const slack = 2 * time.Second

// proc is what the system says about a process.
type proc struct {
	exists bool
	id     string    // of this process, not of a later one with its PID; empty if unknown
	born   time.Time // zero if unknown
}

// is reports whether p is the server that wrote s, with l its launch file or nil.
func (p proc) is(s State, l *Launch) bool {
	if !p.exists {
		return false
	}
	// The id is compared first, because it holds when the clock was set in between or a container makes up its own boot time.
	if l != nil && l.Process != "" && p.id != "" {
		return l.Process == p.id
	}
	started, err := time.Parse(time.RFC3339, s.StartedAt)
	return err != nil || p.born.IsZero() || !p.born.After(started.Add(slack))
}
