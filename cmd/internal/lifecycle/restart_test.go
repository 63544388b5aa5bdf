//go:build unix

package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// endRestarted ends, at the end of the test, what a restart started.
func endRestarted(t *testing.T, home string) {
	t.Cleanup(func() {
		list, err := find(home)
		if err != nil {
			t.Error(err)
		}
		for _, in := range list {
			if in.alive() && in.state.PID != os.Getpid() {
				if _, err := in.end(context.Background(), true, 0); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func restartOptions(home string) Options {
	return Options{Home: home, Environ: []string{
		"PATH=" + os.Getenv("PATH"), "CALLER=yes", promptExit,
		"AMPLIFIER_AGENT_CONFIG=/of/the/caller", "AMPLIFIER_AGENT_HTTP_API_KEY=of-the-caller", "AMPLIFIER_AGENT_HOME=of/the/caller",
		testSetting + "=of-the-caller", testUnset + "=of-the-caller",
	}}
}

func TestRestart(t *testing.T) {
	home := t.TempDir()
	endRestarted(t, home)
	o := restartOptions(home)
	command(t, Restart, o).check(t, 1, "", "amplifier-agent serve: not running — nothing to restart\n")

	config := filepath.Join(t.TempDir(), "c.json")
	a := serve(t, home, "serve", []string{"AMPLIFIER_AGENT_HTTP_STREAM_DEFAULT=json", "COLOUR=blue", testSetting + "=a=b"},
		"--workspace=tmp-work-space", "--model-id=-my label-", "--log-level=debug", "--config="+config, "--demo", "--record=/tapes")
	old := mustState(t, a.file)
	oldLaunch := readLaunch(filepath.Join(home, "state", "launch.json"), a.pid)
	got := command(t, Restart, o)
	<-a.done
	now := mustState(t, a.file)
	got.check(t, 0, fmt.Sprintf("amplifier-agent serve: restarted at http://127.0.0.1:%d/v1/  (new PID %d)\n", a.port, now.PID), "")
	launch := readLaunch(filepath.Join(home, "state", "launch.json"), now.PID)
	if launch == nil {
		t.Fatal("no launch file")
	}
	if now.PID == old.PID || launch.Process == oldLaunch.Process && launch.Process != "" {
		t.Errorf("the same process: %+v", now)
	}
	now.PID, now.StartedAt, launch.PID, launch.Process = old.PID, old.StartedAt, oldLaunch.PID, oldLaunch.Process
	if a, b := text(t, now), text(t, old); a != b {
		t.Errorf("state %s\n was %s", a, b)
	}
	if a, b := text(t, launch), text(t, oldLaunch); a != b {
		t.Errorf("launch %s\n was %s", a, b)
	}
	if launch.ModelID != "-my label-" || launch.LogLevel != "debug" || launch.Config != config || !launch.Demo || launch.Record != "/tapes" || launch.Face != "chat-completions" || launch.Env["AMPLIFIER_AGENT_HTTP_STREAM_DEFAULT"] != "json" || launch.Env[testSetting] != "a=b" {
		t.Errorf("launch %s", text(t, launch))
	}
	if strings.Contains(text(t, launch), testKey) {
		t.Errorf("the key is in the launch file: %s", text(t, launch))
	}
	info, err := os.Stat(filepath.Join(home, "state", "serve.log"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("serve.log: %v, error %v", info.Mode(), err)
	}

	pid := mustState(t, a.file).PID
	checkProcess(t, pid, a.cmd.Dir, home)
	command(t, Status, Options{Home: home}).check(t, 0, fmt.Sprintf("amplifier-agent serve: running at http://127.0.0.1:%d/v1/  (PID %d, workspace=tmp-work-space)\n", a.port, pid)+served, "")
	command(t, Stop, Options{Home: home}).check(t, 0, fmt.Sprintf("amplifier-agent serve: stopped (SIGTERM, PID %d)\n", pid), "")
	gone(t, home)
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// checkProcess looks at a restarted server from outside.
func checkProcess(t *testing.T, pid int, dir, home string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	proc := "/proc/" + strconv.Itoa(pid) + "/"
	args, err := os.ReadFile(proc + "cmdline")
	if err != nil || strings.Contains(string(args), testKey) {
		t.Errorf("arguments %q, error %v", args, err)
	}
	if cwd, err := os.Readlink(proc + "cwd"); err != nil || cwd != dir {
		t.Errorf("working directory %s, not %s, error %v", cwd, dir, err)
	}
	b, err := os.ReadFile(proc + "environ")
	if err != nil {
		t.Fatal(err)
	}
	env := strings.Split(string(b), "\x00")
	for _, want := range []string{"CALLER=yes", "AMPLIFIER_AGENT_HTTP_STREAM_DEFAULT=json", testSetting + "=a=b", envKey + "=" + testKey, envHome + "=" + home} {
		if !slices.Contains(env, want) {
			t.Errorf("environment %q lacks %s", env, want)
		}
	}
	for _, not := range []string{"COLOUR=", "AMPLIFIER_AGENT_CONFIG=", testUnset + "="} {
		if slices.ContainsFunc(env, func(s string) bool { return strings.HasPrefix(s, not) }) {
			t.Errorf("environment %q has %s", env, not)
		}
	}
	if stdin, err := os.Readlink(proc + "fd/0"); err != nil || stdin != "/dev/null" {
		t.Errorf("stdin is %s, error %v", stdin, err)
	}
	// A session of its own: field 6, counted from behind the name as in parseStat.
	stat, err := os.ReadFile(proc + "stat")
	if err != nil {
		t.Fatal(err)
	}
	if fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])); fields[3] != strconv.Itoa(pid) {
		t.Errorf("session %s of PID %d", fields[3], pid)
	}
}

func TestRestartOneOfSeveral(t *testing.T) {
	home := t.TempDir()
	endRestarted(t, home)
	a, b := serve(t, home, "serve", nil), serve(t, home, "serve", nil)
	o := restartOptions(home)
	o.Port = b.port
	got := command(t, Restart, o)
	now := mustState(t, b.file)
	got.check(t, 0, fmt.Sprintf("amplifier-agent serve: restarted at http://127.0.0.1:%d/v1/  (new PID %d)\n", b.port, now.PID), "")
	<-b.done
	if a.ended() || now.PID == b.pid {
		t.Errorf("the wrong one was restarted: %+v", now)
	}
}

// TestRestartCrashed: a server that has crashed is started again, also if a later one still runs.
func TestRestartCrashed(t *testing.T) {
	home := t.TempDir()
	endRestarted(t, home)
	a, b := serve(t, home, "serve", nil), serve(t, home, "serve", nil)
	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-a.done
	got := command(t, Restart, restartOptions(home))
	now := mustState(t, a.file)
	got.check(t, 0, fmt.Sprintf("amplifier-agent serve: restarted at http://127.0.0.1:%d/v1/  (new PID %d)\n", a.port, now.PID), "")
	if now.PID == a.pid || b.ended() {
		t.Errorf("%+v, the other one ended: %v", now, b.ended())
	}
}

// TestRestartKills what does not end by itself.
func TestRestartKills(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	endRestarted(t, home)
	a := serve(t, home, "ignore", nil)
	got := command(t, Restart, restartOptions(home))
	<-a.done
	got.check(t, 0, fmt.Sprintf("amplifier-agent serve: restarted at http://127.0.0.1:%d/v1/  (new PID %d)\n", a.port, mustState(t, a.file).PID),
		fmt.Sprintf("amplifier-agent serve: PID %d did not end within 5s: killed\n", a.pid))
	if s := a.cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", s)
	}
}

// TestAwaitKept: the old server's files are not the new server's, not even when somebody else has come to its PID.
func TestAwaitKept(t *testing.T) {
	home := t.TempDir()
	bystander := serve(t, home, "idle", nil)
	in, err := look(slot{state: put(t, home, "serve.json", stateOf(bystander.pid, 9099, time.Now()))})
	if err != nil || !in.alive() {
		t.Fatalf("error %v", err)
	}
	c := exec.Command(bystander.cmd.Path) // one that does not get ready
	c.Env = []string{envRole + "=idle"}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Process.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 5*readyPoll)
	defer cancel()
	if now, err := in.await(ctx, home, c); now != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%+v, error %v", now, err)
	}
}

// TestRestartMoves: a server that finds the better place free leaves nothing in its old one.
func TestRestartMoves(t *testing.T) {
	home := t.TempDir()
	endRestarted(t, home)
	a, b := serve(t, home, "serve", nil), serve(t, home, "serve", nil)
	command(t, Stop, Options{Home: home, Port: a.port}).check(t, 0, "…", "")
	command(t, Restart, restartOptions(home)).check(t, 0, "…", "")
	<-b.done
	list, err := find(home)
	if err != nil || len(list) != 1 || !list[0].first || list[0].state.Port != b.port || list[0].launch == nil {
		t.Errorf("%d servers, error %v", len(list), err)
	}
	if _, err := os.Stat(portSlot(stateDir(home), b.port).launch); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old launch file: %v", err)
	}
}

// TestRestartFails: a server that does not come up says why, on the terminal of who restarted it, and only what is new. It can be
// restarted again.
func TestRestartFails(t *testing.T) {
	for _, row := range []struct{ role, says, stderr string }{
		{"once", "exit status 2", "the key is ***\nno provider has credentials: export ACME_KEY\n"},
		{"silent", "exit status 0", ""},
	} {
		home := t.TempDir()
		endRestarted(t, home)
		log := put(t, home, "serve.log", "of an earlier one\n")
		if err := os.Chmod(log, 0o644); err != nil {
			t.Fatal(err)
		}
		mark := filepath.Join(t.TempDir(), "mark")
		a := serve(t, home, row.role, []string{envMark + "=" + mark})
		old, oldLaunch := mustState(t, a.file), readLaunch(defaultSlot(stateDir(home)).launch, a.pid)
		got := command(t, Restart, restartOptions(home))
		got.check(t, 1, "", row.stderr+"amplifier-agent: restart: the new server (PID …")
		if !strings.HasSuffix(got.stderr, ", log "+log+") ended before it was ready, so see to that and restart again: "+row.says+"\n") {
			t.Errorf("stderr %q", got.stderr)
		}
		<-a.done
		if s, l := mustState(t, a.file), readLaunch(defaultSlot(stateDir(home)).launch, a.pid); text(t, s) != text(t, old) || text(t, l) != text(t, oldLaunch) {
			t.Errorf("state %s\n was %s\nlaunch %s\n was %s", text(t, s), text(t, old), text(t, l), text(t, oldLaunch))
		}
		if info, err := os.Stat(log); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("serve.log: error %v", err)
		}

		o := restartOptions(home)
		o.JSON = true
		got = command(t, Restart, o)
		var r RestartReport
		if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != 1 || got.stderr != "" {
			t.Fatalf("exit code %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
		}
		if r.Restarted || r.OldPID != a.pid || r.PID == 0 || r.Port != a.port || r.URL != "" || r.Log != strings.TrimSuffix(row.stderr, "\n") || !strings.HasSuffix(r.Error, row.says) {
			t.Errorf("%+v", r)
		}

		if err := os.Remove(mark); err != nil {
			t.Fatal(err)
		}
		got = command(t, Restart, restartOptions(home))
		now := mustState(t, a.file)
		got.check(t, 0, fmt.Sprintf("amplifier-agent serve: restarted at http://127.0.0.1:%d/v1/  (new PID %d)\n", a.port, now.PID), "")
		if now.PID == a.pid || now.Workspace != old.Workspace {
			t.Errorf("%+v", now)
		}
		command(t, Stop, Options{Home: home}).check(t, 0, "…", "")
		gone(t, home)
	}
}

// TestRestartRefused: what cannot work is refused while the old server still runs.
func TestRestartRefused(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Launch)
		says   string
	}{
		{"executable", func(l *Launch) { l.Executable = "/no/such/program" }, "amplifier-agent: restart: the program that the server was started from is gone, …"},
		{"folder", func(l *Launch) { l.Cwd = "/no/such/folder" }, "amplifier-agent: restart: the working directory /no/such/folder of the server is gone, …"},
	} {
		home := t.TempDir()
		a := serve(t, home, "serve", nil)
		path := filepath.Join(home, "state", "launch.json")
		l := readLaunch(path, a.pid)
		row.change(l)
		if err := write(path, l); err != nil {
			t.Fatal(err)
		}
		command(t, Restart, restartOptions(home)).check(t, 1, "", row.says)
		if a.ended() {
			t.Errorf("%s: the server was stopped", row.name)
		}
	}
}

// TestRestartCredentials: those that the server had must be there before it is stopped. Their values are the caller's, and in no file.
func TestRestartCredentials(t *testing.T) {
	home := t.TempDir()
	endRestarted(t, home)
	const value = "not-to-be-written"
	a := serve(t, home, "serve", []string{testCredential + "=" + value})
	for _, name := range []string{"serve.json", "launch.json"} {
		if b, err := os.ReadFile(filepath.Join(home, "state", name)); err != nil || strings.Contains(string(b), value) {
			t.Errorf("%s: error %v, content %s", name, err, b)
		}
	}
	o := restartOptions(home)
	for _, more := range [][]string{nil, {testCredential + "="}} {
		refused := o
		refused.Environ = append(slices.Clone(o.Environ), more...)
		command(t, Restart, refused).check(t, 1, "", "amplifier-agent: restart: the server was started with TEST_CREDENTIAL, which …")
		if a.ended() {
			t.Fatal("the server was stopped")
		}
	}
	o.Environ = append(o.Environ, testCredential+"=another")
	command(t, Restart, o).check(t, 0, "…", "")
	<-a.done
	l := readLaunch(filepath.Join(home, "state", "launch.json"), mustState(t, a.file).PID)
	if l == nil || !slices.Equal(l.Credentials, []string{testCredential}) {
		t.Errorf("%+v", l)
	}
}

// TestRestartEarlierVersion: a launch file that knows neither settings nor credentials says nothing of them.
func TestRestartEarlierVersion(t *testing.T) {
	home := t.TempDir()
	endRestarted(t, home)
	a := serve(t, home, "serve", []string{testSetting + "=a", testCredential + "=b"})
	path := filepath.Join(home, "state", "launch.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var l map[string]any
	if err := json.Unmarshal(b, &l); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"settings", "credentials", "drain_seconds"} {
		if _, ok := l[name]; !ok {
			t.Errorf("the launch file has no %s: %s", name, b)
		}
		delete(l, name)
	}
	delete(l["env"].(map[string]any), testSetting)
	put(t, home, "launch.json", text(t, l))
	command(t, Restart, restartOptions(home)).check(t, 0, "…", "")
	<-a.done
	if l := readLaunch(path, mustState(t, a.file).PID); l == nil || l.Env[testSetting] != "of-the-caller" {
		t.Errorf("%+v", l)
	}
}

// TestRestartWithoutLaunchFile: the state file alone will do, with the caller's folder and variables.
func TestRestartWithoutLaunchFile(t *testing.T) {
	home := t.TempDir()
	endRestarted(t, home)
	a := serve(t, home, "serve", nil, "--workspace=w")
	if err := os.Remove(filepath.Join(home, "state", "launch.json")); err != nil {
		t.Fatal(err)
	}
	o := restartOptions(home)
	o.JSON = true
	o.Environ = append(o.Environ, envRole+"=serve")
	got := command(t, Restart, o)
	now := mustState(t, a.file)
	got.check(t, 0, fmt.Sprintf(`{"schema_version":1,"restarted":true,"old_pid":%d,"pid":%d,"port":%d,"url":"http://127.0.0.1:%d/v1/"}`+"\n", a.pid, now.PID, a.port, a.port), "")
	if now.Workspace != "w" || now.APIKey != testKey {
		t.Errorf("%+v", now)
	}
}

func TestLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	open := func() *serverLog {
		t.Helper()
		l, err := openLog(dir)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := open()
	if got := l.tail(testKey); got != "" {
		t.Errorf("tail %q of nothing", got)
	}
	for i := range 1000 {
		fmt.Fprintf(l.file, "line %d\n", i)
	}
	got := l.tail("")
	if lines := strings.Split(got, "\n"); !strings.HasPrefix(lines[0], "line ") || lines[len(lines)-1] != "line 999" || len(got) > maxTailBytes {
		t.Errorf("tail %q", got)
	}
	l.file.Close()
	l = open()
	fmt.Fprintf(l.file, "%s\n", strings.Repeat("x", maxLogBytes))
	l.file.Close()
	l = open()
	defer l.file.Close()
	info, err := l.file.Stat()
	if err != nil || info.Size() != 0 || info.Mode() != fs.FileMode(0o600) {
		t.Errorf("%d bytes, mode %v, error %v", info.Size(), info.Mode(), err)
	}
}
