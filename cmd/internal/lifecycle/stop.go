package lifecycle

import "context"

// StopReport is what `serve stop --json` prints. A field without a value is left out.
type StopReport struct {
	SchemaVersion int    `json:"schema_version"` // 1
	Stopped       bool   `json:"stopped"`
	PID           int    `json:"pid,omitempty"`
	Port          int    `json:"port,omitempty"`
	Signal        string `json:"signal,omitempty"`  // SIGTERM or SIGKILL, the last that was sent
	Cleaned       []int  `json:"cleaned,omitempty"` // PIDs of servers that had ended before, whose files were removed
	Error         string `json:"error,omitempty"`
}

// Stop ends a server: with SIGTERM, and SIGKILL after Options.Timeout or at once with Options.Force. Files that outlived their server
// are removed, those of servers that had ended before included. The exit code is 1 if there was nothing to stop or to remove.
func Stop(ctx context.Context, o Options) (int, error) {
	r := StopReport{SchemaVersion: schemaVersion}
	code, err := o.stop(ctx, &r)
	return o.finish(&r, &r.Error, code, err)
}

func (o Options) stop(ctx context.Context, r *StopReport) (code int, err error) {
	in, ended, err := o.pick()
	if err != nil {
		return exitFailure, err
	}
	for _, e := range ended {
		fate := e.fate()
		if err := e.clean(); err != nil {
			return exitFailure, err
		}
		say(o.text(o.Stderr), "stale state file (PID %d %s) — cleaned", e.state.PID, fate)
		r.Cleaned = append(r.Cleaned, e.state.PID)
	}
	if in == nil {
		if len(ended) > 0 {
			return exitOK, nil
		}
		return o.nothing(&r.Error, "")
	}
	r.PID, r.Port = in.state.PID, in.state.Port
	timeout := in.patience()
	if o.Timeout != nil {
		timeout = *o.Timeout
	}
	how, err := in.end(ctx, o.Force, timeout)
	r.Signal = how
	if err != nil {
		return exitFailure, err
	}
	if err := in.clean(); err != nil {
		return exitFailure, err
	}
	r.Stopped = true
	switch {
	case how == endedGone:
		say(o.text(o.Stdout), "stopped by itself (PID %d)", r.PID)
	case how == endedKilled && graceful && !o.Force:
		say(o.text(o.Stderr), "stopped (SIGTERM timed out after %s, escalated to SIGKILL, PID %d)", timeout, r.PID)
	default:
		say(o.text(o.Stdout), "stopped (%s, PID %d)", how, r.PID)
	}
	return exitOK, nil
}
