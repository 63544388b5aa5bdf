package stages

import (
	"context"

	"amplifier-agent/pipeline"
)

// ModelSet resolves the models that are served. Its error is CodeUnknownModel and names the closest id.
type ModelSet interface {
	Lookup(model string) (p pipeline.Provider, id string, err error)
}

// Model finds who serves the model that the client asked for (http-face.md, "Rejections", 3). There is no fallback.
func Model(set ModelSet) pipeline.Stage {
	return pipeline.Stage{Name: "model", Request: func(_ context.Context, t *pipeline.Turn) (err error) {
		t.Provider, t.UpstreamID, err = set.Lookup(t.Model)
		return err
	}}
}
