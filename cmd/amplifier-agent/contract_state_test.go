//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"amplifier-agent/pipeline/config"
)

// stateNames are the files of servers in the world's home.
func (w *world) stateNames(t *testing.T) (names []string) {
	t.Helper()
	for _, pattern := range []string{"serve*.json", "launch*.json"} {
		list, err := filepath.Glob(filepath.Join(filepath.Dir(w.stateFile()), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range list {
			names = append(names, filepath.Base(name))
		}
	}
	slices.Sort(names)
	return names
}

// wantStates checks which files of servers there are.
func (w *world) wantStates(t *testing.T, want ...string) {
	t.Helper()
	if got := w.stateNames(t); !slices.Equal(got, want) {
		t.Errorf("the files are %q, want %q", got, want)
	}
}

// TestContractStateFile: the file has exactly the contract's keys, with these types, and tells of this server.
func TestContractStateFile(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{config: "{}"})
	before := time.Now().Add(-time.Second)
	for name, row := range map[string]struct {
		args      []string
		workspace string
		config    any
	}{
		"flags":   {[]string{"--workspace", "my-project", "--config", filepath.Join(w.cwd, "host.json")}, "my-project", filepath.Join(w.cwd, "host.json")},
		"default": {nil, config.Workspace(w.cwd), nil},
	} {
		env := []string{envPrefix + "CONFIG_PATH="}
		v := w.serve(t, env, append([]string{"--port", "0"}, row.args...)...)
		got := w.state(t)
		models := listed[struct{ ID string }](t, v, "/v1/models")
		at, err := time.Parse("2006-01-02T15:04:05.999999999Z", fmt.Sprint(got["started_at"]))
		if err != nil || at.Before(before) || at.After(time.Now().Add(time.Second)) {
			t.Errorf("%s: started at %v, error %v", name, got["started_at"], err)
		}
		port, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(v.url, "http://127.0.0.1:"), "/v1"))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"pid": float64(v.cmd.Process.Pid), "started_at": got["started_at"], "host": "127.0.0.1", "port": float64(port), "api_key": contractKey,
			"workspace": row.workspace, "host_config_path": row.config, "providers_summary": map[string]any{"commandcode": float64(len(models))}, "schema_version": 1.0,
		}
		if g, w := asText(t, got), asText(t, want); g != w {
			t.Errorf("%s: got\n%s\nwant\n%s", name, g, w)
		}
		v.end(t)
		w.wantStates(t)
	}
}

func asText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v) // with sorted keys
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestContractStateHome: H is $AMPLIFIER_AGENT_HOME, with ~ and from the working directory, or ~/.amplifier-agent.
func TestContractStateHome(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{})
	for home, want := range map[string]string{
		"":                                 filepath.Join(w.home, ".amplifier-agent"),
		filepath.Join(w.home, "absolute"):  filepath.Join(w.home, "absolute"),
		"~/tilde":                          filepath.Join(w.home, "tilde"),
		"relative":                         filepath.Join(w.cwd, "relative"),
		" " + filepath.Join(w.home, "pad"): filepath.Join(w.home, "pad"),
	} {
		v := w.serve(t, []string{"AMPLIFIER_AGENT_HOME=" + home}, "--port", "0", "--workspace", "ws")
		path := filepath.Join(want, "state", "serve.json")
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
		v.chat(t, say("hi"), "X-Session-Id", "s")
		if _, err := os.Stat(filepath.Join(want, "state", "workspaces", "ws", "sessions", "http-s")); err != nil {
			t.Error(err)
		}
		v.end(t)
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestContractStateModes: whatever the umask takes away or not, and however open the folder was, the folder is 0700 and the file
// 0600 at any moment.
func TestContractStateModes(t *testing.T) {
	t.Parallel()
	for _, mask := range []string{"000", "077"} {
		const stale = "what somebody left here"
		w := prepare(t, scene{files: map[string]string{"~/.amplifier-agent/state/serve.json": stale}})
		dir := filepath.Dir(w.stateFile())
		for path, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o777, dir: 0o777, w.stateFile(): 0o666} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
		p := w.startUnder(t, "umask "+mask, nil, "serve", "chat-completions", "--port", "0")
		eventually(t, "a state file of this server", func() bool {
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				// The name may pass to another file between two looks, so that one look must tell all.
				f, err := os.Open(filepath.Join(dir, e.Name()))
				if err != nil {
					continue // gone meanwhile
				}
				info, err := f.Stat()
				b := make([]byte, 4096)
				n, _ := f.Read(b)
				f.Close()
				if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 && string(b[:n]) != stale {
					t.Errorf("%s has mode %#o", e.Name(), info.Mode().Perm())
				}
			}
			b, err := os.ReadFile(w.stateFile())
			return err == nil && strings.Contains(string(b), contractKey)
		})
		for path, want := range map[string]os.FileMode{dir: 0o700, w.stateFile(): 0o600, filepath.Join(dir, "launch.json"): 0o600} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, error %v, want %#o", path, info.Mode().Perm(), err, want)
			}
		}
		if b, err := os.ReadFile(filepath.Join(dir, "launch.json")); err != nil || strings.Contains(string(b), contractKey) {
			t.Errorf("the key is in the launch file, error %v: %s", err, b)
		}
		p.interrupt(t, syscall.SIGTERM)
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("%v:\n%s", err, p.stderr.String())
		}
	}
}

// TestContractStateUnwritable: a server that cannot keep its file as it must does not serve.
func TestContractStateUnwritable(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{files: map[string]string{"~/.amplifier-agent/state": "a file where a folder should be", "host.json": `{"store":{"ledger":false}}`}})
	wantAll(t, w.refusesToServe(t, nil, "--port", "0"), filepath.Join(w.home, ".amplifier-agent", "state"), "move it out of the way")
}

// TestContractStateWhenReady: whoever sees the file can use the server that it tells of, at once; and before the port is bound there
// is none.
func TestContractStateWhenReady(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{})
	asked := make(chan struct{})
	g := newGateway(t, w.sim, func(*gateway, http.ResponseWriter, *http.Request) bool {
		<-asked
		return false
	})
	p := w.start(t, []string{"COMMANDCODE_BASE_URL=" + g.URL}, "serve", "chat-completions", "--port", "0")
	eventually(t, "asked for models", func() bool { return g.lists.Load() > 0 })
	w.wantStates(t)
	close(asked)
	v := w.published(t)
	if a := v.chat(t, say("Reply with exactly: fine"), "Authorization", fmt.Sprint("Bearer ", w.state(t)["api_key"])); a.Content != "fine" {
		t.Errorf("got %+v", a)
	}
	p.interrupt(t, syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v:\n%s", err, p.stderr.String())
	}
	w.wantStates(t)
}

// TestContractSignalAtStartup: a server that is told to end while its provider hangs ends without waiting for it, and leaves no
// file. It did as it was told: 0.
func TestContractSignalAtStartup(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			w := prepare(t, scene{})
			g := newGateway(t, w.sim, hang)
			p := w.start(t, []string{"COMMANDCODE_BASE_URL=" + g.URL}, "serve", "chat-completions", "--port", "0")
			eventually(t, "asked for models", func() bool { return g.lists.Load() > 0 })
			w.wantStates(t)
			p.interrupt(t, sig)
			// The gateway never answers, and the program's own patience with it is not over before this.
			eventually(t, "gone from the gateway", func() bool { return g.left.Load() > 0 })
			if code := exitCode(p.cmd.Wait()); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if p.stdout.Len() > 0 || strings.Contains(p.stderr.String(), "ready:") || strings.Contains(p.stderr.String(), "no answer within") {
				t.Errorf("stdout %q, stderr\n%s", p.stdout.String(), p.stderr.String())
			}
			w.wantStates(t)
		})
	}
}

// TestContractStateRemoved: each signal that ends the server, and each end of a startup, removes the file; a stale one of a server
// that was killed is taken over.
func TestContractStateRemoved(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{})
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt, syscall.SIGHUP} {
		v := w.serve(t, nil, "--port", "0")
		w.wantStates(t, "launch.json", "serve.json")
		if code := v.stop(t, sig); code != 0 {
			t.Errorf("%v: exit code %d:\n%s", sig, code, v.stderr.String())
		}
		w.wantStates(t)
	}
	killed := w.serve(t, nil, "--port", "0")
	killed.stop(t, syscall.SIGKILL)
	w.wantStates(t, "launch.json", "serve.json")
	v := w.serve(t, nil, "--port", "0")
	w.wantStates(t, "launch.json", "serve.json")
	if got := w.state(t)["pid"]; got != float64(v.cmd.Process.Pid) {
		t.Errorf("the file is that of %v", got)
	}
	v.end(t)
	w.wantStates(t)
}

// TestContractStateOfOthers: a start that fails, whatever with, leaves the file of the server that runs alone.
func TestContractStateOfOthers(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{})
	live := w.serve(t, nil, "--port", "0")
	path := w.stateFile()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(live.url, "/v1"), "http://"), ":")
	g := newGateway(t, w.sim, hang)
	for name, row := range map[string]struct {
		env, args []string
		says      string
	}{
		"busy port":      {nil, []string{"--port", port}, "--port"},
		"usage":          {nil, []string{"--port", "70000"}, "port"},
		"no config":      {nil, []string{"--port", port, "--config", "none.json"}, "none.json"},
		"no credentials": {[]string{"COMMANDCODE_API_KEY="}, []string{"--port", "0"}, "COMMANDCODE_API_KEY"},
		"no provider":    {[]string{"COMMANDCODE_BASE_URL=http://127.0.0.1:1"}, []string{"--port", "0"}, "no provider yielded a model"},
	} {
		wantAll(t, w.refusesToServe(t, row.env, row.args...), row.says)
		if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
			t.Errorf("%s: error %v, the file is\n%s", name, err, after)
		}
	}
	p := w.start(t, []string{"COMMANDCODE_BASE_URL=" + g.URL}, "serve", "chat-completions", "--port", "0")
	eventually(t, "asked for models", func() bool { return g.lists.Load() > 0 })
	p.interrupt(t, syscall.SIGTERM)
	_ = p.cmd.Wait()
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("interrupted: error %v, the file is\n%s", err, after)
	}
	w.wantStates(t, "launch.json", "serve.json")
	if a := live.chat(t, say("Reply with exactly: fine")); a.Content != "fine" {
		t.Errorf("got %+v", a)
	}
	live.end(t)
	w.wantStates(t)
}

// TestContractStateBeside: a server that starts while another lives has a file of its own by its port, and each removes its own,
// whoever ends first (rulings 6).
func TestContractStateBeside(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1, 2}, {2, 0, 1}} {
		w := prepare(t, scene{})
		names := []string{"serve.json"}
		var servers []*world
		for i := range 3 {
			v := w.serve(t, nil, "--port", "0")
			if i > 0 {
				_, port, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(v.url, "/v1"), "http://"), ":")
				names = append(names, "serve-"+port+".json")
			}
			servers = append(servers, v)
		}
		dir := filepath.Dir(w.stateFile())
		left := map[string]*world{}
		for i, v := range servers {
			left[names[i]] = v
		}
		check := func() {
			t.Helper()
			var want []string
			for name, v := range left {
				want = append(want, name, strings.Replace(name, "serve", "launch", 1))
				if got := readJSON(t, filepath.Join(dir, name))["pid"]; got != float64(v.cmd.Process.Pid) {
					t.Errorf("%s is that of %v, not %d", name, got, v.cmd.Process.Pid)
				}
			}
			slices.Sort(want)
			w.wantStates(t, want...)
		}
		check()
		for _, i := range order {
			servers[i].end(t)
			delete(left, names[i])
			check()
		}
	}
}

// TestContractTwoServersOneHome: two servers that share home and workspace are used at once, with conversations of the same names: no
// turn fails, transcripts and the ledger are whole, and no turn is missing in it.
func TestContractTwoServersOneHome(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{})
	const turns, sessions = 24, 3
	servers := []*world{w.serve(t, nil, "--port", "0", "--workspace", "shared"), w.serve(t, nil, "--port", "0", "--workspace", "shared")}
	var wg sync.WaitGroup
	for i := range turns {
		wg.Go(func() {
			resp, b := servers[i%2].request(t, http.MethodPost, "/v1/chat/completions", say(fmt.Sprint("Reply with exactly: turn ", i)), "X-Session-Id", fmt.Sprint("s", i%sessions))
			if resp.StatusCode != http.StatusOK || !strings.Contains(b, "[DONE]") || strings.Contains(b, "error") {
				t.Errorf("turn %d: status %d: %s", i, resp.StatusCode, b)
			}
		})
	}
	wg.Wait()
	for _, v := range servers {
		v.end(t)
	}
	for i := range sessions {
		b, err := os.ReadFile(filepath.Join(w.session(t, "shared", fmt.Sprint("http-s", i)), "transcript.jsonl"))
		if err != nil {
			t.Error(err)
		}
		wantLines(t, string(b), 1)
	}
	b, err := os.ReadFile(filepath.Join(w.home, ".amplifier-agent", "state", "workspaces", "shared", "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, line := range wantLines(t, string(b), turns) {
		id := fmt.Sprint(line["turn"])
		if seen[id] {
			t.Errorf("%s is there twice", id)
		}
		seen[id] = true
	}
}

// wantLines checks that a text is so many lines, at least, of a JSON object each.
func wantLines(t *testing.T, text string, least int) (list []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Errorf("%v: %q", err, line)
		}
		list = append(list, m)
	}
	if len(list) < least {
		t.Errorf("%d lines, want %d:\n%s", len(list), least, text)
	}
	return list
}

// TestContractStartsTogether: of servers that start at the same moment each gets a file.
func TestContractStartsTogether(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{})
	const n = 4
	list := make([]*pending, n)
	for i := range list {
		list[i] = w.start(t, nil, "serve", "chat-completions", "--port", "0")
	}
	pids := map[float64]bool{}
	eventually(t, "a file for each", func() bool {
		clear(pids)
		for _, name := range w.stateNames(t) {
			if strings.HasPrefix(name, "serve") {
				pids[readJSON(t, filepath.Join(filepath.Dir(w.stateFile()), name))["pid"].(float64)] = true
			}
		}
		return len(pids) == n
	})
	for _, p := range list {
		if !pids[float64(p.cmd.Process.Pid)] {
			t.Errorf("%d is not in %v", p.cmd.Process.Pid, slices.Collect(maps.Keys(pids)))
		}
		p.interrupt(t, syscall.SIGTERM)
	}
	for _, p := range list {
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("%v:\n%s", err, p.stderr.String())
		}
	}
	w.wantStates(t)
}

// TestContractHangup: the end of the terminal ends the server as a signal to stop does, unless somebody has seen to it that it does
// not, as nohup.
func TestContractHangup(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	if code := w.stop(t, syscall.SIGHUP); code != 0 {
		t.Errorf("exit code %d:\n%s", code, w.stderr.String())
	}
	if _, err := os.Stat(w.stateFile()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state file: %v", err)
	}
	p := w.startUnder(t, `trap "" HUP`, nil, "serve", "chat-completions", "--port", "0")
	v := w.published(t)
	p.interrupt(t, syscall.SIGHUP)
	for range 3 {
		if a := v.chat(t, say("Reply with exactly: fine")); a.Content != "fine" {
			t.Errorf("got %+v", a)
		}
	}
	p.interrupt(t, syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v:\n%s", err, p.stderr.String())
	}
}

// published waits for the state file of a server that starts, and returns the world with that server.
func (w *world) published(t *testing.T) *world {
	t.Helper()
	var s struct {
		Host string
		Port int
	}
	eventually(t, "a state file", func() bool {
		b, err := os.ReadFile(w.stateFile())
		if err != nil {
			return false
		}
		if err := json.Unmarshal(b, &s); err != nil {
			t.Fatalf("%v: %q", err, b)
		}
		return true
	})
	return w.at(&server{url: fmt.Sprintf("http://%s:%d/v1", s.Host, s.Port)})
}

func (p *pending) interrupt(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}
