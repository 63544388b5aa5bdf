package catalog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzFrontMatter checks that no file, however it was made, brings the parser down, and what holds for those that it takes.
func FuzzFrontMatter(f *testing.F) {
	for _, front := range []string{"", "a: b", "mode: {tools: {safe: [x]}}", "a: &a [*a]", "a: |\n  x", "<<: {a: 1}", "a: \"\\ud800\"", "? [a]\n: b", "!!binary x", "- a\n- b", "..."} {
		f.Add([]byte("---\n" + front + "\n---\nbody\n"))
	}
	f.Add([]byte("\uFEFF---\r\na: b\r\n---\r\n"))
	f.Add([]byte("---\na: b\n---\nx\r\r\ny"))
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := parseDocument(text)
		if err != nil {
			return
		}
		if !utf8.ValidString(doc.body) || strings.Contains(doc.body, "\r\n") || doc.body != strings.TrimSpace(doc.body) {
			t.Errorf("body %q", doc.body)
		}
		for key := range doc.front {
			s, err := doc.front.text(key)
			if err == nil && !utf8.ValidString(s) {
				t.Errorf("%q is %q", key, s)
			}
			_, _, _ = doc.front.flag(key)
			_, _ = doc.front.words(key)
			_, _ = doc.front.mapping(key)
		}
		_, _, _, _ = readSkill(doc)
		_, _ = toolPolicy(doc.front)
	})
}

// BenchmarkHostileFrontMatter is the evidence for the limits: each row is about as much of a bad thing as they let through.
func BenchmarkHostileFrontMatter(b *testing.B) {
	fill := func(s string, tokens int) string {
		return strings.Repeat(s, min(maxFrontBytes/len(s), maxFrontTokens/tokens)-10)
	}
	var keys, deep strings.Builder
	for i := range 1300 {
		fmt.Fprintf(&keys, "k%d: v\n", i)
	}
	for i := 0; deep.Len() < maxFrontBytes-500; i++ {
		deep.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for name, front := range map[string]string{
		"flow": "a: " + fill("[", 1), "sequences": fill("- ", 1), "anchors": fill("&a ", 2), "colons": fill("a: ", 2), "keys": keys.String(), "maps": deep.String(),
		"comments": fill("#\n", 1), "tags": fill("!a ", 1), "documents": fill("--- a\n", 2), "text": "a: |\n" + fill(" x\n", 1),
	} {
		b.Run(name, func(b *testing.B) {
			text := []byte("---\n" + front + "\n---\n")
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, _ = parseDocument(text)
			}
		})
	}
}

// TestManualLimits: the manual has the limits as they are.
func TestManualLimits(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "modes-and-skills.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		fmt.Sprintf("| a file | %d MiB |", maxFileBytes>>20),
		fmt.Sprintf("| its front matter | %d KiB, and %d words and signs |", maxFrontBytes>>10, maxFrontTokens),
		fmt.Sprintf("| modes | %d files in one folder |", maxModes),
		fmt.Sprintf("| skills | %d files below one folder, %d folders, %d folders deep |", maxSkillFiles, maxDirs, maxDepth),
		fmt.Sprintf("in between, %d bytes at most.", maxNameBytes),
	} {
		if !strings.Contains(string(b), row) {
			t.Errorf("the manual does not have %s", row)
		}
	}
}

// TestExamplesInErrors: what the errors say a file may begin with is what a file may begin with.
func TestExamplesInErrors(t *testing.T) {
	file := func(begin string) []byte {
		return []byte(strings.ReplaceAll(strings.Trim(begin, "'"), "', '", "\n") + "\n")
	}
	doc, err := parseDocument(file(modeBegin))
	if front, _ := doc.front.mapping("mode"); err != nil || front["description"] != "What it is for" {
		t.Errorf("got %v, %v", doc.front, err)
	}
	doc, err = parseDocument(file(skillBegin))
	if err != nil {
		t.Fatal(err)
	}
	if name, description, k, err := readSkill(doc); err != nil || name != "my-skill" || description != "What it is for" || !k.listed {
		t.Errorf("got %q, %q, %+v, %v", name, description, k, err)
	}
}
