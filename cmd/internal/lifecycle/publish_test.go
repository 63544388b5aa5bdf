//go:build unix

package lifecycle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestModesAtAnyMoment: another user who looks at the right moment, with a umask that takes nothing away, sees nothing.
func TestModesAtAnyMoment(t *testing.T) {
	home := memory(t)
	dir := filepath.Join(home, "state")
	a := enter(t, home, "loop", nil)
	looks := map[string]int{}
	for !a.ended() {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode&^0o700 != 0 {
			t.Fatalf("the folder's mode is %#o", mode)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			info, err := os.Lstat(filepath.Join(dir, e.Name()))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if mode := info.Mode().Perm(); mode&^0o600 != 0 {
				t.Fatalf("%s has mode %#o", e.Name(), mode)
			}
			kind := e.Name()
			if strings.HasSuffix(kind, ".tmp") {
				kind = "temporary"
			}
			looks[kind]++
		}
	}
	if looks["serve.json"] == 0 || looks["launch.json"] == 0 || looks["temporary"] == 0 {
		t.Errorf("hardly anything was seen: %v", looks)
	}
	if code := a.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	gone(t, home)
}

// TestModesOfAncestors: what was there before is made as tight.
func TestModesOfAncestors(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"serve.json", "launch.json"} {
		path := put(t, home, name, stateOf(deadPID(t), 9099, time.Now()))
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(home, "state")
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	a := serve(t, home, "serve", nil)
	for path, want := range map[string]fs.FileMode{dir: 0o700, a.file: 0o600, filepath.Join(dir, "launch.json"): 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %#o, error %v", path, info.Mode().Perm(), err)
		}
	}
	if s := mustState(t, a.file); s.PID != a.pid || filepath.Base(a.file) != "serve.json" {
		t.Errorf("%s is %+v", a.file, s)
	}
}

// TestPublishFails: an error, and no file with a key in it.
func TestPublishFails(t *testing.T) {
	s := State{Host: "127.0.0.1", Port: 9099, APIKey: testKey}
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "state"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Publish(home, s, Launch{}); err == nil || !strings.HasPrefix(err.Error(), "publish server state: ") {
		t.Errorf("the folder is a file: error %v", err)
	}
	home = t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, "state", "serve.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Publish(home, s, Launch{}); err == nil {
		t.Error("serve.json is a folder: no error")
	}
	if _, err := os.Stat(filepath.Join(home, "state", "launch.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the launch file is left: %v", err)
	}
	home = t.TempDir()
	s.Port = 0
	if _, err := Publish(home, s, Launch{}); err == nil || !strings.Contains(err.Error(), "port 0") {
		t.Errorf("no port: error %v", err)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) > 0 {
		t.Errorf("%v, error %v", entries, err)
	}
}

// TestPublishElsewhere: a home that is not for writing is no reason to have no server.
func TestPublishElsewhere(t *testing.T) {
	for err, want := range map[error]bool{
		&fs.PathError{Op: "mkdir", Path: "/h", Err: syscall.EROFS}:  true,
		&fs.PathError{Op: "open", Path: "/h", Err: syscall.EACCES}:  true,
		&fs.PathError{Op: "write", Path: "/h", Err: syscall.ENOSPC}: false,
	} {
		if got := elsewhere("/h", err); !errors.Is(got, err) || strings.Contains(got.Error(), "/h cannot be written to: set AMPLIFIER_AGENT_HOME to ") != want {
			t.Errorf("%v", got)
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	// Where no one, root included, makes a folder.
	if _, err := Publish("/sys/amplifier-agent", State{Host: "127.0.0.1", Port: 9099}, Launch{}); err == nil || !strings.Contains(err.Error(), "set AMPLIFIER_AGENT_HOME to ") {
		t.Errorf("error %v", err)
	}
}

// TestLockHeld: by somebody who hangs.
func TestLockHeld(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	path := put(t, home, "serve.lock", "")
	unlock, err := lock(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	_, err = Publish(home, State{Host: "127.0.0.1", Port: 9099}, Launch{})
	if err == nil || !strings.Contains(err.Error(), "lock "+path+": another process has held it for 5s: end ") {
		t.Errorf("error %v", err)
	}
}

// TestSlots: the first server has serve.json, a second one that of its port, and who ends takes away no one else's.
func TestSlots(t *testing.T) {
	home := t.TempDir()
	a := serve(t, home, "serve", nil)
	b := serve(t, home, "serve", nil)
	if want := filepath.Join(home, "state", fmt.Sprintf("serve-%d.json", b.port)); a.file != filepath.Join(home, "state", "serve.json") || b.file != want {
		t.Errorf("published as %s and %s", a.file, b.file)
	}
	if s := mustState(t, a.file); s.PID != a.pid {
		t.Errorf("the first one's file is %+v", s)
	}
	end := func(a *actor) {
		if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-a.done
	}
	end(a)
	if _, err := os.Stat(a.file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the first one's file is left: %v", err)
	}
	if s := mustState(t, b.file); s.PID != b.pid {
		t.Errorf("the second one's file is %+v", s)
	}
	c := serve(t, home, "serve", nil) // serve.json is free again
	if c.file != a.file {
		t.Errorf("the third one published as %s", c.file)
	}
	end(b)
	end(c)
	gone(t, home)
}

// TestSamePort: two addresses can have one port; a third file there is none.
func TestSamePort(t *testing.T) {
	home := t.TempDir()
	a, b := serve(t, home, "idle", nil), serve(t, home, "idle", nil)
	put(t, home, "serve.json", stateOf(a.pid, 9099, time.Now()))
	second := put(t, home, "serve-9099.json", stateOf(b.pid, 9099, time.Now()))
	_, err := Publish(home, State{Host: "127.0.0.3", Port: 9099, APIKey: testKey}, Launch{})
	if err == nil || !strings.Contains(err.Error(), second) || !strings.Contains(err.Error(), envHome) {
		t.Errorf("error %v", err)
	}
}

// TestStartingAtOnce: however servers race, one has serve.json and each of the others its own file.
func TestStartingAtOnce(t *testing.T) {
	for range 5 {
		home := memory(t)
		var all []*actor
		for range 4 {
			all = append(all, enter(t, home, "gate", nil))
		}
		for _, a := range all {
			if _, err := a.stdin.WriteString("go\n"); err != nil {
				t.Fatal(err)
			}
			if err := a.stdin.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		var names []string
		for _, a := range all {
			a.ready(t)
			names = append(names, filepath.Base(a.file))
			if s := mustState(t, a.file); s.PID != a.pid || s.Port != a.port {
				t.Errorf("%s is %+v, and not that of PID %d", a.file, s, a.pid)
			}
		}
		slices.Sort(names)
		if len(slices.Compact(names)) != 4 || !slices.Contains(names, "serve.json") {
			t.Errorf("published as %q", names)
		}
		list, err := find(home)
		if err != nil || len(list) != 4 {
			t.Errorf("%d servers, error %v", len(list), err)
		}
		for _, in := range list {
			if !in.alive() || in.launch == nil {
				t.Errorf("%s: alive %v, launch %v", in.slot.state, in.alive(), in.launch)
			}
		}
	}
}

// TestRemove takes away only what is this process's, and does so once.
func TestRemove(t *testing.T) {
	home := t.TempDir()
	s := State{Host: "127.0.0.1", Port: 9099, APIKey: testKey}
	p, err := Publish(home, s, Launch{})
	if err != nil {
		t.Fatal(err)
	}
	other := stateOf(os.Getppid(), 9099, time.Now())
	path := put(t, home, "serve.json", other)
	if err := p.Remove(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != other {
		t.Errorf("another's file: %q, error %v", b, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	gone(t, home)

	if p, err = Publish(home, s, Launch{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Remove(); err != nil {
			t.Error(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(home, "state")); err != nil {
		t.Fatal(err)
	}
	if err := p.Remove(); err != nil {
		t.Error(err)
	}
}

// TestLeftovers: a temporary file that a killed writer left is removed, one that may be somebody's is not.
func TestLeftovers(t *testing.T) {
	home := t.TempDir()
	old := put(t, home, ".serve.json-1.tmp", testKey)
	fresh := put(t, home, ".serve.json-2.tmp", testKey)
	long := time.Now().Add(-2 * sweepAge)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	if _, err := Publish(home, State{Host: "127.0.0.1", Port: 9099}, Launch{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old one: %v", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("the fresh one: %v", err)
	}
}

// TestReusedPID: a process that came to a server's PID later is not that server.
func TestReusedPID(t *testing.T) {
	if inspect(os.Getpid()).id == "" {
		t.Skip("this system does not tell when a process started")
	}
	bystander := serve(t, t.TempDir(), "idle", nil)
	launch := fmt.Sprintf(`{"schema_version":1,"pid":%d,"process":"another:1"}`, bystander.pid)
	for _, row := range []struct {
		name, state, launch string
		reused              bool
	}{
		{"file is older than the process", stateOf(bystander.pid, 9099, time.Now().Add(-time.Hour)), "", true},
		{"file is younger", stateOf(bystander.pid, 9099, time.Now()), "", false},
		{"launch file is of another process", stateOf(bystander.pid, 9099, time.Now()), launch, true},
	} {
		home := t.TempDir()
		fill := func() {
			put(t, home, "serve.json", row.state)
			if row.launch != "" {
				put(t, home, "launch.json", row.launch)
			}
		}
		fill()
		p, err := Publish(home, State{Host: "127.0.0.1", Port: 9100}, Launch{})
		if err != nil {
			t.Fatal(err)
		}
		if got := filepath.Base(p.Path()) == "serve.json"; got != row.reused {
			t.Errorf("%s: published as %s", row.name, p.Path())
		}
		if err := p.Remove(); err != nil {
			t.Fatal(err)
		}
		if !row.reused {
			continue
		}
		says := fmt.Sprintf("amplifier-agent serve: stale state file (PID %d is another process now) — cleaned\n", bystander.pid)
		fill()
		command(t, Status, Options{Home: home}).check(t, 0, says, "")
		gone(t, home)
		fill()
		command(t, Stop, Options{Home: home, Force: true}).check(t, 0, "", says)
		gone(t, home)
	}
	if bystander.ended() {
		t.Error("the bystander was ended")
	}
}
