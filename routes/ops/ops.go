// Package ops serves what operators ask for.
package ops

import (
	"github.com/valyala/fasthttp"

	"amplifier-agent/routes"
)

// Routes returns GET /health, which needs no key and answers 503 while ready returns an error (rulings 2).
func Routes(ready func() error) []routes.Route {
	return []routes.Route{{Method: fasthttp.MethodGet, Path: "/health", Open: true, Handle: func(ctx *fasthttp.RequestCtx) {
		ctx.Response.Header.SetContentType("application/json")
		if ready() != nil {
			ctx.Response.SetStatusCode(fasthttp.StatusServiceUnavailable)
			ctx.Response.SetBodyString(`{"status":"draining"}` + "\n")
			return
		}
		ctx.Response.SetBodyString(`{"status":"ok"}` + "\n")
	}}}
}
