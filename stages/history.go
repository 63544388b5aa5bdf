package stages

import (
	"context"
	"slices"

	"amplifier-agent/pipeline"
)

// History splits the conversation (http-face.md, "History and prompt split"). Only a final user message becomes the prompt; with
// any other end the turn continues the history. It does not search backwards: an earlier user message has been answered. A prompt
// of several text parts becomes one text; with images among them the parts stay, as their order may matter (rulings 30).
func History() pipeline.Stage {
	return pipeline.Stage{Name: "history", Request: func(_ context.Context, t *pipeline.Turn) error {
		t.History, t.Prompt = t.Messages, nil
		if last := len(t.Messages) - 1; last >= 0 && t.Messages[last].Role == pipeline.RoleUser {
			t.History, t.Prompt = t.Messages[:last:last], prompt(&t.Messages[last])
		}
		return nil
	}}
}

func prompt(m *pipeline.Message) *pipeline.Message {
	hasImage := func(p pipeline.Part) bool { return p.Image != "" }
	if len(m.Parts) < 2 || slices.ContainsFunc(m.Parts, hasImage) {
		return m
	}
	joined := *m
	joined.Parts = []pipeline.Part{{Text: m.Text()}}
	return &joined
}
