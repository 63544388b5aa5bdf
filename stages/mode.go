package stages

import (
	"context"
	"fmt"
	"regexp"

	"amplifier-agent/pipeline"
)

// ModeSet knows the modes that were discovered. An error means that discovery failed, so that nobody can say.
type ModeSet interface {
	HasMode(name string) (bool, error)
}

// NoModes is the ModeSet of a server that has none.
type NoModes struct{}

// HasMode returns false.
func (NoModes) HasMode(string) (bool, error) { return false, nil }

var modeDirective = regexp.MustCompile(`\[amplifier-agent:mode=([A-Za-z0-9._-]+)\]`)

// Mode activates the mode that a system or developer message names, the first that does; assistant and user messages cannot
// (http-face.md, "Modes on the wire"). A mode that an alias has set already stands. Here alone an unresolved mode is rejected.
func Mode(set ModeSet) pipeline.Stage {
	return pipeline.Stage{Name: "mode", Request: func(_ context.Context, t *pipeline.Turn) error {
		if t.Mode == "" {
			t.Mode = directive(t.Messages)
		}
		if t.Mode == "" {
			return nil
		}
		switch ok, err := set.HasMode(t.Mode); {
		case err != nil:
			return &pipeline.Error{Code: pipeline.CodeModesUnavailable, Err: err,
				Message: fmt.Sprintf("mode '%s' cannot be verified: the modes could not be discovered at startup", t.Mode)}
		case !ok:
			return &pipeline.Error{Code: pipeline.CodeUnknownMode, Origin: pipeline.OriginClient,
				Message: fmt.Sprintf("mode '%s' is not available on this instance. Call GET /v1/modes for the list of modes.", t.Mode)}
		}
		return nil
	}}
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
