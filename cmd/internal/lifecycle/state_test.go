//go:build unix

package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestStateFile: the keys are the contract's, no more and no fewer, and what was written is read.
func TestStateFile(t *testing.T) {
	home := t.TempDir()
	config := "/etc/<agent>/host & config.json"
	for _, row := range []struct {
		config *string
		models map[string]int
		want   string // of the two fields
	}{
		{&config, map[string]int{"b": 2, "a": 14}, `"host_config_path": "/etc/<agent>/host & config.json",` + "\n" + `  "providers_summary": {` + "\n" + `    "a": 14,` + "\n" + `    "b": 2` + "\n  },"},
		{nil, nil, `"host_config_path": null,` + "\n" + `  "providers_summary": {},`},
	} {
		before := time.Now()
		p, err := Publish(home, State{Host: "::1", Port: 9099, APIKey: `k"ü`, Workspace: "my-project", HostConfigPath: row.config, ProvidersSummary: row.models}, Launch{Face: "chat-completions"})
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(home, "state", "serve.json"))
		if err != nil {
			t.Fatal(err)
		}
		var keys map[string]any
		if err := json.Unmarshal(b, &keys); err != nil {
			t.Fatal(err)
		}
		want := []string{"api_key", "host", "host_config_path", "pid", "port", "providers_summary", "schema_version", "started_at", "workspace"}
		if got := slices.Sorted(maps.Keys(keys)); !slices.Equal(got, want) {
			t.Errorf("keys %q", got)
		}
		if !strings.Contains(string(b), row.want) || !strings.HasPrefix(string(b), "{\n  \"pid\": ") || keys["schema_version"] != 1.0 || keys["pid"] != float64(os.Getpid()) {
			t.Errorf("%s", b)
		}
		started, err := time.Parse("2006-01-02T15:04:05.000000Z", keys["started_at"].(string))
		if err != nil || started.Before(before.Truncate(time.Microsecond)) || started.After(time.Now()) {
			t.Errorf("started_at %v, error %v", keys["started_at"], err)
		}
		s := mustState(t, p.Path())
		if s.APIKey != `k"ü` || s.Host != "::1" || s.Port != 9099 || s.Workspace != "my-project" {
			t.Errorf("read %+v", s)
		}
		if err := p.Remove(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInvalidState(t *testing.T) {
	bystander := serve(t, t.TempDir(), "idle", nil) // whatever is misread, this is what is hit
	good := stateOf(bystander.pid, 9099, time.Now())
	pid := fmt.Sprintf(`"pid":%d`, bystander.pid)
	swap := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for _, row := range []struct{ name, content, says string }{
		{"empty", "", "corrupt"},
		{"cut", good[:40], "corrupt"},
		{"not an object", "[]", "corrupt"},
		{"more behind it", good + "x", "corrupt"},
		{"pid is text", swap(pid, `"pid":"1"`), "corrupt"},
		{"pid of everybody", swap(pid, `"pid":-1`), "pid -1"},
		{"pid of our group", swap(pid, `"pid":0`), "pid 0"},
		{"port", swap(`9099`, `90990`), "port 90990"},
		{"time", swap(`"started_at":"`, `"started_at":"x`), "started_at"},
		{"other schema", swap(`"schema_version":1`, `"schema_version":2`), "schema_version 2"},
		{"no schema", swap(`,"schema_version":1`, ``), "schema_version 0"},
		{"too large", good + strings.Repeat(" ", maxFileBytes), "corrupt"},
	} {
		t.Run(row.name, func(t *testing.T) {
			home := t.TempDir()
			path := put(t, home, "serve.json", row.content)
			_, err := readState(path)
			if _, ok := errors.AsType[*invalidError](err); !ok || !strings.Contains(err.Error(), row.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v", err)
			}
			for _, c := range []Command{Status, Stop, Restart} {
				command(t, c, Options{Home: home}).check(t, 1, "", "amplifier-agent: state file "+path+" …")
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != row.content {
				t.Errorf("the file was touched: %q, error %v", b, err)
			}
			p, err := Publish(home, State{Host: "127.0.0.1", Port: 9100}, Launch{})
			if err != nil {
				t.Fatal(err)
			}
			if p.Path() != path && row.name != "other schema" && row.name != "no schema" { // those are the bystander's, who lives
				t.Errorf("published as %s", p.Path())
			}
			if err := p.Remove(); err != nil {
				t.Error(err)
			}
		})
	}
	if bystander.ended() {
		t.Error("the bystander was ended")
	}
	if _, err := readState(filepath.Join(t.TempDir(), "serve.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// TestLaunchFile: it fits its state file or there is none.
func TestLaunchFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "launch.json")
	for _, row := range []struct {
		content string
		found   bool
	}{
		{`{"schema_version":1,"pid":7,"face":"chat-completions"}`, true},
		{`{"schema_version":1,"pid":8}`, false},
		{`{"schema_version":2,"pid":7}`, false},
		{`{`, false},
	} {
		if err := os.WriteFile(path, []byte(row.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := readLaunch(path, 7); (got != nil) != row.found {
			t.Errorf("%s: %+v", row.content, got)
		}
	}
}

func TestRecorded(t *testing.T) {
	l := Launch{Settings: []string{"ACME_SURFACE", "ACME_UNSET"}}
	got := l.recorded([]string{"PATH=/bin", "ACME_SURFACE=x", "ACME_SURFACE_TOO=y", "AMPLIFIER_AGENT_HTTP_AUTH=off", "AMPLIFIER_AGENT_X=a=b", "AMPLIFIER_AGENT_EMPTY=",
		"AMPLIFIER_AGENT_HTTP_API_KEY=secret", "AMPLIFIER_AGENT_HOME=/h", "OPENAI_API_KEY=secret"})
	want := map[string]string{"AMPLIFIER_AGENT_HTTP_AUTH": "off", "AMPLIFIER_AGENT_X": "a=b", "AMPLIFIER_AGENT_EMPTY": "", "ACME_SURFACE": "x"}
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestURL(t *testing.T) {
	for host, want := range map[string]string{
		"127.0.0.1": "http://127.0.0.1:9099/v1/",
		"localhost": "http://localhost:9099/v1/",
		"0.0.0.0":   "http://127.0.0.1:9099/v1/",
		"":          "http://127.0.0.1:9099/v1/",
		"::":        "http://[::1]:9099/v1/",
		"::1":       "http://[::1]:9099/v1/",
		"fe80::1":   "http://[fe80::1]:9099/v1/",
		"10.0.0.7":  "http://10.0.0.7:9099/v1/",
	} {
		if got := (State{Host: host, Port: 9099}).url(basePath); got != want {
			t.Errorf("%q: %s, want %s", host, got, want)
		}
	}
}

func TestChoose(t *testing.T) {
	first := &instance{first: true, state: State{Port: 9099}}
	a, b := &instance{state: State{Port: 9100}}, &instance{state: State{Port: 9101}}
	bad := &instance{err: &invalidError{"p", "is corrupt"}}
	for _, row := range []struct {
		name string
		list []*instance
		port int
		want *instance
		says string
	}{
		{"none", nil, 0, nil, ""},
		{"none on a port", nil, 9099, nil, ""},
		{"the default", []*instance{first, a, b}, 0, first, ""},
		{"by port", []*instance{first, a, b}, 9101, b, ""},
		{"the default by port", []*instance{first, a}, 9099, first, ""},
		{"not on this port", []*instance{first, a}, 9102, nil, ""},
		{"the only one", []*instance{a}, 0, a, ""},
		{"which of them?", []*instance{a, b}, 0, nil, "9100, 9101"},
		{"the default is corrupt", []*instance{bad, a}, 0, nil, "corrupt"},
		{"another is corrupt", []*instance{first, bad}, 0, first, ""},
		{"it may be the corrupt one", []*instance{first, bad}, 9100, nil, "corrupt"},
	} {
		got, err := choose(row.list, row.port)
		if got != row.want || (err != nil) != (row.says != "") || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %+v, error %v", row.name, got, err)
		}
	}
}

func TestProcessIs(t *testing.T) {
	started := time.Date(2026, 7, 31, 15, 4, 5, 0, time.UTC)
	s := State{StartedAt: started.Format(timeLayout)}
	l := &Launch{Process: "boot:7"}
	for _, row := range []struct {
		name string
		p    proc
		l    *Launch
		want bool
	}{
		{"no process", proc{}, nil, false},
		{"nothing known", proc{exists: true}, l, true},
		{"same", proc{exists: true, id: "boot:7", born: started.Add(time.Hour)}, l, true}, // the clock was set meanwhile
		{"another", proc{exists: true, id: "boot:8", born: started.Add(-time.Hour)}, l, false},
		{"older than the file", proc{exists: true, id: "boot:8", born: started.Add(-time.Hour)}, nil, true},
		{"as old", proc{exists: true, born: started.Add(slack)}, nil, true},
		{"younger", proc{exists: true, born: started.Add(slack + time.Second)}, nil, false},
		{"younger, launch file of another system", proc{exists: true, id: "boot:8", born: started.Add(time.Hour)}, &Launch{}, false},
	} {
		if got := row.p.is(s, row.l); got != row.want {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}
