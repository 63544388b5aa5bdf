package catalog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"amplifier-agent/pipeline/catalog"
)

// TestSkillWalk builds trees and tells what is found in them.
func TestSkillWalk(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("d/", n) }
	for name, row := range map[string]struct {
		git     bool // the root lies in a git work tree, two levels below its top
		build   func(t *testing.T, root, top string)
		want    []string // bodies, sorted
		warning string
	}{
		"nested": {false, func(t *testing.T, root, _ string) {
			write(t, skill("a", "a", forUsers), root, "a/SKILL.md")
			write(t, skill("b", "b", forUsers), root, "a/x/b/SKILL.md")
			write(t, skill("c", "c", forUsers), root, ".c/SKILL.md")
			write(t, skill("no", "no", forUsers), root, "d/skill.txt")
		}, []string{"a", "b", "c"}, "not named like"},
		"in lexical order": {false, func(t *testing.T, root, _ string) {
			write(t, skill("a", "first", forUsers), root, "1/a/SKILL.md")
			write(t, skill("a", "second", forUsers), root, "2/a/SKILL.md")
		}, []string{"first"}, ""},
		"no repository inside": {false, func(t *testing.T, root, _ string) {
			write(t, skill("a", "a", forUsers), root, ".git/a/SKILL.md")
		}, nil, ""},
		"directory of that name": {false, func(t *testing.T, root, _ string) {
			write(t, skill("a", "a", forUsers), root, "SKILL.md/a/SKILL.md")
		}, []string{"a"}, ""},
		"not too deep": {false, func(t *testing.T, root, _ string) {
			write(t, skill("d", "d", forUsers), root, deep(16), "SKILL.md")
		}, []string{"d"}, ""},
		"too deep": {false, func(t *testing.T, root, _ string) {
			write(t, skill("d", "d", forUsers), root, deep(17), "SKILL.md")
		}, nil, "too deep"},

		"loop": {false, func(t *testing.T, root, _ string) {
			write(t, skill("a", "a", forUsers), root, "a/SKILL.md")
			link(t, root, root, "a/again")
			link(t, ".", root, "a/self")
			link(t, "..", root, "a/up")
		}, []string{"a"}, ""},
		"two loops": {false, func(t *testing.T, root, _ string) {
			write(t, skill("a", "a", forUsers), root, "a/SKILL.md")
			write(t, skill("b", "b", forUsers), root, "b/SKILL.md")
			link(t, "../b", root, "a/to-b")
			link(t, "../a", root, "b/to-a")
		}, []string{"a", "b"}, ""},
		"link to itself": {false, func(t *testing.T, root, _ string) {
			link(t, "x", root, "x")
		}, nil, "too many links"},
		"dangling": {false, func(t *testing.T, root, _ string) {
			link(t, "nowhere", root, "x")
		}, nil, "no such file"},
		"its own path counts": {false, func(t *testing.T, root, _ string) {
			write(t, skill("b", "${SKILL_DIR}", forUsers), root, "z/b/SKILL.md")
			link(t, "z", root, "a")
			link(t, "../z/b/SKILL.md", root, "b/SKILL.md")
		}, []string{"ROOT/z/b"}, ""},
		"links to other things": {false, func(t *testing.T, root, _ string) {
			link(t, os.DevNull, root, "null")
			link(t, os.DevNull, root, "a/SKILL.md")
		}, nil, "leads out of"},
		"link inside": {false, func(t *testing.T, root, _ string) {
			write(t, skill("b", "b", forUsers), root, "z/b/SKILL.md")
			link(t, "z/b", root, "b")
		}, []string{"b"}, ""},
		"link to the file": {false, func(t *testing.T, root, _ string) {
			write(t, skill("b", "b", forUsers), root, "b.md")
			link(t, "../b.md", root, "b/SKILL.md")
		}, []string{"b"}, ""},

		"link out": {false, func(t *testing.T, root, top string) {
			write(t, skill("b", "b", forUsers), top, "b/SKILL.md")
			link(t, filepath.Join(top, "b"), root, "b")
		}, nil, "leads out of"},
		"file link out": {false, func(t *testing.T, root, top string) {
			link(t, write(t, skill("b", "b", forUsers), top, "b.md"), root, "b/SKILL.md")
		}, nil, "leads out of"},
		"link out of the root, in the work tree": {true, func(t *testing.T, root, top string) {
			write(t, skill("b", "b", forUsers), top, "other/b/SKILL.md")
			link(t, filepath.Join(top, "other", "b"), root, "b")
		}, []string{"b"}, ""},
		"link to the top of the work tree": {true, func(t *testing.T, root, top string) {
			write(t, skill("b", "b", forUsers), top, "b/SKILL.md")
			link(t, top, root, "top")
		}, []string{"b"}, ""},
		"link out of the work tree": {true, func(t *testing.T, root, top string) {
			write(t, skill("b", "b", forUsers), top+"-beside", "b/SKILL.md")
			link(t, top+"-beside", root, "b")
		}, nil, "leads out of"},
		"link out, by way of another": {true, func(t *testing.T, root, top string) {
			write(t, skill("b", "b", forUsers), top+"-beside", "b/SKILL.md")
			link(t, top+"-beside", top, "out")
			link(t, "../../out", root, "b")
		}, nil, "leads out of"},
	} {
		t.Run(name, func(t *testing.T) {
			top := filepath.Join(realDir(t), "top")
			root := filepath.Join(top, "x", "skills")
			if err := os.MkdirAll(root, 0o755); err != nil {
				t.Fatal(err)
			}
			if row.git {
				write(t, "gitdir: elsewhere", top, ".git") // a file, as in a work tree that git has added
			}
			row.build(t, root, top)
			log, out := logged()
			skills := catalog.DiscoverSkills(catalog.SkillOptions{EnvDir: root, Log: log})
			if skills.Err() != nil {
				t.Fatal(skills.Err())
			}
			var got []string
			for _, e := range without(skills.List()) {
				body, err := skills.Expand(e.Name, "")
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, strings.Replace(strings.TrimPrefix(body, "# "+e.Name+"\n\n"), root, "ROOT", 1))
			}
			slices.Sort(got)
			if !slices.Equal(got, row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
			if row.warning == "" {
				warns(t, out)
			} else {
				warns(t, out, row.warning)
			}
		})
	}
}

// TestSkillRootIsALink: a root may be a link to anywhere; what it leads to counts for what lies outside.
func TestSkillRootIsALink(t *testing.T) {
	cwd, elsewhere := realDir(t), realDir(t)
	write(t, skill("s", "${SKILL_DIR}", forUsers), elsewhere, "s/SKILL.md")
	root := link(t, elsewhere, cwd, ".amplifier/skills")
	skills := catalog.DiscoverSkills(catalog.SkillOptions{Cwd: cwd})
	list := without(skills.List())
	if len(list) != 1 || list[0].Source != filepath.Join(root, "s", "SKILL.md") {
		t.Fatalf("got %+v", list)
	}
	if body, _ := skills.Expand("s", ""); body != "# s\n\n"+filepath.Join(root, "s") {
		t.Errorf("got %q", body)
	}
}

// TestSkillForbidden checks that a directory nobody may read is only that directory's misfortune.
func TestSkillForbidden(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	cwd := t.TempDir()
	write(t, skill("s", "B", forUsers), cwd, ".amplifier/skills/s/SKILL.md")
	locked := filepath.Dir(write(t, skill("l", "B", forUsers), cwd, ".amplifier/skills/l/SKILL.md"))
	if err := os.Chmod(locked, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(locked, 0o755) })
	log, out := logged()
	if skills := catalog.DiscoverSkills(catalog.SkillOptions{Cwd: cwd, Log: log}); skills.Err() != nil || len(without(skills.List())) != 1 {
		t.Errorf("got %v, %v", skills.List(), skills.Err())
	}
	warns(t, out, "permission denied")
}

// TestTooManySkills checks that a root with more files than the limit still serves the first of them.
func TestTooManySkills(t *testing.T) {
	t.Parallel()
	cwd := t.TempDir()
	for i := range 1001 {
		name := fmt.Sprintf("s%04d", i)
		write(t, skill(name, "B", forUsers), cwd, ".amplifier/skills", name, "SKILL.md")
	}
	log, out := logged()
	skills := catalog.DiscoverSkills(catalog.SkillOptions{Cwd: cwd, Log: log})
	if n := len(skills.List()); n != 1002 {
		t.Errorf("%d skills", n)
	}
	if _, err := skills.Expand("s1000", ""); err == nil {
		t.Error("the last one was found")
	}
	warns(t, out, "too many skills")
}

// TestTooManyDirs checks that a root which is no place for skills does not hold a server up.
func TestTooManyDirs(t *testing.T) {
	t.Parallel()
	cwd := t.TempDir()
	write(t, skill("a", "B", forUsers), cwd, ".amplifier/skills/a/SKILL.md")
	for i := range 4000 {
		if err := os.Mkdir(filepath.Join(cwd, ".amplifier/skills", fmt.Sprintf("d%05d", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	log, out := logged()
	if list := without(catalog.DiscoverSkills(catalog.SkillOptions{Cwd: cwd, Log: log}).List()); len(list) != 1 {
		t.Errorf("got %+v", list)
	}
	warns(t, out, "too many directories")
}
