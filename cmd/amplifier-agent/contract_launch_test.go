package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"amplifier-agent/pipeline/config"
	"amplifier-agent/upstream/simulator"
)

// freePort is a port that was free just now, below those that systems hand out, so that no connection takes it meanwhile.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20000 + rand.IntN(10000))
		if ln, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			ln.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// at is the world with another server in it.
func (w *world) at(s *server) *world {
	other := *w
	other.server = s
	return &other
}

// serve starts a server in the world's place.
func (w *world) serve(t *testing.T, env []string, args ...string) *world {
	t.Helper()
	return w.at(startServer(t, w.environ(env...), append([]string{"serve", "chat-completions"}, args...)...))
}

// pending is a program of which nobody knows when it ends.
type pending struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer // to be read once it has ended
}

// start starts the program in the world's place and does not wait for anything.
func (w *world) start(t *testing.T, env []string, args ...string) *pending {
	t.Helper()
	return w.startUnder(t, "", env, args...)
}

// startUnder starts the program from a shell, which does something first.
func (w *world) startUnder(t *testing.T, first string, env []string, args ...string) *pending {
	t.Helper()
	p := &pending{cmd: program(t, w.environ(env...), args...)}
	if first != "" {
		sh, err := exec.LookPath("sh")
		if err != nil {
			t.Skip(err)
		}
		p.cmd.Path, p.cmd.Args = sh, append([]string{"sh", "-c", first + `; exec "$0" "$@"`}, p.cmd.Args...)
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// refusesToServe runs a server that must not come up: it ends with 2 and says why, on stderr alone. It returns what it said.
func (w *world) refusesToServe(t *testing.T, env []string, args ...string) string {
	t.Helper()
	p := w.start(t, env, append([]string{"serve", "chat-completions"}, args...)...)
	serves := time.AfterFunc(testPatience/2, func() { _ = p.cmd.Process.Kill() })
	defer serves.Stop()
	code := exitCode(p.cmd.Wait())
	if code != exitUsage || p.stdout.Len() > 0 || strings.Contains(p.stderr.String(), "ready:") {
		t.Errorf("%v %v: exit code %d, stdout %q, stderr\n%s", env, args, code, p.stdout.String(), p.stderr.String())
	}
	return p.stderr.String()
}

// wantAll checks that a text has all of some words.
func wantAll(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q is missing in\n%s", word, text)
		}
	}
}

var (
	anyTurn = regexp.MustCompile(`chatcmpl-[0-9a-z]+|"created":\d+`)
	anyCall = regexp.MustCompile(`"id":"[^"]*"`)
	anyPort = regexp.MustCompile(`127\.0\.0\.1:\d+`)
)

// TestContractServeIsAGroup: chat-completions is one of serve's commands, with the flags of the contract.
func TestContractServeIsAGroup(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{})
	_, group, _ := w.command(t, nil, "serve", "--help")
	wantAll(t, group, "chat-completions", "status", "stop", "restart")
	_, face, _ := w.command(t, nil, "serve", "chat-completions", "--help")
	wantAll(t, face, "--bind", "--port", "--api-key", "--workspace", "--model-id", "--config", "--log-level")
	if code, stdout, stderr := w.command(t, nil, "serve", "responses"); code != exitUsage || stdout != "" || !strings.Contains(stderr, "responses") {
		t.Errorf("a face that there is not: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// TestContractEnvironmentAlone: a server that gets everything by variables has the same banner, the same state file, and answers
// and asks byte for byte like one that gets it by flags.
func TestContractEnvironmentAlone(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{files: map[string]string{"other.json": `{"system":{"prompt":"From the config."},"sampling":"forward"}`}})
	settings := []struct{ flag, variable, value string }{
		{"--bind", "BIND", "127.0.0.1"}, {"--port", "PORT", ""}, {"--api-key", "API_KEY", contractKey}, {"--workspace", "WORKSPACE", "some-space"},
		{"--model-id", "MODEL_ID", "a label"}, {"--config", "CONFIG_PATH", "other.json"}, {"--log-level", "LOG_LEVEL", "error"},
	}
	type seen struct{ banner, state, stream, models, system string }
	look := func(byFlag bool) (got seen) {
		env, args := []string{envPrefix + "API_KEY="}, []string(nil)
		home := t.TempDir()
		for _, s := range settings {
			if s.flag == "--port" {
				s.value = freePort(t)
			}
			if byFlag {
				args = append(args, s.flag, s.value)
			} else {
				env = append(env, envPrefix+s.variable+"="+s.value)
			}
		}
		v := w.serve(t, append(env, "AMPLIFIER_AGENT_HOME="+home), args...)
		_, got.stream = v.request(t, http.MethodPost, "/v1/chat/completions", say("Reply with exactly: fine", `,"stream":true,"temperature":0.5`))
		_, got.models = v.request(t, http.MethodGet, "/v1/models", "")
		r := v.last(t)
		got.system = fmt.Sprint(r.System, r.Model, *r.Temperature, conversation(r))
		state := readJSON(t, filepath.Join(home, "state", "serve.json"))
		delete(state, "pid")
		delete(state, "port")
		delete(state, "started_at")
		got.state = fmt.Sprint(state)
		v.end(t)
		got.banner = anyPort.ReplaceAllString(v.stderr.String(), "ADDRESS")
		got.stream, got.models = anyTurn.ReplaceAllString(got.stream, "TURN"), anyTurn.ReplaceAllString(got.models, "TURN")
		return got
	}
	flags, variables := look(true), look(false)
	if flags != variables {
		t.Errorf("by flags\n%+v\nby variables\n%+v", flags, variables)
	}
	wantAll(t, variables.banner, contractKey, "a label", "some-space", filepath.Join(w.cwd, "other.json"))
	wantAll(t, variables.stream, `"model":"a label"`, "fine")
	wantAll(t, variables.system, "From the config.", "0.5")
	if strings.Contains(variables.banner, "level=INFO") {
		t.Errorf("the log level did not count:\n%s", variables.banner)
	}
}

// TestContractFlagsWin: a flag wins over its variable, also with the value of the default, and a variable that a flag has replaced
// is not even looked at.
func TestContractFlagsWin(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{files: map[string]string{"good.json": "{}"}})
	v := w.serve(t, []string{envPrefix + "BIND=192.0.2.1", envPrefix + "PORT=1", envPrefix + "API_KEY=other", envPrefix + "MODEL_ID=other",
		envPrefix + "WORKSPACE=-not a slug-", "AMPLIFIER_AGENT_WORKSPACE=other", envPrefix + "CONFIG_PATH=/no/such/file", "AMPLIFIER_AGENT_CONFIG=/no/such/file", envPrefix + "LOG_LEVEL=loud"},
		"--bind", "127.0.0.1", "--port", "0", "--api-key", contractKey, "--model-id", "amplifier", "--workspace", "mine", "--config", "good.json", "--log-level", "info")
	if a := v.chat(t, say("Reply with exactly: fine")); a.Model != "amplifier" || a.Content != "fine" {
		t.Errorf("got %+v", a)
	}
	state := w.state(t)
	if state["workspace"] != "mine" || state["host_config_path"] != filepath.Join(w.cwd, "good.json") || state["host"] != "127.0.0.1" || state["api_key"] != contractKey {
		t.Errorf("state %v", state)
	}
	v.end(t)
	wantAll(t, v.stderr.String(), "level=INFO msg=turn")
}

// TestContractDefaults: what a server is without any setting. MODEL_NAME changes nothing.
func TestContractDefaults(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{})
	v := w.serve(t, []string{envPrefix + "API_KEY=", envPrefix + "MODEL_NAME=Somebody"}, "--port", "0")
	key := []string{"Authorization", "Bearer local-dev-secret"}
	a := v.chat(t, say("Reply with exactly: fine"), key...)
	if a.Model != "amplifier" || a.Content != "fine" {
		t.Errorf("got %+v", a)
	}
	v.refused(t, http.StatusBadRequest, "unknown_model", `{"model":"amplifier","messages":[`+message("user", "hi")+`]}`, key...)
	for _, path := range []string{"/v1/models", "/v1/skills", "/v1/modes", "/health", "/openapi.json"} {
		if resp, b := v.request(t, http.MethodGet, path, "", key...); resp.StatusCode != http.StatusOK || strings.Contains(b, "Somebody") {
			t.Errorf("GET %s: status %d: %s", path, resp.StatusCode, b)
		}
	}
	state := w.state(t)
	if state["host"] != "127.0.0.1" || state["api_key"] != "local-dev-secret" || state["host_config_path"] != nil {
		t.Errorf("state %v", state)
	}
	v.end(t)
	wantAll(t, v.stderr.String(), "local-dev-secret", "amplifier\n", "(cwd-derived)", "(none)")
	if strings.Contains(v.stderr.String(), "Somebody") {
		t.Errorf("MODEL_NAME shows:\n%s", v.stderr.String())
	}
}

// TestContractBindNames: an empty address is not every address.
func TestContractBindNames(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{})
	for _, bind := range []string{"", "[]", " ", "no such host", "192.0.2.1"} { // the last is nobody's
		wantAll(t, w.refusesToServe(t, nil, "--port", "0", "--bind="+bind), "--bind")
	}
	v := w.serve(t, []string{envPrefix + "BIND= "}, "--port", "0")
	if got := w.state(t)["host"]; got != "127.0.0.1" {
		t.Errorf("a blank variable binds to %v", got)
	}
	v.end(t)
}

// TestContractDefaultPort: without a port, and with one that is no number, it is 9099. The test sees to it that the port is taken, so
// that the refusal names it.
func TestContractDefaultPort(t *testing.T) {
	if ln, err := net.Listen("tcp", "127.0.0.1:9099"); err == nil { // else somebody has it already
		defer ln.Close()
	}
	w := prepare(t, scene{})
	for _, value := range []string{"", "ninety", "9099.5", "0x10", " "} {
		wantAll(t, w.refusesToServe(t, []string{envPrefix + "PORT=" + value}), "127.0.0.1:9099", "--port")
	}
	wantAll(t, w.refusesToServe(t, []string{envPrefix + "PORT=70000"}), "70000")
}

// TestContractWorkspaceSlug: a given slug is checked; one from the working directory comes from its real path, whatever the shell
// calls it, and is a slug in any case (rulings 7).
func TestContractWorkspaceSlug(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{})
	for _, bad := range []string{"-a", "A", "a_b", "a/b", "..", "a b", "ü", strings.Repeat("a", 65)} {
		wantAll(t, w.refusesToServe(t, nil, "--port", "0", "--workspace="+bad), "workspace")
		wantAll(t, w.refusesToServe(t, []string{"AMPLIFIER_AGENT_WORKSPACE=" + bad}, "--port", "0"), "workspace")
	}
	real := filepath.Join(w.cwd, "Über My_Project."+strings.Repeat("x", 80))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	v := w.serve(t, []string{testDir + link, "PWD=" + link}, "--port", "0")
	got, _ := w.state(t)["workspace"].(string)
	if got != config.Workspace(real) || config.CheckWorkspace(got) != nil || len(got) != 64 {
		t.Errorf("workspace %q", got)
	}
	v.end(t)
	for _, good := range []string{"0", "a-", strings.Repeat("a", 64)} {
		v := w.serve(t, nil, "--port", "0", "--workspace="+good)
		if got := w.state(t)["workspace"]; got != good {
			t.Errorf("workspace %q, want %q", got, good)
		}
		v.end(t)
	}
}

// TestContractOneWorkspace: the workspace is the process's. Nothing in a request changes it, and all requests share it.
func TestContractOneWorkspace(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{args: []string{"--workspace", "only-this"}})
	for i, more := range []string{"", `,"user":"other"`, `,"workspace":"other","metadata":{"workspace":"other"}`} {
		w.chat(t, say("hi", more), "X-Client-Session-Id", fmt.Sprint("s", i), "X-Workspace", "other", "X-Amplifier-Workspace", "other")
	}
	entries, err := os.ReadDir(filepath.Join(w.home, ".amplifier-agent", "state", "workspaces"))
	if err != nil || len(entries) != 1 || entries[0].Name() != "only-this" {
		t.Errorf("workspaces %v, error %v", entries, err)
	}
	for i := range 3 {
		if _, err := os.Stat(w.session(t, "only-this", fmt.Sprint("http-s", i))); err != nil {
			t.Error(err)
		}
	}
	w.end(t)
}

// TestContractOneKey: there is one key, taken literally, for each route.
func TestContractOneKey(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{args: []string{"--api-key", "one,two"}})
	for _, path := range []string{"/v1/models", "/v1/skills", "/v1/modes"} {
		for key, want := range map[string]int{"one,two": 200, "one": 401, "two": 401, "one,two,": 401, contractKey: 401, "local-dev-secret": 401, "upstream-key": 401} {
			if resp, _ := w.request(t, http.MethodGet, path, "", "Authorization", "Bearer "+key); resp.StatusCode != want {
				t.Errorf("GET %s with %q: status %d, want %d", path, key, resp.StatusCode, want)
			}
		}
	}
	w.end(t)
}

// TestContractNoReload: one process without children serves, as it was started: what changes on disk meanwhile does not count.
func TestContractNoReload(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{config: `{"system":{"prompt":"As it was."}}`, files: map[string]string{".amplifier/modes/zen.md": zenMode}})
	w.write(t, "host.json", `{"system":{"prompt":"As it is now."}}`)
	w.write(t, ".amplifier/modes/late.md", strings.ReplaceAll(zenMode, "zen", "late"))
	w.chat(t, body(message("system", directive("zen"))+","+message("user", "hi")))
	if r := w.last(t); !strings.Contains(r.System, "As it was.") {
		t.Errorf("system prompt %q", r.System)
	}
	w.refused(t, http.StatusBadRequest, "unknown_mode", body(message("system", directive("late"))+","+message("user", "hi")))
	if runtime.GOOS == "linux" {
		children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", w.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range children {
			if b, err := os.ReadFile(name); err == nil && len(bytes.TrimSpace(b)) > 0 {
				t.Errorf("%s: %s", name, b)
			}
		}
	}
	w.end(t)
}

// TestContractBanner: key, label, workspace and config go to stderr, and stdout stays empty to the end, whatever is asked meanwhile.
func TestContractBanner(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{config: "{}", args: []string{"--workspace", "banner-space", "--model-id", "the label", "--log-level", "debug"}})
	w.chat(t, say("hi"))
	w.refused(t, http.StatusBadRequest, "unknown_model", `{"model":"none","messages":[`+message("user", "hi")+`]}`)
	w.request(t, http.MethodGet, "/v1/models", "", "Authorization", "")
	w.end(t)
	wantAll(t, w.stderr.String(), contractKey, "the label", "banner-space", filepath.Join(w.cwd, "host.json"), w.url)
	if w.stdout.Len() > 0 {
		t.Errorf("stdout: %q", w.stdout.String())
	}
}

// TestContractOpenRoutes: health and the document need no key; the metrics need none on loopback and the key elsewhere (rulings 2).
func TestContractOpenRoutes(t *testing.T) {
	t.Parallel()
	for bind, open := range map[string]bool{"127.0.0.1": true, "localhost": true, "0.0.0.0": false} {
		t.Run(bind, func(t *testing.T) {
			t.Parallel()
			w := stage(t, scene{args: []string{"--bind", bind}})
			w.url = fmt.Sprintf("http://127.0.0.1:%v/v1", w.state(t)["port"])
			w.chat(t, say("hi"))
			for path, want := range map[string]int{"/health": 200, "/openapi.json": 200, "/metrics": map[bool]int{true: 200, false: 401}[open], "/v1/models": 401, "/v1/chat/completions": 401} {
				if resp, b := w.request(t, http.MethodGet, path, "", "Authorization", ""); resp.StatusCode != want {
					t.Errorf("GET %s without a key: status %d, want %d: %s", path, resp.StatusCode, want, b)
				}
				if resp, _ := w.request(t, http.MethodGet, path, "", "Authorization", "Bearer wrong"); resp.StatusCode != want {
					t.Errorf("GET %s with a wrong key: status %d, want %d", path, resp.StatusCode, want)
				}
			}
			if resp, b := w.request(t, http.MethodGet, "/metrics", ""); resp.StatusCode != http.StatusOK || !strings.Contains(b, contractModel) {
				t.Errorf("GET /metrics: status %d: %s", resp.StatusCode, b)
			}
			if resp, b := w.request(t, http.MethodGet, "/health", ""); b != `{"status":"ok"}`+"\n" || resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("GET /health: %v: %s", resp.Header, b)
			}
			_, b := w.request(t, http.MethodGet, "/openapi.json", "")
			wantAll(t, b, `"openapi"`, "/v1/chat/completions", "/v1/models", "/v1/skills", "/v1/modes")
			if strings.Contains(b, contractKey) {
				t.Errorf("the document has the key")
			}
			w.end(t)
		})
	}
}

// TestContractMetricsOff: with telemetry.metrics false there is no such route.
func TestContractMetricsOff(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{config: `{"telemetry":{"metrics":false}}`})
	resp, b := w.request(t, http.MethodGet, "/metrics", "")
	wantRefusal(t, resp, b, http.StatusNotFound, "not_found")
	w.end(t)
}

// TestContractLogLevel: the variable and the flag decide what is logged; the banner and the ready line come in any case.
func TestContractLogLevel(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{config: `{"approval":{"mode":"prompt"}}`})
	for level, want := range map[string][2]bool{"debug": {true, true}, "INFO": {true, true}, "warning": {false, true}, "warn": {false, true}, "error": {false, false}, "critical": {false, false}} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			v := w.serve(t, []string{"AMPLIFIER_AGENT_HOME=" + t.TempDir(), envPrefix + "LOG_LEVEL=" + level}, "--port", "0")
			v.chat(t, say("hi"))
			v.end(t)
			text := v.stderr.String()
			if got := [2]bool{strings.Contains(text, "level=INFO"), strings.Contains(text, "level=WARN")}; got != want {
				t.Errorf("info and warnings: %v, want %v:\n%s", got, want, text)
			}
		})
	}
	wantAll(t, w.refusesToServe(t, []string{envPrefix + "LOG_LEVEL=loud"}, "--port", "0"), "log level", "loud", "debug")
}

// stalled asks for an answer that begins and then stalls, and returns it once it has begun.
func (w *world) stalled(t *testing.T) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/chat/completions", strings.NewReader(say("hi [fault:stall]", `,"stream":true`)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+contractKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d", resp.StatusCode)
	}
	eventually(t, "an exchange with the gateway", func() bool { return w.sim.Active() > 0 })
	return resp
}

// deaf waits until the server takes no connections any more.
func (w *world) deaf(t *testing.T) {
	t.Helper()
	addr := strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/v1")
	eventually(t, "deaf", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
}

// TestContractSecondSignal: the first signal lets a running answer go on, the second cuts it off, with an error and its end. Both
// end with 0.
func TestContractSecondSignal(t *testing.T) {
	t.Parallel()
	for _, second := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		w := stage(t, scene{config: `{"limits":{"drainSeconds":3600}}`})
		resp := w.stalled(t)
		if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		w.deaf(t)
		if w.sim.Active() != 1 {
			t.Error("the first signal ended the answer")
		}
		code := w.stop(t, second)
		b, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(string(b), "[amplifier-agent error: ") || !strings.HasSuffix(string(b), "data: [DONE]\n\n") {
			t.Errorf("error %v, answer %s", err, b)
		}
		if code != 0 || !strings.Contains(w.stderr.String(), "second signal") {
			t.Errorf("exit code %d:\n%s", code, w.stderr.String())
		}
		if _, err := os.Stat(w.stateFile()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the state file: %v", err)
		}
	}
}

// TestContractDemo: the simulator needs no key and no gateway, whatever the environment and the host config say about those.
func TestContractDemo(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{sim: simulator.Options{Models: []simulator.Model{{ID: "outside/model"}}},
		config: `{"providers":{"commandcode":{"config":{"base_url":"http://127.0.0.1:1","api_key":"k"}},"openai":{}}}`})
	for _, env := range [][]string{{"COMMANDCODE_API_KEY=", "COMMANDCODE_BASE_URL="}, {"COMMANDCODE_SURFACE=nonsense"}, nil} {
		v := w.serve(t, env, "--port", "0", "--demo")
		if a := v.chat(t, say("Reply with exactly: fine")); a.Content != "fine" {
			t.Errorf("got %+v", a)
		}
		type model struct{ ID string }
		for _, m := range listed[model](t, v, "/v1/models") {
			if m.ID == "outside/model" {
				t.Errorf("%v: the models are the gateway's", env)
			}
		}
		v.end(t)
		wantAll(t, v.stderr.String(), "simulator")
	}
	if n := len(w.upstream()); n != 0 {
		t.Errorf("the gateway got %d requests", n)
	}
}
