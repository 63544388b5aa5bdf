package config

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWorkspace derives slugs from directories that do not exist, so that no link is in the way (rulings 7).
func TestWorkspace(t *testing.T) {
	long := strings.Repeat("abcdefghi/", 7) // 69 bytes as a slug
	sum := sha256.Sum256([]byte(strings.Trim(strings.ReplaceAll(long, "/", "-"), "-")))
	for dir, want := range map[string]string{
		"/":                                 "root",
		"":                                  "root",
		"/---/":                             "root",
		"/プロジェクト":                           "root",
		"/nowhere/My Project":               "nowhere-my-project",
		"/nowhere/a.b_c//d":                 "nowhere-a-b-c-d",
		"/nowhere/.hidden/":                 "nowhere-hidden",
		"/nowhere/über":                     "nowhere-ber",
		"/NOWHERE/123":                      "nowhere-123",
		`C:\Users\Ann\src`:                  "c-users-ann-src",
		"/n/../../x":                        "n-x",
		"/" + strings.Repeat("a", 64):       strings.Repeat("a", 64),
		"/" + strings.Repeat("a", 64) + "/": strings.Repeat("a", 64),
		"/nowhere-" + long:                  "",
		"/" + long:                          "abcdefghi-abcdefghi-abcdefghi-abcdefghi-abcdefghi-abcde-" + hex.EncodeToString(sum[:])[:8],
		"/" + strings.Repeat("é", 9000):     "root",
	} {
		got := Workspace(dir)
		if want != "" && got != want {
			t.Errorf("%.60q: got %s, want %s", dir, got, want)
		}
		if err := CheckWorkspace(got); err != nil {
			t.Errorf("%.60q: %v", dir, err)
		}
	}
	a, b := Workspace("/"+long+"x"), Workspace("/"+long+"y")
	if a == b || len(a) != maxSlugBytes {
		t.Errorf("%s and %s", a, b)
	}
}

// TestWorkspaceLink checks that the real path counts, whatever way leads there.
func TestWorkspaceLink(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "Real")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if got, want := Workspace(link), Workspace(dir); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCheckWorkspace(t *testing.T) {
	for _, s := range []string{"a", "0", "root", "my-project", "a-", "a--b", strings.Repeat("a", 64)} {
		if err := CheckWorkspace(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{"", "-", "-a", "A", "a_b", "a.b", "..", "a/b", "a b", "a\n", "\na", "ü", "a\x00", strings.Repeat("a", 65)} {
		if CheckWorkspace(s) == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}
