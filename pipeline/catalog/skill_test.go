package catalog_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"amplifier-agent/pipeline/catalog"
)

// skill is the text of a skill's file whose body is body; more are further lines of its front matter.
func skill(name, body string, more ...string) string {
	return "---\nname: " + name + "\ndescription: about " + name + "\n" + strings.Join(append(more, "---", ""), "\n") + body
}

const forUsers = "user-invocable: true"

func TestSkillFrontMatter(t *testing.T) {
	const head = "name: s\ndescription: D\n"
	for name, row := range map[string]struct {
		text    string
		listed  bool
		runs    error  // nil, catalog.ErrNoSkill, catalog.ErrFork
		warning string // part of the warning; "" for none
	}{
		"neither said":           {head, false, nil, ""},
		"invocable":              {head + "user-invocable: true", true, nil, ""},
		"invocable_":             {head + "user_invocable: true", true, nil, ""},
		"not for models":         {head + "disable-model-invocation: true", true, nil, ""},
		"not for models_":        {head + "disable_model_invocation: true", true, nil, ""},
		"for models":             {head + "disable-model-invocation: false", false, nil, ""},
		"not invocable":          {head + "user-invocable: false", false, catalog.ErrNoSkill, ""},
		"for nobody":             {head + "user-invocable: false\ndisable-model-invocation: true", false, catalog.ErrNoSkill, ""},
		"for both":               {head + "user-invocable: true\ndisable-model-invocation: false", true, nil, ""},
		"null says nothing":      {head + "user-invocable:\ndisable-model-invocation: true", true, nil, ""},
		"yes":                    {head + "user-invocable: yes", true, nil, ""},
		"quoted":                 {head + "user-invocable: 'True'", true, nil, ""},
		"off":                    {head + "user-invocable: off", false, catalog.ErrNoSkill, ""},
		"hyphen before the rest": {head + "user-invocable: true\nuser_invocable: false", true, nil, ""},
		"fork":                   {head + "user-invocable: true\ncontext: fork", true, catalog.ErrFork, ""},
		"fork, hidden":           {head + "context: fork", false, catalog.ErrFork, ""},
		"fork, not invocable":    {head + "context: fork\nuser-invocable: false", false, catalog.ErrNoSkill, ""},
		"other context":          {head + "context: inline\nuser-invocable: true", true, nil, ""},
		"every key": {head + "user-invocable: true\nauto-load: true\nallowed-tools: a b\nmodel: m\nmodel_role: r\nprovider_preferences: [{provider: p}]\nagent: a\n" +
			"shortcut: x\nhooks: {PreToolUse: [{matcher: x}]}\nversion: 1.0\nlicense: MIT\ncompatibility: all\nmetadata: {a: b}", true, nil, ""},

		"no name":        {"description: D", false, catalog.ErrNoSkill, "no name: add a line 'name: …'"},
		"empty name":     {"name: ' '\ndescription: D", false, catalog.ErrNoSkill, "no name: add a line 'name: …'"},
		"no description": {"name: s", false, catalog.ErrNoSkill, "no description"},
		"name a list":    {"name: [s]\ndescription: D", false, catalog.ErrNoSkill, "name is no text"},
		"context a list": {head + "context: [fork]", false, catalog.ErrNoSkill, "context is no text"},
		"maybe":          {head + "user-invocable: maybe", false, catalog.ErrNoSkill, "neither true nor false: write '"},
		"flag a list":    {head + "disable-model-invocation: [true]", false, catalog.ErrNoSkill, "neither true nor false: write '"},
		"bad YAML":       {head + "a: b: c", false, catalog.ErrNoSkill, "front matter: line 4, column 4"},
		"alias":          {head + "a: &a [*a]", false, catalog.ErrNoSkill, "aliases"},
		"bomb":           {bomb() + head, false, catalog.ErrNoSkill, "aliases"},
	} {
		t.Run(name, func(t *testing.T) {
			cwd := t.TempDir()
			write(t, "---\n"+row.text+"\n---\nB", cwd, ".amplifier/skills/s", "SKILL.md")
			log, out := logged()
			skills := catalog.DiscoverSkills(catalog.SkillOptions{Cwd: cwd, Log: log})
			if skills.Err() != nil {
				t.Fatal(skills.Err())
			}
			list := without(skills.List())
			if len(list) == 1 != row.listed {
				t.Errorf("listed: %+v", list)
			}
			body, err := skills.Expand("s", "")
			if !errors.Is(err, row.runs) || row.runs == nil && body != "# s\n\nB" {
				t.Errorf("got %q, %v", body, err)
			}
			if row.warning == "" {
				warns(t, out)
			} else {
				warns(t, out, row.warning)
			}
		})
	}
}

// TestSkillNames: odd names are accepted, with a warning.
func TestSkillNames(t *testing.T) {
	for dir, row := range map[string]struct{ name, warning string }{
		"good-1": {"good-1", ""},
		"a":      {"b", "not named like"},
		"Upper":  {"Upper", "unusual name"},
		"a_b":    {"a_b", "unusual name"},
		"a--b":   {"a--b", "unusual name"},
		"long":   {strings.Repeat("x", 65), "unusual name"},
	} {
		cwd := t.TempDir()
		write(t, skill(row.name, "B", forUsers), cwd, ".amplifier/skills", dir, "SKILL.md")
		log, out := logged()
		skills := catalog.DiscoverSkills(catalog.SkillOptions{Cwd: cwd, Log: log})
		if body, err := skills.Expand(row.name, ""); err != nil || body != "# "+row.name+"\n\nB" || len(without(skills.List())) != 1 {
			t.Errorf("%s: %q, %v", dir, body, err)
		}
		if row.warning == "" {
			warns(t, out)
		} else {
			warns(t, out, row.warning)
		}
	}
}

// TestSkillOrder takes the winning root away, one after the other, and checks that the next one is listed and runs.
func TestSkillOrder(t *testing.T) {
	dir := t.TempDir()
	at := func(root string) string { return filepath.Join(dir, root, "council", "SKILL.md") }
	roots := []string{"absolute", "base/relative", "home/tilde", "env", "cwd/.amplifier/skills", "home/.amplifier/skills"}
	sources := []string{}
	for _, r := range roots {
		sources = append(sources, write(t, skill("council", r, forUsers), at(r)))
	}
	sources = append(sources, "builtin:skills/council/SKILL.md")
	for i := range sources {
		log, out := logged()
		skills := catalog.DiscoverSkills(catalog.SkillOptions{
			Dirs: []string{filepath.Join(dir, "absolute"), "relative", "~/tilde"}, Base: filepath.Join(dir, "base"),
			EnvDir: filepath.Join(dir, "env"), Cwd: filepath.Join(dir, "cwd"), Home: filepath.Join(dir, "home"), Log: log,
		})
		if skills.Err() != nil {
			t.Fatal(skills.Err())
		}
		list := skills.List()
		e := list[slices.IndexFunc(list, func(e catalog.Entry) bool { return e.Name == "council" })]
		want := []catalog.Shadow{}
		for _, s := range sources[i+1:] {
			want = append(want, catalog.Shadow{Source: s})
		}
		if e.Source != sources[i] || !slices.Equal(e.Shadowed, want) {
			t.Errorf("%d: got %+v", i, e)
		}
		body, err := skills.Expand("council", "")
		if i < len(roots) && body != "# council\n\n"+roots[i] || i == len(roots) && !strings.Contains(body, "Hold a council") {
			t.Errorf("%d: another one runs: %.100q, %v", i, body, err)
		}
		warns(t, out)
		if i < len(roots) {
			if err := os.Remove(at(roots[i])); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestSkillWinnerHides: the winner decides whether a name is listed and runs, whatever those that it shadows say.
func TestSkillWinnerHides(t *testing.T) {
	cwd, home := t.TempDir(), t.TempDir()
	write(t, skill("s", "hidden", "user-invocable: false"), cwd, ".amplifier/skills/s/SKILL.md")
	write(t, skill("s", "shown", forUsers), home, ".amplifier/skills/s/SKILL.md")
	skills := catalog.DiscoverSkills(catalog.SkillOptions{Cwd: cwd, Home: home})
	if _, err := skills.Expand("s", ""); !errors.Is(err, catalog.ErrNoSkill) || len(without(skills.List())) != 0 {
		t.Errorf("got %v, %v", err, skills.List())
	}
}

func TestSkillDirs(t *testing.T) {
	dir := t.TempDir()
	write(t, skill("s", "B", forUsers), dir, "there/s/SKILL.md")
	there := filepath.Join(dir, "there")
	write(t, "", dir, "file")
	for name, row := range map[string]struct {
		o       catalog.SkillOptions
		found   bool
		warning string
	}{
		"absolute":          {catalog.SkillOptions{Dirs: []string{there}}, true, ""},
		"not clean":         {catalog.SkillOptions{Dirs: []string{there + "/./x/.."}}, true, ""},
		"relative":          {catalog.SkillOptions{Dirs: []string{"there"}, Base: dir}, true, ""},
		"upwards":           {catalog.SkillOptions{Dirs: []string{"../there"}, Base: filepath.Join(dir, "x")}, true, ""},
		"home":              {catalog.SkillOptions{Dirs: []string{"~"}, Home: there}, true, ""},
		"below home":        {catalog.SkillOptions{Dirs: []string{"~/there"}, Home: dir}, true, ""},
		"environment":       {catalog.SkillOptions{EnvDir: there}, true, ""},
		"environment, home": {catalog.SkillOptions{EnvDir: "~/there", Home: dir}, true, ""},
		"environment, cwd":  {catalog.SkillOptions{EnvDir: "there", Cwd: dir}, true, ""},
		"the skill itself":  {catalog.SkillOptions{Dirs: []string{filepath.Join(there, "s")}}, true, ""},
		"twice":             {catalog.SkillOptions{Dirs: []string{there, "there"}, Base: dir, EnvDir: there}, true, ""},
		"above, too":        {catalog.SkillOptions{Dirs: []string{filepath.Join(there, "s"), there}}, true, ""},

		"git":                   {catalog.SkillOptions{Dirs: []string{"git+https://me:secret@host/x"}, Base: dir}, false, "entry=skills.skills[0]"},
		"URL":                   {catalog.SkillOptions{Dirs: []string{"file://" + there}}, false, "entry=skills.skills[0]"},
		"missing":               {catalog.SkillOptions{Dirs: []string{"nowhere"}, Base: dir}, false, "nowhere"},
		"missing, but the next": {catalog.SkillOptions{Dirs: []string{"nowhere", there}, Base: dir}, true, "nowhere"},
		"a file":                {catalog.SkillOptions{Dirs: []string{"file", there}, Base: dir}, true, "not a directory"},
		"empty":                 {catalog.SkillOptions{Dirs: []string{""}, Base: there}, false, "entry=skills.skills[0]"},
		"no base":               {catalog.SkillOptions{Dirs: []string{"there"}}, false, "entry=skills.skills[0]"},
		"no home":               {catalog.SkillOptions{Dirs: []string{"~/there"}, Base: dir}, false, "entry=skills.skills[0]"},
		"other home":            {catalog.SkillOptions{Dirs: []string{"~me"}, Base: dir, Home: there}, false, "~me"},
		"environment missing":   {catalog.SkillOptions{EnvDir: filepath.Join(dir, "nowhere")}, false, "nowhere"},
		"environment, no cwd":   {catalog.SkillOptions{EnvDir: "there"}, false, "environment"},
		"nothing":               {catalog.SkillOptions{}, false, ""},
		"nothing there":         {catalog.SkillOptions{Cwd: dir, Home: "/nowhere"}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			log, out := logged()
			row.o.Log = log
			skills := catalog.DiscoverSkills(row.o)
			list := without(skills.List())
			if skills.Err() != nil || len(list) == 1 != row.found || row.found && len(list[0].Shadowed) != 0 {
				t.Errorf("got %+v, %v", list, skills.Err())
			}
			if row.warning == "" {
				warns(t, out)
			} else {
				warns(t, out, row.warning)
			}
			if strings.Contains(out.String(), "secret") {
				t.Errorf("a password is in the log: %s", out)
			}
		})
	}
}

func TestBuiltinSkills(t *testing.T) {
	log, out := logged()
	skills := catalog.DiscoverSkills(catalog.SkillOptions{Log: log})
	warns(t, out)
	if got := winners(skills.List()); got != "code-review=builtin:skills/code-review/SKILL.md\ncouncil=builtin:skills/council/SKILL.md\n" {
		t.Errorf("got %s", got)
	}
	for _, e := range skills.List() {
		body, err := skills.Expand(e.Name, "is it done?")
		if err != nil || !strings.HasPrefix(body, "# "+e.Name+"\n\n") || strings.Count(body, "is it done?") != 1 || strings.Contains(body, "$") || len(body) < 500 {
			t.Errorf("%s: %q, %v", e.Name, body, err)
		}
		if e.Description == "" {
			t.Errorf("%s has no description", e.Name)
		}
	}
}

// TestSkillsAreHeld checks that what was discovered does not change with the files.
func TestSkillsAreHeld(t *testing.T) {
	cwd := t.TempDir()
	file := write(t, skill("s", "before", forUsers), cwd, ".amplifier/skills/s/SKILL.md")
	skills := catalog.DiscoverSkills(catalog.SkillOptions{Cwd: cwd})
	write(t, skill("s", "after", forUsers), file)
	if body, err := skills.Expand("s", ""); err != nil || body != "# s\n\nbefore" {
		t.Errorf("got %q, %v", body, err)
	}
}

// TestSkillsNotListed: those that only lack a word are named in the log, in one line that is no warning.
func TestSkillsNotListed(t *testing.T) {
	cwd := t.TempDir()
	for name, more := range map[string]string{"plain": "", "also": "disable-model-invocation: false", "shown": forUsers, "barred": "user-invocable: false"} {
		write(t, skill(name, "B", more), cwd, ".amplifier/skills", name, "SKILL.md")
	}
	var out bytes.Buffer
	catalog.DiscoverSkills(catalog.SkillOptions{Cwd: cwd, Log: slog.New(slog.NewTextHandler(&out, nil))})
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=INFO") || !strings.HasSuffix(got, "skills=\"[also plain]\"\n") {
		t.Errorf("got %s", got)
	}
}

// TestSkillsListed checks the list against what runs, over all that is listed.
func TestSkillsListed(t *testing.T) {
	cwd := t.TempDir()
	for i, more := range []string{forUsers, "user-invocable: false", "disable-model-invocation: true", "", forUsers} {
		name := fmt.Sprintf("s%d", 9-i)
		write(t, skill(name, "B", more), cwd, ".amplifier/skills", name, "SKILL.md")
	}
	skills := catalog.DiscoverSkills(catalog.SkillOptions{Cwd: cwd})
	var names []string
	for _, e := range skills.List() {
		names = append(names, e.Name)
		if _, err := skills.Expand(e.Name, ""); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"code-review", "council", "s5", "s7", "s9"}; !slices.Equal(names, want) {
		t.Errorf("got %q", names)
	}
}
