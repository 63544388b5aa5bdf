//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"amplifier-agent/pipeline/config"
)

// after runs a command of serve that must end with code, and returns what it printed to stdout and stderr.
func (w *world) after(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	got, stdout, stderr := w.command(t, nil, append([]string{"serve"}, args...)...)
	if got != code {
		t.Errorf("serve %s: exit code %d, want %d, stdout %q, stderr %q", strings.Join(args, " "), got, code, stdout, stderr)
	}
	if strings.Contains(stdout+stderr, contractKey) {
		t.Errorf("serve %s prints the key: stdout %q, stderr %q", strings.Join(args, " "), stdout, stderr)
	}
	return stdout, stderr
}

// object runs a command of serve with --json: it prints one object on one line, and nothing else.
func (w *world) object(t *testing.T, code int, args ...string) (m map[string]any) {
	t.Helper()
	stdout, stderr := w.after(t, code, append(args, "--json")...)
	if err := json.Unmarshal([]byte(stdout), &m); err != nil || strings.Count(stdout, "\n") != 1 || !strings.HasSuffix(stdout, "\n") || stderr != "" {
		t.Errorf("serve %s --json: error %v, stdout %q, stderr %q", strings.Join(args, " "), err, stdout, stderr)
	}
	return m
}

// ended ends servers of the world that were started by others, such as restart, once the test is over.
func (w *world) ended(t *testing.T) {
	t.Cleanup(func() {
		for range 10 {
			if code, _, _ := w.command(t, nil, "serve", "stop", "--force"); code != 0 {
				return
			}
		}
	})
}

func (w *world) launchFile() string { return filepath.Join(filepath.Dir(w.stateFile()), "launch.json") }

func (w *world) port() string { return w.address()[strings.LastIndexByte(w.address(), ':')+1:] }

// TestContractStatus: nobody, a server, one that does not answer, one that has died, and files that say nothing.
func TestContractStatus(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{})
	if stdout, stderr := w.after(t, 0, "status"); stdout != "amplifier-agent serve: not running\n" || stderr != "" {
		t.Errorf("nobody: stdout %q, stderr %q", stdout, stderr)
	}
	if m := w.object(t, 0, "status"); m["running"] != false {
		t.Errorf("nobody: %v", m)
	}
	if entries, err := os.ReadDir(w.home); err != nil || len(entries) > 0 {
		t.Errorf("asking left %v, error %v", entries, err)
	}

	v := w.serve(t, nil, "--port", "0") // and the workspace of the working directory
	pid, slug := v.cmd.Process.Pid, config.Workspace(w.cwd)
	models := len(listed[struct{}](t, v, "/v1/models"))
	want := fmt.Sprintf("amplifier-agent serve: running at %s/  (PID %d, workspace=%s)\n  models: %d total\n  by provider:\n    commandcode: %d\n", v.url, pid, slug, models, models)
	if stdout, stderr := w.after(t, 0, "status"); stdout != want || stderr != "" {
		t.Errorf("got %q, want %q, stderr %q", stdout, want, stderr)
	}
	m := w.object(t, 0, "status")
	list, _ := m["servers"].([]any)
	if m["running"] != true || len(list) != 1 {
		t.Fatalf("got %v", m)
	}
	one := list[0].(map[string]any)
	if one["status"] != "running" || one["pid"] != float64(pid) || one["workspace"] != slug || one["url"] != v.url+"/" || asJSON(t, one["models"]) != fmt.Sprintf(`{"by_provider":{"commandcode":%d},"total":%d}`, models, models) {
		t.Errorf("got %v", one)
	}

	signalled := func(sig syscall.Signal) {
		if err := v.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	signalled(syscall.SIGSTOP) // alive, and says nothing
	stdout, _ := w.after(t, 1, "status")
	wantAll(t, stdout, fmt.Sprintf("running (PID %d)", pid), "not responding", "2s")
	if m := w.object(t, 1, "status"); m["running"] != true {
		t.Errorf("got %v", m)
	}
	signalled(syscall.SIGCONT)
	w.after(t, 0, "status")

	v.stop(t, syscall.SIGKILL)
	stdout, _ = w.after(t, 0, "status")
	wantAll(t, stdout, "stale state file", fmt.Sprint("PID ", pid), "cleaned")
	w.wantStates(t)
	if stdout, _ := w.after(t, 0, "status"); stdout != "amplifier-agent serve: not running\n" {
		t.Errorf("got %q", stdout)
	}

	for _, text := range []string{"{", "[]", `{"pid":0,"port":1,"schema_version":1,"started_at":"2026-01-02T03:04:05Z"}`, `{"pid":1,"port":1,"schema_version":2,"started_at":"2026-01-02T03:04:05Z"}`} {
		w.write(t, "~/.amplifier-agent/state/serve.json", text)
		for _, command := range []string{"status", "stop", "restart"} {
			_, stderr := w.after(t, 1, command)
			wantAll(t, stderr, w.stateFile())
			wantAll(t, fmt.Sprint(w.object(t, 1, command)), w.stateFile())
		}
		if b, err := os.ReadFile(w.stateFile()); err != nil || string(b) != text {
			t.Errorf("what nobody understands was changed to %q, error %v", b, err)
		}
	}
}

// TestContractStatusOfSeveral: status tells of each server of a home, stop and restart of the first, or of the one on --port.
func TestContractStatusOfSeveral(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{})
	one, two := w.serve(t, nil, "--port", "0"), w.serve(t, nil, "--port", "0")
	stdout, _ := w.after(t, 0, "status")
	wantAll(t, stdout, one.url, two.url)
	stdout, _ = w.after(t, 0, "status", "--port", two.port())
	if strings.Contains(stdout, one.url) || !strings.Contains(stdout, two.url) {
		t.Errorf("got %q", stdout)
	}
	w.after(t, 0, "stop", "--port", two.port())
	if code := two.wait(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, two.stderr.String())
	}
	w.wantStates(t, "launch.json", "serve.json")
	if a := one.chat(t, say("Reply with exactly: fine")); a.Content != "fine" {
		t.Errorf("got %+v", a)
	}
	w.after(t, 0, "stop")
	one.wait()
	w.after(t, 1, "stop")
}

// wait waits for a server that others end.
func (s *server) wait() int {
	<-s.read
	return exitCode(s.cmd.Wait())
}

// TestContractStop: SIGTERM, with which the server ends well; SIGKILL after the timeout if it does not end, and at once with --force;
// 1 if there is none, 0 if there was a stale file. No file is left.
func TestContractStop(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{})
	if _, stderr := w.after(t, 1, "stop"); stderr != "amplifier-agent serve: not running\n" {
		t.Errorf("stderr %q", stderr)
	}
	for _, row := range []struct {
		args    []string
		stopped bool // it does not listen to signals
		code    int
		says    string
	}{
		{nil, false, 0, "stopped (SIGTERM, PID "},
		{[]string{"--force"}, false, -1, "stopped (SIGKILL, PID "},
		{[]string{"--timeout", "0.3"}, true, -1, "escalated to SIGKILL"},
		{[]string{"--timeout", "30"}, false, 0, "stopped (SIGTERM, PID "},
	} {
		for _, asJSON := range []bool{false, true} {
			v := w.serve(t, nil, "--port", "0")
			if row.stopped {
				if err := v.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			args := append([]string{"stop"}, row.args...)
			if asJSON {
				signal := map[int]string{0: "SIGTERM", -1: "SIGKILL"}[row.code]
				if m := w.object(t, 0, args...); m["stopped"] != true || m["pid"] != float64(v.cmd.Process.Pid) || m["signal"] != signal || fmt.Sprint(m["port"]) != v.port() {
					t.Errorf("%v: got %v", row.args, m)
				}
			} else {
				stdout, stderr := w.after(t, 0, args...)
				wantAll(t, stdout+stderr, row.says, fmt.Sprint("PID ", v.cmd.Process.Pid))
			}
			if code := v.wait(); code != row.code {
				t.Errorf("%v: the server ended with %d:\n%s", row.args, code, v.stderr.String())
			}
			w.wantStates(t)
		}
	}
	v := w.serve(t, nil, "--port", "0")
	v.stop(t, syscall.SIGKILL)
	if _, stderr := w.after(t, 0, "stop"); !strings.Contains(stderr, "stale state file") {
		t.Errorf("stderr %q", stderr)
	}
	w.wantStates(t)
	if m := w.object(t, 1, "stop"); m["stopped"] != false || m["error"] != "not running" {
		t.Errorf("got %v", m)
	}
}

// TestContractStopLetsAnswersEnd: what stop does is a shutdown as any: an answer that takes too long gets an error and its end, and
// is not cut by the kill that stop has in reserve: the server's file says how long answers may take.
func TestContractStopLetsAnswersEnd(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{config: `{"limits":{"drainSeconds":1}}`})
	resp := w.stalled(t)
	if drain := readJSON(t, w.launchFile())["drain_seconds"]; drain != 1.0 {
		t.Errorf("the launch file says that answers may take %v s", drain)
	}
	w.after(t, 0, "stop", "--timeout", "60")
	b, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(b), "[amplifier-agent error: ") || !strings.HasSuffix(string(b), "data: [DONE]\n\n") {
		t.Errorf("error %v, answer %s", err, b)
	}
	if code := w.wait(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, w.stderr.String())
	}
}

// TestContractRestart: in the default setup, where all but the port comes from defaults and the working directory, and with everything
// set, a restarted server is in the same place and the same server: address, key, label, log level, workspace, config, simulator,
// working directory. The key is on no command line. Restart works again and again, from anywhere.
func TestContractRestart(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		args         []string
		env          []string
		label, space string // "" for that of the working directory
		config       bool
		level        string
	}{
		"default":   {nil, nil, "amplifier", "", false, "info"},
		"flags":     {[]string{"--api-key", contractKey, "--model-id", "-a label-", "--workspace", "mine", "--config", "deep/host.json", "--log-level", "error", "--bind", "localhost"}, []string{envPrefix + "API_KEY="}, "-a label-", "mine", true, "error"},
		"variables": {nil, []string{envPrefix + "MODEL_ID=by variable", envPrefix + "WORKSPACE=theirs", envPrefix + "CONFIG_PATH=deep/host.json", envPrefix + "LOG_LEVEL=warning"}, "by variable", "theirs", true, "warning"},
		"demo":      {[]string{"--demo"}, []string{"COMMANDCODE_API_KEY="}, "amplifier", "", false, "info"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := prepare(t, scene{files: map[string]string{"deep/host.json": `{"system":{"prompt":"Deep down."}}`, ".amplifier/modes/zen.md": zenMode}})
			w.ended(t)
			v := w.serve(t, row.env, append([]string{"--port", freePort(t)}, row.args...)...)
			before := w.state(t)
			launch := readJSON(t, w.launchFile())
			elsewhere := []string{testDir + t.TempDir(), envPrefix + "MODEL_ID=of the caller", envPrefix + "WORKSPACE=of-the-caller", envPrefix + "API_KEY=of-the-caller", "AMPLIFIER_AGENT_CONFIG=/of/the/caller", envPrefix + "STREAM_DEFAULT=json"}
			for i := range 2 {
				code, stdout, stderr := w.command(t, elsewhere, "serve", "restart")
				if i == 0 {
					if code := v.wait(); code != 0 {
						t.Errorf("the old server ended with %d:\n%s", code, v.stderr.String())
					}
				}
				if code != 0 {
					t.Fatalf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
				}
				now := w.state(t)
				wantAll(t, stdout, fmt.Sprintf("restarted at http://%s:%v/v1/  (new PID %v)", before["host"], before["port"], now["pid"]))
				if now["pid"] == before["pid"] || strings.Contains(stdout+stderr, contractKey) {
					t.Errorf("stdout %q, stderr %q, state %v", stdout, stderr, now)
				}
				for _, key := range []string{"host", "port", "api_key", "workspace", "host_config_path", "providers_summary", "schema_version"} {
					if asJSON(t, now[key]) != asJSON(t, before[key]) {
						t.Errorf("%s is %v, was %v", key, now[key], before[key])
					}
				}
				again := readJSON(t, w.launchFile())
				if again["log_level"] != row.level || launch["log_level"] != row.level {
					t.Errorf("log levels %v and %v, want %s", launch["log_level"], again["log_level"], row.level)
				}
				w.wantStates(t, "launch.json", "serve.json")
				if row.space != "" && now["workspace"] != row.space || row.space == "" && now["workspace"] != config.Workspace(w.cwd) {
					t.Errorf("workspace %v", now["workspace"])
				}
				resp, b := v.request(t, http.MethodPost, "/v1/chat/completions", body(message("system", directive("zen"))+","+message("user", "Reply with exactly: fine")))
				if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
					t.Errorf("the caller's variables count: %v", resp.Header)
				}
				// The mode is one of the working directory.
				wantAll(t, b, `"model":"`+row.label+`"`, "fine", `"activeMode":"zen"`)
				if name != "demo" {
					if r := w.last(t); strings.Contains(r.System, "Deep down.") != row.config {
						t.Errorf("system prompt %q", r.System)
					}
				}
				w.checkRestarted(t, int(now["pid"].(float64)))
			}
			if m := w.object(t, 0, "restart"); m["restarted"] != true || m["pid"] != w.state(t)["pid"] {
				t.Errorf("got %v", m)
			}
			w.after(t, 0, "status")
			w.after(t, 0, "stop")
			w.wantStates(t)
		})
	}
}

// checkRestarted looks at a process from outside.
func (w *world) checkRestarted(t *testing.T, pid int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || strings.Contains(string(line), contractKey) || !strings.Contains(string(line), "chat-completions") {
		t.Errorf("command line %q, error %v", line, err)
	}
	want, err := filepath.EvalSymlinks(w.cwd)
	if err != nil {
		t.Fatal(err)
	}
	if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || dir != want {
		t.Errorf("working directory %s, error %v, want %s", dir, err, want)
	}
}

// TestContractRestartNobody: there is nothing to restart; a server that has crashed is started again, with its stale file.
func TestContractRestartNobody(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{})
	w.ended(t)
	if _, stderr := w.after(t, 1, "restart"); !strings.Contains(stderr, "not running — nothing to restart") {
		t.Errorf("stderr %q", stderr)
	}
	if m := w.object(t, 1, "restart"); m["restarted"] != false {
		t.Errorf("got %v", m)
	}
	v := w.serve(t, nil, "--port", freePort(t))
	v.stop(t, syscall.SIGKILL)
	w.after(t, 0, "restart")
	if a := v.chat(t, say("Reply with exactly: fine")); a.Content != "fine" {
		t.Errorf("got %+v", a)
	}
}

// TestContractRestartEnvironment: what a server was set up with by its environment is as it was, not as the caller's is: gateway, zero
// data retention, and where modes and skills are found. Its gateway's key is in no file: the caller must have one.
func TestContractRestartEnvironment(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{files: map[string]string{"~/.amplifier/modes/zen.md": zenMode}})
	w.ended(t)
	state := filepath.Join(w.home, ".amplifier-agent")
	v := w.serve(t, []string{"CMD_ZDR=1"}, "--port", freePort(t))
	caller := []string{"AMPLIFIER_AGENT_HOME=" + state, "HOME=" + t.TempDir(), "COMMANDCODE_BASE_URL=http://127.0.0.1:9/", "CMD_ZDR=0",
		"COMMANDCODE_SURFACE=of-the-caller", "AMPLIFIER_SKILLS_DIR=" + t.TempDir()}

	_, _, stderr := w.command(t, append(slices.Clone(caller), "COMMANDCODE_API_KEY="), "serve", "restart")
	wantAll(t, stderr, "restart: ", "COMMANDCODE_API_KEY", "export it")
	w.after(t, 0, "status") // it still runs

	code, stdout, stderr := w.command(t, append(slices.Clone(caller), "COMMANDCODE_API_KEY=another-key"), "serve", "restart")
	if code != 0 {
		t.Fatalf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	v.wait()
	_, b := v.request(t, http.MethodPost, "/v1/chat/completions", body(message("system", directive("zen"))+","+message("user", "Reply with exactly: fine")))
	wantAll(t, b, "fine", `"activeMode":"zen"`)
	if r := w.last(t); r.Header.Get("X-Cmd-Zdr") != "1" || r.Header.Get("Authorization") != "Bearer another-key" {
		t.Errorf("the gateway got %v", r.Header)
	}
	launch, err := os.ReadFile(w.launchFile())
	if err != nil || strings.Contains(string(launch), "another-key") || strings.Contains(string(launch), "of-the-caller") {
		t.Errorf("error %v, launch file %s", err, launch)
	}
}

// TestContractRestartFails: a server that does not come up again is told of, with what it said, without the key, and with 1. Once the
// cause is gone it is started by another restart.
func TestContractRestartFails(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{config: "{}"})
	w.ended(t)
	v := w.serve(t, nil, "--port", freePort(t))
	before := w.state(t)
	w.write(t, "host.json", `{"provder":{}}`)
	_, stderr := w.after(t, 1, "restart")
	v.wait()
	wantAll(t, stderr, "config_unknown_key", filepath.Join(w.cwd, "host.json"))
	w.write(t, "host.json", "{}")
	w.after(t, 0, "restart")
	now := w.state(t)
	if now["pid"] == before["pid"] || now["port"] != before["port"] || now["api_key"] != before["api_key"] {
		t.Errorf("state %v, was %v", now, before)
	}
	w.wantStates(t, "launch.json", "serve.json")
}
