package ops

import (
	"errors"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestHealth(t *testing.T) {
	for want, ready := range map[int]error{fasthttp.StatusOK: nil, fasthttp.StatusServiceUnavailable: errors.New("draining")} {
		r := Routes(func() error { return ready })[0]
		if r.Path != "/health" || !r.Open {
			t.Errorf("route %+v", r)
		}
		var ctx fasthttp.RequestCtx
		r.Handle(&ctx)
		body := map[int]string{200: `{"status":"ok"}` + "\n", 503: `{"status":"draining"}` + "\n"}[want]
		if got := ctx.Response.StatusCode(); got != want || string(ctx.Response.Body()) != body {
			t.Errorf("status %d, body %s, want %d", got, ctx.Response.Body(), want)
		}
	}
}
