package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"amplifier-agent/pipeline/config"
	"amplifier-agent/upstream/simulator"
)

// readJSON reads a file of one object.
func readJSON(t *testing.T, path string) (m map[string]any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// stateFile is the path of the first server's state file in the world's home.
func (w *world) stateFile() string {
	return filepath.Join(w.home, ".amplifier-agent", "state", "serve.json")
}

func (w *world) state(t *testing.T) map[string]any {
	t.Helper()
	return readJSON(t, w.stateFile())
}

// gateway stands in front of a simulator and counts who asks for its models.
type gateway struct {
	*httptest.Server
	lists atomic.Int32 // times that the models were asked for
	left  atomic.Int32 // times that a client gave up waiting for hang
}

// lister answers for the models in the simulator's place if it returns true.
type lister func(*gateway, http.ResponseWriter, *http.Request) bool

func newGateway(t *testing.T, sim *simulator.Server, models lister) *gateway {
	t.Helper()
	behind, err := url.Parse(sim.URL())
	if err != nil {
		t.Fatal(err)
	}
	g := new(gateway)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(behind) }, FlushInterval: -1}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/provider/v1/models" {
			g.lists.Add(1)
			if models != nil && models(g, w, r) {
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

// hang never answers.
func hang(g *gateway, _ http.ResponseWriter, r *http.Request) bool {
	<-r.Context().Done()
	g.left.Add(1)
	return true
}

// says answers with a status and a body.
func says(status int, body string) lister {
	return func(_ *gateway, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

// providers is a host config with these entries, in this order.
func providers(entries ...string) string { return `{"providers":{` + strings.Join(entries, ",") + `}}` }

// entryAt is an entry of a provider under a free name, with more members of its config behind, each with its comma in front.
func entryAt(id, url, key string, more ...string) string {
	return fmt.Sprintf(`"%s":{"module":"commandcode","config":{"base_url":"%s","api_key":"%s"%s}}`, id, url, key, strings.Join(more, ""))
}

// noEnvironment takes away what the environment of the program says about providers.
var noEnvironment = []string{"COMMANDCODE_API_KEY=", "COMMANDCODE_BASE_URL="}

// servedIDs lists the models as id=provider.
func servedIDs(t *testing.T, w *world) (ids []string) {
	t.Helper()
	type model struct {
		ID       string
		Provider string `json:"_provider"`
	}
	for _, m := range listed[model](t, w, "/v1/models") {
		ids = append(ids, m.ID+"="+m.Provider)
	}
	return ids
}

// TestContractModelsOnce: what takes time happens at startup and not again: the gateway is asked once, whatever comes later.
func TestContractModelsOnce(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{})
	g := newGateway(t, w.sim, nil)
	v := w.serve(t, []string{"COMMANDCODE_BASE_URL=" + g.URL}, "--port", "0")
	for range 3 {
		v.chat(t, say("hi"))
		v.request(t, http.MethodGet, "/v1/models", "")
		v.refused(t, http.StatusBadRequest, "unknown_model", `{"model":"none","messages":[`+message("user", "hi")+`]}`)
	}
	if n := g.lists.Load(); n != 1 {
		t.Errorf("the gateway was asked %d times", n)
	}
	v.end(t)
}

// TestContractConfigInvalid: a host config that cannot be read or is not valid fails the startup, with the file and the key in
// words; so do tools, which this build has none of (rulings 8).
func TestContractConfigInvalid(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{})
	g := newGateway(t, w.sim, nil)
	path := filepath.Join(w.cwd, "host.json")
	for text, words := range map[string][]string{
		"":                                  {"config_malformed_json"},
		"{":                                 {"config_malformed_json", "line 1"},
		"[]":                                {"config_malformed_json"},
		`{"a":1}{}`:                         {"config_malformed_json"},
		`{"provider":{},"provider":{}}`:     {"config_malformed_json", "provider"},
		`{"provder":{}}`:                    {"config_unknown_key", `"provder"`, `"provider"`},
		`{"limits":{"drainSecs":1}}`:        {"config_unknown_key", "limits.drainSecs", "limits.drainSeconds"},
		`{"providers":[]}`:                  {"config_invalid_type", "providers"},
		`{"providers":{"a":{"modul":"x"}}}`: {"modul"},
		`{"providers":{"my-box":{}}}`:       {"config_invalid_provider_module", "my-box"},
		`{"providers":{"a":{"module":"nobody"}}}`: {"config_invalid_provider_module", "nobody"},
		`{"streamErrors":"loud"}`:                 {"streamErrors", "inline"},
		`{"preflightMs":"50"}`:                    {"preflightMs"},
		`{"tools":["bash"]}`:                      {"tools"},
	} {
		w.write(t, "host.json", text)
		said := w.refusesToServe(t, []string{"COMMANDCODE_BASE_URL=" + g.URL}, "--port", "0")
		wantAll(t, said, words...)
		if !strings.Contains(text, "tools") {
			wantAll(t, said, path)
		}
	}
	if n := g.lists.Load(); n != 0 {
		t.Errorf("the gateway was asked %d times", n)
	}
}

// TestContractStartupOrder: of two things that are wrong the one that comes first in rulings 5 is told, and what comes after it has
// not happened.
func TestContractStartupOrder(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { busy.Close() })
	_, port, _ := net.SplitHostPort(busy.Addr().String())
	w := prepare(t, scene{files: map[string]string{"bad.json": "{", ".amplifier/modes": "a file where a folder should be"}})
	noKey, noGateway := "COMMANDCODE_API_KEY=", "COMMANDCODE_BASE_URL=http://127.0.0.1:1"
	for _, row := range []struct {
		env, args []string
		says, not string
	}{
		{[]string{noKey}, []string{"--config", "bad.json"}, "bad.json", "COMMANDCODE_API_KEY"},
		{[]string{noKey, noGateway}, nil, "COMMANDCODE_API_KEY", "no provider yielded a model"},
		{[]string{noGateway}, nil, "no provider yielded a model", "modes"},
		{nil, nil, "modes could not be discovered", "state file"}, // and then the port
	} {
		said := w.refusesToServe(t, row.env, append([]string{"--port", port}, row.args...)...)
		wantAll(t, said, row.says)
		if strings.Contains(said, row.not) {
			t.Errorf("%q is said too:\n%s", row.not, said)
		}
		if inUse := strings.Contains(said, "127.0.0.1:"+port); inUse != (row.env == nil) {
			t.Errorf("%v: about the port:\n%s", row, said)
		}
		if _, err := os.Stat(w.stateFile()); err == nil {
			t.Errorf("%v: there is a state file", row)
		}
	}
	// The ready line comes last: who sees it finds the file.
	v := w.serve(t, nil, "--port", "0")
	if got := w.state(t)["pid"]; got != float64(v.cmd.Process.Pid) {
		t.Errorf("the file is that of %v", got)
	}
	v.end(t)
}

// TestContractProvidersAuthoritative: the providers that the host config names are the ones, in its order; what the environment could
// reach does not count, and does not stand in either.
func TestContractProvidersAuthoritative(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{}) // its simulator is what the environment reaches
	one := prepare(t, scene{sim: simulator.Options{Models: []simulator.Model{{ID: "one/b"}, {ID: "one/a"}}, Keys: []string{"key-1"}}}).sim
	two := prepare(t, scene{sim: simulator.Options{Models: []simulator.Model{{ID: "two/c"}}, Keys: []string{"key-2"}}}).sim
	w.write(t, "host.json", providers(entryAt("zulu", one.URL(), "key-1"), entryAt("alpha", two.URL(), "key-2")))
	v := w.serve(t, nil, "--port", "0")
	if got := servedIDs(t, v); !slices.Equal(got, []string{"one/b=zulu", "one/a=zulu", "two/c=alpha"}) {
		t.Errorf("served: %v", got)
	}
	v.refused(t, http.StatusBadRequest, "unknown_model", say("hi"))
	if got := asJSON(t, w.state(t)["providers_summary"]); got != `{"alpha":1,"zulu":2}` {
		t.Errorf("summary %s", got)
	}
	v.end(t)
	w.write(t, "host.json", providers(entryAt("zulu", "http://127.0.0.1:1", "key-1")))
	wantAll(t, w.refusesToServe(t, nil, "--port", "0"), "zulu", "no provider yielded a model")
	if n := len(w.upstream()); n != 0 {
		t.Errorf("what the environment reaches got %d requests", n)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestContractAutoEnable: without providers, each with credentials is used; if there are none, the startup ends with 2 and tells
// which variable to set.
func TestContractAutoEnable(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"no config": "", "absent": "{}", "empty": `{"providers":{}}`, "null": "null"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := prepare(t, scene{config: config})
			for _, key := range []string{"COMMANDCODE_API_KEY=k", "COMMAND_CODE_API_KEY=k"} {
				v := w.serve(t, []string{"COMMANDCODE_API_KEY=", key}, "--port", "0")
				if got := servedIDs(t, v); len(got) == 0 || got[0] != contractModel+"=commandcode" {
					t.Errorf("%s: served: %v", key, got)
				}
				v.end(t)
			}
			wantAll(t, w.refusesToServe(t, []string{"COMMANDCODE_API_KEY="}, "--port", "0"), "COMMANDCODE_API_KEY", "--demo", "--config")
		})
	}
}

// TestContractProvidersIndependent: a provider that cannot be made, cannot list its models or has none is logged and skipped, and the
// others serve. If none is left, the startup ends with 2 and names each.
func TestContractProvidersIndependent(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{})
	refusing, empty, odd := newGateway(t, w.sim, says(401, `{"error":{"message":"key refused"}}`)), newGateway(t, w.sim, says(200, `{"data":[]}`)), newGateway(t, w.sim, says(200, `<html>`))
	bad := []string{
		`"unbuilt":{"module":"github-copilot"}`, `"unkeyed":{"module":"commandcode","config":{"base_url":"` + w.sim.URL() + `"}}`,
		`"mistyped":{"module":"commandcode","config":{"base_url":7}}`, `"nowhere":{"module":"replay","config":{"dir":"no-such-folder"}}`,
		entryAt("refusing", refusing.URL, "k"), entryAt("odd", odd.URL, "k"), entryAt("absent", "http://127.0.0.1:1", "k"), entryAt("empty", empty.URL, "k"),
	}
	names := []string{"unbuilt", "unkeyed", "mistyped", "nowhere", "refusing", "odd", "absent", "empty"}
	w.write(t, "host.json", providers(append(slices.Clone(bad), entryAt("good", w.sim.URL(), "k"))...))
	v := w.serve(t, noEnvironment, "--port", "0")
	if a := v.chat(t, say("Reply with exactly: fine")); a.Content != "fine" {
		t.Errorf("got %+v", a)
	}
	for _, id := range servedIDs(t, v) {
		if !strings.HasSuffix(id, "=good") {
			t.Errorf("served: %s", id)
		}
	}
	summary, _ := w.state(t)["providers_summary"].(map[string]any)
	if len(summary) != 1 || summary["good"] == nil {
		t.Errorf("summary %v", summary)
	}
	v.end(t)
	skipped := map[string]string{} // level by name
	for line := range strings.Lines(v.stderr.String()) {
		for _, name := range names {
			if strings.Contains(line, "provider skipped") && strings.Contains(line, "provider="+name) {
				_, level, _ := strings.Cut(line, "level=")
				skipped[name], _, _ = strings.Cut(level, " ")
			}
		}
	}
	for _, name := range names {
		if want := map[bool]string{true: "WARN", false: "ERROR"}[name == "empty"]; skipped[name] != want {
			t.Errorf("%s is logged as %q, want %s:\n%s", name, skipped[name], want, v.stderr.String())
		}
	}

	w.write(t, "host.json", providers(bad...))
	said := w.refusesToServe(t, append(noEnvironment, envPrefix+"LOG_LEVEL=critical"), "--port", "0")
	for _, name := range names {
		wantAll(t, said, name+": ")
	}
	wantAll(t, said, "no provider yielded a model", "key refused")
	// One that has not a remedy in its own words gets it from the program.
	w.write(t, "host.json", providers(entryAt("absent", "http://127.0.0.1:1", "k")))
	wantAll(t, w.refusesToServe(t, noEnvironment, "--port", "0"), "absent: ", "no provider yielded a model", "--demo")
}

// TestContractProviderByModel: each request goes to the provider of its model. Of two that serve one id the first keeps it, the
// other has it as <provider>/<id>, which is accepted for each; the provider gets its own name of it (rulings 12). The config
// of an entry holds when its models are listed and at each turn, and the model on the wire is the one, whatever it says (rulings 9).
func TestContractProviderByModel(t *testing.T) {
	t.Parallel()
	model := func(ids ...string) (list []simulator.Model) {
		for _, id := range ids {
			list = append(list, simulator.Model{ID: id})
		}
		return list
	}
	w := prepare(t, scene{sim: simulator.Options{Models: model("same", "v/same", "west-only"), Keys: []string{"west-key"}}})
	east := prepare(t, scene{sim: simulator.Options{Models: model("east-only", "v/same", "same"), Keys: []string{"east-key"}}})
	w.write(t, "host.json", providers(
		entryAt("west", w.sim.URL(), "west-key", `,"max_tokens":111,"default_model":"west-only"`),
		entryAt("east", east.sim.URL(), "east-key", `,"max_tokens":222,"default_model":"east-only"`)))
	v := w.serve(t, []string{"COMMANDCODE_API_KEY=wrong", "COMMANDCODE_BASE_URL=http://127.0.0.1:1"}, "--port", "0")
	if got, want := servedIDs(t, v), []string{"same=west", "v/same=west", "west-only=west", "east-only=east", "east/v/same=east", "east/same=east"}; !slices.Equal(got, want) {
		t.Errorf("served: %v, want %v", got, want)
	}
	for _, row := range []struct {
		asked, model string
		from         *world
		tokens       int
	}{
		{"same", "same", w, 111}, {"west/same", "same", w, 111}, {"east/same", "same", east, 222},
		{"v/same", "v/same", w, 111}, {"west/v/same", "v/same", w, 111}, {"east/v/same", "v/same", east, 222},
		{"west-only", "west-only", w, 111}, {"west/west-only", "west-only", w, 111}, {"east-only", "east-only", east, 222}, {"east/east-only", "east-only", east, 222},
	} {
		before := len(w.upstream()) + len(east.upstream())
		a := v.chat(t, `{"model":"`+row.asked+`","messages":[`+message("user", "Reply with exactly: fine")+`]}`)
		r := row.from.last(t)
		if a.Content != "fine" || r.Model != row.model || r.MaxTokens != row.tokens || len(w.upstream())+len(east.upstream()) != before+1 {
			t.Errorf("%s: got %+v from %s with %d tokens", row.asked, a, r.Model, r.MaxTokens)
		}
		if resp, b := v.request(t, http.MethodGet, "/v1/models/"+row.asked, ""); resp.StatusCode != http.StatusOK {
			t.Errorf("GET of %s: status %d: %s", row.asked, resp.StatusCode, b)
		}
	}
	for _, asked := range []string{"west/east-only", "east/west-only", "commandcode/same", "west", "/same", "Same", "south/same"} {
		said := v.refused(t, http.StatusBadRequest, "unknown_model", `{"model":"`+asked+`","messages":[`+message("user", "hi")+`]}`)
		wantAll(t, said, asked)
	}
	v.end(t)
}

// TestContractApprovalIgnored: the approval block changes nothing, whatever it says, and the log says so; without one it does not.
func TestContractApprovalIgnored(t *testing.T) {
	t.Parallel()
	const asked = `,"tools":[{"type":"function","function":{"name":"bash","parameters":{"type":"object"}}}]`
	answers := map[string]string{}
	for _, config := range []string{"{}", `{"approval":{"mode":"no"}}`, `{"approval":{"mode":"prompt"}}`, `{"approval":{"mode":"yes"}}`,
		`{"approval":{"patterns":["bash"]}}`, `{"approval":{"mode":"no","patterns":["*"],"provider":"hook"}}`} {
		w := stage(t, scene{config: config})
		_, stream := w.request(t, http.MethodPost, "/v1/chat/completions", say(`Call the tool bash once with these arguments: {"command":"ls"}.`, asked))
		answers[config] = anyCall.ReplaceAllString(anyTurn.ReplaceAllString(stream, "TURN"), "CALL")
		wantAll(t, stream, `"finish_reason":"tool_calls"`)
		w.end(t)
		loud := false
		for line := range strings.Lines(w.stderr.String()) {
			loud = loud || strings.Contains(line, "level=WARN") && strings.Contains(line, "approval") && strings.Contains(line, "no effect")
		}
		if loud != (config != "{}") {
			t.Errorf("%s: warned %v:\n%s", config, loud, w.stderr.String())
		}
		if answers[config] != answers["{}"] {
			t.Errorf("%s: got\n%s\nwant\n%s", config, answers[config], answers["{}"])
		}
	}
}

// TestContractConfigPath: --config is expanded and made absolute, and must be a file. Nothing has been served or asked before.
func TestContractConfigPath(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{files: map[string]string{"deep/er/host.json": "{}", "~/conf/host.json": "{}"}})
	if err := os.Symlink(filepath.Join(w.home, "conf", "host.json"), filepath.Join(w.cwd, "link.json")); err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		"deep/er/host.json":           filepath.Join(w.cwd, "deep", "er", "host.json"),
		"./deep/../deep/er/host.json": filepath.Join(w.cwd, "deep", "er", "host.json"),
		"~/conf/host.json":            filepath.Join(w.home, "conf", "host.json"),
		"link.json":                   filepath.Join(w.cwd, "link.json"),
	} {
		t.Run(given, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			v := w.serve(t, []string{"AMPLIFIER_AGENT_HOME=" + home}, "--port", "0", "--config", given)
			if got := readJSON(t, filepath.Join(home, "state", "serve.json"))["host_config_path"]; got != want {
				t.Errorf("the config is %v, want %s", got, want)
			}
			v.end(t)
			wantAll(t, v.stderr.String(), "Config:    "+want+"\n")
		})
	}
	asked := newGateway(t, w.sim, nil)
	for _, given := range []string{"none.json", "~/none.json", "/no/such/host.json", "deep", w.cwd, "~/conf", "/dev/null", "~nobody/host.json", "deep/er/host.json/x"} {
		says := w.refusesToServe(t, []string{"COMMANDCODE_BASE_URL=" + asked.URL}, "--port", "0", "--config", given)
		wantAll(t, says, "config", filepath.Base(given))
		says = w.refusesToServe(t, []string{"COMMANDCODE_BASE_URL=" + asked.URL, envPrefix + "CONFIG_PATH=" + given}, "--port", "0")
		wantAll(t, says, "config", filepath.Base(given))
	}
	wantAll(t, w.refusesToServe(t, []string{"COMMANDCODE_BASE_URL=" + asked.URL}, "--port", "0", "--config="), "--config")
	if n := asked.lists.Load(); n != 0 {
		t.Errorf("the gateway was asked %d times", n)
	}
}

// TestContractConfigFallback: CONFIG_PATH, then AMPLIFIER_AGENT_CONFIG; and the same for the workspace, which ends in the
// working directory.
func TestContractConfigFallback(t *testing.T) {
	t.Parallel()
	w := prepare(t, scene{files: map[string]string{"a.json": "{}", "b.json": "{}"}})
	derived := config.Workspace(w.cwd)
	for name, row := range map[string]struct {
		env               []string
		config, workspace string
	}{
		"neither":  {nil, "", derived},
		"blank":    {[]string{envPrefix + "CONFIG_PATH= ", "AMPLIFIER_AGENT_CONFIG=", envPrefix + "WORKSPACE= ", "AMPLIFIER_AGENT_WORKSPACE= "}, "", derived},
		"general":  {[]string{"AMPLIFIER_AGENT_CONFIG=b.json", "AMPLIFIER_AGENT_WORKSPACE=general"}, "b.json", "general"},
		"special":  {[]string{envPrefix + "CONFIG_PATH=a.json", envPrefix + "WORKSPACE=special"}, "a.json", "special"},
		"both":     {[]string{envPrefix + "CONFIG_PATH=a.json", "AMPLIFIER_AGENT_CONFIG=b.json", envPrefix + "WORKSPACE=special", "AMPLIFIER_AGENT_WORKSPACE=general"}, "a.json", "special"},
		"one each": {[]string{envPrefix + "CONFIG_PATH=a.json", "AMPLIFIER_AGENT_WORKSPACE=general"}, "a.json", "general"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			v := w.serve(t, append(row.env, "AMPLIFIER_AGENT_HOME="+home), "--port", "0")
			var want any
			if row.config != "" {
				want = filepath.Join(w.cwd, row.config)
			}
			state := readJSON(t, filepath.Join(home, "state", "serve.json"))
			if state["host_config_path"] != want || state["workspace"] != row.workspace {
				t.Errorf("config %v, workspace %v, want %v and %s", state["host_config_path"], state["workspace"], want, row.workspace)
			}
			v.end(t)
			if got := strings.Contains(v.stderr.String(), "(cwd-derived)"); got != (row.workspace == derived) {
				t.Errorf("the banner says:\n%s", v.stderr.String())
			}
		})
	}
}
