//go:build unix

package lifecycle

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestStop(t *testing.T) {
	home := t.TempDir()
	o := Options{Home: home}
	none := "amplifier-agent serve: not running\n"
	command(t, Stop, o).check(t, 1, "", none)

	pid := deadPID(t)
	put(t, home, "serve.json", stateOf(pid, 9099, time.Now()))
	command(t, Stop, o).check(t, 0, "", fmt.Sprintf("amplifier-agent serve: stale state file (PID %d no longer exists) — cleaned\n", pid))
	command(t, Stop, o).check(t, 1, "", none)

	for _, row := range []struct {
		role, signal string
		force        bool
		status       syscall.WaitStatus
	}{
		{"serve", "SIGTERM", false, 0},
		{"keep", "SIGTERM", false, 0}, // the files are removed for it
		{"serve", "SIGKILL", true, syscall.WaitStatus(syscall.SIGKILL)},
	} {
		a := serve(t, home, row.role, nil)
		command(t, Stop, Options{Home: home, Force: row.force}).check(t, 0, fmt.Sprintf("amplifier-agent serve: stopped (%s, PID %d)\n", row.signal, a.pid), "")
		<-a.done
		if got := a.cmd.ProcessState.Sys().(syscall.WaitStatus); got != row.status {
			t.Errorf("%+v: it ended with %v", row, got)
		}
		gone(t, home)
	}

	a := serve(t, home, "ignore", nil)
	command(t, Stop, Options{Home: home, Timeout: new(250 * time.Millisecond)}).check(t, 0, "",
		fmt.Sprintf("amplifier-agent serve: stopped (SIGTERM timed out after 250ms, escalated to SIGKILL, PID %d)\n", a.pid))
	<-a.done
	gone(t, home)
}

// TestPatience: a server has the time that its answers have, whoever stops it.
func TestPatience(t *testing.T) {
	for _, row := range []struct {
		launch *Launch
		want   time.Duration
	}{
		{nil, 5 * time.Second},
		{&Launch{}, 5 * time.Second}, // of an earlier version
		{&Launch{DrainSeconds: 3}, 5 * time.Second},
		{&Launch{DrainSeconds: 3.5}, 5500 * time.Millisecond},
		{&Launch{DrainSeconds: 3600}, 3602 * time.Second},
	} {
		if got := (&instance{launch: row.launch}).patience(); got != row.want {
			t.Errorf("%+v: %s, want %s", row.launch, got, row.want)
		}
	}
	for _, row := range []struct {
		name    string
		command Command
	}{{"stop", Stop}, {"restart", Restart}} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			endRestarted(t, home)
			a := serve(t, home, "linger", nil)
			if got := run(t, row.command, restartOptions(home)); got.code != 0 || got.stderr != "" {
				t.Errorf("exit code %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
			}
			<-a.done
			if got := a.cmd.ProcessState; !got.Success() {
				t.Errorf("it ended with %v", got)
			}
		})
	}
}

func TestStopOneOfSeveral(t *testing.T) {
	home := t.TempDir()
	a, b, c := serve(t, home, "serve", nil), serve(t, home, "serve", nil), serve(t, home, "serve", nil)
	stopped := func(a *actor) string { return fmt.Sprintf("amplifier-agent serve: stopped (SIGTERM, PID %d)\n", a.pid) }
	command(t, Stop, Options{Home: home, Port: 1}).check(t, 1, "", "amplifier-agent serve: not running on port 1\n")
	command(t, Stop, Options{Home: home}).check(t, 0, stopped(a), "")
	low, high := min(b.port, c.port), max(b.port, c.port)
	command(t, Stop, Options{Home: home}).check(t, 1, "", fmt.Sprintf("amplifier-agent: several servers run: choose one with --port: %d, %d\n", low, high))
	command(t, Stop, Options{Home: home, Port: b.port}).check(t, 0, stopped(b), "")
	if c.ended() {
		t.Error("the wrong one was stopped")
	}
	command(t, Stop, Options{Home: home}).check(t, 0, stopped(c), "")
	gone(t, home)
}

func TestStopJSON(t *testing.T) {
	home := t.TempDir()
	o := Options{Home: home, JSON: true}
	command(t, Stop, o).check(t, 1, `{"schema_version":1,"stopped":false,"error":"not running"}`+"\n", "")
	a := serve(t, home, "serve", nil)
	pid := deadPID(t)
	put(t, home, "serve-9100.json", stateOf(pid, 9100, time.Now()))
	command(t, Stop, o).check(t, 0, fmt.Sprintf(`{"schema_version":1,"stopped":true,"pid":%d,"port":%d,"signal":"SIGTERM","cleaned":[%d]}`+"\n", a.pid, a.port, pid), "")
	put(t, home, "serve.json", "{")
	got := command(t, Stop, o)
	got.check(t, 1, `{"schema_version":1,"stopped":false,"error":"state file …`, "")
}

// TestStopInterrupted: who does not want to wait any longer gets out, and nothing is killed behind their back.
func TestStopInterrupted(t *testing.T) {
	home := t.TempDir()
	a := serve(t, home, "ignore", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, err := Stop(ctx, Options{Home: home, Timeout: new(testPatience), Stdout: os.Stdout, Stderr: os.Stderr})
	if code != 1 || err == nil || a.ended() {
		t.Errorf("exit code %d, error %v, ended %v", code, err, a.ended())
	}
	mustState(t, a.file)
}
