package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"amplifier-agent/routes/chat/chattest"
	"amplifier-agent/upstream/simulator"
)

// world is the program as users have it: a process with a home and a working directory of its own, in front of a simulator that
// this test process runs and may script and look into. docs/contract.md says which test stands for which statement.
type world struct {
	*server
	sim  *simulator.Server
	home string // $HOME of the program; its state is below home/.amplifier-agent
	cwd  string
}

// scene is what a world begins with.
type scene struct {
	sim    simulator.Options
	config string            // host config; "" for none
	files  map[string]string // content by path: below the home if it begins with ~/, else below the working directory
	env    []string
	args   []string // of serve chat-completions
}

const (
	contractKey   = "contract-key"
	contractModel = "deepseek/deepseek-v4-pro" // one that the simulator serves
)

// stage sets the scene and starts the program.
func stage(t *testing.T, s scene) *world {
	t.Helper()
	w := prepare(t, s)
	w.server = startServer(t, w.environ(s.env...), append([]string{"serve", "chat-completions", "--port", "0"}, s.args...)...)
	return w
}

// prepare sets the scene and starts nothing but the simulator.
func prepare(t *testing.T, s scene) *world {
	t.Helper()
	sim, err := simulator.Start(s.sim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	w := &world{sim: sim, home: t.TempDir(), cwd: t.TempDir()}
	if s.config != "" {
		w.write(t, "host.json", s.config)
	}
	for _, path := range slices.Sorted(maps.Keys(s.files)) {
		w.write(t, path, s.files[path])
	}
	return w
}

// write writes a file, see scene.files.
func (w *world) write(t *testing.T, path, content string) string {
	t.Helper()
	dir := w.cwd
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		dir, path = w.home, rest
	}
	path = filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// environ is the program's environment: the simulator is the gateway, and everything else is the default, but for more.
func (w *world) environ(more ...string) []string {
	env := []string{"HOME=" + w.home, "COMMANDCODE_API_KEY=upstream-key", "COMMANDCODE_BASE_URL=" + w.sim.URL(), envPrefix + "API_KEY=" + contractKey, testDir + w.cwd}
	if _, err := os.Stat(filepath.Join(w.cwd, "host.json")); err == nil {
		env = append(env, envPrefix+"CONFIG_PATH="+filepath.Join(w.cwd, "host.json"))
	}
	return append(env, more...)
}

// testDir begins an entry of an environment that is the program's working directory.
const testDir = "AMPLIFIER_TEST_DIR="

// request sends a request to path, which begins with a slash, with the right key unless a header says otherwise.
func (w *world) request(t *testing.T, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(w.url, "/v1")+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+contractKey)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// chat asks with body and reads the answer strictly, by whichever way it comes.
func (w *world) chat(t *testing.T, body string, header ...string) chattest.Answer {
	t.Helper()
	resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", body, header...)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", resp.StatusCode, b)
	}
	a, err := chattest.Parser(strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"))([]byte(b))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// refused asks with body and checks that it is refused with status and code, in the one error form. It returns the message.
func (w *world) refused(t *testing.T, status int, code, body string, header ...string) string {
	t.Helper()
	resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", body, header...)
	return wantRefusal(t, resp, b, status, code)
}

func wantRefusal(t *testing.T, resp *http.Response, body string, status int, code string) string {
	t.Helper()
	var e struct {
		Error struct {
			Message string
			Type    string
			Param   *string
			Code    *string
		}
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		t.Fatalf("status %d, no error body: %v: %s", resp.StatusCode, err, body)
	}
	if got := e.Error.Code; resp.StatusCode != status || got == nil || *got != code || e.Error.Message == "" || e.Error.Type == "" {
		t.Errorf("got status %d: %s\nwant status %d, code %s", resp.StatusCode, body, status, code)
	}
	return e.Error.Message
}

// upstream returns the requests that the gateway has got.
func (w *world) upstream() []*simulator.Request { return w.sim.Requests() }

// last is the last request that the gateway has got.
func (w *world) last(t *testing.T) *simulator.Request {
	t.Helper()
	list := w.sim.Requests()
	if len(list) == 0 {
		t.Fatal("nothing reached the gateway")
	}
	return list[len(list)-1]
}

// conversation is the messages of a request to the gateway, each as "role: text", results as "tool ID: text", calls as "call ID NAME INPUT".
func conversation(r *simulator.Request) (list []string) {
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			switch p.Type {
			case "tool-call":
				list = append(list, fmt.Sprintf("call %s %s %s", p.ToolCallID, p.ToolName, p.Input))
			case "tool-result":
				list = append(list, fmt.Sprintf("tool %s: %s", p.ToolCallID, p.Output.Value))
			default:
				list = append(list, m.Role+": "+p.Text)
			}
		}
	}
	return list
}

// say is a request of one user message, with more members of the body behind it, each with its comma in front.
func say(prompt string, more ...string) string {
	return body(message("user", prompt), more...)
}

// body is a request with messages, which are joined by commas.
func body(messages string, more ...string) string {
	return `{"model":"` + contractModel + `","messages":[` + messages + `]` + strings.Join(more, "") + `}`
}

func message(role, text string) string {
	b, _ := json.Marshal(map[string]string{"role": role, "content": text})
	return string(b)
}

// end stops the program as a service manager does, and checks that it ends well.
func (w *world) end(t *testing.T) {
	t.Helper()
	if code := w.stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d:\n%s", code, w.stderr.String())
	}
}

// command runs the program to its end in the world's place.
func (w *world) command(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	c := program(t, w.environ(env...), args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	code = exitCode(c.Run())
	return code, out.String(), errs.String()
}

// session is the folder in which a conversation of the default workspace is stored.
func (w *world) session(t *testing.T, workspace, id string) string {
	t.Helper()
	return filepath.Join(w.home, ".amplifier-agent", "state", "workspaces", workspace, "sessions", id)
}

// eventually waits for a condition that others bring about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(testPatience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}
