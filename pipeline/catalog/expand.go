package catalog

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"amplifier-agent/pipeline"
)

// What Expand returns for a skill that does not run, wrapped with its name.
var (
	ErrNoSkill = errors.New("no such skill that a user may invoke")
	ErrFork    = errors.New("it needs a sub-agent (context: fork), which this build cannot run yet")
)

// placeholder is what Expand replaces. A command between !` and ` is text like any other: none is ever run.
var placeholder = regexp.MustCompile(`\$\{SKILL_DIR\}|\$ARGUMENTS|\$[0-9]+`)

// Expand returns the text of a skill with its arguments, to be used as a prompt. ${SKILL_DIR} is the directory of the skill,
// $ARGUMENTS what was typed, and $0, $1 … are its words, empty if there are fewer. All are replaced in one pass, so that nothing
// in the arguments is expanded again. Arguments that the skill has no place for follow its text.
//
// The error is ErrNoSkill if the name is unknown, or if the skill says that users may not invoke it; a *pipeline.Error for the
// client that wraps ErrFork if the skill cannot run here; and that of Err if discovery failed.
func (s *Skills) Expand(name, args string) (body string, err error) {
	if s.err != nil {
		return "", fmt.Errorf("skill %q: %w", name, s.err)
	}
	c, ok := s.claims[name]
	switch {
	case !ok, c.value.barred:
		return "", fmt.Errorf("skill %q: %w", name, ErrNoSkill)
	case c.value.fork:
		return "", &pipeline.Error{Code: pipeline.CodeSkillUnavailable, Message: fmt.Sprintf("skill '%s' cannot run", name), Err: ErrFork}
	}
	return "# " + name + "\n\n" + c.value.expand(args), nil
}

func (k *skill) expand(args string) string {
	words := strings.Fields(args)
	placed := false
	body := placeholder.ReplaceAllStringFunc(k.body, func(p string) string {
		if p == "${SKILL_DIR}" {
			return k.dir
		}
		placed = true
		if p == "$ARGUMENTS" {
			return args
		}
		if i, err := strconv.Atoi(p[1:]); err == nil && i < len(words) {
			return words[i]
		}
		return ""
	})
	if !placed && len(words) > 0 {
		body += "\n\nArguments: " + args
	}
	return body
}
