package stages_test

import (
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/stages"
)

// skills is a SkillSet of one inline skill, "review", one that cannot run, "team", and nothing else.
type skills struct{}

var errFork = &pipeline.Error{Code: pipeline.CodeSkillUnavailable, Message: "skill 'team' needs a sub-agent"}

func (skills) Expand(name, args string) (string, error) {
	switch name {
	case "review":
		return "# review\n\nReview <" + args + ">.", nil
	case "team":
		return "", errFork
	}
	return "", errors.New("no such skill")
}

func skillTurn(t *testing.T, turn *pipeline.Turn) *pipeline.Turn {
	t.Helper()
	if err := stages.Skill(skills{}, slog.New(slog.DiscardHandler)).Request(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	return turn
}

// TestSkillDispatch: the sigil counts at the beginning of the final user message only, followed by white space on its line.
func TestSkillDispatch(t *testing.T) {
	for typed, want := range map[string]string{
		"!amplifier:skill review":               "# review\n\nReview <>.",
		"  \n!amplifier:skill\treview  a  b \n": "# review\n\nReview <a  b>.",
		"!amplifier:skill review\nall of it":    "# review\n\nReview <all of it>.",
		"!amplifier:skill review $ARGUMENTS $0": "# review\n\nReview <$ARGUMENTS $0>.",
		"!amplifier:skill\nreview":              "",
		"!amplifier:skillreview":                "",
		"!amplifier:skill":                      "",
		"!amplifier:skill   ":                   "",
		"please !amplifier:skill review":        "",
		"!amplifier:skill unknown":              "",
		"!Amplifier:skill review":               "",
		"":                                      "",
	} {
		prompt := message(pipeline.RoleUser, typed)
		turn := skillTurn(t, &pipeline.Turn{Prompt: &prompt})
		if want == "" {
			want = typed
		}
		if got := turn.Prompt.Text(); got != want {
			t.Errorf("%q: got %q, want %q", typed, got, want)
		}
		if prompt.Text() != typed {
			t.Errorf("%q: the client's message was changed to %q", typed, prompt.Text())
		}
		if len(turn.Notices) > 0 {
			t.Errorf("%q: notices %v", typed, turn.Notices)
		}
	}
}

// TestSkillUnavailable: the client hears of a skill that cannot run, and the prompt is kept.
func TestSkillUnavailable(t *testing.T) {
	prompt := message(pipeline.RoleUser, "!amplifier:skill team go")
	turn := skillTurn(t, &pipeline.Turn{Prompt: &prompt})
	if turn.Prompt != &prompt || len(turn.Notices) != 1 || turn.Notices[0] != errFork {
		t.Errorf("prompt %q, notices %v", turn.Prompt.Text(), turn.Notices)
	}
}

func TestSkillKeepsImages(t *testing.T) {
	image := pipeline.Part{Image: "data:image/png;base64,AA==", MediaType: "image/png"}
	prompt := pipeline.Message{Role: pipeline.RoleUser, Parts: []pipeline.Part{{Text: "!amplifier:skill review x"}, image}}
	turn := skillTurn(t, &pipeline.Turn{Prompt: &prompt})
	if want := []pipeline.Part{{Text: "# review\n\nReview <x>."}, image}; !reflect.DeepEqual(turn.Prompt.Parts, want) {
		t.Errorf("got %+v", turn.Prompt.Parts)
	}
}

// TestSkillRehydration: what the user typed in earlier turns becomes again what it stood for; nothing else does.
func TestSkillRehydration(t *testing.T) {
	const call = "!amplifier:skill review it"
	contained := message(pipeline.RoleUser, call)
	contained.Contained = true
	history := []pipeline.Message{
		message(pipeline.RoleUser, call),
		message(pipeline.RoleAssistant, call),
		message(pipeline.RoleTool, call),
		message(pipeline.RoleDeveloper, call),
		contained,
		message(pipeline.RoleUser, "!amplifier:skill team"),
		message(pipeline.RoleUser, "!amplifier:skill unknown"),
		message(pipeline.RoleUser, "hi"),
	}
	before := append([]pipeline.Message(nil), history...)
	turn := skillTurn(t, &pipeline.Turn{History: history})
	if !reflect.DeepEqual(history, before) {
		t.Error("the client's list was changed")
	}
	if got := turn.History[0].Text(); got != "# review\n\nReview <it>." {
		t.Errorf("got %q", got)
	}
	if !reflect.DeepEqual(turn.History[1:], before[1:]) || len(turn.Notices) > 0 {
		t.Errorf("changed too much: %+v, notices %v", turn.History[1:], turn.Notices)
	}
	// What was called with an image, or in two pieces, worked then and works now.
	image := pipeline.Part{Image: "data:image/png;base64,AA=="}
	pieces := message(pipeline.RoleUser, "!amplifier:skill", "review it")
	pieces.Parts = append(pieces.Parts, image)
	turn = skillTurn(t, &pipeline.Turn{History: []pipeline.Message{pieces}})
	if want := []pipeline.Part{{Text: "# review\n\nReview <it>."}, image}; !reflect.DeepEqual(turn.History[0].Parts, want) {
		t.Errorf("got %+v", turn.History[0].Parts)
	}
	plain := before[1:]
	if turn := skillTurn(t, &pipeline.Turn{History: plain}); &turn.History[0] != &plain[0] {
		t.Error("a history without a call was copied")
	}
}

// vast is a SkillSet whose one skill is a megabyte.
type vast struct{}

func (vast) Expand(string, string) (string, error) { return strings.Repeat("x", 1<<20), nil }

// TestSkillsAreBounded: a history that calls a skill over and over does not become that many times its text; the latest calls count.
func TestSkillsAreBounded(t *testing.T) {
	history := make([]pipeline.Message, 10_000)
	for i := range history {
		history[i] = message(pipeline.RoleUser, "!amplifier:skill vast")
	}
	turn := &pipeline.Turn{History: history}
	if err := stages.Skill(vast{}, slog.New(slog.DiscardHandler)).Request(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	size := 0
	for i := range turn.History {
		size += len(turn.History[i].Text())
	}
	if last := turn.History[len(history)-1].Text(); len(last) != 1<<20 || size > 5<<20 || turn.History[0].Text() != "!amplifier:skill vast" {
		t.Errorf("%d bytes in all, %d in the last, the first is %.40q", size, len(last), turn.History[0].Text())
	}
}
