package stages

import (
	"context"

	"amplifier-agent/pipeline"
)

// Ready refuses a turn while check returns an error (http-face.md, "Rejections", 1).
func Ready(check func() error) pipeline.Stage {
	return pipeline.Stage{Name: "ready", Request: func(context.Context, *pipeline.Turn) error {
		if err := check(); err != nil {
			return &pipeline.Error{Code: pipeline.CodeUnavailable, Message: "the server cannot take requests now", Err: err, Retry: true}
		}
		return nil
	}}
}
