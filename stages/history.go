package stages

import (
	"context"

	"amplifier-agent/pipeline"
)

// History splits the conversation (http-face.md, "History and prompt split"). Only a final user message becomes the prompt; with
// any other end the turn continues the history. It does not search backwards: an earlier user message has been answered.
func History() pipeline.Stage {
	return pipeline.Stage{Name: "history", Request: func(_ context.Context, t *pipeline.Turn) error {
		t.History, t.Prompt = t.Messages, nil
		if last := len(t.Messages) - 1; last >= 0 && t.Messages[last].Role == pipeline.RoleUser {
			t.History, t.Prompt = t.Messages[:last:last], &t.Messages[last]
		}
		return nil
	}}
}
