// Package ops serves what operators and their tools ask for: whether the server is well, what it has done, and what it offers. It
// imports codec, pipeline/metrics, routes and fasthttp.
package ops

import (
	"github.com/valyala/fasthttp"

	"amplifier-agent/pipeline/metrics"
	"amplifier-agent/routes"
)

// Deps is what the routes tell of.
type Deps struct {
	Ready       func() error     // returns an error while turns are refused
	Metrics     *metrics.Metrics // nil: no such route
	OpenMetrics bool             // they need no key
	Version     string           // of the program
}

const (
	healthPath   = "/health"
	metricsPath  = "/metrics"
	documentPath = "/openapi.json"

	textFormat = "text/plain; version=0.0.4; charset=utf-8" // of Prometheus
)

// Routes returns GET /health, GET /openapi.json, and GET /metrics if there are any. The first two need no key (rulings 2).
func Routes(d Deps) []routes.Route {
	document := Document(d.Version)
	list := []routes.Route{
		{Method: fasthttp.MethodGet, Path: healthPath, Open: true, Handle: d.health},
		{Method: fasthttp.MethodGet, Path: documentPath, Open: true, Handle: func(ctx *fasthttp.RequestCtx) {
			ctx.Response.Header.SetContentType("application/json")
			ctx.Response.SetBodyRaw(document)
		}},
	}
	if d.Metrics != nil {
		d.Metrics.Build(d.Version)
		list = append(list, routes.Route{Method: fasthttp.MethodGet, Path: metricsPath, Open: d.OpenMetrics, Handle: func(ctx *fasthttp.RequestCtx) {
			ctx.Response.Header.SetContentType(textFormat)
			d.Metrics.Write(ctx.Response.BodyWriter())
		}})
	}
	return list
}

// health answers 503 while turns are refused (rulings 2).
func (d *Deps) health(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.SetContentType("application/json")
	if d.Ready() != nil {
		ctx.Response.SetStatusCode(fasthttp.StatusServiceUnavailable)
		ctx.Response.SetBodyString(`{"status":"draining"}` + "\n")
		return
	}
	ctx.Response.SetBodyString(`{"status":"ok"}` + "\n")
}
