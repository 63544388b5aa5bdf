package commandcode

import (
	"testing"

	"amplifier-agent/upstream/simulator"
)

// TestResolve: facts/commandcode.md §4.
func TestResolve(t *testing.T) {
	listed := newIDs([]string{"zai-org/GLM-5.3", "z-ai/glm-5.3-flash", "claude-sonnet-4-6", "claude-haiku-4-5-20251001", "tencent/Hy3", "tencent/hy3-paid",
		"a/same", "b/same", "A/Twin", "a/twin", "meituan/LongCat-2.0:free"})
	for name, want := range map[string]string{
		"zai-org/GLM-5.3": "zai-org/GLM-5.3", "ZAI-ORG/glm-5.3": "zai-org/GLM-5.3", "glm-5.3": "zai-org/GLM-5.3", "GLM-5.3-Flash": "z-ai/glm-5.3-flash",
		"z-ai/glm-5.3": "", "5.3": "", "/glm-5.3": "", "x/glm-5.3": "",
		"claude-sonnet-4-6-20260101": "claude-sonnet-4-6", "Claude-Sonnet-4-6@20260101": "claude-sonnet-4-6", "claude-sonnet-4-6-2026010": "", "glm-5.3-20260101": "zai-org/GLM-5.3",
		"claude-sonnet-4-6-20260101-20260101": "",
		"claude-sonnet-4-20250514":            "claude-sonnet-4-6", "claude-sonnet-4-5-20250929": "claude-sonnet-4-6", "claude-haiku-4-5": "claude-haiku-4-5-20251001",
		"claude-haiku-4-5-20260101": "claude-haiku-4-5-20251001", // an alias, without its date
		"claude-opus-4-6":           "",                          // an alias of what is not there
		"tencent/HY3":               "tencent/Hy3", "hy3": "tencent/Hy3", "same": "", "A/same": "a/same", "a/TWIN": "", "a/twin": "a/twin", "A/Twin": "A/Twin",
		"longcat-2.0:free": "meituan/LongCat-2.0:free", "": "", "nothing": "", "-20260101": "",
	} {
		if got := listed.mean(name); got != want {
			t.Errorf("%q means %q, want %q", name, got, want)
		}
	}
}

// TestRoundsAreResolved: rounds of library users name models as they like; what nobody knows goes out as it is.
func TestRoundsAreResolved(t *testing.T) {
	s := simulate(t, simulator.Options{Models: []simulator.Model{{ID: "acme/New"}, {ID: "zai-org/GLM-5.3"}, {ID: "gpt-6-sol"}, {ID: "zai-org/glm-5.2"}}})
	p := connect(t, s.URL())
	sent := func(model string) string {
		r := ask("hi")
		r.Model = model
		run(t, p, r)
		all := s.Requests()
		return all[len(all)-1].Model
	}
	for name, want := range map[string]string{"glm-5.3": "zai-org/GLM-5.3", "GPT-6-SOL": "gpt-6-sol", "acme/new": "acme/new", "claude-opus-4-6": "claude-opus-4-7"} {
		if got := sent(name); got != want { // by the catalogue
			t.Errorf("%q was asked for as %q, want %q", name, got, want)
		}
	}
	if _, err := p.Models(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"acme/new": "acme/New", "new": "acme/New", "glm-5.3": "zai-org/GLM-5.3", "glm-5.2": "zai-org/glm-5.2",
		"zai-org/GLM-5.2": "zai-org/GLM-5.2", // an id of the catalogue may be served without being listed
		"claude-sonnet-5": "claude-sonnet-5", "what/ever": "what/ever"} {
		if got := sent(name); got != want {
			t.Errorf("%q was asked for as %q, want %q", name, got, want)
		}
	}
}
