package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"amplifier-agent/upstream/simulator"
)

// modelScene has models of which the program knows more than the gateway tells, and others.
func modelScene() scene {
	return scene{
		sim: simulator.Options{Models: []simulator.Model{
			{ID: "claude-sonnet-5", Name: "Claude Sonnet 5", ContextLength: 1000000}, {ID: "claude-haiku-4-5-20251001", ContextLength: 200000},
			{ID: "zai-org/GLM-5", Name: "GLM-5"}, {ID: "of/nobody's: a b+c%41ü?#", Name: `Odd "one"`, ContextLength: 5},
		}},
		config: `{"providers":{"commandcode":{"config":{"max_tokens":1234}},"tapes":{"module":"replay","config":{"dir":"tapes"}}}}`,
		files:  map[string]string{"tapes/tape.ndjson": saidLine + "\n" + stopLine + "\n", "tapes/claude-sonnet-5.ndjson": saidLine + "\n" + stopLine + "\n"},
	}
}

// TestContractModels: the list has the contract's fields, and those that depend on what is known only where it is.
func TestContractModels(t *testing.T) {
	t.Parallel()
	before := time.Now().Unix()
	w := stage(t, modelScene())
	const ours = `"object":"model","created":0,"owned_by":"amplifier-agent"`
	const defaults = `"defaults":{"max_tokens":1234}`
	want := map[string]string{
		"claude-sonnet-5": `{"id":"claude-sonnet-5",` + ours + `,"_provider":"commandcode","display_name":"Claude Sonnet 5","limit":{"context":1000000,"output":0},` +
			`"capabilities":["tools","vision","thinking"],"reasoning":true,` + defaults + `}`,
		"claude-haiku-4-5-20251001": `{"id":"claude-haiku-4-5-20251001",` + ours + `,"_provider":"commandcode","display_name":"claude-haiku-4-5-20251001","limit":{"context":200000,"output":0},` +
			`"capabilities":["tools","vision"],"reasoning":false,` + defaults + `}`,
		"zai-org/GLM-5":            `{"id":"zai-org/GLM-5",` + ours + `,"_provider":"commandcode","display_name":"GLM-5","limit":{"context":200000,"output":0},"capabilities":["tools"],"reasoning":false,` + defaults + `}`,
		"of/nobody's: a b+c%41ü?#": `{"id":"of/nobody's: a b+c%41ü?#",` + ours + `,"_provider":"commandcode","display_name":"Odd \"one\"","limit":{"context":5,"output":0},` + defaults + `}`,
		"tape":                     `{"id":"tape",` + ours + `,"_provider":"tapes","display_name":"tape"}`,
		"tapes/claude-sonnet-5":    `{"id":"tapes/claude-sonnet-5",` + ours + `,"_provider":"tapes","display_name":"claude-sonnet-5"}`,
	}
	order := []string{"claude-sonnet-5", "claude-haiku-4-5-20251001", "zai-org/GLM-5", "of/nobody's: a b+c%41ü?#", "tapes/claude-sonnet-5", "tape"}
	var got []string
	for _, m := range listed[map[string]any](t, w, "/v1/models") {
		id := m["id"].(string)
		got = append(got, id)
		if created := int64(m["created"].(float64)); created < before || created > time.Now().Unix() {
			t.Errorf("%s was created at %d", id, created)
		}
		m["created"] = 0.0
		var wanted map[string]any
		if err := json.Unmarshal([]byte(want[id]), &wanted); err != nil || !reflect.DeepEqual(m, wanted) {
			t.Errorf("%s is %v, want %v", id, m, want[id])
		}
	}
	if !slices.Equal(got, order) {
		t.Errorf("listed are %q, want %q", got, order)
	}
	// What is listed can be asked for.
	for _, id := range order {
		quoted, _ := json.Marshal(id)
		if a := w.chat(t, `{"model":`+string(quoted)+`,"messages":[`+hello+`]}`); a.Content != map[bool]string{true: "said", false: "hello"}[strings.Contains(want[id], `"tapes"`)] {
			t.Errorf("%s answers %+v", id, a)
		}
	}
}

// TestContractModel: one model by its id, whatever is in that, as it stands in the list, or a 404.
func TestContractModel(t *testing.T) {
	t.Parallel()
	w := stage(t, modelScene())
	for _, m := range listed[map[string]any](t, w, "/v1/models") {
		id := m["id"].(string)
		segments := strings.Split(id, "/")
		for i := range segments {
			segments[i] = url.PathEscape(segments[i])
		}
		for _, path := range []string{url.PathEscape(id), strings.Join(segments, "/"), "commandcode/" + strings.Join(segments, "/")} {
			if strings.HasPrefix(path, "commandcode/") && m["_provider"] != "commandcode" {
				continue
			}
			resp, b := w.exchange(t, "GET", "/v1/models/"+path, "", withKey)
			var got map[string]any
			if err := json.Unmarshal([]byte(b), &got); err != nil || resp.StatusCode != http.StatusOK || !reflect.DeepEqual(got, m) {
				t.Errorf("%s: status %d, %v: %s", path, resp.StatusCode, err, b)
			}
		}
	}
	for _, path := range []string{"none", "CLAUDE-SONNET-5", "claude-sonnet-5/", "claude-sonnet-5/x", "tapes/none", "tapes/zai-org/GLM-5", "", "mode-plan", "%00", "%F0%9F%92%A9", "claude-sonnet-5%20"} {
		resp, b := w.exchange(t, "GET", "/v1/models/"+path, "", withKey)
		wantRefusal(t, resp, b, http.StatusNotFound, "model_not_found")
		if !strings.Contains(b, `"param":"model"`) || !strings.Contains(b, `"type":"invalid_request_error"`) {
			t.Errorf("%s: %s", path, b)
		}
	}
}

// TestContractListMethods: HEAD is served where GET is, with its header and no body; other methods are told which there are.
func TestContractListMethods(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	for _, path := range []string{"/v1/models", "/v1/models/" + contractModel, "/v1/skills", "/v1/modes", "/health", "/openapi.json", "/v1/models?x=1", "/v1/skills?limit=1"} {
		get, b := w.exchange(t, "GET", path, "", withKey)
		head, none := w.exchange(t, "HEAD", path, "", withKey)
		if get.StatusCode != http.StatusOK || head.StatusCode != http.StatusOK || none != "" || !json.Valid([]byte(b)) {
			t.Errorf("%s: GET %d: %s, HEAD %d: %q", path, get.StatusCode, b, head.StatusCode, none)
		}
		for _, name := range []string{"Content-Type", "Content-Length"} {
			if g, h := get.Header.Get(name), head.Header.Get(name); g == "" || g != h {
				t.Errorf("%s: %s is %q with GET and %q with HEAD", path, name, g, h)
			}
		}
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			resp, b := w.exchange(t, method, path, "", withKey)
			wantRefusal(t, resp, b, http.StatusMethodNotAllowed, "method_not_allowed")
			if got := resp.Header.Get("Allow"); !strings.Contains(got, "GET") {
				t.Errorf("%s %s: Allow %q", method, path, got)
			}
		}
	}
}

// shelf has skills and modes that shadow each other, and some that are no user's business.
func shelf() scene {
	skill := func(name, description, more string) string {
		return "---\nname: " + name + "\ndescription: " + description + "\n" + more + "---\nBody of " + name + "."
	}
	return scene{files: map[string]string{
		".amplifier/skills/echo/SKILL.md":            skill("echo", "From the working directory", "user-invocable: true\n"),
		"~/.amplifier/skills/echo/SKILL.md":          skill("echo", "From the home", "user-invocable: true\n"),
		"~/.amplifier/skills/deep/er/solo/SKILL.md":  skill("solo", "Some more\n  words", "disable-model-invocation: true\n"),
		".amplifier/skills/for-models/SKILL.md":      skill("for-models", "Not for users", "user-invocable: false\n"),
		".amplifier/skills/council/SKILL.md":         skill("council", "Replaces what is built in", "user-invocable: true\n"),
		".amplifier/skills/broken/SKILL.md":          "no front matter",
		".amplifier/modes/plan.md":                   strings.ReplaceAll(zenMode, "Calm work", "From the working directory"),
		"~/.amplifier/modes/plan.md":                 strings.ReplaceAll(zenMode, "Calm work", "From the home"),
		"~/.amplifier/modes/solo.md":                 zenMode,
		".amplifier/modes/broken.md":                 "no front matter",
		".amplifier/modes/ignored.txt":               zenMode,
		".amplifier/modes/below/that-is-too-deep.md": zenMode,
	}}
}

// TestContractCatalogs: skills and modes come in one envelope, sorted, with what they shadow: skills are those that users can call, modes
// are all.
func TestContractCatalogs(t *testing.T) {
	t.Parallel()
	w := stage(t, shelf())
	at := func(dir, path string) string { return filepath.Join(dir, ".amplifier", filepath.FromSlash(path)) }
	type entry = map[string]any
	shadow := func(sources ...string) []any {
		list := []any{}
		for _, s := range sources {
			list = append(list, map[string]any{"source": s})
		}
		return list
	}
	own := func(entries []entry, name string) entry {
		i := slices.IndexFunc(entries, func(e entry) bool { return e["name"] == name })
		if i < 0 {
			t.Fatalf("%s is not listed", name)
		}
		return entries[i]
	}
	names := func(entries []entry) (list []string) {
		for _, e := range entries {
			list = append(list, e["name"].(string))
			if len(e) != 4 || e["description"] == "" || e["source"] == "" || e["shadowed"] == nil {
				t.Errorf("entry %v", e)
			}
		}
		return list
	}
	skills, modes := listed[entry](t, w, "/v1/skills"), listed[entry](t, w, "/v1/modes")
	if got, want := names(skills), []string{"code-review", "council", "echo", "solo"}; !slices.Equal(got, want) {
		t.Errorf("skills %q, want %q", got, want)
	}
	if got, want := names(modes), []string{"brainstorm", "plan", "solo"}; !slices.Equal(got, want) {
		t.Errorf("modes %q, want %q", got, want)
	}
	for _, row := range []struct {
		got, want entry
	}{
		{own(skills, "echo"), entry{"name": "echo", "description": "From the working directory", "source": at(w.cwd, "skills/echo/SKILL.md"), "shadowed": shadow(at(w.home, "skills/echo/SKILL.md"))}},
		{own(skills, "solo"), entry{"name": "solo", "description": "Some more words", "source": at(w.home, "skills/deep/er/solo/SKILL.md"), "shadowed": shadow()}},
		{own(modes, "solo"), entry{"name": "solo", "description": "Calm work", "source": at(w.home, "modes/solo.md"), "shadowed": shadow()}},
	} {
		if !reflect.DeepEqual(row.got, row.want) {
			t.Errorf("got  %v\nwant %v", row.got, row.want)
		}
	}
	plan := own(modes, "plan")
	if s := plan["shadowed"].([]any); plan["source"] != at(w.cwd, "modes/plan.md") || len(s) != 2 || !reflect.DeepEqual(s[:1], shadow(at(w.home, "modes/plan.md"))) {
		t.Errorf("plan is %v", plan)
	}
	if s := own(skills, "council")["shadowed"].([]any); len(s) != 1 {
		t.Errorf("council shadows %v", s)
	}
	// What is not there is an empty list, not null.
	for _, path := range []string{"/v1/skills", "/v1/modes"} {
		if _, b := w.request(t, http.MethodGet, path, ""); !strings.HasPrefix(b, `{"object":"list","data":[{"name":`) || !strings.Contains(b, `"shadowed":[]`) {
			t.Errorf("%s: %s", path, b)
		}
	}
}

// TestContractListCommands: the command line prints the entries that the server lists, as JSON and as tables.
func TestContractListCommands(t *testing.T) {
	t.Parallel()
	s := shelf()
	m := modelScene()
	s.sim, s.config = m.sim, m.config
	for path, content := range m.files {
		s.files[path] = content
	}
	w := stage(t, s)
	config := filepath.Join(w.cwd, "host.json")
	printed := w.printed(t, exitOK, "skills list --json", "skills list --output json", "skills list", "skills list --output auto", "skills list --output table",
		"modes list --json", "modes list --output json", "modes list", "models list --json", "models list --output json", "models list --output json --config "+config,
		"models list --provider commandcode", "models list --provider commandcode --output table")
	list := func(text string) (entries []map[string]any) {
		t.Helper()
		if err := json.Unmarshal([]byte(text), &entries); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return entries
	}
	for _, kind := range []string{"skills", "modes"} {
		served := listed[map[string]any](t, w, "/v1/"+kind)
		for _, args := range []string{kind + " list --json", kind + " list --output json"} {
			if got := list(printed[args]); !reflect.DeepEqual(got, served) || strings.Count(printed[args], "\n") != 1 {
				t.Errorf("%s prints %s, served is %v", args, printed[args], served)
			}
		}
	}
	type models struct {
		Version int    `json:"schema_version"`
		At      string `json:"fetched_at"`
		Results []struct {
			Provider, Status string
			Models           []map[string]any
		}
	}
	served := listed[map[string]any](t, w, "/v1/models")
	for _, args := range []string{"models list --json", "models list --output json", "models list --output json --config " + config} {
		var got models
		if err := json.Unmarshal([]byte(printed[args]), &got); err != nil || got.Version != 1 || got.At == "" {
			t.Fatalf("%s prints %s, %v", args, printed[args], err)
		}
		var all []map[string]any
		for _, r := range got.Results {
			if r.Status != "ok" {
				t.Errorf("%s: %s is %s", args, r.Provider, r.Status)
			}
			for _, m := range r.Models {
				if m["served_as"] != nil {
					m["id"] = m["served_as"]
					delete(m, "served_as")
				}
				m["_provider"] = r.Provider
				all = append(all, m)
			}
		}
		for _, m := range served {
			for _, field := range []string{"object", "created", "owned_by"} { // a list of HTTP needs them
				delete(m, field)
			}
		}
		if !reflect.DeepEqual(all, served) {
			t.Errorf("%s prints %v, served is %v", args, all, served)
		}
	}
	for _, table := range []string{printed["models list --provider commandcode"], printed["models list --provider commandcode --output table"]} {
		for _, m := range served {
			row := regexp.QuoteMeta(m["id"].(string)) + " +" + regexp.QuoteMeta(m["display_name"].(string)) + " "
			if m["_provider"] == "commandcode" != regexp.MustCompile("(?m)^"+row).MatchString(table) {
				t.Errorf("%s of %s, which is shown as %s:\n%s", m["id"], m["_provider"], m["display_name"], table)
			}
		}
	}
	at := func(dir, path string) string { return filepath.Join(dir, ".amplifier", filepath.FromSlash(path)) }
	want := "NAME         DESCRIPTION\n" +
		"code-review  \n" + // its description is whatever it is
		"council      Replaces what is built in  (!)\n" +
		"echo         From the working directory  (!)\n" +
		"solo         Some more words\n" +
		"\n(!) 2 name conflict(s). \n" +
		"  council\n    runs:     " + at(w.cwd, "skills/council/SKILL.md") + "\n    shadowed: \n" +
		"  echo\n    runs:     " + at(w.cwd, "skills/echo/SKILL.md") + "\n    shadowed: " + at(w.home, "skills/echo/SKILL.md") + "\n"
	for _, got := range []string{printed["skills list"], printed["skills list --output auto"], printed["skills list --output table"]} {
		g, h := strings.Split(got, "\n"), strings.Split(want, "\n")
		if len(g) != len(h) {
			t.Fatalf("table\n%s\nwant\n%s", got, want)
		}
		for i := range h {
			if g[i] != h[i] && !(strings.HasSuffix(h[i], " ") && strings.HasPrefix(g[i], h[i])) {
				t.Errorf("line %q, want %q", g[i], h[i])
			}
		}
	}
	if got := printed["modes list"]; !strings.Contains(got, "\nplan        From the working directory  (!)\n") || !strings.Contains(got, "\n(!) 1 name conflict(s)") || !strings.Contains(got, "\nsolo        Calm work\n") {
		t.Errorf("table\n%s", got)
	}
	for args, stdout := range w.printed(t, exitUsage, "skills list --output xml", "models list --output yaml", "skills list x", "modes list --nonsense") {
		if stdout != "" {
			t.Errorf("%s prints %s", args, stdout)
		}
	}
}

// printed runs commands of the program side by side, checks their exit codes, and that they say why if they fail, and returns what each prints.
func (w *world) printed(t *testing.T, exit int, commands ...string) map[string]string {
	t.Helper()
	outputs := make([]string, len(commands))
	var wg sync.WaitGroup
	for i, args := range commands {
		wg.Go(func() {
			code, stdout, stderr := w.command(t, nil, strings.Fields(args)...)
			if outputs[i] = stdout; code != exit || exit != exitOK && stderr == "" {
				t.Errorf("%s: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
			}
		})
	}
	wg.Wait()
	printed := map[string]string{}
	for i, args := range commands {
		printed[args] = outputs[i]
	}
	return printed
}

// TestContractListsOfNothing: if discovery fails the server lists nothing, and the command line says why; what was found of the other kind
// is there.
func TestContractListsOfNothing(t *testing.T) {
	t.Parallel()
	for broken, whole := range map[string]string{"skills": "modes", "modes": "skills"} {
		w := stage(t, scene{files: map[string]string{".amplifier/" + broken: "a file where a folder should be"}})
		if _, b := w.request(t, http.MethodGet, "/v1/"+broken, ""); b != `{"object":"list","data":[]}`+"\n" {
			t.Errorf("%s: %s", broken, b)
		}
		if n := len(listed[any](t, w, "/v1/"+whole)); n != 2 {
			t.Errorf("%d %s", n, whole)
		}
		code, stdout, stderr := w.command(t, nil, broken, "list", "--json")
		if code != exitFailure || stdout != "[]\n" || !strings.HasPrefix(stderr, "# "+broken+" list: ") && !strings.Contains(stderr, "\n# "+broken+" list: ") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", broken, code, stdout, stderr)
		}
		if code, stdout, _ := w.command(t, nil, whole, "list", "--json"); code != exitOK || !strings.HasPrefix(stdout, `[{"name":`) {
			t.Errorf("%s: exit code %d, stdout %q", whole, code, stdout)
		}
	}
}
