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

// sigil calls a skill at the beginning of a user message: "!amplifier:skill NAME ARGUMENTS".
const sigil = "!amplifier:skill"

// Skill puts the text of a skill in place of the prompt that calls it, and again in place of each user message of the history that
// once did, as clients replay what the user typed. Only what a user said can call a skill: the prompt, which is the final user
// message, and entries of the history whose role says so and that are not contained host text. What cannot be resolved stays as
// it is; the client is told of a skill that is there and cannot run. The client's messages are not changed.
func Skill(set SkillSet, log *slog.Logger) pipeline.Stage {
	return pipeline.Stage{Name: "skill", Request: func(_ context.Context, t *pipeline.Turn) error {
		if t.Prompt != nil {
			t.Prompt = dispatch(t, set, log)
		}
		t.History = rehydrate(t.History, set)
		return nil
	}}
}

// dispatch returns the prompt to use. Images beside the call stay.
func dispatch(t *pipeline.Turn, set SkillSet, log *slog.Logger) *pipeline.Message {
	name, args, ok := parseSigil(t.Prompt.Text())
	if !ok {
		return t.Prompt
	}
	body, err := set.Expand(name, args)
	if err != nil {
		log.Warn("skill not run: the prompt stays as it was typed", "turn", t.ID, "skill", name, "error", err)
		if e, ok := errors.AsType[*pipeline.Error](err); ok {
			t.Notices = append(t.Notices, e)
		}
		return t.Prompt
	}
	prompt := *t.Prompt
	prompt.Raw = nil
	prompt.Parts = []pipeline.Part{{Text: body}}
	for _, p := range t.Prompt.Parts {
		if p.Image != "" {
			prompt.Parts = append(prompt.Parts, p)
		}
	}
	return &prompt
}

// rehydrate returns history with the calls of skills replaced; it is the same slice if there are none.
func rehydrate(history []pipeline.Message, set SkillSet) []pipeline.Message {
	changed := false
	for i := range history {
		m := &history[i]
		if m.Role != pipeline.RoleUser || m.Contained || len(m.Parts) != 1 || m.Parts[0].Image != "" {
			continue
		}
		name, args, ok := parseSigil(m.Parts[0].Text)
		if !ok {
			continue
		}
		body, err := set.Expand(name, args)
		if err != nil {
			continue // it did not run then either
		}
		if !changed {
			changed = true
			history = append([]pipeline.Message(nil), history...)
			m = &history[i]
		}
		m.Raw = nil
		m.Parts = []pipeline.Part{{Text: body}}
	}
	return history
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
