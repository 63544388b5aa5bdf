package catalog

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Entry is a skill or mode as the lists show it: the file that runs under a name, and the ones that it hides (http-face.md, "GET
// /v1/models, /v1/skills, /v1/modes").
type Entry struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Source      string   `json:"source"`   // absolute path, or builtin:… of what is built in
	Shadowed    []Shadow `json:"shadowed"` // in order of precedence; never nil
}

// Shadow is a file whose name another one has claimed before it.
type Shadow struct {
	Source string `json:"source"`
}

// dotDir holds skills and modes, in a working directory and in a home.
const dotDir = ".amplifier"

//go:embed builtin
var builtins embed.FS

// builtinPrefix begins the source of what is built in; the rest is a path in the folder of that name.
const builtinPrefix = "builtin:"

// claims are the names that are taken. The first to claim one keeps it.
type claims[T any] map[string]*claim[T]

type claim[T any] struct {
	entry Entry
	value T
}

// shadow notes source as shadowed and returns true, if name is taken.
func (c claims[T]) shadow(name, source string) bool {
	first, taken := c[name]
	if taken {
		first.entry.Shadowed = append(first.entry.Shadowed, Shadow{source})
	}
	return taken
}

func (c claims[T]) add(name, description, source string, value T) {
	c[name] = &claim[T]{Entry{name, description, source, []Shadow{}}, value}
}

// list returns copies of the entries that show picks, sorted by name.
func (c claims[T]) list(show func(T) bool) []Entry {
	list := make([]Entry, 0, len(c))
	for _, cl := range c {
		if show(cl.value) {
			e := cl.entry
			e.Shadowed = slices.Clone(e.Shadowed)
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// resolve returns the real path of a root. The error names the root; it is fs.ErrNotExist if there is none.
func resolve(root string) (string, error) {
	resolved, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", naming(root, err)
	}
	// A look first: opening a named pipe would wait for its writer.
	switch info, err := os.Stat(resolved); {
	case err != nil:
		return "", naming(root, err)
	case !info.IsDir():
		return "", naming(root, syscall.ENOTDIR)
	}
	return resolved, nil
}

// naming returns err so that it names path: filepath.EvalSymlinks does not always.
func naming(path string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok && e.Path == path {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
