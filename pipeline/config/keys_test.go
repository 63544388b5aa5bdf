package config

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files and the table in docs/configuration.md")

// TestTable holds the table together.
func TestTable(t *testing.T) {
	seen := map[string]bool{"": true}
	for i := range Keys {
		k := &Keys[i]
		if seen[k.Path] || !seen[k.parent()] {
			t.Errorf("%s is there twice, or before what it is in", k.Path)
		}
		seen[k.Path] = true
		if !strings.HasSuffix(k.Doc, ".") || k.Effect != "" && !strings.HasSuffix(k.Effect, ".") {
			t.Errorf("%s: its texts are no sentences: %q, %q", k.Path, k.Doc, k.Effect)
		}
		group := len(children(k.Path)) > 0
		if !group && k.field == nil {
			t.Errorf("%s goes nowhere", k.Path)
		}
		if group && k.Type != Object && k.Type != Entries || k.unknown != "" && !group {
			t.Errorf("%s has keys in it, or should have", k.Path)
		}
		if (k.Type == Choice) != (k.Choices != nil) || (k.Type == Number) != (k.Max > k.Min) {
			t.Errorf("%s: choices or range", k.Path)
		}
		if k.Default != "" && k.field != nil {
			if got := string(k.value(Default())); got != k.Default {
				t.Errorf("%s is %s by default, not %s", k.Path, got, k.Default)
			}
		}
	}
}

// TestTableComplete: the file of TestEverything, which is accepted, has each key of the table and no other, so that nothing can be
// accepted or documented alone.
func TestTableComplete(t *testing.T) {
	var file map[string]any
	if err := json.Unmarshal([]byte(everything), &file); err != nil {
		t.Fatal(err)
	}
	var got []string
	var walk func(path string, object map[string]any)
	walk = func(path string, object map[string]any) {
		for name, v := range object {
			if path == "providers" {
				name = "<id>"
			}
			if name == "more" {
				continue // of those that are let pass
			}
			at := join(path, name)
			got = append(got, at)
			if o, ok := v.(map[string]any); ok && len(children(at)) > 0 {
				walk(at, o)
			}
		}
	}
	walk("", file)
	slices.Sort(got)
	got = slices.Compact(got)
	var want []string
	for _, k := range Keys {
		want = append(want, k.Path)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestClosed tries a key of no object in each object of the table.
func TestClosed(t *testing.T) {
	for _, k := range append([]Key{root}, Keys...) {
		if len(children(k.Path)) == 0 || k.Type == Entries {
			continue
		}
		file := `{"stranger": 0}`
		parts := strings.Split(strings.Replace(k.Path, "<id>", "vllm", 1), ".")
		for i := len(parts) - 1; i >= 0 && parts[i] != ""; i-- {
			file = `{"` + parts[i] + `": ` + file + `}`
		}
		_, err := Parse([]byte(file))
		open := k.Path == "approval" || k.Path == "provider"
		if (err == nil) != open || err != nil && err.(*Error).Code != k.unknown {
			t.Errorf("%s: %v", file, err)
		}
	}
}

const (
	tableStart = "<!-- keys: written by go test ./pipeline/config -update -->\n"
	tableEnd   = "<!-- end of keys -->\n"
)

// table is what docs/configuration.md says of the keys.
func table() string {
	var b strings.Builder
	b.WriteString("| key | value | default | |\n| --- | --- | --- | --- |\n")
	for _, k := range Keys {
		value := k.Expects()
		switch {
		case k.Type == Choice:
			value = "`" + strings.Join(k.Choices, "`, `") + "`"
		case k.Type == Number:
			value = fmt.Sprintf("%d to %d", k.Min, k.Max)
		case k.nullable:
			value += " or `null`"
		}
		fallback := ""
		if k.Default != "" {
			fallback = "`" + k.Default + "`"
		}
		doc := k.Doc
		if k.Effect != "" {
			doc += " **" + k.Effect + "**"
		}
		for _, cell := range []string{"`" + k.Path + "`", value, fallback, doc} {
			b.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
		}
		b.WriteString("|\n")
	}
	return strings.ReplaceAll(b.String(), "|  |", "| |")
}

func TestDocument(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "configuration.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), tableStart)
	got, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", path)
	}
	want := "\n" + table() + "\n"
	if *update && got != want {
		if err := os.WriteFile(path, []byte(before+tableStart+want+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("%s is not what the table says: go test ./pipeline/config -update", path)
	}
	for _, code := range []Code{CodeUnreadable, CodeMalformed, CodeUnknownKey, CodeInvalidType, CodeInvalidModule} {
		if !strings.Contains(before, "| `"+string(code)+"` |") {
			t.Errorf("%s does not explain %s", path, code)
		}
	}
	_, rest, _ = strings.Cut(before, "```json\n")
	example, _, ok := strings.Cut(rest, "```\n")
	h, err := Parse([]byte(example))
	if !ok || err != nil {
		t.Fatalf("the example is not accepted: %v", err)
	}
	if reflect.DeepEqual(h, Default()) || len(h.Providers) == 0 {
		t.Error("the example says nothing")
	}
}
