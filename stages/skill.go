package stages

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"amplifier-agent/pipeline"
)

// SkillSet knows the skills that were discovered. Expand returns the text that takes the place of the words that called the skill.
// An error of type *pipeline.Error is one that the client should hear of.
type SkillSet interface {
	Expand(name, args string) (body string, err error)
}

// maxExpandedBytes is how much text skills may put into one turn. A history that calls a skill a million times is not to become a
// million times its text.
const maxExpandedBytes = 4 << 20

// sigil calls a skill at the beginning of a user message: "!amplifier:skill NAME ARGUMENTS".
const sigil = "!amplifier:skill"

// Skill puts the text of a skill in place of the prompt that calls it, and again in place of each user message of the history that
// once did, as clients replay what the user typed. Only what a user said can call a skill: the prompt, which is the final user
// message, and entries of the history whose role says so and that are not contained host text. What cannot be resolved stays as
// it is, and so do the calls behind those whose texts together are longer than maxExpandedBytes; the client is told of a skill that
// is there and cannot run. The client's messages are not changed.
func Skill(set SkillSet, log *slog.Logger) pipeline.Stage {
	return pipeline.Stage{Name: "skill", Request: func(_ context.Context, t *pipeline.Turn) error {
		if t.Prompt != nil {
			t.Prompt = dispatch(t, set, log)
		}
		full := false
		if t.History, full = rehydrate(t.History, set); full {
			log.Warn("some calls of skills in the history stay as they were typed: the skills' texts would be too long", "turn", t.ID, "limit", maxExpandedBytes)
		}
		return nil
	}}
}

// dispatch returns the prompt to use.
func dispatch(t *pipeline.Turn, set SkillSet, log *slog.Logger) *pipeline.Message {
	name, args, ok := parseSigil(t.Prompt.Text())
	if !ok {
		return t.Prompt
	}
	body, err := set.Expand(name, args)
	if err != nil {
		log.Warn("skill not run: the prompt stays as it was typed", "turn", t.ID, "skill", pipeline.Short(name), "error", err)
		if e, ok := errors.AsType[*pipeline.Error](err); ok {
			t.Notices = append(t.Notices, e)
		}
		return t.Prompt
	}
	prompt := expanded(t.Prompt, body)
	return &prompt
}

// expanded is m with body in place of its texts. Images stay.
func expanded(m *pipeline.Message, body string) pipeline.Message {
	e := *m
	e.Raw = nil
	e.Parts = []pipeline.Part{{Text: body}}
	for _, p := range m.Parts {
		if p.Image != "" {
			e.Parts = append(e.Parts, p)
		}
	}
	return e
}

// rehydrate returns history with the calls of skills replaced; it is the same slice if there are none. It is full if there were more
// of them than there is room for; the latest count most.
func rehydrate(history []pipeline.Message, set SkillSet) (_ []pipeline.Message, full bool) {
	changed, left := false, maxExpandedBytes
	for i := len(history) - 1; i >= 0; i-- {
		m := &history[i]
		if m.Role != pipeline.RoleUser || m.Contained || len(m.Parts) == 0 {
			continue
		}
		name, args, ok := parseSigil(m.Text())
		if !ok {
			continue
		}
		body, err := set.Expand(name, args)
		if err != nil {
			continue // it did not run then either
		}
		if left -= len(body); left < 0 {
			return history, true
		}
		if !changed {
			changed = true
			history = append([]pipeline.Message(nil), history...)
			m = &history[i]
		}
		*m = expanded(m, body)
	}
	return history, false
}

// parseSigil reads a call of a skill. A line end right behind the sigil makes it ordinary text.
func parseSigil(text string) (name, args string, ok bool) {
	rest, found := strings.CutPrefix(strings.TrimSpace(text), sigil)
	if !found || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
		return "", "", false
	}
	rest = strings.TrimSpace(rest)
	if i := strings.IndexFunc(rest, isSpace); i >= 0 {
		return rest[:i], strings.TrimSpace(rest[i:]), true
	}
	return rest, "", true
}

func isSpace(r rune) bool { return strings.ContainsRune(" \t\r\n\v\f", r) }
