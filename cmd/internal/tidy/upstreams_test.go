package tidy

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

const suite = "upstream/upstreamtest"

// TestUpstreams: every provider runs the suite of them all, nothing but tests does, and the tests that docs/upstreams.md names exist.
func TestUpstreams(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	providers := 0
	files(t, func(folder, file string, imports []string) {
		for _, p := range imports {
			if p == module+suite {
				t.Errorf("%s imports %s, which is for tests", file, p)
			}
		}
		b, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if !within(folder, "upstream") || !bytes.Contains(b, []byte("_ pipeline.Provider = (*Provider)(nil)")) {
			return
		}
		providers++
		if b, err = os.ReadFile(filepath.Join(root, folder, "conformance_test.go")); err != nil || !bytes.Contains(b, []byte("upstreamtest.Run(")) {
			t.Errorf("%s does not run %s: %v", folder, suite, err)
		}
	})
	if providers < 4 {
		t.Errorf("%d providers", providers)
	}
	b, err := os.ReadFile(filepath.Join(root, "docs", "upstreams.md"))
	if err != nil {
		t.Fatal(err)
	}
	funcs := testFuncs(t)
	names := testName.FindAllSubmatch(b, -1)
	for _, m := range names {
		if !funcs[string(m[1])] {
			t.Errorf("docs/upstreams.md names %s, which does not exist", m[1])
		}
	}
	if len(names) == 0 {
		t.Error("docs/upstreams.md names no test")
	}
}
