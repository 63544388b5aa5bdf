package main

import (
	"net/http"
	"strings"
	"testing"

	"amplifier-agent/upstream/simulator"
)

// zen is a mode with a policy, and what it tells the model.
const (
	zenMode = "---\nmode:\n  name: zen\n  description: Calm work\n  tools:\n    safe: [read_file]\n  default_action: block\n---\nBreathe before you answer."
	zenBody = "Breathe before you answer."
)

func zenScene() scene { return scene{files: map[string]string{".amplifier/modes/zen.md": zenMode}} }

func directive(mode string) string { return "[amplifier-agent:mode=" + mode + "]" }

func activeMode(t *testing.T, w *world, body string) string {
	t.Helper()
	if m := w.chat(t, body).Mode; m != nil {
		return *m
	}
	return ""
}

// TestContractModeDirective: the directive in a system or developer message switches a mode on, the first one that is there, also
// in the parts of a list; what others say does not.
func TestContractModeDirective(t *testing.T) {
	s := zenScene()
	s.files["~/.amplifier/modes/A.b-c_9.md"] = strings.ReplaceAll(zenMode, "zen", "A.b-c_9")
	w := stage(t, s)
	user := message("user", "hi")
	for name, row := range map[string]struct{ messages, want string }{
		"system":         {message("system", "x "+directive("zen")+" y") + "," + user, "zen"},
		"developer":      {message("developer", directive("zen")) + "," + user, "zen"},
		"first match":    {message("system", "none") + "," + message("developer", directive("plan")) + "," + message("system", directive("zen")) + "," + user, "plan"},
		"first in text":  {message("system", directive("zen")+directive("plan")) + "," + user, "zen"},
		"behind the end": {user + "," + message("system", directive("zen")), "zen"},
		"list content":   {`{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"` + directive("zen") + `"}]},` + user, "zen"},
		"all letters":    {message("system", directive("A.b-c_9")) + "," + user, "A.b-c_9"},
		"no name":        {message("system", "[amplifier-agent:mode=] [amplifier-agent:mode=a b]") + "," + user, ""},
		"user":           {message("user", directive("zen")), ""},
		"assistant":      {user + "," + message("assistant", directive("zen")) + "," + user, ""},
		"tool": {user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
			`{"role":"tool","tool_call_id":"c","content":"` + directive("zen") + `"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := activeMode(t, w, body(row.messages)); got != row.want {
				t.Errorf("active mode %q, want %q", got, row.want)
			}
		})
	}
}

// TestContractModeReachesModel: the mode's instructions are part of the system prompt of the turn, and of nothing else; without the
// directive they are gone.
func TestContractModeReachesModel(t *testing.T) {
	w := stage(t, zenScene())
	w.chat(t, body(message("system", directive("zen"))+","+message("user", "hi")))
	r := w.last(t)
	if !strings.Contains(r.System, zenBody) || !strings.Contains(r.System, `<system-reminder source="mode-zen">`) {
		t.Errorf("system prompt %q", r.System)
	}
	for _, line := range conversation(r) {
		if strings.Contains(line, zenBody) {
			t.Errorf("the history holds %q", line)
		}
	}
	w.chat(t, say("hi"))
	if r := w.last(t); strings.Contains(r.System, zenBody) {
		t.Errorf("without the mode the system prompt is %q", r.System)
	}
}

// TestContractModeLeavesHostTools: a mode guards the server's tools; the client's are offered and called as ever (rulings 25).
func TestContractModeLeavesHostTools(t *testing.T) {
	w := stage(t, zenScene())
	const tools = `,"tools":[{"type":"function","function":{"name":"edit","parameters":{"type":"object"}}}]`
	a := w.chat(t, body(message("system", directive("zen"))+","+message("user", `Call the tool edit once with these arguments: {"a":1}.`), tools))
	if a.Finish != "tool_calls" || len(a.Calls) != 1 || a.Calls[0].Function.Name != "edit" || a.Mode == nil || *a.Mode != "zen" {
		t.Errorf("got %+v", a)
	}
	if offered := w.last(t).Tools; len(offered) != 1 || offered[0].Name != "edit" {
		t.Errorf("offered %+v", offered)
	}
}

// TestContractModesShadowed: the working directory wins over the home, the home over what is built in; the losers are listed.
func TestContractModesShadowed(t *testing.T) {
	w := stage(t, scene{files: map[string]string{
		".amplifier/modes/plan.md":   strings.ReplaceAll(zenMode, zenBody, "from the working directory"),
		"~/.amplifier/modes/plan.md": strings.ReplaceAll(zenMode, zenBody, "from the home"),
		"~/.amplifier/modes/solo.md": zenMode,
	}})
	type entry struct {
		Name, Source string
		Shadowed     []struct{ Source string }
	}
	got := map[string]entry{}
	for _, e := range listed[entry](t, w, "/v1/modes") {
		got[e.Name] = e
	}
	plan := got["plan"]
	if !strings.HasPrefix(plan.Source, w.cwd) || len(plan.Shadowed) != 2 || !strings.HasPrefix(plan.Shadowed[0].Source, w.home) || strings.HasPrefix(plan.Shadowed[1].Source, "/") {
		t.Errorf("plan is %+v", plan)
	}
	if solo := got["solo"]; !strings.HasPrefix(solo.Source, w.home) || solo.Shadowed == nil || len(solo.Shadowed) != 0 {
		t.Errorf("solo is %+v", solo)
	}
	if b := got["brainstorm"]; b.Shadowed == nil || len(got) != 3 {
		t.Errorf("the list is %+v", got)
	}
	w.chat(t, body(message("system", directive("plan"))+","+message("user", "hi")))
	if r := w.last(t); !strings.Contains(r.System, "from the working directory") {
		t.Errorf("what is listed is not what runs: %q", r.System)
	}
}

// TestContractAliases: mode-NAME serves the smallest model id with the mode active, is in no list, and yields to a real model.
func TestContractAliases(t *testing.T) {
	s := zenScene()
	s.files[".amplifier/modes/real.md"] = zenMode
	s.sim = simulator.Options{Models: []simulator.Model{{ID: "b/two"}, {ID: "a/one"}, {ID: "mode-real"}}}
	w := stage(t, s)
	a := w.chat(t, `{"model":"mode-zen","messages":[`+message("user", "hi")+`]}`)
	if a.Mode == nil || *a.Mode != "zen" || a.Model != "amplifier" {
		t.Errorf("got %+v", a)
	}
	if r := w.last(t); r.Model != "a/one" || !strings.Contains(r.System, zenBody) {
		t.Errorf("model %s, system prompt %q", r.Model, r.System)
	}
	// The alias's mode stands, whatever a directive says.
	if got := activeMode(t, w, `{"model":"mode-zen","messages":[`+message("system", directive("plan"))+","+message("user", "hi")+`]}`); got != "zen" {
		t.Errorf("active mode %q", got)
	}
	if got := activeMode(t, w, `{"model":"mode-real","messages":[`+message("user", "hi")+`]}`); got != "" || w.last(t).Model != "mode-real" {
		t.Errorf("the real model is served as %s in mode %q", w.last(t).Model, got)
	}
	type model struct{ ID string }
	models := listed[model](t, w, "/v1/models")
	for _, m := range models {
		if m.ID != "b/two" && m.ID != "a/one" && m.ID != "mode-real" {
			t.Errorf("listed: %s", m.ID)
		}
	}
	if len(models) != 3 {
		t.Errorf("%d models listed", len(models))
	}
	if resp, _ := w.request(t, http.MethodGet, "/v1/models/mode-zen", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("GET of the alias: %d", resp.StatusCode)
	}
	if msg := w.refused(t, http.StatusBadRequest, "unknown_model", `{"model":"mode-none","messages":[`+message("user", "hi")+`]}`); !strings.Contains(msg, "mode-none") {
		t.Errorf("message %q", msg)
	}
}

// TestContractModeUnresolved: a mode that is not known is a 400; if the modes could not be discovered it is a 503, and there are no
// aliases. Requests without a mode are served either way, and skills are there.
func TestContractModeUnresolved(t *testing.T) {
	asked := body(message("system", directive("gone")) + "," + message("user", "hi"))
	w := stage(t, zenScene())
	if msg := w.refused(t, http.StatusBadRequest, "unknown_mode", asked); !strings.Contains(msg, "gone") {
		t.Errorf("message %q", msg)
	}
	broken := stage(t, scene{files: map[string]string{".amplifier/modes": "a file where a folder should be"}})
	broken.refused(t, http.StatusServiceUnavailable, "modes_unavailable", asked)
	broken.refused(t, http.StatusServiceUnavailable, "modes_unavailable", body(message("system", directive("plan"))+","+message("user", "hi")))
	broken.refused(t, http.StatusBadRequest, "unknown_model", `{"model":"mode-plan","messages":[`+message("user", "hi")+`]}`)
	if a := broken.chat(t, say("Reply with exactly: fine")); a.Content != "fine" || a.Mode != nil {
		t.Errorf("got %+v", a)
	}
	type entry struct{ Name string }
	if modes, skills := listed[entry](t, broken, "/v1/modes"), listed[entry](t, broken, "/v1/skills"); len(modes) != 0 || len(skills) != 2 {
		t.Errorf("modes %v, skills %v", modes, skills)
	}
	if !strings.Contains(broken.stderr.String(), "modes could not be discovered") {
		t.Errorf("the log does not tell:\n%s", broken.stderr.String())
	}
	bare := stage(t, scene{files: map[string]string{".amplifier/skills": "a file where a folder should be"}})
	if modes, skills := listed[entry](t, bare, "/v1/modes"), listed[entry](t, bare, "/v1/skills"); len(modes) != 2 || len(skills) != 0 {
		t.Errorf("modes %v, skills %v", modes, skills)
	}
}
