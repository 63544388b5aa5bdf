package tidy

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// contractPrefix begins the names of tests that hold the running program to the contract.
const contractPrefix = "TestContract"

var (
	statement = regexp.MustCompile(`^\| ([A-Z]+)(\d+) \| (.+?) \|(.*)\|$`)
	testName  = regexp.MustCompile("`(Test[A-Za-z0-9_]+|Fuzz[A-Za-z0-9_]+)`")
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
)

// testFuncs are the names of all tests of the module.
func testFuncs(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(filepath.Join("..", "..", ".."), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range testFunc.FindAllSubmatch(b, -1) {
			names[string(m[1])] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestTables: every row of the tables that say what is tested where names tests, and they exist.
func TestTables(t *testing.T) {
	funcs := testFuncs(t)
	for file, consecutive := range map[string]bool{"contract.md": true, "cases.md": false} {
		b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", file))
		if err != nil {
			t.Fatal(err)
		}
		next := map[string]int{}
		named := map[string]bool{}
		for line := range strings.Lines(string(b)) {
			m := statement.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil {
				continue
			}
			id := m[1] + m[2]
			n, err := strconv.Atoi(m[2])
			if err != nil {
				t.Fatal(err)
			}
			if next[m[1]]++; consecutive && n != next[m[1]] {
				t.Errorf("%s: %s stands where %s%d is due", file, id, m[1], next[m[1]])
			}
			tests := testName.FindAllStringSubmatch(m[4], -1)
			if len(tests) == 0 {
				t.Errorf("%s: %s names no test: %s", file, id, m[3])
			}
			for _, name := range tests {
				if named[name[1]] = true; !funcs[name[1]] {
					t.Errorf("%s: %s names %s, which does not exist", file, id, name[1])
				}
			}
		}
		if len(next) == 0 {
			t.Errorf("%s has no rows", file)
		}
		if !consecutive {
			continue
		}
		for name := range funcs {
			if strings.HasPrefix(name, contractPrefix) && !named[name] {
				t.Errorf("%s does not name %s", file, name)
			}
		}
	}
}
