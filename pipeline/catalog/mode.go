package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"amplifier-agent/pipeline"
)

// ModeOptions say where modes are looked for.
type ModeOptions struct {
	Cwd, Home string // absolute; "" skips that root
	Log       *slog.Logger
}

// Modes are the modes that were discovered.
type Modes struct {
	claims claims[*pipeline.Mode]
	err    error
}

const (
	maxModes = 1000 // files of one root

	modeSuffix = ".md"

	modeFront = "mode: {description: What it is for}" // an example
	modeBegin = "'---', '" + modeFront + "', '---'"
)

// modeName is what the directive of a mode can name (http-face.md, "Modes on the wire").
var modeName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// DiscoverModes reads the modes of all roots; Err says whether it could.
func DiscoverModes(o ModeOptions) *Modes {
	m := &Modes{claims: claims[*pipeline.Mode]{}}
	log := orDiscard(o.Log)
	seen := map[string]bool{}
	for _, dir := range []string{o.Cwd, o.Home} {
		if dir == "" {
			continue
		}
		sources, err := modeFiles(filepath.Join(dir, dotDir, "modes"), seen, log)
		if err != nil {
			return &Modes{err: fmt.Errorf("discover modes: %w", err)}
		}
		for _, source := range sources {
			m.add(source, log)
		}
	}
	for _, source := range builtinFiles("modes/*" + modeSuffix) {
		m.add(source, log)
	}
	return m
}

// List returns all modes, sorted by name; none if discovery failed.
func (m *Modes) List() []Entry { return m.claims.list(func(*pipeline.Mode) bool { return true }) }

// Err says why discovery failed; nil if it did not.
func (m *Modes) Err() error { return m.err }

// Mode returns the mode of that exact name, which nobody may change, or nil if there is none. An error means that discovery
// failed, so that nobody can say.
func (m *Modes) Mode(name string) (*pipeline.Mode, error) {
	if m.err != nil {
		return nil, m.err
	}
	if c, ok := m.claims[name]; ok {
		return c.value, nil
	}
	return nil, nil
}

// Names returns the names of all modes, sorted; none if discovery failed.
func (m *Modes) Names() []string { return slices.Sorted(maps.Keys(m.claims)) }

// add takes the file at source as a mode, unless its name is taken: then it is not even read.
func (m *Modes) add(source string, log *slog.Logger) {
	name := strings.TrimSuffix(filepath.Base(source), modeSuffix)
	if m.claims.shadow(name, source) {
		return
	}
	mode, description, err := readMode(name, source, log)
	if err != nil {
		log.Warn("mode is not usable", "source", source, "error", err)
		return
	}
	m.claims.add(name, description, source, mode)
}

// modeFiles returns the files of a root that may be modes, in the order of their names; none if the root is not there or in seen.
func modeFiles(root string, seen map[string]bool, log *slog.Logger) ([]string, error) {
	resolved, err := resolve(root)
	if missing(err) || err == nil && seen[resolved] {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	seen[resolved] = true
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, naming(root, err)
	}
	var sources []string
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), modeSuffix)
		if !ok || e.IsDir() {
			continue
		}
		source := filepath.Join(root, e.Name())
		switch {
		case !modeName.MatchString(name):
			log.Warn("mode has a name that nobody can ask for: use letters, digits, dots, dashes and underscores", "source", source)
		case !regular(source):
			log.Warn("mode is no regular file", "source", source)
		case len(sources) == maxModes:
			log.Warn("too many modes, the rest is left out", "root", root, "limit", maxModes)
			return sources, nil
		default:
			sources = append(sources, source)
		}
	}
	return sources, nil
}

// regular reports whether path is a regular file or a link to one.
func regular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// builtinFiles returns the sources of the built-in files that a pattern picks, in the order of their names.
func builtinFiles(pattern string) []string {
	names, err := fs.Glob(builtins, "builtin/"+pattern)
	if err != nil {
		panic(err) // the pattern is ours
	}
	for i, name := range names {
		names[i] = builtinPrefix + strings.TrimPrefix(name, "builtin/")
	}
	return names
}

// readMode reads a mode. What its policy means must be certain: a list or an action that cannot be read is an error, because
// without it the mode would allow what it was to forbid. The keys shortcut, allowed_transitions and allow_clear are for other
// faces and mean nothing here.
func readMode(name, source string, log *slog.Logger) (mode *pipeline.Mode, description string, err error) {
	doc, err := readDocument(source, modeBegin)
	if err != nil {
		return nil, "", err
	}
	front, err := doc.front.mapping("mode")
	if err != nil {
		return nil, "", err
	}
	if front == nil {
		return nil, "", errors.New("front matter has no mapping mode: write '" + modeFront + "', or 'mode:' with its keys indented below it")
	}
	own, err := front.text("name")
	if err != nil {
		return nil, "", err
	}
	if own != "" && own != name {
		log.Warn("mode is known by the name of its file, not by what it calls itself", "source", source, "name", own)
	}
	if description, err = front.text("description"); err != nil {
		return nil, "", err
	}
	mode = &pipeline.Mode{Name: name, Body: doc.body}
	if mode.Tools, err = toolPolicy(front); err != nil {
		return nil, "", err
	}
	return mode, description, nil
}

func toolPolicy(front fields) (p pipeline.ToolPolicy, err error) {
	switch action, err := front.text("default_action"); {
	case err != nil:
		return p, err
	case action == "allow":
		p.DefaultAllow = true
	case action != "" && action != "block":
		return p, fmt.Errorf("default_action is %q: want block or allow", action)
	}
	tools, err := front.mapping("tools")
	if err != nil {
		return p, err
	}
	lists := map[string]*[]string{"safe": &p.Safe, "warn": &p.Warn, "confirm": &p.Confirm, "block": &p.Block}
	for key := range tools {
		list, ok := lists[key]
		if !ok {
			return p, fmt.Errorf("tools has a key %q: want safe, warn, confirm or block", key)
		}
		if *list, err = tools.words(key); err != nil {
			return p, err
		}
	}
	return p, nil
}
