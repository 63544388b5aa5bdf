package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	path := write(t, dir, "host.json", "\uFEFF"+everything)
	h, err := Load(filepath.Join(dir, ".", "x", "..", "host.json"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := Parse([]byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	want.Path = path
	want.Skills.Dirs = []string{filepath.Join(dir, "a"), filepath.Join(home, "b")}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("got %+v\nwant %+v", h, want)
	}
	if h, err := Load(""); err != nil || !reflect.DeepEqual(h, Default()) {
		t.Errorf("no file: %+v, %v", h, err)
	}
}

// TestLoadSkills checks from where sources of skills count.
func TestLoadSkills(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	path := write(t, dir, "host.json", `{"skills": {"skills": [".", "../x", "a/b/", "~", "/abs/./x", "git+https://h/r", "https://h/x", "~x", ""]}}`)
	h, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{dir, filepath.Join(filepath.Dir(dir), "x"), filepath.Join(dir, "a", "b"), home, "/abs/x", "git+https://h/r", "https://h/x",
		filepath.Join(dir, "~x"), ""}
	if runtime.GOOS != "windows" && !reflect.DeepEqual(h.Skills.Dirs, want) {
		t.Errorf("got %q\nwant %q", h.Skills.Dirs, want)
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	for _, r := range []struct {
		path, code, message string
	}{
		{filepath.Join(dir, "none.json"), "config_unreadable", "create it, name another one, or name none"},
		{dir, "config_unreadable", "it is a folder: name the file in it"},
		{os.DevNull, "config_unreadable", "it is not a regular file: write the config to one"},
		{write(t, dir, "file", "") + "/in/it", "config_unreadable", "not a directory"},
		{write(t, dir, "large.json", "{}"+strings.Repeat(" ", maxFileBytes-1)), "config_unreadable", "larger than 1048576 bytes"},
		{write(t, dir, "bad.json", "{"), "config_malformed_json", "line 1, column 2"},
		{write(t, dir, "unknown.json", `{"tool": 1}`), "config_unknown_key", `did you mean "tools"?`},
	} {
		h, err := Load(r.path)
		prefix := "config " + r.path + ": " + r.code + ": "
		if h != nil || err == nil || !strings.HasPrefix(err.Error(), prefix) || !strings.Contains(err.Error(), r.message) || strings.Count(err.Error(), dir) > 1 {
			t.Errorf("%s: got %v", r.path, err)
		}
		if e, ok := errors.AsType[*Error](err); !ok || string(e.Code) != r.code {
			t.Errorf("%s: got %T", r.path, err)
		}
	}
	if h, err := Load(write(t, dir, "full.json", "{}"+strings.Repeat(" ", maxFileBytes-2))); err != nil || h == nil {
		t.Errorf("a file of the largest size: %v", err)
	}
}

// TestLoadForbidden checks a file that this user may not read; nobody forbids root.
func TestLoadForbidden(t *testing.T) {
	path := write(t, t.TempDir(), "host.json", "{}")
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if f, err := os.Open(path); err == nil {
		f.Close()
		t.Skip("this user may read everything")
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "config_unreadable: permission denied: let this user read it") {
		t.Errorf("got %v", err)
	}
}

func TestFile(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Chdir(home)
	path := write(t, home, "host.json", "{}")
	link := filepath.Join(home, "link.json")
	if err := os.Symlink(path, link); err != nil {
		t.Skip(err)
	}
	for given, want := range map[string]string{
		"": "", "  ": "", "~/host.json": path, "host.json": path, " ./x/../host.json": path, path: path, "link.json": link,
	} {
		if got, err := File(given); err != nil || got != want {
			t.Errorf("%q: got %q, %v", given, got, err)
		}
	}
	for _, given := range []string{"~", "~/none.json", "~nobody/host.json", "."} {
		if got, err := File(given); err == nil || got != "" {
			t.Errorf("%q: got %q", given, got)
		}
	}
}
