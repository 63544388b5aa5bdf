package atomicfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Variables of a child process, which replaces a file and dies ahead of its n-th operation.
const (
	childPath = "ATOMICFILE_TEST_PATH"
	childStep = "ATOMICFILE_TEST_STEP"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		dieAhead(path, os.Getenv(childStep))
	}
	os.Exit(m.Run())
}

func dieAhead(path, step string) {
	n, err := strconv.Atoi(step)
	if err != nil {
		os.Exit(3)
	}
	r := replacement{path: path, perm: 0o600, before: func(string) error {
		if n--; n == 0 {
			p, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = p.Kill()
			}
			if err != nil {
				os.Exit(3)
			}
			select {}
		}
		return nil
	}}
	if r.run([]byte(newContent), true) != nil {
		os.Exit(3)
	}
	os.Exit(0)
}

var newContent = strings.Repeat("new content\n", 10_000)

const (
	oldContent   = "old content"
	olderContent = "older content"
)

// filled returns a file with a backup.
func filled(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.json")
	for _, content := range []string{olderContent, oldContent} {
		if err := Replace(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "serve.json")
	for _, row := range []struct {
		content string
		perm    os.FileMode
	}{{"first", 0o600}, {"", 0o644}, {"third", 0o600}} {
		if err := Write(path, []byte(row.content), row.perm); err != nil {
			t.Fatal(err)
		}
		if got := content(t, path); got != row.content {
			t.Errorf("the file holds %q, want %q", got, row.content)
		}
		if got := mode(t, path); hasModes && got != row.perm {
			t.Errorf("mode %#o, want %#o", got, row.perm)
		}
	}
	if got := names(t, filepath.Dir(path)); !slices.Equal(got, []string{"serve.json"}) {
		t.Errorf("the folder holds %q", got)
	}
}

func TestReplaceKeepsTheOldContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.json")
	for i, want := range []string{"", "0", "1"} {
		if i > 0 {
			if err := os.Chmod(path, 0o644); err != nil { // as other programs leave it
				t.Fatal(err)
			}
		}
		if err := Replace(path, []byte(strconv.Itoa(i)), 0o600); err != nil {
			t.Fatal(err)
		}
		if want == "" {
			if _, err := os.Stat(Backup(path)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a backup of nothing: %v", err)
			}
			continue
		}
		if got := content(t, Backup(path)); got != want {
			t.Errorf("the backup holds %q, want %q", got, want)
		}
		if hasModes && (mode(t, path) != 0o600 || mode(t, Backup(path)) != 0o600) {
			t.Errorf("modes %#o and %#o", mode(t, path), mode(t, Backup(path)))
		}
	}
	if got := names(t, filepath.Dir(path)); !slices.Equal(got, []string{"file.json", "file.json.backup"}) {
		t.Errorf("the folder holds %q", got)
	}
}

// TestReplaceAfterCrash: file and backup are links to one file once a writer has died between the backup and the replacement.
func TestReplaceAfterCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.json")
	if err := Write(path, []byte(oldContent), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, Backup(path)); err != nil {
		t.Skip("no links here:", err)
	}
	if err := Replace(path, []byte(newContent), 0o600); err != nil {
		t.Fatal(err)
	}
	if content(t, path) != newContent || content(t, Backup(path)) != oldContent || len(names(t, filepath.Dir(path))) != 2 {
		t.Errorf("the folder holds %q", names(t, filepath.Dir(path)))
	}
}

// operations are those of a replacement that goes well.
func operations(t *testing.T) (ops []string) {
	t.Helper()
	r := replacement{path: filled(t), perm: 0o600, before: func(op string) error { ops = append(ops, op); return nil }}
	if err := r.run([]byte(newContent), true); err != nil {
		t.Fatal(err)
	}
	return ops
}

// TestFaults fails each operation once.
func TestFaults(t *testing.T) {
	ops := operations(t)
	if len(ops) < 9 {
		t.Fatalf("only %q", ops)
	}
	for n, op := range ops {
		t.Run(op, func(t *testing.T) {
			path := filled(t)
			var seen int
			r := replacement{path: path, perm: 0o600, before: func(string) error {
				if seen++; seen == n+1 {
					return syscall.ENOSPC
				}
				return nil
			}}
			err := r.run([]byte(newContent), true)
			if op == "link" { // it copies instead
				if err != nil || content(t, path) != newContent || content(t, Backup(path)) != oldContent {
					t.Errorf("%v; the backup holds %.20q", err, content(t, Backup(path)))
				}
			} else {
				if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "free some space") {
					t.Errorf("the error is %v", err)
				}
				want := oldContent
				if op == "sync folder" {
					want = newContent
				}
				if got := content(t, path); got != want {
					t.Errorf("the file holds %.20q, want %.20q", got, want)
				}
				if got := content(t, Backup(path)); got != olderContent && got != oldContent {
					t.Errorf("the backup holds %.20q", got)
				}
			}
			if got := names(t, filepath.Dir(path)); len(got) != 2 {
				t.Errorf("the folder holds %q", got)
			}
		})
	}
}

// TestKilled kills a writer ahead of each operation.
func TestKilled(t *testing.T) {
	ops := operations(t)
	for n := range len(ops) + 1 {
		path := filled(t)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childPath+"="+path, childStep+"="+strconv.Itoa(n+1))
		err := cmd.Run()
		if n == len(ops) {
			if err != nil || content(t, path) != newContent {
				t.Errorf("not killed: %v", err)
			}
			continue
		}
		if err == nil || cmd.ProcessState.ExitCode() == 3 {
			t.Fatalf("ahead of %q: the child was to be killed: %v", ops[n], err)
		}
		if got := content(t, path); got != oldContent && got != newContent {
			t.Errorf("killed ahead of %q: the file holds %.20q", ops[n], got)
		}
		if got := content(t, Backup(path)); got != oldContent && got != olderContent {
			t.Errorf("killed ahead of %q: the backup holds %.20q", ops[n], got)
		}
		if err := Replace(path, []byte("next"), 0o600); err != nil || content(t, path) != "next" {
			t.Errorf("killed ahead of %q: the next write: %v", ops[n], err)
		}
		if _, err := Sweep(filepath.Dir(path), 0); err != nil || len(names(t, filepath.Dir(path))) != 2 {
			t.Errorf("killed ahead of %q: %q stay, %v", ops[n], names(t, filepath.Dir(path)), err)
		}
	}
}

// TestModeComesFirst: the payload is written to a file that has its mode already, and to none whose mode does not hold.
func TestModeComesFirst(t *testing.T) {
	if !hasModes {
		t.Skip("no mode bits here")
	}
	for _, spoil := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "secret.json")
		wrote := false
		r := replacement{path: path, perm: 0o600, before: func(op string) error {
			temp, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".secret-*.json.tmp"))
			if err != nil || op != "create" && op != "sync folder" && len(temp) != 1 {
				t.Fatalf("ahead of %s: %q, %v", op, temp, err)
			}
			switch {
			case op == "verify mode" && spoil:
				return os.Chmod(temp[0], 0o644)
			case op == "write":
				wrote = true
				if b := content(t, temp[0]); b != "" || mode(t, temp[0]) != 0o600 {
					t.Errorf("%q with mode %#o ahead of the payload", b, mode(t, temp[0]))
				}
			}
			return nil
		}}
		err := r.run([]byte("payload"), false)
		if wrote == spoil || errors.Is(err, errMode) != spoil {
			t.Errorf("spoiled %v: written %v, %v", spoil, wrote, err)
		}
		if spoil && (len(names(t, filepath.Dir(path))) != 0 || !strings.Contains(err.Error(), path)) {
			t.Errorf("%q stay; %v", names(t, filepath.Dir(path)), err)
		}
	}
}

func TestWriteErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(folder, "inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "missing", "f"), filepath.Join(file, "f"), folder, filepath.Join(dir, strings.Repeat("n", 300))} {
		for _, write := range []func(string, []byte, os.FileMode) error{Write, Replace} {
			if err := write(path, []byte("x"), 0o600); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if got := names(t, dir); !slices.Equal(got, []string{"file", "folder"}) {
		t.Errorf("the folder holds %q", got)
	}
}

func TestConcurrentWriters(t *testing.T) {
	path := filled(t)
	done := make(chan error)
	for c := range 4 {
		go func() {
			var err error
			for i := 0; i < 50 && err == nil; i++ {
				err = Replace(path, bytes.Repeat([]byte{byte('a' + c)}, 10_000+c), 0o600)
			}
			done <- err
		}()
	}
	for left := 4; left > 0; {
		select {
		case err := <-done:
			if left--; err != nil {
				t.Error(err)
			}
		default:
		}
		for _, p := range []string{path, Backup(path)} {
			if got := content(t, p); got != oldContent && got != olderContent && (len(got) != 10_000+int(got[0]-'a') || strings.Trim(got, got[:1]) != "") {
				t.Fatalf("%s holds %d bytes, %.20q", p, len(got), got)
			}
		}
	}
	if got := names(t, filepath.Dir(path)); len(got) != 2 {
		t.Errorf("the folder holds %q", got)
	}
}

func TestDir(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "a", "b", "c")
	for range 2 {
		if err := Dir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{path, filepath.Dir(path)} {
			if got := mode(t, p); hasModes && got != 0o700 {
				t.Errorf("%s has mode %#o", p, got)
			}
		}
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		if err := Dir(path, 0o700); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := Dir(file, 0o700); !strings.Contains(err.Error(), "out of the way") {
		t.Errorf("the error does not help: %v", err)
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{".f-1.tmp", ".g.backup-2.tmp", "f", "g.tmp", ".hidden"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".young-3.tmp"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := Sweep(dir, time.Minute); n != 2 || err != nil {
		t.Errorf("%d removed, %v", n, err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{".hidden", ".young-3.tmp", "f", "g.tmp"}) {
		t.Errorf("%q stay", got)
	}
	if _, err := Sweep(filepath.Join(dir, "missing"), 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
}
