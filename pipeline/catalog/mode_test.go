package catalog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/catalog"
)

func TestModeFrontMatter(t *testing.T) {
	type policy = pipeline.ToolPolicy
	for name, row := range map[string]struct {
		text string
		want *pipeline.Mode // nil: the file is no mode
		warn string         // part of the warning, which names the file, too; "" for none
	}{
		"least":            {"---\nmode: {}\n---\n", &pipeline.Mode{}, ""},
		"full":             {"---\nmode:\n  name: m\n  description: D\n  shortcut: false\n  tools:\n    safe: [a, b]\n    warn:\n      - c\n    confirm: [d]\n    block: [e]\n  default_action: allow\n  allowed_transitions: [plan]\n  allow_clear: true\n---\n\nDo it.\n", &pipeline.Mode{Body: "Do it.", Tools: policy{Safe: []string{"a", "b"}, Warn: []string{"c"}, Confirm: []string{"d"}, Block: []string{"e"}, DefaultAllow: true}}, ""},
		"hyphens":          {"---\nmode: {default-action: allow}\n---\n", &pipeline.Mode{Tools: policy{DefaultAllow: true}}, ""},
		"block":            {"---\nmode: {default_action: block}\n---\n", &pipeline.Mode{}, ""},
		"other keys":       {"---\nauthor: me\nmode: {colour: red}\n---\n", &pipeline.Mode{}, ""},
		"nulls":            {"---\nmode:\n  description:\n  default_action:\n  tools:\n    safe:\n---\n", &pipeline.Mode{}, ""},
		"words":            {"---\nmode: {tools: {safe: \"a b,c\"}}\n---\n", &pipeline.Mode{Tools: policy{Safe: []string{"a", "b", "c"}}}, ""},
		"scalar entries":   {"---\nmode: {tools: {safe: [1, true]}}\n---\n", &pipeline.Mode{Tools: policy{Safe: []string{"1", "true"}}}, ""},
		"BOM":              {"\uFEFF---\nmode: {}\n---\nx", &pipeline.Mode{Body: "x"}, ""},
		"CRLF":             {"---\r\nmode:\r\n  default_action: allow\r\n---\r\nx\r\ny\r\n", &pipeline.Mode{Body: "x\ny", Tools: policy{DefaultAllow: true}}, ""},
		"BOM and CRLF":     {"\uFEFF---\r\nmode: {}\r\n---\r\nx", &pipeline.Mode{Body: "x"}, ""},
		"blanks at fences": {"--- \nmode: {}\n---\t \nx", &pipeline.Mode{Body: "x"}, ""},
		"no last newline":  {"---\nmode: {}\n---", &pipeline.Mode{}, ""},
		"fence in body":    {"---\nmode: {}\n---\na\n---\nb", &pipeline.Mode{Body: "a\n---\nb"}, ""},
		"fence in a value": {"---\nmode: {description: a --- b}\n---\nx", &pipeline.Mode{Body: "x"}, ""},
		"not UTF-8":        {"---\nmode: {}\n---\na\xffb", &pipeline.Mode{Body: "a\uFFFDb"}, ""},
		"anchor":           {"---\nmode: &m {default_action: allow}\n---\n", &pipeline.Mode{Tools: policy{DefaultAllow: true}}, ""},
		"other name":       {"---\nmode: {name: other}\n---\n", &pipeline.Mode{}, "name=other"},

		"empty":              {"", nil, "no front matter"},
		"no fence":           {"mode: {}\n", nil, "first line must be ---, as in the lines '---', 'mode: {description: What it is for}', '---'"},
		"blank line first":   {"\n---\nmode: {}\n---\n", nil, "first line must be"},
		"longer fence":       {"----\nmode: {}\n---\n", nil, "first line must be"},
		"open":               {"---\nmode: {}\n", nil, "does not end"},
		"only a fence":       {"---", nil, "does not end"},
		"empty front":        {"---\n---\n", nil, "no mapping mode: write 'mode: {description: What it is for}'"},
		"comments only":      {"---\n# mode: {}\n---\n", nil, "mapping"},
		"no mode":            {"---\nname: m\n---\n", nil, "no mapping mode"},
		"mode null":          {"---\nmode:\n---\n", nil, "no mapping mode"},
		"mode text":          {"---\nmode: plan\n---\n", nil, "mode is no mapping: write 'mode:' with its keys indented"},
		"mode list":          {"---\nmode: [plan]\n---\n", nil, "mode is no mapping"},
		"front list":         {"---\n- mode\n---\n", nil, "front matter: line 2, column 1: it is no mapping: write lines"},
		"bad YAML":           {"---\nmode: {}\na: b: c\n---\n", nil, "line 3, column 4: mapping value is not allowed in this context: text with a colon in it needs quotes"},
		"twice":              {"---\nmode: {}\nmode: {}\n---\n", nil, "already defined"},
		"alias":              {"---\na: &a b\nmode:\n  description: *a\n---\n", nil, "line 4: aliases"},
		"merge":              {"---\na: &a {default_action: allow}\nmode:\n  <<: *a\n---\n", nil, "line 4: aliases"},
		"description a list": {"---\nmode: {description: [a]}\n---\n", nil, "description is no text"},
		"name a mapping":     {"---\nmode: {name: {a: b}}\n---\n", nil, "name is no text"},
		// A policy that cannot be read must not become one that allows more.
		"action unknown": {"---\nmode: {default_action: deny}\n---\n", nil, "want block or allow"},
		"action a list":  {"---\nmode: {default_action: [allow]}\n---\n", nil, "default_action is no text"},
		"tools a list":   {"---\nmode: {tools: [a]}\n---\n", nil, "tools is no mapping"},
		"tools unknown":  {"---\nmode: {tools: {deny: [a]}, default_action: allow}\n---\n", nil, "want safe, warn, confirm or block"},
		"block mapping":  {"---\nmode: {tools: {block: {a: b}}}\n---\n", nil, "block is no list"},
		"block nested":   {"---\nmode: {tools: {block: [[a]]}}\n---\n", nil, "block has an entry"},
		"block null":     {"---\nmode: {tools: {block: [null]}}\n---\n", nil, "block has an entry"},

		"bomb":          {"---\n" + bomb() + "mode: {}\n---\n", nil, "aliases"},
		"deep flow":     {"---\nmode: " + strings.Repeat("[", 10_000) + "\n---\n", nil, "words and signs"},
		"deep":          {"---\nmode: " + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + "\n---\n", nil, "mode is no mapping"},
		"long front":    {"---\n#" + strings.Repeat("x", 17<<10) + "\nmode: {}\n---\n", nil, "write a line ---"},
		"longest front": {"---\nmode: {}\n#" + strings.Repeat("x", 16<<10-len("mode: {}\n#\n")) + "\n---\n", &pipeline.Mode{}, ""},
		"longer by one": {"---\nmode: {}\n#" + strings.Repeat("x", 16<<10-len("mode: {}\n#\n")+1) + "\n---\n", nil, "write a line ---"},
		"long body":     {"---\nmode: {}\n---\n" + strings.Repeat("x", 1<<20), nil, "more than 1048576 bytes"},
		"binary":        {"\x00\x01\xfe\xff", nil, "first line must be"},
	} {
		t.Run(name, func(t *testing.T) {
			cwd := t.TempDir()
			source := write(t, row.text, cwd, ".amplifier/modes/m.md")
			log, out := logged()
			modes := catalog.DiscoverModes(catalog.ModeOptions{Cwd: cwd, Log: log})
			got, err := modes.Mode("m")
			if err != nil || modes.Err() != nil {
				t.Fatal(err, modes.Err())
			}
			if row.want == nil {
				if got != nil || slices.Contains(modes.Names(), "m") {
					t.Errorf("it is a mode: %+v", got)
				}
			} else {
				row.want.Name = "m"
				if got == nil || fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", *row.want) {
					t.Errorf("got %+v\nwant %+v", got, row.want)
				}
			}
			if row.warn == "" {
				warns(t, out)
			} else {
				warns(t, out, row.warn, source)
			}
		})
	}
}

// bomb is some hundred bytes of YAML that stand for nine to the power of nine values.
func bomb() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
	for i := range 8 {
		all := strings.Repeat(fmt.Sprintf(", *a%d", i), 9)[2:]
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, all)
	}
	return text
}

func TestModeDescription(t *testing.T) {
	cwd := t.TempDir()
	for name, front := range map[string]string{"a": "{description: ' one  two '}", "b": "{}", "c": "\n  description: >\n    one\n    two\n", "d": "{description: 1.5}"} {
		write(t, "---\nmode: "+front+"\n---\n", cwd, ".amplifier/modes", name+".md")
	}
	var got []string
	for _, e := range without(catalog.DiscoverModes(catalog.ModeOptions{Cwd: cwd}).List()) {
		got = append(got, e.Name+":"+e.Description)
	}
	if want := []string{"a:one  two", "b:", "c:one two", "d:1.5"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestModeShadowing walks through the roots: whoever comes first wins, and what cannot be understood leaves the name to the next.
func TestModeShadowing(t *testing.T) {
	const good, bad = "---\nmode: {}\n---\n%s", "no mode"
	for name, row := range map[string]struct {
		cwd, home string // the file plan.md of each; "" for none
		body      string // "" is the built-in's
		source    string
		shadowed  []string
		warnings  int
	}{
		"built in":        {"", "", "", "builtin:modes/plan.md", nil, 0},
		"home":            {"", good, "home", "home", []string{"builtin:modes/plan.md"}, 0},
		"cwd":             {good, "", "cwd", "cwd", []string{"builtin:modes/plan.md"}, 0},
		"all":             {good, good, "cwd", "cwd", []string{"home", "builtin:modes/plan.md"}, 0},
		"cwd is bad":      {bad, good, "home", "home", []string{"builtin:modes/plan.md"}, 1},
		"home is bad":     {"", bad, "", "builtin:modes/plan.md", nil, 1},
		"both are bad":    {bad, bad, "", "builtin:modes/plan.md", nil, 2},
		"not even a look": {good, bad, "cwd", "cwd", []string{"home", "builtin:modes/plan.md"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dirs := map[string]string{"cwd": t.TempDir(), "home": t.TempDir()}
			at := func(s string) string {
				if dir, ok := dirs[s]; ok {
					return filepath.Join(dir, ".amplifier", "modes", "plan.md")
				}
				return s
			}
			for dir, text := range map[string]string{"cwd": row.cwd, "home": row.home} {
				if text != "" {
					write(t, strings.Replace(text, "%s", dir, 1), at(dir))
				}
			}
			log, out := logged()
			modes := catalog.DiscoverModes(catalog.ModeOptions{Cwd: dirs["cwd"], Home: dirs["home"], Log: log})
			list := modes.List()
			if len(list) != 2 || list[1].Name != "plan" {
				t.Fatalf("got %+v", list)
			}
			shadowed := []catalog.Shadow{}
			for _, s := range row.shadowed {
				shadowed = append(shadowed, catalog.Shadow{Source: at(s)})
			}
			if list[1].Source != at(row.source) || !slices.Equal(list[1].Shadowed, shadowed) || list[1].Shadowed == nil {
				t.Errorf("got %+v", list[1])
			}
			mode, err := modes.Mode("plan")
			if err != nil || row.body != "" && mode.Body != row.body || row.body == "" && !strings.HasPrefix(mode.Body, "# Plan mode") {
				t.Errorf("another one runs: %v, %v", mode, err)
			}
			warnsTimes(t, out, row.warnings)
		})
	}
}

// TestModeFiles tells which files of a root are modes.
func TestModeFiles(t *testing.T) {
	const good = "---\nmode: {}\n---\n"
	cwd, elsewhere := t.TempDir(), t.TempDir()
	root := filepath.Join(cwd, ".amplifier", "modes")
	for _, name := range []string{"a.md", "A-z.0_9.md", ".hidden.md", "notes.txt", "UPPER.MD", "sub/b.md", "dir.md/c.md"} {
		write(t, good, root, name)
	}
	write(t, good, root, "two words.md")
	write(t, good, root, "ümlaut.md")
	write(t, good, root, ".md")
	link(t, write(t, good, elsewhere, "x"), root, "linked.md")
	link(t, elsewhere, root, "linked-dir.md")
	link(t, "nowhere", root, "dangling.md")
	log, out := logged()
	modes := catalog.DiscoverModes(catalog.ModeOptions{Cwd: cwd, Log: log})
	if got, want := modes.Names(), []string{".hidden", "A-z.0_9", "a", "brainstorm", "linked", "plan"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	warnsTimes(t, out, 5, "two words.md", "ümlaut.md", "modes/.md", "linked-dir.md", "dangling.md")
}

// TestModeRootTwice: a home that is the working directory shadows nothing, neither does one that is a link to it.
func TestModeRootTwice(t *testing.T) {
	cwd, home := t.TempDir(), t.TempDir()
	write(t, "---\nmode: {}\n---\n", cwd, ".amplifier/modes/m.md")
	write(t, "no mode", cwd, ".amplifier/modes/bad.md")
	link(t, filepath.Join(cwd, ".amplifier"), home, ".amplifier")
	for _, h := range []string{cwd, home} {
		log, out := logged()
		list := without(catalog.DiscoverModes(catalog.ModeOptions{Cwd: cwd, Home: h, Log: log}).List())
		if len(list) != 1 || len(list[0].Shadowed) != 0 {
			t.Errorf("got %+v", list)
		}
		warns(t, out, "bad.md")
	}
}

func TestModeUnknown(t *testing.T) {
	modes := catalog.DiscoverModes(catalog.ModeOptions{Cwd: t.TempDir(), Home: "/nowhere/at/all"})
	for _, name := range []string{"", "Plan", "plan ", "plan.md", "../plan", "modes/plan"} {
		if m, err := modes.Mode(name); m != nil || err != nil {
			t.Errorf("%q: %v, %v", name, m, err)
		}
	}
}

// TestTooManyModes checks that a root with more files than the limit still serves the first of them.
func TestTooManyModes(t *testing.T) {
	t.Parallel()
	cwd := t.TempDir()
	for i := range 1001 {
		write(t, "---\nmode: {}\n---\n", cwd, ".amplifier/modes", fmt.Sprintf("m%04d.md", i))
	}
	log, out := logged()
	names := catalog.DiscoverModes(catalog.ModeOptions{Cwd: cwd, Log: log}).Names()
	if len(names) != 1002 || slices.Contains(names, "m1000") {
		t.Errorf("%d modes", len(names))
	}
	warns(t, out, "too many modes")
}

// TestModeForbidden checks that a file nobody may read is only that file's misfortune.
func TestModeForbidden(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	cwd := t.TempDir()
	if err := os.Chmod(write(t, "---\nmode: {}\n---\n", cwd, ".amplifier/modes/m.md"), 0); err != nil {
		t.Fatal(err)
	}
	log, out := logged()
	if modes := catalog.DiscoverModes(catalog.ModeOptions{Cwd: cwd, Log: log}); modes.Err() != nil || len(modes.List()) != 2 {
		t.Errorf("got %v, %v", modes.List(), modes.Err())
	}
	warns(t, out, "permission denied")
}

func TestBuiltinModes(t *testing.T) {
	common := []string{"read_file", "glob", "grep", "web_search", "web_fetch", "load_skill", "LSP", "python_check", "delegate", "recipes"}
	log, out := logged()
	modes := catalog.DiscoverModes(catalog.ModeOptions{Log: log})
	warns(t, out)
	if got := winners(modes.List()); got != "brainstorm=builtin:modes/brainstorm.md\nplan=builtin:modes/plan.md\n" {
		t.Errorf("got %s", got)
	}
	for name, safe := range map[string][]string{"plan": append([]string{"todo"}, common...), "brainstorm": common} {
		m, err := modes.Mode(name)
		if err != nil || m == nil {
			t.Fatal(name, err)
		}
		p := m.Tools
		slices.Sort(safe)
		slices.Sort(p.Safe)
		if !slices.Equal(p.Safe, safe) || !slices.Equal(p.Warn, []string{"bash"}) || len(p.Confirm)+len(p.Block) != 0 || p.DefaultAllow {
			t.Errorf("%s: %+v", name, p)
		}
		if p.Verdict("write_file") != pipeline.Deny || p.Verdict("bash") != pipeline.Warn {
			t.Errorf("%s: lets tools through", name)
		}
		if len(m.Body) < 500 || strings.Contains(m.Body, "---\n") {
			t.Errorf("%s: body %.80q", name, m.Body)
		}
	}
}
