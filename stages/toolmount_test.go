package stages_test

import (
	"fmt"
	"slices"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/stages"
)

func TestToolMountOffers(t *testing.T) {
	spec := func(name, description, parameters string) pipeline.ToolSpec {
		return pipeline.ToolSpec{Name: name, Description: description, Parameters: []byte(parameters)}
	}
	const empty = `{"type":"object","properties":{}}`
	for name, row := range map[string]struct{ in, want []pipeline.ToolSpec }{
		"none":      {nil, nil},
		"order":     {[]pipeline.ToolSpec{spec("b", "B", `{}`), spec("a", "A", `{"x":1}`)}, []pipeline.ToolSpec{spec("b", "B", `{}`), spec("a", "A", `{"x":1}`)}},
		"schema":    {[]pipeline.ToolSpec{{Name: "a"}}, []pipeline.ToolSpec{spec("a", "", empty)}},
		"duplicate": {[]pipeline.ToolSpec{spec("a", "1", `{}`), spec("b", "2", `{}`), spec("a", "3", "")}, []pipeline.ToolSpec{spec("a", "3", empty), spec("b", "2", `{}`)}},
		"case":      {[]pipeline.ToolSpec{spec("a", "", `{}`), spec("A", "", `{}`)}, []pipeline.ToolSpec{spec("a", "", `{}`), spec("A", "", `{}`)}},
	} {
		t.Run(name, func(t *testing.T) {
			turn := &pipeline.Turn{Tools: row.in}
			if err := stages.ToolMount().Request(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
			if got, want := fmt.Sprintf("%s", turn.HostTools), fmt.Sprintf("%s", row.want); got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
			if name == "schema" && turn.Tools[0].Parameters != nil {
				t.Error("the client's list was changed")
			}
		})
	}
}

// TestToolMountNumbers checks that calls are numbered over the whole turn, also over several rounds, and nothing else is.
func TestToolMountNumbers(t *testing.T) {
	stage := stages.ToolMount()
	for range 2 { // each turn begins at 0
		var got []int
		items := []item{text("a"), call("x", "f", "{}"), start("s", "g"), call("y", "f", "{}"), finish(pipeline.ReasonStop), call("z", "f", "{}")}
		for ev, err := range stage.Events(&pipeline.Turn{}, source(items...)) {
			switch {
			case err != nil:
				t.Fatal(err)
			case ev.Kind == pipeline.ToolCall:
				got = append(got, ev.Index)
			case ev.Index != 0:
				t.Errorf("%s has index %d", show(ev, nil), ev.Index)
			}
		}
		if !slices.Equal(got, []int{0, 1, 2}) {
			t.Errorf("got %v", got)
		}
	}
}
