package catalog

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// Limits of the search below one root.
const (
	maxDepth      = 16   // directories between a root and a skill's file
	maxDirs       = 4000 // read below one root
	maxSkillFiles = 1000
)

const skillFile = "SKILL.md"

// found is a skill's file.
type found struct {
	source   string // as it was reached
	resolved string // without links: what tells whether two are the same
}

// walk looks for skills below one root.
type walk struct {
	log   *slog.Logger
	bound string          // resolved; links that lead out of it are not followed
	seen  map[string]bool // resolved directories
	files []found
	links []link // met and not yet followed
	full  bool   // a limit was reached
}

// link is a symbolic link where it was met.
type link struct {
	path  string
	depth int // of its directory
}

// findSkills returns the skills' files below root, whose real path is resolved, in lexical order; those that only links lead to
// come last, so that a file is known by its own path where it has one. Links are followed as long as they stay within the git
// work tree that root lies in, or within root if it lies in none. Whatever cannot be read below root costs a warning; an error
// means that root itself cannot be read.
func findSkills(root, resolved string, log *slog.Logger) ([]found, error) {
	w := walk{log: log, bound: workTree(resolved), seen: map[string]bool{}}
	if err := w.dir(root, resolved, 0); err != nil {
		return nil, naming(root, err)
	}
	for i := 0; i < len(w.links); i++ { // more may turn up
		w.warn(w.links[i].path, w.follow(w.links[i]))
	}
	return w.files, nil
}

// workTree returns the nearest directory from dir upwards that has an entry .git, or dir.
func workTree(dir string) string {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Lstat(filepath.Join(d, ".git")); err == nil {
			return d
		}
		if d == filepath.Dir(d) {
			return dir
		}
	}
}

func (w *walk) dir(dir, resolved string, depth int) error {
	switch {
	case w.seen[resolved]:
		return nil
	case depth > maxDepth:
		w.log.Warn("skills lie too deep and are left out", "dir", dir, "limit", maxDepth)
		return nil
	case len(w.seen) == maxDirs:
		w.stop(dir, "directories", maxDirs)
		return nil
	}
	w.seen[resolved] = true
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.Type()&fs.ModeSymlink != 0 {
			w.links = append(w.links, link{path, depth})
			continue
		}
		w.warn(path, w.entry(path, filepath.Join(resolved, e.Name()), e.Type(), depth))
	}
	return nil
}

func (w *walk) follow(l link) error {
	resolved, err := filepath.EvalSymlinks(l.path)
	if err != nil {
		return err
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return err
	}
	kind := info.Mode().Type()
	if (kind.IsDir() || filepath.Base(l.path) == skillFile) && !within(resolved, w.bound) {
		return fmt.Errorf("the link leads out of %s", w.bound)
	}
	return w.entry(l.path, resolved, kind, l.depth)
}

// entry looks at an entry, or at what it is a link to, of a directory at depth.
func (w *walk) entry(path, resolved string, kind fs.FileMode, depth int) error {
	name := filepath.Base(path)
	switch {
	case w.full:
		return nil
	case kind.IsDir() && name != ".git":
		return w.dir(path, resolved, depth+1)
	case !kind.IsRegular() || name != skillFile:
	case len(w.files) == maxSkillFiles:
		w.stop(path, "skills", maxSkillFiles)
	default:
		w.files = append(w.files, found{path, resolved})
	}
	return nil
}

func (w *walk) warn(path string, err error) {
	if err != nil {
		w.log.Warn("skills cannot be looked for here", "path", path, "error", err)
	}
}

func (w *walk) stop(at, of string, limit int) {
	w.full = true
	w.log.Warn("too many "+of+" below one root, the rest is left out", "from", at, "limit", limit)
}

// within reports whether path is dir or below it; both are absolute and clean.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
