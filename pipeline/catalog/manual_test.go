package catalog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/catalog"
)

// manual is what users read.
func manual(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "modes-and-skills.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var manualExample = regexp.MustCompile("(?s)`(\\.amplifier/[^`]+)`:\n\n```markdown\n(.*?)```")

// manualFiles writes the examples of the manual below a new working directory and discovers what they are; there is no warning.
func manualFiles(t *testing.T) (cwd string, modes *catalog.Modes, skills *catalog.Skills) {
	t.Helper()
	cwd = realDir(t)
	examples := manualExample.FindAllStringSubmatch(manual(t), -1)
	if len(examples) != 4 {
		t.Fatalf("%d examples, want the least and the full one of each kind", len(examples))
	}
	for _, e := range examples {
		write(t, e[2], cwd, e[1])
	}
	log, out := logged()
	modes = catalog.DiscoverModes(catalog.ModeOptions{Cwd: cwd, Log: log})
	skills = catalog.DiscoverSkills(catalog.SkillOptions{Cwd: cwd, Log: log})
	warns(t, out)
	if modes.Err() != nil || skills.Err() != nil {
		t.Fatal(modes.Err(), skills.Err())
	}
	return cwd, modes, skills
}

// TestManualLists: the examples are listed as the manual prints it.
func TestManualLists(t *testing.T) {
	_, modes, skills := manualFiles(t)
	for command, list := range map[string][]catalog.Entry{"modes list": modes.List(), "skills list": skills.List()} {
		width := len("NAME")
		for _, e := range list {
			width = max(width, len(e.Name))
			if len(e.Shadowed) != 0 {
				t.Errorf("%s shadows %v", e.Name, e.Shadowed)
			}
		}
		want := fmt.Sprintf("$ amplifier-agent %s\n%-*s  DESCRIPTION\n", command, width, "NAME")
		for _, e := range list {
			want += fmt.Sprintf("%-*s  %s\n", width, e.Name, e.Description)
		}
		if text := manual(t); !strings.Contains(text, want+"$") && !strings.Contains(text, want+"```") {
			t.Errorf("the manual does not have\n%s", want)
		}
	}
}

// TestManualModes: the full example says what the manual says of its keys.
func TestManualModes(t *testing.T) {
	_, modes, _ := manualFiles(t)
	brief, err := modes.Mode("brief")
	if err != nil || brief == nil || !strings.HasPrefix(brief.Body, "Answer in at most three") || brief.Tools.DefaultAllow {
		t.Errorf("got %+v, %v", brief, err)
	}
	careful, err := modes.Mode("careful")
	if err != nil || careful == nil || !strings.HasPrefix(careful.Body, "# Careful") {
		t.Fatalf("got %+v, %v", careful, err)
	}
	for tool, want := range map[string]pipeline.Verdict{
		"read_file": pipeline.Allow, "bash": pipeline.Warn, "write_file": pipeline.Confirm, "web_fetch": pipeline.Deny, "other": pipeline.Deny,
	} {
		if got := careful.Tools.Verdict(tool); got != want {
			t.Errorf("%s: %v, want %v", tool, got, want)
		}
	}
}

// TestManualCall: the call that the manual shows becomes the text that it shows.
func TestManualCall(t *testing.T) {
	cwd, _, skills := manualFiles(t)
	blocks := regexp.MustCompile("(?s)```text\n!amplifier:skill (\\S+) (.*?)\n```.*?```text\n(.*?)\n```").FindStringSubmatch(manual(t))
	if blocks == nil {
		t.Fatal("no example of a call")
	}
	got, err := skills.Expand(blocks[1], blocks[2])
	if got = strings.ReplaceAll(got, cwd, "/home/ann/app"); err != nil || got != blocks[3] {
		t.Errorf("got %q, %v\nwant %q", got, err, blocks[3])
	}
}

// TestManualErrors: the manual has the reasons word for word.
func TestManualErrors(t *testing.T) {
	const head = "---\nname: s\n"
	for name, row := range map[string]struct{ path, text string }{
		"a mode of plain text":                   {"modes/m.md", "Be brief.\n"},
		"a skill of plain text":                  {"skills/s/SKILL.md", "Be brief.\n"},
		"a mode with its keys not below `mode:`": {"modes/m.md", "---\ndescription: D\n---\n"},
		"`mode: careful`":                        {"modes/m.md", "---\nmode: careful\n---\n"},
		"no second `---`":                        {"modes/m.md", "---\nmode: {}\n"},
		"`description: Look: first`":             {"skills/s/SKILL.md", head + "description: Look: first\n---\n"},
		"`default_action: deny`":                 {"modes/m.md", "---\nmode: {default_action: deny}\n---\n"},
		"a skill without `description`":          {"skills/s/SKILL.md", head + "---\n"},
		"`user-invocable: maybe`":                {"skills/s/SKILL.md", head + "description: D\nuser-invocable: maybe\n---\n"},
	} {
		reason := regexp.MustCompile("(?m)^\\| " + regexp.QuoteMeta(name) + " \\| `(.*)` \\|$").FindStringSubmatch(manual(t))
		if reason == nil {
			t.Errorf("the manual does not have %s", name)
			continue
		}
		cwd := realDir(t)
		source := write(t, row.text, cwd, ".amplifier", row.path)
		log, out := logged()
		catalog.DiscoverModes(catalog.ModeOptions{Cwd: cwd, Log: log})
		catalog.DiscoverSkills(catalog.SkillOptions{Cwd: cwd, Log: log})
		kind, _, _ := strings.Cut(row.path, "s/")
		warns(t, out, kind+" is not usable", "source="+source, fmt.Sprintf("error=%q\n", reason[1]))
	}
}
