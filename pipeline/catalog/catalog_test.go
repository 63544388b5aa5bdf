package catalog_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"amplifier-agent/pipeline/catalog"
)

// write writes a file and the directories above it, and returns its path.
func write(t *testing.T, text string, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func link(t *testing.T, target string, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// realDir is a temporary directory by its real path.
func realDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// logged collects warnings.
func logged() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelWarn})), &b
}

// warns expects exactly one warning, which holds all parts; none if there are no parts.
func warns(t *testing.T, log *bytes.Buffer, parts ...string) {
	t.Helper()
	warnsTimes(t, log, min(len(parts), 1), parts...)
}

// warnsTimes expects n warnings, and each part in one of them.
func warnsTimes(t *testing.T, log *bytes.Buffer, n int, parts ...string) {
	t.Helper()
	if got := strings.Count(log.String(), "\n"); got != n {
		t.Errorf("%d warnings, want %d:\n%s", got, n, log)
	}
	for _, p := range parts {
		if !strings.Contains(log.String(), p) {
			t.Errorf("no warning with %q:\n%s", p, log)
		}
	}
}

// winners is a list as text: name=source(shadowed, …).
func winners(list []catalog.Entry) string {
	var b strings.Builder
	for _, e := range list {
		fmt.Fprintf(&b, "%s=%s", e.Name, e.Source)
		for _, s := range e.Shadowed {
			fmt.Fprintf(&b, " (%s)", s.Source)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// without leaves out what is built in and shadows nothing.
func without(list []catalog.Entry) (rest []catalog.Entry) {
	for _, e := range list {
		if !strings.HasPrefix(e.Source, "builtin:") {
			rest = append(rest, e)
		}
	}
	return rest
}

func TestEntryOnTheWire(t *testing.T) {
	b, err := json.Marshal(catalog.DiscoverModes(catalog.ModeOptions{}).List()[:1])
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"brainstorm","description":"Think broadly about a problem and its possible solutions before choosing one","source":"builtin:modes/brainstorm.md","shadowed":[]}]`
	if string(b) != want {
		t.Errorf("got %s\nwant %s", b, want)
	}
}

// TestFailure checks that skills and modes fail apart from each other, with empty lists that are not nil and a reason that names
// the root.
func TestFailure(t *testing.T) {
	asFile := func(t *testing.T, root string) { write(t, "", root) }
	loop := func(t *testing.T, root string) { link(t, root, root) }
	forbidden := func(t *testing.T, root string) {
		if os.Getuid() == 0 {
			t.Skip("root may read everything")
		}
		if err := os.MkdirAll(root, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(root, 0o000); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(root, 0o755) })
	}
	for name, row := range map[string]struct {
		dir, kind string
		spoil     func(*testing.T, string)
	}{
		"modes of cwd a file":        {"cwd", "modes", asFile},
		"modes of home a file":       {"home", "modes", asFile},
		"modes of cwd a link loop":   {"cwd", "modes", loop},
		"modes of cwd forbidden":     {"cwd", "modes", forbidden},
		"skills of cwd a file":       {"cwd", "skills", asFile},
		"skills of home a file":      {"home", "skills", asFile},
		"skills of home a link loop": {"home", "skills", loop},
		"skills of home forbidden":   {"home", "skills", forbidden},
		"skills of env a file":       {"env", "skills", asFile},
	} {
		t.Run(name, func(t *testing.T) {
			dir := realDir(t)
			cwd, home, env := filepath.Join(dir, "cwd"), filepath.Join(dir, "home"), filepath.Join(dir, "env", ".amplifier", "skills")
			root := filepath.Join(dir, row.dir, ".amplifier", row.kind)
			row.spoil(t, root)
			modes := catalog.DiscoverModes(catalog.ModeOptions{Cwd: cwd, Home: home})
			skills := catalog.DiscoverSkills(catalog.SkillOptions{EnvDir: env, Cwd: cwd, Home: home})

			mode, modeErr := modes.Mode("plan")
			_, skillErr := skills.Expand("council", "")
			failed, list, fine := modes.Err(), modes.List(), skills.Err()
			asked, askedFine := modeErr, skillErr
			if row.kind == "skills" {
				failed, list, fine = skills.Err(), skills.List(), modes.Err()
				asked, askedFine = skillErr, modeErr
			}
			if failed == nil || !strings.Contains(failed.Error(), root) {
				t.Errorf("err %v does not name %s", failed, root)
			}
			if asked == nil || list == nil || len(list) != 0 {
				t.Errorf("asked: %v; list %#v", asked, list)
			}
			if row.kind == "modes" && (mode != nil || len(modes.Names()) != 0) {
				t.Errorf("mode %v, names %v", mode, modes.Names())
			}
			if fine != nil || askedFine != nil {
				t.Errorf("the other kind: err %v, asked %v", fine, askedFine)
			}
		})
	}
}

// TestDotDirIsAFile: what lies between fails both kinds, each with the path that it looked for.
func TestDotDirIsAFile(t *testing.T) {
	cwd := realDir(t)
	write(t, "", cwd, ".amplifier")
	if err := catalog.DiscoverModes(catalog.ModeOptions{Cwd: cwd}).Err(); fmt.Sprint(err) != "discover modes: "+cwd+"/.amplifier/modes: not a directory" {
		t.Errorf("got %v", err)
	}
	if err := catalog.DiscoverSkills(catalog.SkillOptions{Cwd: cwd}).Err(); fmt.Sprint(err) != "discover skills: "+cwd+"/.amplifier/skills: not a directory" {
		t.Errorf("got %v", err)
	}
}

// TestListIsACopy checks that nobody can change what others will see.
func TestListIsACopy(t *testing.T) {
	cwd := t.TempDir()
	write(t, "---\nmode: {}\n---\n", cwd, ".amplifier/modes/plan.md")
	modes := catalog.DiscoverModes(catalog.ModeOptions{Cwd: cwd})
	want := winners(modes.List())
	list := modes.List()
	list[0].Name, list[1].Shadowed[0].Source = "changed", "changed"
	if got := winners(modes.List()); got != want {
		t.Errorf("got %s", got)
	}
}
