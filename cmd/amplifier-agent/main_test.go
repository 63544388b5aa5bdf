package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"amplifier-agent/routes/chat"
)

// testPatience bounds what a test waits for; nothing takes that long unless it hangs.
const testPatience = 60 * time.Second

// TestMain lets the test binary play the program, so that signals and streams are those of a real process.
func TestMain(m *testing.M) {
	if os.Getenv("AMPLIFIER_AGENT_TEST_AS_PROGRAM") == "1" {
		main()
	}
	os.Exit(m.Run())
}

// program is this test binary as the program, in an environment of its own.
func program(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, exe, args...)
	c.Env = append([]string{"AMPLIFIER_AGENT_TEST_AS_PROGRAM=1", "GORACE=atexit_sleep_ms=0", "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}, env...)
	c.Dir = t.TempDir()
	for _, entry := range env {
		if dir, ok := strings.CutPrefix(entry, testDir); ok {
			c.Dir = dir
		}
	}
	return c
}

func exitCode(err error) int {
	if e, ok := err.(*exec.ExitError); ok {
		return e.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// server is a started program that serves.
type server struct {
	cmd    *exec.Cmd
	url    string
	stdout bytes.Buffer
	stderr lines
	read   chan struct{}
}

// lines gathers what a program has said so far. It may be read while the program runs.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.WriteString(line + "\n")
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func startServer(t *testing.T, env []string, args ...string) *server {
	t.Helper()
	s := &server{cmd: program(t, env, args...), read: make(chan struct{})}
	s.cmd.Stdout = &s.stdout
	pipe, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	ready := make(chan string, 1)
	go func() {
		defer close(s.read)
		defer close(ready)
		for scan := bufio.NewScanner(pipe); scan.Scan(); {
			s.stderr.add(scan.Text())
			if rest, ok := strings.CutPrefix(scan.Text(), "ready: OPENAI_BASE_URL="); ok {
				ready <- strings.Fields(rest)[0]
			}
		}
	}()
	url, ok := <-ready
	if !ok {
		t.Fatalf("the server ended before it was ready:\n%s", s.stderr.String())
	}
	s.url = url
	return s
}

func (s *server) stop(t *testing.T, sig os.Signal) int {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	<-s.read
	return exitCode(s.cmd.Wait())
}

func (s *server) post(t *testing.T, key, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.url+"/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

const question = `{"model":"` + demoModel + `","messages":[{"role":"user","content":"Reply with exactly: hello"}]}`

func TestServeDemo(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		s := startServer(t, nil, "serve", "chat-completions", "--demo", "--port", "0", "--model-id", "label", "--api-key", "sesame")
		status, body := s.post(t, "sesame", question)
		if status != 200 || !strings.Contains(body, `"content":"hello"`) || !strings.Contains(body, `"model":"label"`) || !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("status %d: %s", status, body)
		}
		if status, _ := s.post(t, "wrong", question); status != 401 {
			t.Errorf("status %d with a wrong key", status)
		}
		if code := s.stop(t, sig); code != 0 {
			t.Errorf("%v: exit code %d:\n%s", sig, code, s.stderr.String())
		}
		if s.stdout.Len() > 0 {
			t.Errorf("stdout: %q", s.stdout.String())
		}
		for _, word := range []string{"sesame", "label", "(cwd-derived)", "(none)", "listening on http://127.0.0.1:"} {
			if !strings.Contains(s.stderr.String(), word) {
				t.Errorf("the banner lacks %q:\n%s", word, s.stderr.String())
			}
		}
	}
}

// TestSignalLetsStreamsEnd: an answer that is under way is finished before the process ends.
func TestSignalLetsStreamsEnd(t *testing.T) {
	s := startServer(t, nil, "serve", "chat-completions", "--demo", "--port", "0")
	req, err := http.NewRequest(http.MethodPost, s.url+"/chat/completions", strings.NewReader(strings.Replace(question, "Reply with exactly: hello", "Count slowly to 20", 1)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+defaultKey)
	resp, err := http.DefaultClient.Do(req) // returns with the first chunk
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(b), `"finish_reason":"stop"`) || strings.Contains(string(b), "error") {
		t.Errorf("error %v, answer %s", err, b)
	}
	<-s.read
	if code := exitCode(s.cmd.Wait()); code != 0 {
		t.Errorf("exit code %d:\n%s", code, s.stderr.String())
	}
}

// TestLogReaderGone: a server outlives whoever read its log.
func TestLogReaderGone(t *testing.T) {
	c := program(t, nil, "serve", "chat-completions", "--demo", "--port", "0")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	w.Close()
	s := &server{cmd: c}
	for scan := bufio.NewScanner(r); s.url == "" && scan.Scan(); {
		if rest, ok := strings.CutPrefix(scan.Text(), "ready: OPENAI_BASE_URL="); ok {
			s.url = strings.Fields(rest)[0]
		}
	}
	r.Close() // from now on each line of the log breaks a pipe
	for range 3 {
		if status, body := s.post(t, defaultKey, question); status != 200 || !strings.Contains(body, "[DONE]") {
			t.Errorf("status %d: %s", status, body)
		}
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(c.Wait()); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestListensWhereItIsTold: every address of IPv4 is not every address, and the ready line names one that can be reached.
func TestListensWhereItIsTold(t *testing.T) {
	s := startServer(t, nil, "serve", "chat-completions", "--demo", "--port", "0", "--bind", "0.0.0.0", "--api-key", "k")
	port, ok := strings.CutPrefix(strings.TrimSuffix(s.url, "/v1"), "http://127.0.0.1:")
	if !ok {
		t.Fatalf("ready at %s", s.url)
	}
	if c, err := net.Dial("tcp", net.JoinHostPort("::1", port)); err == nil {
		c.Close()
		t.Error("it listens on IPv6, too")
	}
	if !strings.Contains(s.stderr.String(), "listening on http://0.0.0.0:"+port) {
		t.Errorf("the banner says\n%s", s.stderr.String())
	}
	if code := s.stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestPrintable: what others wrote does not reach the terminal as it is.
func TestPrintable(t *testing.T) {
	for s, want := range map[string]string{"plain": "plain", "a\nb\tc": "a b c", "\x1b[31mred": "\uFFFD[31mred", "北京 é": "北京 é", "\u202egnp": "\uFFFDgnp"} {
		if got := printable(s); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}

func TestEnvironmentAlone(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	s := startServer(t, []string{envPrefix + "PORT=" + strconv.Itoa(port), envPrefix + "API_KEY=from-env", envPrefix + "MODEL_ID=env-label",
		envPrefix + "STREAM_DEFAULT=json", envPrefix + "WORKSPACE=my-space"}, "serve", "chat-completions", "--demo")
	if want := "http://127.0.0.1:" + strconv.Itoa(port) + "/v1"; s.url != want {
		t.Errorf("listening on %s, want %s", s.url, want)
	}
	status, body := s.post(t, "from-env", question)
	if status != 200 || !strings.Contains(body, `"object":"chat.completion"`) || !strings.Contains(body, "env-label") {
		t.Errorf("status %d: %s", status, body)
	}
	if code := s.stop(t, syscall.SIGTERM); code != 0 || !strings.Contains(s.stderr.String(), "my-space") {
		t.Errorf("exit code %d:\n%s", code, s.stderr.String())
	}
}

func TestStartupFailures(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { busy.Close() }) // the rows run in parallel, after this function
	port := strconv.Itoa(busy.Addr().(*net.TCPAddr).Port)
	for _, row := range []struct {
		name string
		env  []string
		args []string
		says string
	}{
		{"no credentials", nil, nil, "COMMANDCODE_API_KEY"},
		{"surface not chosen", []string{"COMMANDCODE_API_KEY=k"}, nil, "COMMANDCODE_SURFACE"},
		{"unknown surface", []string{"COMMANDCODE_API_KEY=k", "COMMANDCODE_SURFACE=x"}, nil, "unknown surface"},
		{"no such upstream", []string{"COMMANDCODE_API_KEY=k", "COMMANDCODE_BASE_URL=http://127.0.0.1:1"}, nil, "no provider yielded a model"},
		{"bad base URL", []string{"COMMANDCODE_API_KEY=k", "COMMANDCODE_BASE_URL=nonsense"}, nil, "COMMANDCODE_BASE_URL"},
		{"busy port", nil, []string{"--demo", "--port", port}, "--port"},
		{"no such config", nil, []string{"--demo", "--config", "/no/such/file"}, "no such file"},
		{"config is a folder", nil, []string{"--demo", "--config", "/"}, "it is a folder"},
		{"bad workspace", nil, []string{"--demo", "--workspace", "-x"}, "workspace"},
		{"bad level", nil, []string{"--demo", "--log-level", "loud"}, "log level"},
		{"bad stream default", []string{envPrefix + "STREAM_DEFAULT=x"}, []string{"--demo"}, "STREAM_DEFAULT"},
		{"open to all with the default key", nil, []string{"--demo", "--bind", "0.0.0.0"}, "default API key"},
		{"empty key", nil, []string{"--demo", "--api-key", ""}, "must not be empty"},
		{"bad port", nil, []string{"--demo", "--port", "70000"}, "port 70000"},
		{"no key for every page", []string{envPrefix + "AUTH=off", envPrefix + "ALLOW_ORIGINS=*"}, []string{"--demo"}, "ALLOW_ORIGINS must name origins"},
		{"neither on nor off", []string{"COMMANDCODE_API_KEY=k", "COMMANDCODE_BASE_URL=http://127.0.0.1:1", "CMD_ZDR=perhaps"}, nil, "CMD_ZDR"},
		{"bad allowed host", []string{envPrefix + "ALLOW_HOSTS=a b"}, []string{"--demo"}, "ALLOW_HOSTS"},
		{"unknown flag", nil, []string{"--nonsense"}, "unknown flag"},
		{"an argument", nil, []string{"what"}, "what"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := program(t, row.env, append([]string{"serve", "chat-completions"}, row.args...)...)
			var stdout, stderr bytes.Buffer
			c.Stdout, c.Stderr = &stdout, &stderr
			if code := exitCode(c.Run()); code != exitUsage {
				t.Errorf("exit code %d", code)
			}
			if stdout.Len() > 0 || !strings.Contains(stderr.String(), row.says) {
				t.Errorf("stdout %q, stderr %q, want it to say %q", stdout.String(), stderr.String(), row.says)
			}
		})
	}
}

func TestPrecedence(t *testing.T) {
	env := map[string]string{}
	resolve := func(args ...string) (serveOptions, error) {
		var f serveFlags
		c := &cobra.Command{}
		f.register(c)
		if err := c.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		return f.resolve(c, func(name string) string { return env[name] })
	}
	o, err := resolve()
	if err != nil || o.bind != "127.0.0.1" || o.port != 9099 || o.key != "local-dev-secret" || o.modelID != "amplifier" || !o.derived || o.stream != chat.StreamAuto || o.config != "" {
		t.Errorf("defaults %+v, error %v", o, err)
	}
	file := filepath.Join(t.TempDir(), "c.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	env = map[string]string{envPrefix + "BIND": "localhost", envPrefix + "PORT": "1234", envPrefix + "API_KEY": "k", envPrefix + "MODEL_ID": "m",
		"AMPLIFIER_AGENT_WORKSPACE": "general", "AMPLIFIER_AGENT_CONFIG": file, envPrefix + "MODEL_NAME": "ignored"}
	o, err = resolve()
	if err != nil || o.bind != "localhost" || o.port != 1234 || o.key != "k" || o.modelID != "m" || o.workspace != "general" || o.derived || o.config != file {
		t.Errorf("environment %+v, error %v", o, err)
	}
	env[envPrefix+"WORKSPACE"] = "special"
	o, err = resolve("--bind", "127.0.0.1", "--port", "9099", "--api-key", "local-dev-secret", "--model-id", "amplifier")
	if err != nil || o.bind != "127.0.0.1" || o.port != 9099 || o.key != "local-dev-secret" || o.modelID != "amplifier" || o.workspace != "special" {
		t.Errorf("flags %+v, error %v", o, err)
	}
	env[envPrefix+"PORT"] = "ninety"
	if o, err = resolve(); err != nil || o.port != 9099 {
		t.Errorf("a port that is no number gives %d, error %v", o.port, err)
	}
}

func TestDemoAnswers(t *testing.T) {
	c := program(t, nil, "demo", "Reply with exactly:", "one two")
	out, err := c.Output()
	if err != nil || string(out) != "one two\n" {
		t.Errorf("stdout %q, error %v", out, err)
	}
	out, err = program(t, nil, "demo", "--raw", "Reply with exactly: one").Output()
	if err != nil || !strings.HasPrefix(string(out), "data: {") || !strings.HasSuffix(string(out), "data: [DONE]\n\n") {
		t.Errorf("stdout %q, error %v", out, err)
	}
}

func TestVersionAndHelp(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"version"}, &out, &errs); code != 0 || !strings.HasPrefix(out.String(), "amplifier-agent "+release) {
		t.Errorf("exit code %d, stdout %q", code, out.String())
	}
	for _, args := range [][]string{{"serve"}, {"models"}, {"--help"}} {
		out.Reset()
		if code := run(t.Context(), args, &out, &errs); code != 0 || !strings.Contains(out.String(), "Usage:") {
			t.Errorf("%v: exit code %d, stdout %q", args, code, out.String())
		}
	}
	errs.Reset()
	if code := run(t.Context(), []string{"nonsense"}, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), "nonsense") {
		t.Errorf("exit code %d, stderr %q", code, errs.String())
	}
}
