package pipeline_test

import (
	"testing"

	"amplifier-agent/pipeline"
)

func TestMessageText(t *testing.T) {
	text := func(s string) pipeline.Part { return pipeline.Part{Text: s} }
	image := pipeline.Part{Image: "data:image/png;base64,AAAA", MediaType: "image/png"}
	for name, row := range map[string]struct {
		parts []pipeline.Part
		want  string
	}{
		"none":        {nil, ""},
		"one":         {[]pipeline.Part{text(" as it is\n")}, " as it is\n"},
		"several":     {[]pipeline.Part{text("a"), text("b"), text("c")}, "a b c"},
		"empty":       {[]pipeline.Part{text(""), text("a"), text(""), text("b")}, "a b"},
		"all empty":   {[]pipeline.Part{text(""), text("")}, ""},
		"trimmed":     {[]pipeline.Part{text(" a "), text("\nb\t")}, "a  \nb"},
		"image alone": {[]pipeline.Part{image}, ""},
		"with image":  {[]pipeline.Part{text(" a "), image, text("b ")}, "a  b"},
	} {
		t.Run(name, func(t *testing.T) {
			m := pipeline.Message{Role: pipeline.RoleUser, Parts: row.parts}
			if got := m.Text(); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// TestReason checks the words of the wire: nothing else may go out as finish_reason (rulings 20).
func TestReason(t *testing.T) {
	for r, want := range map[pipeline.Reason]string{
		pipeline.ReasonNone: "stop", pipeline.ReasonStop: "stop", pipeline.ReasonLength: "length", pipeline.ReasonContentFilter: "content_filter",
		pipeline.ReasonToolCalls: "tool_calls", pipeline.ReasonFault: "stop", pipeline.Reason(99): "stop",
	} {
		if got := r.String(); got != want {
			t.Errorf("%d: got %s, want %s", r, got, want)
		}
	}
}
