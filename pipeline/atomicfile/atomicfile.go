package atomicfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	tempSuffix   = ".tmp"
	backupSuffix = ".backup"
	parentPerm   = 0o700 // of folders that are made on the way
)

// hasModes is false where files have no mode bits to verify.
const hasModes = runtime.GOOS != "windows"

// Write replaces the file at path, whose folder must exist, by data with exactly the mode bits perm. After nil it survives a
// crash. After an error the file is what it was; only if the last step failed, the sync of the folder, it is the new one and may
// not survive. It may be called concurrently, by several processes as well: the last one wins.
func Write(path string, data []byte, perm os.FileMode) error {
	r := replacement{path: path, perm: perm}
	return r.run(data, false)
}

// Replace is Write, and keeps the old content, if there is any, as Backup(path), with the same mode bits. There is no moment at
// which either of the two names is missing once it was there.
func Replace(path string, data []byte, perm os.FileMode) error {
	r := replacement{path: path, perm: perm}
	return r.run(data, true)
}

// Backup is where Replace keeps the content that path had before.
func Backup(path string) string { return path + backupSuffix }

// replacement is one file on its way.
type replacement struct {
	path   string
	perm   os.FileMode
	before func(op string) error // nil but in tests, which fail or die ahead of an operation
}

func (r *replacement) run(data []byte, keep bool) error {
	f, err := r.create()
	if err != nil {
		return r.explain(err)
	}
	temp := f.Name()
	err = r.fill(f, data)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil && keep {
		err = r.backup()
	}
	if err == nil {
		err = r.do("rename", func() error { return os.Rename(temp, r.path) })
	}
	if err != nil {
		_ = os.Remove(temp)
		return r.explain(err)
	}
	if err = r.do("sync folder", func() error { return syncDir(filepath.Dir(r.path)) }); err != nil {
		return r.explain(err)
	}
	return nil
}

func (r *replacement) do(op string, f func() error) error {
	if r.before != nil {
		if err := r.before(op); err != nil {
			return err
		}
	}
	return f()
}

func (r *replacement) create() (f *os.File, err error) {
	dir, name := filepath.Split(r.path)
	ext := filepath.Ext(name)
	err = r.do("create", func() error {
		f, err = os.CreateTemp(filepath.Clean(dir), "."+strings.TrimSuffix(name, ext)+"-*"+ext+tempSuffix)
		return err
	})
	return f, err
}

// fill makes f ready to take the place of the file.
func (r *replacement) fill(f *os.File, data []byte) error {
	err := r.do("set mode", func() error { return f.Chmod(r.perm) })
	if err == nil {
		err = r.do("verify mode", func() error {
			info, err := f.Stat()
			if err != nil {
				return err
			}
			return verify(info, r.perm)
		})
	}
	if err == nil {
		err = r.do("write", func() error { _, err := f.Write(data); return err })
	}
	if err == nil {
		err = r.do("sync", f.Sync)
	}
	return err
}

// backup gives the current file a second name and lets that replace the last backup. Where files cannot have two names it copies.
func (r *replacement) backup() error {
	kept := Backup(r.path)
	temp := filepath.Join(filepath.Dir(r.path), "."+filepath.Base(kept)+"-"+rand.Text()+tempSuffix)
	defer func() { _ = os.Remove(temp) }() // still there if both names were links to one file
	err := r.do("link", func() error { return os.Link(r.path, temp) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		data, err := os.ReadFile(r.path)
		if err != nil {
			return err
		}
		c := replacement{path: kept, perm: r.perm, before: r.before}
		return c.run(data, false)
	}
	if err = r.do("set backup's mode", func() error { return os.Chmod(temp, r.perm) }); err != nil {
		return err
	}
	return r.do("rename backup", func() error { return os.Rename(temp, kept) })
}

func (r *replacement) explain(err error) error {
	return fmt.Errorf("write %s (%s): %w", r.path, remedy(err), err)
}

// Dir makes the folder path with the mode bits perm, and what is missing above it with 0700. The bits of a folder that exists
// are set as well. An error means that it must not be trusted to keep others out.
func Dir(path string, perm os.FileMode) error {
	err := makeDir(path)
	if err == nil {
		err = setDirMode(path, perm)
	}
	if err != nil {
		return fmt.Errorf("make folder %s (%s): %w", path, remedy(err), err)
	}
	return nil
}

// makeDir makes a folder and those above it, each durably.
func makeDir(path string) error {
	parent := filepath.Dir(path)
	err := os.Mkdir(path, parentPerm)
	if errors.Is(err, fs.ErrNotExist) && parent != path {
		if err = makeDir(parent); err != nil {
			return err
		}
		err = os.Mkdir(path, parentPerm)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(parent)
}

func setDirMode(path string, perm os.FileMode) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errNoFolder
	}
	if info.Mode().Perm() == perm {
		return nil
	}
	if err = os.Chmod(path, perm); err != nil {
		return err
	}
	if info, err = os.Stat(path); err != nil {
		return err
	}
	return verify(info, perm)
}

var (
	errNoFolder = errors.New("something that is no folder has this name")
	errMode     = errors.New("mode bits do not hold")
)

func verify(info fs.FileInfo, perm os.FileMode) error {
	if got := info.Mode().Perm(); hasModes && got != perm {
		return fmt.Errorf("mode is %#o although %#o was set: %w", got, perm, errMode)
	}
	return nil
}

// remedy says what a user can do about err.
func remedy(err error) string {
	switch {
	case errors.Is(err, errNoFolder):
		return "move it out of the way"
	case errors.Is(err, errMode):
		return "use a folder on a file system that keeps permissions"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "free some space on its disk"
	case errors.Is(err, fs.ErrNotExist):
		return "make its folder"
	case errors.Is(err, syscall.EROFS):
		return "use a folder on a disk that can be written to"
	}
	return "check that its folder belongs to this user and can be written to"
}

// Sweep removes the temporary files in the folder dir that writers which were killed left there at least age ago, and returns how
// many. One that cannot be removed stays.
func Sweep(dir string, age time.Duration) (removed int, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") || !strings.HasSuffix(e.Name(), tempSuffix) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err == nil && time.Since(info.ModTime()) >= age && os.Remove(filepath.Join(dir, e.Name())) == nil {
			removed++
		}
	}
	return removed, nil
}
