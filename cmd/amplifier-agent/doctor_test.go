package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"amplifier-agent/pipeline/config"
	"amplifier-agent/upstream/simulator"
)

// refusing is an address at which nobody listens.
func refusing(t *testing.T) string { return "127.0.0.1:" + freePort(t) }

// patient is the environment of a server that has nothing to complain of, with its upstream.
func patient(t *testing.T, home string) (env []string, upstream, port string) {
	t.Helper()
	sim, err := simulator.Start(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	port = freePort(t)
	return []string{"HOME=" + home, "AMPLIFIER_AGENT_HOME=" + filepath.Join(home, "h"), "COMMANDCODE_API_KEY=" + doctorKey, "COMMANDCODE_BASE_URL=" + sim.URL(), envPrefix + "PORT=" + port}, sim.URL(), port
}

const doctorKey = "sk-doctor-0123456789"

// diagnose runs the doctor and returns what it found of each check, a line a finding.
func diagnose(t *testing.T, env []string, args ...string) (code int, found map[string]string, all string) {
	t.Helper()
	got := speak(t, "", env, append([]string{"doctor"}, args...)...)
	found = map[string]string{}
	for line := range strings.Lines(got.stdout) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			t.Fatalf("a line that says nothing: %q\n%s", line, got.stdout+got.stderr)
		}
		found[fields[1]] += fields[0] + " " + strings.Join(fields[2:], " ") + "\n"
	}
	return got.code, found, got.stdout + got.stderr
}

func TestDoctorFindsNothing(t *testing.T) {
	home := t.TempDir()
	env, upstream, port := patient(t, home)
	code, found, all := diagnose(t, env)
	if code != 0 || len(found) != len(checks) || strings.Contains(all, "warn ") || strings.Contains(all, doctorKey) {
		t.Errorf("exit code %d:\n%s", code, all)
	}
	for check, want := range map[string]string{
		"home":        "ok " + home + "/h is not there yet",
		"config":      "ok no host config: defaults apply\n",
		"credentials": "ok commandcode: …6789 from $COMMANDCODE_API_KEY\nok none for anthropic, ",
		"providers":   "ok commandcode can be asked\n",
		"upstream":    "ok commandcode at " + upstream + " can be reached\n",
		"servers":     "ok none runs\n",
		"port":        "ok 127.0.0.1:" + port + " is free\n",
		"catalog":     "ok 2 modes\nok 2 skills\n",
		"clock":       "ok ",
	} {
		if !strings.HasPrefix(found[check], want) {
			t.Errorf("%s: %q, want %q", check, found[check], want)
		}
	}
	if !strings.HasSuffix(found["clock"], ", as commandcode has it\n") {
		t.Errorf("clock: %q", found["clock"])
	}
}

func TestDoctor(t *testing.T) {
	env, _, port := patient(t, t.TempDir())
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	dead := refusing(t)
	for _, r := range []struct {
		name  string
		env   string // more of it, space between
		files map[string]string
		modes map[string]os.FileMode
		code  int
		check string
		want  string // how the check's finding begins, or a part of it behind …
	}{
		{"a tight home", "", map[string]string{"h/x": ""}, map[string]os.FileMode{"h": 0o700}, 0, "home", "ok HOME/h can be written to, by this user only"},
		{"an open home", "", map[string]string{"h/x": ""}, map[string]os.FileMode{"h": 0o755}, 0, "home", "warn HOME/h is open to others (mode 0755): chmod 700 it"},
		{"an open state folder", "", map[string]string{"h/state/x": ""}, map[string]os.FileMode{"h": 0o700, "h/state": 0o750}, 0, "home", "warn HOME/h/state is open"},
		{"no folder", "", map[string]string{"h": ""}, nil, 1, "home", "fail HOME/h is no folder: move it"},
		{"an unknown key", "AMPLIFIER_AGENT_CONFIG=HOME/c.json", map[string]string{"c.json": `{"limit":{}}`}, nil, 1, "config", "…did you mean \"limits\"?: correct it"},
		{"no providers without a config", "AMPLIFIER_AGENT_CONFIG=HOME/c.json", map[string]string{"c.json": `{"limit":{}}`}, nil, 1, "providers", "warn not looked at"},
		{"a good config", "AMPLIFIER_AGENT_CONFIG=HOME/c.json", map[string]string{"c.json": `{}`}, nil, 0, "config", "ok HOME/c.json"},
		{"tools that are not there", "AMPLIFIER_AGENT_CONFIG=HOME/c.json", map[string]string{"c.json": `{"tools":["x"]}`}, nil, 1, "config", "…\nfail config: tools"},
		{"a damaged file of keys", "", map[string]string{"h/credentials.json": "{"}, map[string]os.FileMode{"h": 0o700}, 0, "credentials", "warn credentials HOME/h/credentials.json: line 1"},
		{"an open file of keys", "", map[string]string{"h/credentials.json": "{}"}, map[string]os.FileMode{"h": 0o700, "h/credentials.json": 0o644}, 0, "credentials", "…chmod 600 it"},
		{"a key of the file", "COMMANDCODE_API_KEY=", map[string]string{"h/credentials.json": `{"commandcode":"` + doctorKey + `"}`}, map[string]os.FileMode{"h": 0o700}, 0, "providers", "ok commandcode can be asked"},
		{"nobody to ask", "COMMANDCODE_API_KEY=", nil, nil, 1, "providers", "fail no provider has credentials"},
		{"an upstream that is not there", "COMMANDCODE_BASE_URL=http://" + dead, nil, nil, 1, "upstream", "…connection refused: start it, or correct its base_url"},
		{"no URL", "COMMANDCODE_BASE_URL=nonsense", nil, nil, 1, "upstream", "…correct its base_url"},
		{"a provider of the config", "AMPLIFIER_AGENT_CONFIG=HOME/c.json", map[string]string{"c.json": `{"providers":{"here":{"module":"commandcode","config":{"base_url":"http://u:` + doctorKey + `@` + dead + `"}}}}`}, nil, 1, "upstream", "fail here at http://" + dead + " cannot be reached"},
		{"the single block", "AMPLIFIER_AGENT_CONFIG=HOME/c.json", map[string]string{"c.json": `{"provider":{"config":{"base_url":"http://` + dead + `"}}}`}, nil, 1, "upstream", "fail commandcode at http://" + dead},
		{"a provider with an address by default", "AMPLIFIER_AGENT_CONFIG=HOME/c.json", map[string]string{"c.json": `{"providers":{"ollama":{}}}`}, nil, 1, "credentials", "ok ollama: http://localhost:11434 by default\nok not used, since the host config names others: commandcode\n"},
		{"a provider without a key", "AMPLIFIER_AGENT_CONFIG=HOME/c.json", map[string]string{"c.json": `{"providers":{"o":{"module":"openai","config":{"base_url":"http://` + dead + `"}}}}`}, nil, 1, "credentials", "…warn o (openai): $OPENAI_API_KEY is not set, and nothing stands in its place\n"},
		{"what a provider without a key needs", "AMPLIFIER_AGENT_CONFIG=HOME/c.json", map[string]string{"c.json": `{"providers":{"o":{"module":"openai","config":{"base_url":"http://` + dead + `"}}}}`}, nil, 1, "providers", "fail o: no credentials: OPENAI_API_KEY is not set: export it, or run: amplifier-agent auth set o <key>\n"},
		{"a key that is for this server's clients", "OPENAI_API_KEY=" + doctorKey + " " + envPrefix + "API_KEY=" + doctorKey + " COMMANDCODE_API_KEY=", nil, nil, 1, "credentials", "ok openai: …6789 from $OPENAI_API_KEY, which is the key of this server's own clients and not used"},
		{"entries that nobody reads", "", map[string]string{"h/credentials.json": `{"work":"` + doctorKey + `"}`}, map[string]os.FileMode{"h": 0o700}, 0, "credentials", "…\nok nobody reads these entries of HOME/h/credentials.json, since no kind of provider, nor one of the host config, is called so: work\n"},
		{"the server itself", "COMMANDCODE_BASE_URL=http://localhost:" + port + "/v1", nil, nil, 1, "upstream", "…the server itself"},
		{"a port that others have", envPrefix + "PORT=" + strconv.Itoa(taken.Addr().(*net.TCPAddr).Port), nil, nil, 1, "port", "…: choose another with --port"},
		{"options that contradict each other", envPrefix + "BIND=0.0.0.0", nil, nil, 1, "port", "fail refusing to listen"},
		{"a state file of a server that ended", "", map[string]string{"h/state/serve.json": `{"pid":4194305,"started_at":"2026-01-01T00:00:00.000000Z","host":"127.0.0.1","port":9,"schema_version":1}`},
			map[string]os.FileMode{"h": 0o700}, 0, "servers", "warn the server with PID 4194305 on port 9 has ended"},
		{"a corrupt state file", "", map[string]string{"h/state/serve.json": `{`}, map[string]os.FileMode{"h": 0o700}, 1, "servers", "fail state file HOME/h/state/serve.json is corrupt"},
		{"a damaged skill", "", map[string]string{".amplifier/skills/x/SKILL.md": "---\nname: [\n---\n"}, nil, 0, "catalog", "…\nwarn 1 files or folders"},
	} {
		t.Run(r.name, func(t *testing.T) {
			if r.modes != nil && runtime.GOOS == "windows" {
				t.Skip("files have no modes here")
			}
			home := t.TempDir()
			for path, content := range r.files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(home, path)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(home, path), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for path, mode := range r.modes {
				if err := os.Chmod(filepath.Join(home, path), mode); err != nil {
					t.Fatal(err)
				}
			}
			code, found, all := diagnose(t, append(slices.Clip(env), append(strings.Fields(strings.ReplaceAll(r.env, "HOME/", home+"/")), "HOME="+home, "AMPLIFIER_AGENT_HOME="+home+"/h")...))
			got := strings.ReplaceAll(found[r.check], home+"/", "HOME/")
			part, anywhere := strings.CutPrefix(r.want, "…")
			if code != r.code || !strings.HasPrefix(got, part) && !(anywhere && strings.Contains(got, part)) {
				t.Errorf("exit code %d, %s\nwant %d, %s\n%s", code, got, r.code, r.want, all)
			}
			if strings.Contains(all, doctorKey) {
				t.Errorf("the key shows:\n%s", all)
			}
			if code == 0 != !strings.Contains(all, "fail ") {
				t.Errorf("exit code %d:\n%s", code, all)
			}
		})
	}
}

// TestDoctorOfSeveralProviders: each is told of by its name, and one that is well tells the time.
func TestDoctorOfSeveralProviders(t *testing.T) {
	home := t.TempDir()
	env, upstream, _ := patient(t, home)
	dead := refusing(t)
	path := filepath.Join(home, "c.json")
	writeFile(t, path, `{"providers":{"gone":{"module":"commandcode","config":{"base_url":"http://`+dead+`","api_key":"k"}},"here":{"module":"commandcode"},"tapes":{"module":"replay"}}}`)
	code, found, all := diagnose(t, env, "--config", path)
	for check, want := range map[string]string{
		"config":      "ok " + path + "\n",
		"credentials": "ok gone (commandcode): … http://" + dead + " from the host config\nok here (commandcode): …6789 from $COMMANDCODE_API_KEY\n",
		"providers":   "ok gone can be asked\nok here can be asked\nfail tapes: say where the recordings are",
		"upstream":    "fail gone at http://" + dead + " cannot be reached: ",
	} {
		if !strings.HasPrefix(found[check], want) {
			t.Errorf("%s: %q, want %q", check, found[check], want)
		}
	}
	if code != 1 || !strings.HasSuffix(found["upstream"], "\nok here at "+upstream+" can be reached\n") || !strings.HasSuffix(found["clock"], ", as here has it\n") || strings.Contains(all, doctorKey) {
		t.Errorf("exit code %d:\n%s", code, all)
	}
}

// TestDoctorOfARunningServer: its port is no trouble.
func TestDoctorOfARunningServer(t *testing.T) {
	env, _, port := patient(t, t.TempDir())
	s := startServer(t, env, "serve", "chat-completions")
	code, found, all := diagnose(t, env)
	pid := strconv.Itoa(s.cmd.Process.Pid)
	if code != 0 || found["port"] != "ok "+port+" is in use by the server with PID "+pid+"\n" || !strings.Contains(found["servers"], "(PID "+pid+") serves ") {
		t.Errorf("exit code %d:\n%s", code, all)
	}
	got := speak(t, "", env, "doctor", "--json")
	var report struct {
		SchemaVersion int `json:"schema_version"`
		OK            bool
		Checks        []finding
	}
	if err := json.Unmarshal([]byte(got.stdout), &report); err != nil || !report.OK || report.SchemaVersion != 1 || len(report.Checks) < len(checks) || strings.Count(got.stdout, "\n") != 1 {
		t.Errorf("%+v: %v", got, err)
	}
	if code := s.stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestDoctorAsksForASurface: the doctor says what a startup would say.
func TestDoctorAsksForASurface(t *testing.T) {
	x := &examination{host: config.Default(), env: func(name string) string {
		return map[string]string{"COMMANDCODE_API_KEY": "k"}[name]
	}}
	checkCredentials(t.Context(), x)
	checkProviders(t.Context(), x)
	if last := x.found[len(x.found)-1]; last.Status != findingFail || !strings.Contains(last.Message, "COMMANDCODE_SURFACE") {
		t.Errorf("%+v", x.found)
	}
}

// TestDoctorLooksAtTheDefaultPort: without a variable it is the one that a server would take.
func TestDoctorLooksAtTheDefaultPort(t *testing.T) {
	x := &examination{env: func(string) string { return "" }}
	checkPort(t.Context(), x)
	if x.listens.port != defaultPort || x.listens.bind != defaultBind {
		t.Errorf("%s:%d", x.listens.bind, x.listens.port)
	}
}

func TestAddress(t *testing.T) {
	for _, r := range []struct{ module, cfg, env, want string }{
		{"commandcode", "", "", "https://api.commandcode.ai"},
		{"commandcode", "", "COMMANDCODE_BASE_URL=http://e", "http://e"},
		{"commandcode", `{"base_url":"http://c"}`, "COMMANDCODE_BASE_URL=http://e", "http://c"},
		{"anthropic", "", "", "https://api.anthropic.com"},
		{"openai", "", "", "https://api.openai.com/v1"},
		{"azure-openai", "", "AZURE_OPENAI_ENDPOINT=https://a", "https://a"},
		{"ollama", "", "OLLAMA_HOST=box:1", "http://box:1"},
		{"ollama", `{"base_url":"h:2"}`, "OLLAMA_HOST=box:1", "http://h:2"},
		{"anthropic", "", "ANTHROPIC_BASE_URL=http://e", "http://e"},
		{"openai", "", "OPENAI_BASE_URL=http://127.0.0.1:9099/v1", "https://api.openai.com/v1"},
		{"vllm", "", "VLLM_BASE_URL=http://v/v1", "http://v/v1"},
		{"vllm", "", "", ""},
		{"replay", `{"dir":"/x"}`, "", ""},
	} {
		name, value, _ := strings.Cut(r.env, "=")
		x := &examination{host: config.Default(), env: func(n string) string {
			if n == name {
				return value
			}
			return ""
		}}
		checkCredentials(t.Context(), x)
		if got, _ := x.address(use{r.module, r.module, []byte(r.cfg)}); got != r.want {
			t.Errorf("%s with %s %s: %q, want %q", r.module, r.cfg, r.env, got, r.want)
		}
	}
}

func TestClock(t *testing.T) {
	dated := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", "Tue, 01 Dec 2026 12:00:00 GMT")
	}))
	defer dated.Close()
	date, err := reach(t.Context(), dated.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		now  time.Time
		want string
	}{
		{date.Add(maxSkew), "ok"}, {date.Add(-maxSkew), "ok"}, {date.Add(maxSkew + time.Second), "warn"}, {date.Add(-maxSkew - time.Second), "warn"}, {date.AddDate(-10, 0, 0), "fail"},
	} {
		x := &examination{now: func() time.Time { return r.now }, dated: "here", skew: date.Sub(r.now)}
		checkClock(t.Context(), x)
		if len(x.found) != 1 || x.found[0].Status != r.want {
			t.Errorf("%s: %+v", r.now, x.found)
		}
	}
}

func TestReach(t *testing.T) {
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	_, err := reach(t.Context(), secure.URL, "")
	if err == nil || !strings.Contains(reachRemedy(err), "certificates") {
		t.Errorf("a certificate that nobody trusts: %v, %s", err, reachRemedy(err))
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if date, err := reach(t.Context(), secure.URL, ca); err != nil || date.IsZero() {
		t.Errorf("a certificate that is trusted: %v, %v", date, err)
	}
	for _, base := range []string{"", "h", "ftp://h", "http://", "http://a b", "http://[::1"} {
		if _, err := reach(t.Context(), base, ""); err != errNoURL {
			t.Errorf("%q: %v", base, err)
		}
	}

	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusProxyAuthRequired) }))
	defer proxy.Close()
	if _, err := reach(t.Context(), proxy.URL, ""); err != errProxyAuth || !strings.Contains(reachRemedy(err), "user:password") {
		t.Errorf("a proxy in between that wants to know who asks: %v", err)
	}

	// One that accepts and says nothing is there, and one that hangs up as well.
	for _, hangUp := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c, err := ln.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if _, err := c.Read(make([]byte, 1)); err != nil { // a request begins: there is a connection
				t.Error(err)
			}
			if !hangUp {
				cancel() // in place of the patience
				<-ctx.Done()
			}
		}()
		if date, err := reach(ctx, "http://"+ln.Addr().String(), ""); err != nil || !date.IsZero() {
			t.Errorf("hanging up %v: %v, %v", hangUp, date, err)
		}
		<-done
		cancel()
		ln.Close()
	}
}
