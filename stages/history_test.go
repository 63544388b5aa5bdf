package stages_test

import (
	"reflect"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/stages"
)

func TestHistory(t *testing.T) {
	const s, d, u, a, r = pipeline.RoleSystem, pipeline.RoleDeveloper, pipeline.RoleUser, pipeline.RoleAssistant, pipeline.RoleTool
	for name, row := range map[string]struct {
		roles  []pipeline.Role
		prompt bool
	}{
		"one user":           {[]pipeline.Role{u}, true},
		"conversation":       {[]pipeline.Role{s, u, a, u}, true},
		"two users":          {[]pipeline.Role{u, u}, true},
		"tool result":        {[]pipeline.Role{u, a, r}, false},
		"trailing assistant": {[]pipeline.Role{u, a}, false},
		"trailing system":    {[]pipeline.Role{u, s}, false},
		"trailing developer": {[]pipeline.Role{u, d}, false},
		"no user":            {[]pipeline.Role{s}, false},
		"nothing":            {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			var list []pipeline.Message
			for i, role := range row.roles {
				list = append(list, message(role, string(rune('a'+i))))
			}
			turn := &pipeline.Turn{Messages: list, Prompt: &pipeline.Message{}}
			if err := stages.History().Request(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
			if (turn.Prompt != nil) != row.prompt {
				t.Fatalf("prompt %v", turn.Prompt)
			}
			got := append([]pipeline.Message{}, turn.History...)
			if turn.Prompt != nil {
				got = append(got, *turn.Prompt)
			}
			if len(list) > 0 && !reflect.DeepEqual(got, list) {
				t.Errorf("history and prompt are %v", got)
			}
			if turn.Prompt != nil && cap(turn.History) > len(turn.History) {
				t.Error("what is appended to the history would overwrite the prompt")
			}
		})
	}
}

// TestHistoryPromptText: several text parts are one text; with an image among them the parts stay.
func TestHistoryPromptText(t *testing.T) {
	image := pipeline.Part{Image: "data:image/png;base64,AA==", MediaType: "image/png"}
	for name, row := range map[string]struct{ in, want []pipeline.Part }{
		"one":    {[]pipeline.Part{{Text: " a "}}, []pipeline.Part{{Text: " a "}}},
		"two":    {[]pipeline.Part{{Text: " a"}, {Text: ""}, {Text: "b "}}, []pipeline.Part{{Text: "a b"}}},
		"image":  {[]pipeline.Part{{Text: "a"}, image, {Text: "b"}}, []pipeline.Part{{Text: "a"}, image, {Text: "b"}}},
		"no one": {nil, nil},
	} {
		list := []pipeline.Message{{Role: pipeline.RoleUser, Parts: row.in}}
		turn := &pipeline.Turn{Messages: list}
		if err := stages.History().Request(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(turn.Prompt.Parts, row.want) || !reflect.DeepEqual(list[0].Parts, row.in) {
			t.Errorf("%s: prompt %+v, message %+v", name, turn.Prompt.Parts, list[0].Parts)
		}
	}
}
