// Package lists serves what there is to choose from: models, skills and modes (http-face.md, "GET /v1/models, /v1/skills,
// /v1/modes"). It imports codec, pipeline, routes, routes/chat and fasthttp.
package lists

import (
	"fmt"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/routes"
	"amplifier-agent/routes/chat"
)

// Models are the models that are served.
type Models interface {
	All() []pipeline.Served
	Get(id string) (pipeline.Served, bool)
}

// Deps is what the lists show.
type Deps struct {
	Models  Models
	Started time.Time // stands for the models' creation, which nobody knows
}

const modelsPath = "/v1/models"

// Routes returns the routes of the lists.
func Routes(d Deps) []routes.Route {
	return []routes.Route{
		{Method: fasthttp.MethodGet, Path: modelsPath, Handle: d.models},
		{Method: fasthttp.MethodGet, Path: modelsPath + "/", Prefix: true, Handle: d.model},
		{Method: fasthttp.MethodGet, Path: "/v1/skills", Handle: empty},
		{Method: fasthttp.MethodGet, Path: "/v1/modes", Handle: empty},
	}
}

// Model is the wire form of one model.
type Model struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	OwnedBy     string `json:"owned_by"`
	Provider    string `json:"_provider"`
	DisplayName string `json:"display_name"`
	Limit       *Limit `json:"limit,omitempty"`
}

// Limit is in tokens.
type Limit struct {
	Context int64 `json:"context"`
	Output  int64 `json:"output"`
}

func wire(s pipeline.Served, created time.Time) Model {
	m := Model{ID: s.ID, Object: "model", Created: created.Unix(), OwnedBy: "amplifier-agent", Provider: s.Provider.Name(), DisplayName: s.Model.Name}
	if m.DisplayName == "" {
		m.DisplayName = s.Model.ID
	}
	if s.Model.ContextTokens > 0 || s.Model.OutputTokens > 0 {
		m.Limit = &Limit{Context: s.Model.ContextTokens, Output: s.Model.OutputTokens}
	}
	return m
}

// List is the wire form of a list of models.
type List struct {
	Object string  `json:"object"`
	Data   []Model `json:"data"`
}

// Of returns the list of models as GET /v1/models shows it.
func Of(models []pipeline.Served, created time.Time) List {
	l := List{Object: "list", Data: []Model{}}
	for _, s := range models {
		l.Data = append(l.Data, wire(s, created))
	}
	return l
}

func (d *Deps) models(ctx *fasthttp.RequestCtx) { write(ctx, Of(d.Models.All(), d.Started)) }

// model answers GET /v1/models/{id}. The id may hold slashes.
func (d *Deps) model(ctx *fasthttp.RequestCtx) {
	id := strings.TrimPrefix(string(ctx.Path()), modelsPath+"/")
	s, ok := d.Models.Get(id)
	if !ok {
		chat.WriteError(ctx, &pipeline.Error{Code: pipeline.CodeModelNotFound, Origin: pipeline.OriginClient, Param: "model",
			Message: fmt.Sprintf("model '%s' is not served by this instance. Call GET /v1/models for the list of served models.", id)})
		return
	}
	write(ctx, wire(s, d.Started))
}

// empty is the list of a server that has discovered nothing.
func empty(ctx *fasthttp.RequestCtx) { write(ctx, List{Object: "list", Data: []Model{}}) }

func write(ctx *fasthttp.RequestCtx, v any) {
	b, err := codec.Marshal(v)
	if err != nil {
		chat.WriteError(ctx, err)
		return
	}
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBody(append(b, '\n'))
}
