//go:build unix

package lifecycle

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const served = "  models: 4 total\n  by provider:\n    acme: 2\n    unknown: 1\n    zeta: 1\n"

func running(a *actor) string {
	return fmt.Sprintf("amplifier-agent serve: running at http://127.0.0.1:%d/v1/  (PID %d, workspace=my-space)\n", a.port, a.pid) + served
}

func TestStatus(t *testing.T) {
	// A proxy of the environment must not be asked.
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	home := t.TempDir()
	o := Options{Home: home}
	command(t, Status, o).check(t, 0, "amplifier-agent serve: not running\n", "")
	if entries, err := os.ReadDir(home); err != nil || len(entries) > 0 {
		t.Errorf("asking left %v, error %v", entries, err)
	}

	pid := deadPID(t)
	put(t, home, "serve.json", stateOf(pid, 9099, time.Now()))
	put(t, home, "launch.json", fmt.Sprintf(`{"schema_version":1,"pid":%d}`, pid))
	command(t, Status, o).check(t, 0, fmt.Sprintf("amplifier-agent serve: stale state file (PID %d no longer exists) — cleaned\n", pid), "")
	gone(t, home)

	a := serve(t, home, "serve", nil, "--workspace=my-space", "--bind=0.0.0.0")
	command(t, Status, o).check(t, 0, running(a), "")
	b := serve(t, home, "serve", nil, "--workspace=my-space")
	command(t, Status, o).check(t, 0, running(a)+running(b), "")
	command(t, Status, Options{Home: home, Port: b.port}).check(t, 0, running(b), "")
	command(t, Status, Options{Home: home, Port: 1}).check(t, 0, "amplifier-agent serve: not running on port 1\n", "")

	bad := put(t, home, "serve-9999.json", "{")
	command(t, Status, o).check(t, 1, running(a)+running(b), "amplifier-agent: state file "+bad+" is corrupt…")
}

func TestStatusNotResponding(t *testing.T) {
	home := t.TempDir()
	mute := serve(t, home, "mute", nil)
	words := func(port int, why string) string {
		return fmt.Sprintf("amplifier-agent serve: running (PID %d) — but http://127.0.0.1:%d/v1/models not responding: %s\n", mute.pid, port, why)
	}
	command(t, Status, Options{Home: home}).check(t, 1, words(mute.port, "no answer within 2s"), "")

	// The process is there, and another server at its address.
	other := serve(t, t.TempDir(), "serve", nil)
	put(t, home, "serve.json", strings.Replace(stateOf(mute.pid, other.port, time.Now()), testKey, "wrong", 1))
	command(t, Status, Options{Home: home}).check(t, 1, words(other.port, "status 401"), "")

	put(t, home, "serve.json", stateOf(mute.pid, 1, time.Now()))
	command(t, Status, Options{Home: home}).check(t, 1, words(1, "…")[:strings.Index(words(1, "…"), "…")]+"…", "")
}

func TestStatusJSON(t *testing.T) {
	home := t.TempDir()
	ask := func(code int) (r StatusReport) {
		t.Helper()
		got := command(t, Status, Options{Home: home, JSON: true})
		if got.code != code || got.stderr != "" || strings.Count(got.stdout, "\n") != 1 {
			t.Errorf("exit code %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
		}
		if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
			t.Errorf("%q: %v", got.stdout, err)
		}
		return r
	}
	command(t, Status, Options{Home: home, JSON: true}).check(t, 0, `{"schema_version":1,"running":false,"servers":[]}`+"\n", "")
	a := serve(t, home, "serve", nil, "--workspace=my-space", "--config=/etc/c.json")
	pid := deadPID(t)
	put(t, home, "serve-9100.json", stateOf(pid, 9100, time.Now()))
	bad := put(t, home, "serve-9101.json", "{")
	r := ask(1)
	if !r.Running || len(r.Servers) != 3 || !strings.Contains(r.Error, bad) {
		t.Fatalf("%+v", r)
	}
	s := r.Servers[0]
	if s.Status != "running" || s.File != a.file || s.PID != a.pid || s.Port != a.port || s.Host != "127.0.0.1" || s.URL != fmt.Sprintf("http://127.0.0.1:%d/v1/", a.port) ||
		s.Workspace != "my-space" || s.StartedAt != mustState(t, a.file).StartedAt || *s.HostConfigPath != "/etc/c.json" || s.Models.Total != 4 || s.Models.ByProvider["acme"] != 2 {
		t.Errorf("%+v", s)
	}
	if s := r.Servers[1]; s.Status != "stale" || s.PID != pid || s.Models != nil {
		t.Errorf("%+v", s)
	}
	if s := r.Servers[2]; s.Status != "invalid" || s.File != bad || s.Error == "" {
		t.Errorf("%+v", s)
	}
	if err := os.Remove(bad); err != nil {
		t.Fatal(err)
	}
	if r := ask(0); len(r.Servers) != 1 || r.Error != "" {
		t.Errorf("%+v", r)
	}
	put(t, home, filepath.Base(a.file), stateOf(a.pid, 1, time.Now()))
	if r := ask(1); !r.Running || r.Servers[0].Status != "not_responding" || r.Servers[0].Error == "" {
		t.Errorf("%+v", r)
	}
}
