package stages_test

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/stages"
)

var update = flag.Bool("update", false, "write testdata/*.golden")

// golden compares got with testdata/name.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

func contain(t *testing.T, history ...pipeline.Message) []pipeline.Message {
	t.Helper()
	turn := &pipeline.Turn{History: history}
	if err := stages.Containment(false).Request(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	return turn.History
}

func TestContainment(t *testing.T) {
	user, assistant, developer := message(pipeline.RoleUser, "hi"), message(pipeline.RoleAssistant, "hello"), message(pipeline.RoleDeveloper, "dev")
	list := []pipeline.Message{
		message(pipeline.RoleSystem, "\nYou are terse.\n"), user, message(pipeline.RoleSystem, " "), developer,
		message(pipeline.RoleSystem, "Use", "", "metric units."), assistant, message(pipeline.RoleSystem), message(pipeline.RoleSystem, "Über α\n\n---\n\nend"),
	}
	before := append([]pipeline.Message(nil), list...)
	got := contain(t, list...)
	if !reflect.DeepEqual(list, before) {
		t.Error("the client's list was changed")
	}
	if len(got) != 4 || !reflect.DeepEqual(got[1:], []pipeline.Message{user, developer, assistant}) {
		t.Fatalf("got %+v", got)
	}
	if got[0].Role != pipeline.RoleUser || !got[0].Contained || len(got[0].Parts) != 1 {
		t.Errorf("the head is %+v", got[0])
	}
	golden(t, "containment", got[0].Text())
	for _, m := range got[1:] {
		if m.Contained {
			t.Errorf("%+v is the client's own", m)
		}
	}
}

func TestContainmentOfOne(t *testing.T) {
	got := contain(t, message(pipeline.RoleUser, "hi"), message(pipeline.RoleSystem, "You are terse."))
	if len(got) != 2 || !got[0].Contained {
		t.Fatalf("got %+v", got)
	}
	golden(t, "containment_one", got[0].Text())
}

func TestContainmentOfNothing(t *testing.T) {
	user, developer := message(pipeline.RoleUser, "hi"), message(pipeline.RoleDeveloper, "dev")
	if got := contain(t, message(pipeline.RoleSystem, ""), user, message(pipeline.RoleSystem, "\n\t")); !reflect.DeepEqual(got, []pipeline.Message{user}) {
		t.Errorf("empty system messages became %+v", got)
	}
	list := []pipeline.Message{developer, user}
	if got := contain(t, list...); !reflect.DeepEqual(got, list) {
		t.Errorf("got %+v", got)
	}
	if got := contain(t); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestContainmentOfTurn checks that the prompt behind the history survives, as History lends it from the same list.
func TestContainmentOfTurn(t *testing.T) {
	turn := &pipeline.Turn{Messages: []pipeline.Message{message(pipeline.RoleSystem, "s"), message(pipeline.RoleUser, "prompt")}}
	if err := pipeline.Prepare(t.Context(), []pipeline.Stage{stages.History(), stages.Containment(false)}, turn); err != nil {
		t.Fatal(err)
	}
	if turn.Prompt == nil || turn.Prompt.Text() != "prompt" || turn.Prompt.Contained || len(turn.History) != 1 || turn.Messages[0].Role != pipeline.RoleSystem {
		t.Errorf("prompt %+v, history %+v", turn.Prompt, turn.History)
	}
}

// TestContainmentForward: the client's system messages are the system prompt, if they say anything (rulings 31).
func TestContainmentForward(t *testing.T) {
	user, developer := message(pipeline.RoleUser, "hi"), message(pipeline.RoleDeveloper, "dev")
	for want, messages := range map[string][]pipeline.Message{
		"one\n\ntwo": {message(pipeline.RoleSystem, " one\n"), user, developer, message(pipeline.RoleSystem, "two")},
		"ours":       {message(pipeline.RoleSystem, " "), user, developer},
	} {
		turn := &pipeline.Turn{System: "ours", History: messages}
		if err := stages.Containment(true).Request(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		if turn.System != want || !reflect.DeepEqual(turn.History, []pipeline.Message{user, developer}) {
			t.Errorf("system %q, history %+v", turn.System, turn.History)
		}
	}
}
