package catalog_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"amplifier-agent/pipeline/catalog"
)

func TestExpand(t *testing.T) {
	for name, row := range map[string]struct{ body, args, want string }{
		"plain":                {"Do it.", "", "Do it."},
		"trimmed":              {"\n\n  Do it.\n\n", "", "Do it."},
		"empty":                {"", "", ""},
		"all":                  {"Do $ARGUMENTS now", "a  b", "Do a  b now"},
		"all, none":            {"Do '$ARGUMENTS'", "", "Do ''"},
		"all, twice":           {"$ARGUMENTS$ARGUMENTS", "a", "aa"},
		"words":                {"$0-$1-$2", "a\tb  c", "a-b-c"},
		"words, too few":       {"$0-$1-$2", "a", "a--"},
		"words, none":          {"<$0>", "", "<>"},
		"more than ten":        {"$10,$1", "0 1 2 3 4 5 6 7 8 9 x", "x,1"},
		"leading zero":         {"$01", "a b", "b"},
		"number too large":     {"<$99999999999999999999>", "a", "<>"},
		"dir":                  {"see ${SKILL_DIR}/x", "", "see DIR/x"},
		"one pass":             {"$ARGUMENTS", "$0 ${SKILL_DIR} $ARGUMENTS", "$0 ${SKILL_DIR} $ARGUMENTS"},
		"one pass, words":      {"$0|$1", "$1 $ARGUMENTS", "$1|$ARGUMENTS"},
		"no template":          {"$ARGUMENTS", "$1 $& \\1 ${0}", "$1 $& \\1 ${0}"},
		"put together":         {"$$0", "0 b", "$0"},
		"no place":             {"Do it.", "a  b", "Do it.\n\nArguments: a  b"},
		"no place, dir":        {"${SKILL_DIR}", "a", "DIR\n\nArguments: a"},
		"no place, blank":      {"Do it.", "  ", "Do it."},
		"no place, expression": {"Do it.", "$0 ${SKILL_DIR}", "Do it.\n\nArguments: $0 ${SKILL_DIR}"},
		"a place is enough":    {"only $1", "a b", "only b"},
		"not a placeholder":    {"$HOME ${ARGUMENTS} ${0} $x $ $arguments", "", "$HOME ${ARGUMENTS} ${0} $x $ $arguments"},
		"lines":                {"$ARGUMENTS|$1", "a\nb", "a\nb|b"},
		"command":              {"!`touch CANARY` $0", "x", "!`touch CANARY` x"},
	} {
		t.Run(name, func(t *testing.T) {
			cwd := t.TempDir()
			canary := filepath.Join(cwd, "canary")
			body, want := strings.ReplaceAll(row.body, "CANARY", canary), strings.ReplaceAll(row.want, "CANARY", canary)
			write(t, skill("s", body, forUsers), cwd, ".amplifier/skills/s/SKILL.md")
			want = "# s\n\n" + strings.ReplaceAll(want, "DIR", filepath.Join(cwd, ".amplifier/skills/s"))
			if strings.Contains(row.args, "SKILL_DIR") {
				want = "# s\n\n" + row.want
			}
			skills := catalog.DiscoverSkills(catalog.SkillOptions{Cwd: cwd})
			for range 2 { // the first leaves no trace
				if got, err := skills.Expand("s", row.args); err != nil || got != want {
					t.Errorf("got %q, %v\nwant %q", got, err, want)
				}
			}
			if _, err := os.Stat(canary); err == nil {
				t.Error("the command was run")
			}
		})
	}
}

func TestExpandErrors(t *testing.T) {
	cwd := t.TempDir()
	write(t, skill("forked", "B", forUsers, "context: fork"), cwd, ".amplifier/skills/forked/SKILL.md")
	skills := catalog.DiscoverSkills(catalog.SkillOptions{Cwd: cwd})
	for name, row := range map[string]struct {
		err  error
		text string
	}{
		"":           {catalog.ErrNoSkill, `skill "": no such skill`},
		"unknown":    {catalog.ErrNoSkill, `skill "unknown": no such skill`},
		"Council":    {catalog.ErrNoSkill, `skill "Council"`},
		"../council": {catalog.ErrNoSkill, `skill "../council"`},
		"forked":     {catalog.ErrFork, "needs a sub-agent"},
	} {
		body, err := skills.Expand(name, "x")
		if body != "" || !errors.Is(err, row.err) || !strings.Contains(err.Error(), row.text) {
			t.Errorf("%q: %q, %v", name, body, err)
		}
	}

	write(t, "", cwd, "env")
	failed := catalog.DiscoverSkills(catalog.SkillOptions{EnvDir: filepath.Join(cwd, "env")})
	if _, err := failed.Expand("unknown", ""); !errors.Is(err, failed.Err()) || errors.Is(err, catalog.ErrNoSkill) {
		t.Errorf("got %v: nobody can say whether there is such a skill", err)
	}
}
