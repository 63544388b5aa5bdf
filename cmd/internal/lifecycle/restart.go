package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

const (
	readyPoll     = 200 * time.Millisecond
	readyPatience = 30 * time.Second
	defaultFace   = "chat-completions"
)

// RestartReport is what `serve restart --json` prints. A field without a value is left out.
type RestartReport struct {
	SchemaVersion int    `json:"schema_version"` // 1
	Restarted     bool   `json:"restarted"`
	OldPID        int    `json:"old_pid,omitempty"`
	PID           int    `json:"pid,omitempty"` // of the new server, also of one that did not get ready
	Port          int    `json:"port,omitempty"`
	URL           string `json:"url,omitempty"`
	Log           string `json:"log,omitempty"` // what a server that did not get ready has printed, its end
	Error         string `json:"error,omitempty"`
}

// Restart stops a server as Stop does without a timeout and starts it again as it was: executable, working directory, flags, and the
// variables AMPLIFIER_AGENT_* and Launch.Settings are those of the launch file, the key goes by environment, and everything else of the
// environment is Options.Environ's. The new server is on its own, in a session of its own. A server that has crashed is started again
// as well. What can be seen to fail is refused before the old server is stopped. If the new server does not come up, the old one's files
// are still there, for another restart.
//
// The process that calls it stays the new server's parent; a goroutine waits for the server's end, as long as both live.
func Restart(ctx context.Context, o Options) (int, error) {
	r := RestartReport{SchemaVersion: schemaVersion}
	code, err := o.restart(ctx, &r)
	return o.finish(&r, &r.Error, code, err)
}

func (o Options) restart(ctx context.Context, r *RestartReport) (code int, err error) {
	in, ended, err := o.pick()
	if err == nil && len(ended) > 0 && (in == nil || o.Port == 0 && ended[0].first) {
		in, err = choose(ended, o.Port) // the crashed one is meant
	}
	if err != nil {
		return exitFailure, err
	}
	if in == nil {
		return o.nothing(&r.Error, " — nothing to restart")
	}
	r.OldPID, r.Port = in.state.PID, in.state.Port
	c, err := in.command(o)
	if err != nil {
		return exitFailure, fmt.Errorf("restart: %w", err)
	}
	log, err := openLog(stateDir(o.Home))
	if err != nil {
		return exitFailure, fmt.Errorf("restart: %w", err)
	}
	defer func() { _ = log.file.Close() }()
	c.Stdout, c.Stderr = log.file, log.file

	patience := in.patience()
	how, err := in.end(ctx, false, patience)
	if err == nil {
		err = in.keep()
	}
	if err != nil {
		return exitFailure, fmt.Errorf("restart: %w", err)
	}
	if how == endedKilled && graceful {
		say(o.text(o.Stderr), "PID %d did not end within %s: killed", r.OldPID, patience)
	}
	if err := c.Start(); err != nil {
		return exitFailure, fmt.Errorf("restart: start %s: %w", c.Path, err)
	}
	r.PID = c.Process.Pid
	now, err := in.await(ctx, o.Home, c)
	if err != nil {
		if r.Log = log.tail(in.state.APIKey); r.Log != "" {
			fmt.Fprintln(o.text(o.Stderr), r.Log)
		}
		return exitFailure, fmt.Errorf("restart: the new server (PID %d, log %s) %w", r.PID, log.file.Name(), err)
	}
	r.Restarted, r.PID, r.URL = true, now.state.PID, now.state.url(basePath)
	say(o.text(o.Stdout), "restarted at %s  (new PID %d)", r.URL, r.PID)
	if err := in.clean(); err != nil { // if the new one's files have other names
		return exitFailure, fmt.Errorf("restart: %w", err)
	}
	return exitOK, nil
}

// command is how the server is started again. An error means that it could not be.
func (in *instance) command(o Options) (*exec.Cmd, error) {
	l, environ := in.launch, o.Environ
	if l == nil {
		// The state file alone: what it does not hold is that of this program and of the caller.
		l = &Launch{Bind: in.state.Host, Port: in.state.Port, Workspace: in.state.Workspace}
		l.Env = l.recorded(environ)
		if in.state.HostConfigPath != nil {
			l.Config = *in.state.HostConfigPath
		}
		var err error
		if l.Executable, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("own executable: %w", err)
		}
		if l.Cwd, err = os.Getwd(); err != nil {
			return nil, fmt.Errorf("working directory: %w", err)
		}
	}
	if _, err := exec.LookPath(l.Executable); err != nil {
		return nil, fmt.Errorf("the program that the server was started from is gone, so stop it and start another: %w", err)
	}
	if info, err := os.Stat(l.Cwd); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("the working directory %s of the server is gone, so stop it and start it in another", l.Cwd)
	}
	if names := l.lacking(environ); len(names) > 0 {
		return nil, fmt.Errorf("the server was started with %s, which a restart takes from its own environment: export it and try again", strings.Join(names, ", "))
	}
	c := exec.Command(l.Executable, l.args()...)
	c.Dir = l.Cwd
	c.Env = l.environ(environ, o.Home, in.state.APIKey)
	detach(c)
	return c, nil
}

// args are the server's, without the key: other users see them.
func (l *Launch) args() []string {
	face := l.Face
	if face == "" {
		face = defaultFace
	}
	args := []string{"serve", face, "--bind=" + l.Bind, "--port=" + strconv.Itoa(l.Port)}
	for _, flag := range []struct{ name, value string }{
		{"workspace", l.Workspace}, {"config", l.Config}, {"model-id", l.ModelID}, {"log-level", l.LogLevel}, {"record", l.Record},
	} {
		if flag.value != "" {
			args = append(args, "--"+flag.name+"="+flag.value)
		}
	}
	if l.Demo {
		args = append(args, "--demo")
	}
	return args
}

// environ is the caller's environment with the server's own variables in place of the caller's: one that the server was started
// without must not reach it now.
func (l *Launch) environ(caller []string, home, key string) []string {
	var env []string
	for _, entry := range caller {
		if name, _, _ := strings.Cut(entry, "="); !l.decides(name) {
			env = append(env, entry)
		}
	}
	for name, value := range l.Env {
		env = append(env, name+"="+value)
	}
	return append(env, envHome+"="+home, envKey+"="+key)
}

// await waits until a server is where the old one was. That is c's, or what c started if c is a wrapper.
func (in *instance) await(ctx context.Context, home string, c *exec.Cmd) (now *instance, err error) {
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	deadline := time.NewTimer(readyPatience)
	defer deadline.Stop()
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		select {
		case err := <-ended:
			if err == nil {
				err = errors.New("exit status 0")
			}
			return nil, fmt.Errorf("ended before it was ready, so see to that and restart again: %w", err)
		case <-ctx.Done():
			return nil, fmt.Errorf("was not waited for: %w", context.Cause(ctx))
		case <-deadline.C:
			return nil, fmt.Errorf("is not ready after %s and was left running", readyPatience)
		case <-poll.C:
		}
		list, err := find(home)
		if err != nil {
			return nil, fmt.Errorf("cannot be seen: %w", err)
		}
		for _, now := range list {
			kept := now.state.StartedAt == in.state.StartedAt // and its PID may be somebody's by now
			if now.state.Host == in.state.Host && now.state.Port == in.state.Port && !kept && now.err == nil && now.alive() {
				return now, nil
			}
		}
	}
}
