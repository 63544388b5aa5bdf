package lifecycle

import (
	"context"
	"fmt"
	"io"
	"time"

	"amplifier-agent/codec"
)

// Exit codes of the commands.
const (
	exitOK      = 0
	exitFailure = 1
)

// Options say which server a command is about and where its words go.
type Options struct {
	Home   string // absolute
	Port   int    // 0 means serve.json's server, or the only one
	JSON   bool   // one object on Stdout and nothing else
	Stdout io.Writer
	Stderr io.Writer

	// Stop only.
	Force   bool
	Timeout *time.Duration // before SIGKILL; nil is 5 s, or the server's drain and 2 s if that is longer

	// Restart only: the environment that the new server descends from, as os.Environ has it.
	Environ []string
}

// Command is Status, Stop or Restart. It returns an exit code and, if that is not 0 and not everything was said yet, an error for the
// caller to print. With Options.JSON there is no such error: it is in the object.
type Command func(context.Context, Options) (code int, err error)

// say writes a line of a command.
func say(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "amplifier-agent serve: "+format+"\n", args...)
}

// finish ends a command whose report is complete. errText points to its Error.
func (o Options) finish(report any, errText *string, code int, err error) (int, error) {
	if err != nil {
		code = exitFailure
	}
	if !o.JSON {
		return code, err
	}
	if err != nil {
		*errText = err.Error()
	}
	data, err := codec.Marshal(report)
	if err == nil {
		_, err = o.Stdout.Write(append(data, '\n'))
	}
	if err != nil {
		return exitFailure, fmt.Errorf("write report: %w", err)
	}
	return code, nil
}

// text is where a line for people goes: nowhere if there is an object for programs.
func (o Options) text(w io.Writer) io.Writer {
	if o.JSON {
		return io.Discard
	}
	return w
}

// pick finds the server that stop and restart are about, nil if there is none. Of those that have ended, as far as they are meant,
// it returns the list.
func (o Options) pick() (in *instance, ended []*instance, err error) {
	list, err := find(o.Home)
	if err != nil {
		return nil, nil, err
	}
	var running []*instance // or unknown
	for _, in := range list {
		switch {
		case !in.stale():
			running = append(running, in)
		case o.Port == 0 || o.Port == in.state.Port:
			ended = append(ended, in)
		}
	}
	in, err = choose(running, o.Port)
	return in, ended, err
}

// nothing ends a command that finds no server to work on, in its words.
func (o Options) nothing(errText *string, more string) (int, error) {
	*errText = "not running" + o.where() + more
	say(o.text(o.Stderr), "%s", *errText)
	return exitFailure, nil
}

// where repeats the choice of the user.
func (o Options) where() string {
	if o.Port == 0 {
		return ""
	}
	return fmt.Sprintf(" on port %d", o.Port)
}
