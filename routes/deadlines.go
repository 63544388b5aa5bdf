package routes

import "time"

// Deadlines bound how long a client may take for what it does. Each zero value means the default.
type Deadlines struct {
	Header time.Duration // for a request's header, from its first byte, which may take as long to come on a new connection
	Body   time.Duration // for a request's body
	Stall  time.Duration // between two bytes of a body
	Write  time.Duration // for taking an answer that is not streamed
	Idle   time.Duration // between two requests on a connection
}

var defaults = Deadlines{Header: 10 * time.Second, Body: 60 * time.Second, Stall: 20 * time.Second, Write: 60 * time.Second, Idle: 75 * time.Second}

func (d Deadlines) filled() Deadlines {
	or := func(d, or time.Duration) time.Duration {
		if d == 0 {
			return or
		}
		return d
	}
	return Deadlines{Header: or(d.Header, defaults.Header), Body: or(d.Body, defaults.Body), Stall: or(d.Stall, defaults.Stall),
		Write: or(d.Write, defaults.Write), Idle: or(d.Idle, defaults.Idle)}
}

// whole is how long a request may take to come and its answer to go.
func (d Deadlines) whole() time.Duration { return d.Header + d.Body + d.Write }
