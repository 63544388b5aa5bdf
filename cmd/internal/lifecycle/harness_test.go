//go:build unix

package lifecycle

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const (
	testPatience = 60 * time.Second // what nothing takes unless it hangs
	testKey      = "open-sesame-123"
	envRole      = "AMPLIFIER_AGENT_TEST_ROLE"
	envMark      = "AMPLIFIER_AGENT_TEST_MARK"

	testSetting    = "TEST_SETTING"
	testUnset      = "TEST_UNSET" // a setting, too
	testCredential = "TEST_CREDENTIAL"

	// promptExit is for children under -race, which otherwise linger for a second in case of late reports.
	promptExit = "GORACE=atexit_sleep_ms=0"
)

// TestMain lets the test binary play a server, so that PIDs and signals are those of real processes.
func TestMain(m *testing.M) {
	if role := os.Getenv(envRole); role != "" {
		time.AfterFunc(testPatience, func() { os.Exit(3) }) // whatever becomes of the test
		if err := play(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// play is a server, in these roles:
//
//	serve    answers, and removes its files on SIGTERM
//	keep     ends on SIGTERM and leaves its files
//	ignore   does not end on SIGTERM
//	linger   takes longer to end than is the default, as its drain says
//	mute     never answers
//	once     serves the first time, and the second time fails with an explanation
//	silent   serves the first time, and the second time ends without a word
//	gate     waits for a line on stdin before it publishes
//	idle     is no server at all
//	loop     publishes and removes many times
//
// The umask takes nothing away.
func play(role string) error {
	syscall.Umask(0)
	home := os.Getenv(envHome)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	l := Launch{Settings: []string{testSetting, testUnset}, Credentials: []string{testCredential, "TEST_UNUSED_CREDENTIAL"}}
	if role == "linger" {
		l.DrainSeconds = 3600
	}
	s := State{APIKey: os.Getenv(envKey), ProvidersSummary: map[string]int{"acme": 2}}
	if len(os.Args) > 2 {
		l.Face = os.Args[2]
		flags := flag.NewFlagSet("server", flag.ContinueOnError)
		flags.StringVar(&s.Host, "bind", "127.0.0.1", "")
		flags.IntVar(&s.Port, "port", 0, "")
		flags.StringVar(&s.Workspace, "workspace", "", "")
		flags.StringVar(&l.ModelID, "model-id", "", "")
		flags.StringVar(&l.LogLevel, "log-level", "", "")
		flags.BoolVar(&l.Demo, "demo", false, "")
		flags.StringVar(&l.Record, "record", "", "")
		config := flags.String("config", "", "")
		if err := flags.Parse(os.Args[3:]); err != nil {
			return err
		}
		if *config != "" {
			s.HostConfigPath = config
		}
	}
	switch role {
	case "idle":
		fmt.Println("ready")
		<-term
		return nil
	case "loop":
		return publishOften(home)
	case "once", "silent":
		mark := os.Getenv(envMark)
		if _, err := os.Stat(mark); err == nil {
			if role == "silent" {
				return nil
			}
			return fmt.Errorf("the key is %s\nno provider has credentials: export ACME_KEY", s.APIKey)
		}
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			return err
		}
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(s.Host, strconv.Itoa(s.Port)))
	if err != nil {
		return err
	}
	s.Port = ln.Addr().(*net.TCPAddr).Port
	if role != "mute" {
		go func() { _ = http.Serve(ln, http.HandlerFunc(models)) }()
	}
	if role == "gate" {
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			return err
		}
	}
	p, err := Publish(home, s, l)
	if err != nil {
		return err
	}
	fmt.Println("ready", s.Port, p.Path())
	<-term
	switch role {
	case "keep":
		return nil
	case "ignore":
		select {}
	case "linger":
		time.Sleep(minPatience + time.Second)
	}
	return p.Remove()
}

func models(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/models" || r.Header.Get("Authorization") != "Bearer "+os.Getenv(envKey) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	fmt.Fprint(w, `{"object":"list","data":[{"id":"a","_provider":"zeta"},{"id":"b","_provider":"acme"},{"id":"c","_provider":"acme"},{"id":"d"}]}`)
}

const manyTimes = 1000

func publishOften(home string) error {
	for range manyTimes {
		p, err := Publish(home, State{Host: "127.0.0.1", Port: 9099, APIKey: testKey, Workspace: "w"}, Launch{Face: "chat-completions"})
		if err != nil {
			return err
		}
		if err := p.Remove(); err != nil {
			return err
		}
	}
	return nil
}

// actor is a started process in a role.
type actor struct {
	cmd   *exec.Cmd
	pid   int
	port  int
	file  string // state file
	stdin *bufio.Writer
	lines *bufio.Scanner
	done  chan struct{}
}

// enter starts a process in a role.
func enter(t *testing.T, home, role string, env []string, args ...string) *actor {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := &actor{cmd: exec.Command(exe, append([]string{"serve", "chat-completions"}, args...)...), done: make(chan struct{})}
	a.cmd.Env = append([]string{envRole + "=" + role, envHome + "=" + home, envKey + "=" + testKey, "PATH=" + os.Getenv("PATH"), promptExit}, env...)
	a.cmd.Dir = t.TempDir()
	a.cmd.Stderr = os.Stderr
	stdin, err := a.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	a.stdin = bufio.NewWriter(stdin)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	a.cmd.Stdout = in
	a.lines = bufio.NewScanner(out)
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a.pid = a.cmd.Process.Pid
	go func() {
		_ = a.cmd.Wait()
		close(a.done)
	}()
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill()
		<-a.done
		out.Close()
	})
	return a
}

// ready waits until it is.
func (a *actor) ready(t *testing.T) *actor {
	t.Helper()
	if !a.lines.Scan() {
		t.Fatalf("the process ended before it was ready: %v", a.lines.Err())
	}
	words := strings.Fields(a.lines.Text())
	if len(words) == 3 {
		a.port, _ = strconv.Atoi(words[1])
		a.file = words[2]
	}
	return a
}

func serve(t *testing.T, home, role string, env []string, args ...string) *actor {
	t.Helper()
	return enter(t, home, role, env, args...).ready(t)
}

func (a *actor) ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// result is what a command did.
type result struct {
	code           int
	stdout, stderr string // and the error as main prints it
}

func command(t *testing.T, c Command, o Options) result {
	t.Helper()
	if o.Timeout == nil {
		o.Timeout = new(testPatience) // so that a busy machine makes no SIGKILL of it
	}
	return run(t, c, o)
}

func run(t *testing.T, c Command, o Options) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	o.Stdout, o.Stderr = &stdout, &stderr
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	defer cancel()
	code, err := c(ctx, o)
	if err != nil {
		fmt.Fprintf(&stderr, "amplifier-agent: %v\n", err)
	}
	if strings.Contains(stdout.String()+stderr.String(), testKey) {
		t.Errorf("the key was printed:\n%s%s", stdout.String(), stderr.String())
	}
	return result{code, stdout.String(), stderr.String()}
}

// check compares a result. Each of the texts must be all of the stream or, with an ellipsis at the end, its start.
func (r result) check(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	is := func(got, want string) bool {
		start, more := strings.CutSuffix(want, "…")
		return got == want || more && strings.HasPrefix(got, start)
	}
	if r.code != code || !is(r.stdout, stdout) || !is(r.stderr, stderr) {
		t.Errorf("exit code %d, want %d\nstdout %q\n  want %q\nstderr %q\n  want %q", r.code, code, r.stdout, stdout, r.stderr, stderr)
	}
}

// memory is a home on which a sync costs nothing, where the system has such a place.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "lifecycle-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// gone checks that a home knows of no server.
func gone(t *testing.T, home string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(home, "state"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if n := e.Name(); n != "serve.lock" && n != "serve.log" {
			t.Errorf("%s is left", n)
		}
	}
}

// put writes a state file as if another program had.
func put(t *testing.T, home, name, content string) string {
	t.Helper()
	dir := filepath.Join(home, "state")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// stateOf is a state file's content.
func stateOf(pid, port int, started time.Time) string {
	return fmt.Sprintf(`{"pid":%d,"started_at":%q,"host":"127.0.0.1","port":%d,"api_key":%q,"workspace":"w","host_config_path":null,"providers_summary":{},"schema_version":1}`,
		pid, started.UTC().Format(timeLayout), port, testKey)
}

// deadPID was that of a process.
func deadPID(t *testing.T) int {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe, "-test.run=^$")
	c.Env = append(os.Environ(), promptExit)
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	return c.ProcessState.Pid()
}

func mustState(t *testing.T, path string) State {
	t.Helper()
	s, err := readState(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
