package stages

import (
	"context"
	"fmt"
	"regexp"

	"amplifier-agent/pipeline"
)

// ModeSet knows the modes that were discovered. Mode returns nil for one that is unknown, and an error if discovery failed, so that
// nobody can say.
type ModeSet interface {
	Mode(name string) (*pipeline.Mode, error)
}

var modeDirective = regexp.MustCompile(`\[amplifier-agent:mode=([A-Za-z0-9._-]+)\]`)

// Mode activates the mode that a system or developer message names, the first that does; assistant and user messages cannot
// (http-face.md, "Modes on the wire"). A mode that an alias has set already stands. Here alone an unresolved mode is rejected.
// The mode's instructions reach the model in each round, and its tool policy guards the server's tools.
func Mode(set ModeSet) pipeline.Stage {
	return pipeline.Stage{Name: "mode", Request: func(_ context.Context, t *pipeline.Turn) error {
		if t.Mode == "" {
			t.Mode = directive(t.Messages)
		}
		if t.Mode == "" {
			return nil
		}
		switch m, err := set.Mode(t.Mode); {
		case err != nil:
			return &pipeline.Error{Code: pipeline.CodeModesUnavailable, Err: err,
				Message: fmt.Sprintf("mode '%s' cannot be verified: the modes could not be discovered at startup", pipeline.Short(t.Mode))}
		case m == nil:
			return &pipeline.Error{Code: pipeline.CodeUnknownMode, Origin: pipeline.OriginClient,
				Message: fmt.Sprintf("mode '%s' is not available on this instance. Call GET /v1/modes for the list of modes.", pipeline.Short(t.Mode))}
		default:
			t.Gate = &m.Tools
			t.Reminders = append(t.Reminders, reminder(m))
			return nil
		}
	}}
}

// reminder is what the model is told of a mode, over and over: it must not try to switch it on.
func reminder(m *pipeline.Mode) string {
	return fmt.Sprintf("<system-reminder source=\"mode-%s\">\nMode %q is already active; nothing needs to be switched on. While it is, this applies:\n\n%s\n</system-reminder>",
		m.Name, m.Name, m.Body)
}

func directive(messages []pipeline.Message) string {
	for i := range messages {
		if r := messages[i].Role; r != pipeline.RoleSystem && r != pipeline.RoleDeveloper {
			continue
		}
		if m := modeDirective.FindStringSubmatch(messages[i].Text()); m != nil {
			return m[1]
		}
	}
	return ""
}
