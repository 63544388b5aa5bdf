package catalog

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
)

// SkillOptions say where skills are looked for. Cwd, Home and EnvDir may be "", which skips that root.
type SkillOptions struct {
	Dirs      []string // of the host config: absolute, below ~, or relative to Base
	Base      string   // absolute
	EnvDir    string   // of the environment: absolute, below ~, or relative to Cwd
	Cwd, Home string   // absolute
	Log       *slog.Logger
}

// Skills are the skills that were discovered.
type Skills struct {
	claims claims[*skill]
	err    error
}

// skill is what runs under a name.
type skill struct {
	dir    string // of its file
	body   string
	listed bool // a user may invoke it, and is told so
	barred bool // its file says that no user may invoke it
	fork   bool // it runs in a sub-agent
}

// maxNameBytes and skillName are what a skill's name should be. Others are accepted, with a warning.
const maxNameBytes = 64

// skillBegin is how a skill's file may begin.
const skillBegin = "'---', 'name: my-skill', 'description: What it is for', 'user-invocable: true', '---'"

var skillName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// DiscoverSkills reads the skills of all roots; Err says whether it could.
func DiscoverSkills(o SkillOptions) *Skills {
	s := &Skills{claims: claims[*skill]{}}
	o.Log = orDiscard(o.Log)
	roots, files := map[string]bool{}, map[string]bool{} // seen, by their real paths
	for _, r := range o.roots() {
		list, err := r.files(roots, o.Log)
		switch {
		case err == nil, missing(err) && !r.named:
		case missing(err), r.config:
			o.Log.Warn("skills directory cannot be read", "dir", r.dir, "error", err)
		default:
			return &Skills{err: fmt.Errorf("discover skills: %w", err)}
		}
		for _, f := range list {
			if !files[f.resolved] {
				files[f.resolved] = true
				s.add(f.source, o.Log)
			}
		}
	}
	for _, source := range builtinFiles("skills/*/" + skillFile) {
		s.add(source, o.Log)
	}
	if quiet := s.claims.list(func(k *skill) bool { return !k.listed && !k.barred }); len(quiet) > 0 {
		names := make([]string, len(quiet))
		for i, e := range quiet {
			names[i] = e.Name
		}
		o.Log.Info("skills that users can call and are not told about: user-invocable: true in the front matter lists them", "skills", names)
	}
	return s
}

// List returns the skills that a user may invoke and is told about, sorted by name; none if discovery failed.
func (s *Skills) List() []Entry { return s.claims.list(func(k *skill) bool { return k.listed }) }

// Err says why discovery failed; nil if it did not.
func (s *Skills) Err() error { return s.err }

// skillRoot is a directory below which skills may lie.
type skillRoot struct {
	dir    string
	named  bool // somebody has asked for it, who wants to know if it is not there
	config bool // it is one of several that the host config names, and discovery goes on without it
}

// roots returns the roots in order of precedence. Entries of the host config are logged by their key, and a remote one without
// its address, which may hold a password.
func (o SkillOptions) roots() []skillRoot {
	var roots []skillRoot
	for i, dir := range o.Dirs {
		key := fmt.Sprintf("skills.skills[%d]", i)
		if strings.HasPrefix(dir, "git+") || strings.Contains(dir, "://") {
			o.Log.Warn("skills are read from local directories only: entry is skipped", "entry", key)
			continue
		}
		if abs := o.expand(dir, o.Base); abs != "" {
			roots = append(roots, skillRoot{abs, true, true})
		} else {
			o.Log.Warn("skills entry is not the path of a directory", "entry", key, "dir", dir)
		}
	}
	if o.EnvDir != "" {
		if abs := o.expand(o.EnvDir, o.Cwd); abs != "" {
			roots = append(roots, skillRoot{dir: abs, named: true})
		} else {
			o.Log.Warn("skills directory of the environment is not an absolute path", "dir", o.EnvDir)
		}
	}
	for _, dir := range []string{o.Cwd, o.Home} {
		if dir != "" {
			roots = append(roots, skillRoot{dir: filepath.Join(dir, dotDir, "skills")})
		}
	}
	return roots
}

// expand returns dir as an absolute path, or "" if it is empty or nobody says what it is relative to.
func (o SkillOptions) expand(dir, base string) string {
	if rest, ok := strings.CutPrefix(dir, "~"); ok && (rest == "" || rest[0] == '/' || rest[0] == filepath.Separator) {
		dir, base = "."+rest, o.Home
	}
	switch {
	case dir == "":
		return ""
	case filepath.IsAbs(dir):
		return filepath.Clean(dir)
	case filepath.IsAbs(base):
		return filepath.Join(base, dir)
	}
	return ""
}

// files returns the skills' files below r, none if it was seen before. A root that could not be read was not seen: the next may
// take that more seriously.
func (r skillRoot) files(seen map[string]bool, log *slog.Logger) ([]found, error) {
	resolved, err := resolve(r.dir)
	if err != nil || seen[resolved] {
		return nil, err
	}
	files, err := findSkills(r.dir, resolved, log)
	seen[resolved] = err == nil
	return files, err
}

// add takes the file at source as a skill, or as shadowed if its name is taken.
func (s *Skills) add(source string, log *slog.Logger) {
	log = log.With("source", source)
	doc, err := readDocument(source, skillBegin)
	if err != nil {
		log.Warn("skill is not usable", "error", err)
		return
	}
	name, description, k, err := readSkill(doc)
	if err != nil {
		log.Warn("skill is not usable", "error", err)
		return
	}
	k.dir = filepath.Dir(source)
	switch {
	case len(name) > maxNameBytes || !skillName.MatchString(name):
		log.Warn("skill has an unusual name: use lower-case letters and digits with single dashes in between", "name", name, "limit", maxNameBytes)
	case name != filepath.Base(k.dir):
		log.Warn("skill is not named like its directory", "name", name)
	}
	if !s.claims.shadow(name, source) {
		s.claims.add(name, description, source, k)
	}
}

// readSkill reads the keys that mean something here. What a skill says about models, hooks and permissions is for whoever runs it
// as an agent.
func readSkill(doc document) (name, description string, k *skill, err error) {
	front := doc.front
	if name, err = front.required("name"); err != nil {
		return "", "", nil, err
	}
	if description, err = front.required("description"); err != nil {
		return "", "", nil, err
	}
	context, err := front.text("context")
	if err != nil {
		return "", "", nil, err
	}
	forUsers, said, err := front.flag("user-invocable")
	if err != nil {
		return "", "", nil, err
	}
	notForModels, _, err := front.flag("disable-model-invocation")
	if err != nil {
		return "", "", nil, err
	}
	return name, description, &skill{
		body:   doc.body,
		listed: said && forUsers || !said && notForModels,
		barred: said && !forUsers,
		fork:   context == "fork",
	}, nil
}
