// Package lists serves what there is to choose from: models, skills and modes (http-face.md, "GET /v1/models, /v1/skills,
// /v1/modes"). It imports codec, pipeline, pipeline/catalog, routes, routes/chat and fasthttp.
package lists

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/catalog"
	"amplifier-agent/routes"
	"amplifier-agent/routes/chat"
)

// Models are the models that are served.
type Models interface {
	All() []pipeline.Served
	Get(id string) (pipeline.Served, bool)
}

// Catalog is what was discovered of skills or modes: nothing, if discovery failed. The list is sorted and not changed.
type Catalog interface {
	List() []catalog.Entry
}

// Deps is what the lists show.
type Deps struct {
	Models  Models
	Skills  Catalog
	Modes   Catalog
	Started time.Time // stands for the models' creation, which nobody knows
}

const modelsPath = "/v1/models"

// Routes returns the routes of the lists.
func Routes(d Deps) []routes.Route {
	return []routes.Route{
		{Method: fasthttp.MethodGet, Path: modelsPath, Handle: d.models},
		{Method: fasthttp.MethodGet, Path: modelsPath + "/", Prefix: true, Handle: d.model},
		{Method: fasthttp.MethodGet, Path: "/v1/skills", Handle: entries(d.Skills)},
		{Method: fasthttp.MethodGet, Path: "/v1/modes", Handle: entries(d.Modes)},
	}
}

// Model is the wire form of one model.
type Model struct {
	ID           string           `json:"id"`
	Object       string           `json:"object"`
	Created      int64            `json:"created"`
	OwnedBy      string           `json:"owned_by"`
	Provider     string           `json:"_provider"`
	DisplayName  string           `json:"display_name"`
	Limit        *Limit           `json:"limit,omitempty"`
	Capabilities []string         `json:"capabilities,omitempty"`
	Reasoning    *bool            `json:"reasoning,omitempty"` // "thinking" is among the capabilities; absent without any
	Defaults     codec.RawMessage `json:"defaults,omitempty"`
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
	if m.Capabilities = s.Model.Capabilities; len(m.Capabilities) > 0 {
		thinks := slices.Contains(m.Capabilities, "thinking")
		m.Reasoning = &thinks
	}
	m.Defaults = s.Model.Defaults
	return m
}

// List is the wire form of a list.
type List[T any] struct {
	Object string `json:"object"`
	Data   []T    `json:"data"`
}

// Of returns the list of models as GET /v1/models shows it.
func Of(models []pipeline.Served, created time.Time) List[Model] {
	l := List[Model]{Object: "list", Data: []Model{}}
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
			Message: fmt.Sprintf("model '%s' is not served by this instance. Call GET /v1/models for the list of served models.", pipeline.Short(id))})
		return
	}
	write(ctx, wire(s, d.Started))
}

func entries(c Catalog) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) { write(ctx, List[catalog.Entry]{Object: "list", Data: c.List()}) }
}

func write(ctx *fasthttp.RequestCtx, v any) {
	b, err := codec.Marshal(v)
	if err != nil {
		chat.WriteError(ctx, err)
		return
	}
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBody(append(b, '\n'))
}
