package ops_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/catalog"
	"amplifier-agent/pipeline/metrics"
	"amplifier-agent/routes"
	"amplifier-agent/routes/lists"
	"amplifier-agent/routes/ops"
	"amplifier-agent/stages"
)

func ready() error { return nil }

func handle(t *testing.T, list []routes.Route, path string) *fasthttp.RequestCtx {
	t.Helper()
	i := slices.IndexFunc(list, func(r routes.Route) bool { return r.Path == path })
	if i < 0 {
		t.Fatalf("no route %s", path)
	}
	ctx := new(fasthttp.RequestCtx)
	list[i].Handle(ctx)
	return ctx
}

func TestHealth(t *testing.T) {
	for want, err := range map[int]error{200: nil, 503: errors.New("draining")} {
		ctx := handle(t, ops.Routes(ops.Deps{Ready: func() error { return err }}), "/health")
		body := map[int]string{200: `{"status":"ok"}` + "\n", 503: `{"status":"draining"}` + "\n"}[want]
		if got := ctx.Response.StatusCode(); got != want || string(ctx.Response.Body()) != body {
			t.Errorf("status %d, body %s, want %d", got, ctx.Response.Body(), want)
		}
	}
}

func TestMetrics(t *testing.T) {
	m := metrics.New()
	m.Record(&pipeline.Turn{}, pipeline.Outcome{Status: pipeline.StatusRejected, Code: pipeline.CodeUnknownModel})
	ctx := handle(t, ops.Routes(ops.Deps{Ready: ready, Metrics: m, Version: "1.2"}), "/metrics")
	if got := string(ctx.Response.Header.ContentType()); got != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("type %s", got)
	}
	for _, want := range []string{`amplifier_agent_turns_total{status="rejected",code="unknown_model",provider="none"} 1` + "\n", `amplifier_agent_build_info{version="1.2",`, "\ngo_goroutines "} {
		if !bytes.Contains(ctx.Response.Body(), []byte(want)) {
			t.Errorf("no %q in %s", want, ctx.Response.Body())
		}
	}
	for _, d := range []ops.Deps{{Metrics: m, OpenMetrics: true}, {Metrics: m}, {}} {
		i := slices.IndexFunc(ops.Routes(d), func(r routes.Route) bool { return r.Path == "/metrics" })
		if (i >= 0) != (d.Metrics != nil) || i >= 0 && ops.Routes(d)[i].Open != d.OpenMetrics {
			t.Errorf("%+v: route %d", d, i)
		}
	}
}

// face are the routes of a server of the chat-completions face.
func face(d ops.Deps) []routes.Route {
	none := func(*fasthttp.RequestCtx) {}
	list := []routes.Route{{Method: "POST", Path: "/v1/chat/completions", Handle: none}}
	return append(append(list, lists.Routes(lists.Deps{Models: nothing{}, Skills: nothing{}, Modes: nothing{}})...), ops.Routes(d)...)
}

type nothing struct{}

func (nothing) All() []pipeline.Served             { return nil }
func (nothing) Get(string) (pipeline.Served, bool) { return pipeline.Served{}, false }
func (nothing) List() []catalog.Entry              { return []catalog.Entry{} }

// TestDocumentAgreesWithRoutes: both ways, and the check itself sees each kind of difference.
func TestDocumentAgreesWithRoutes(t *testing.T) {
	for _, d := range []ops.Deps{{Ready: ready}, {Ready: ready, Metrics: metrics.New()}, {Ready: ready, Metrics: metrics.New(), OpenMetrics: true}} {
		if err := ops.Check(face(d)); err != nil {
			t.Error(err)
		}
	}
	list := face(ops.Deps{Ready: ready})
	for says, change := range map[string]func([]routes.Route) []routes.Route{
		"GET /x is served and not documented": func(l []routes.Route) []routes.Route { return append(l, routes.Route{Method: "GET", Path: "/x"}) },
		"DELETE /v1/models is served": func(l []routes.Route) []routes.Route {
			return append(l, routes.Route{Method: "DELETE", Path: "/v1/models"})
		},
		"GET /v1/x/ is served": func(l []routes.Route) []routes.Route {
			return append(l, routes.Route{Method: "GET", Path: "/v1/x/", Prefix: true})
		},
		"POST /v1/chat/completions is documented and not":       func(l []routes.Route) []routes.Route { return l[1:] },
		"GET /v1/models/{model} is documented and not":          func(l []routes.Route) []routes.Route { return slices.Delete(l, 2, 3) },
		"POST /v1/chat/completions: the document is wrong on w": func(l []routes.Route) []routes.Route { l[0].Open = true; return l },
		"GET /health: the document is wrong on w":               func(l []routes.Route) []routes.Route { l[len(l)-2].Open = false; return l },
	} {
		if err := ops.Check(change(slices.Clone(list))); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v", says, err)
		}
	}
}

// TestDocumentIsWhole: valid JSON in which each reference leads somewhere, and nothing that is defined is left over.
func TestDocumentIsWhole(t *testing.T) {
	var doc map[string]any
	if err := json.Unmarshal(ops.Document(`1.0 "quoted"`), &doc); err != nil {
		t.Fatal(err)
	}
	if v := doc["info"].(map[string]any)["version"]; doc["openapi"] != "3.1.0" || v != `1.0 "quoted"` {
		t.Errorf("openapi %v, version %v", doc["openapi"], v)
	}
	referred := map[string]bool{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				referred[ref] = true
				var target any = doc
				for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
					m, _ := target.(map[string]any)
					target = m[name]
				}
				if target == nil {
					t.Errorf("%s: %s leads nowhere", at, ref)
				}
			}
			required, _ := v["required"].([]any)
			properties, _ := v["properties"].(map[string]any)
			for _, name := range required {
				if properties[name.(string)] == nil {
					t.Errorf("%s requires %v, which it does not describe", at, name)
				}
			}
			for name, child := range v {
				walk(at+"/"+name, child)
			}
		case []any:
			for i, child := range v {
				walk(fmt.Sprint(at, "/", i), child)
			}
		}
	}
	walk("", doc)
	for kind, defined := range doc["components"].(map[string]any) {
		for name := range defined.(map[string]any) {
			if ref := "#/components/" + kind + "/" + name; kind != "securitySchemes" && !referred[ref] {
				t.Errorf("%s is left over", ref)
			}
		}
	}
	ids := map[any]bool{}
	for path, methods := range doc["paths"].(map[string]any) {
		for method, op := range methods.(map[string]any) {
			op := op.(map[string]any)
			if op["summary"] == nil || op["operationId"] == nil || ids[op["operationId"]] {
				t.Errorf("%s %s: operationId %v", method, path, op["operationId"])
			}
			ids[op["operationId"]] = true
			for status, r := range op["responses"].(map[string]any) {
				r := r.(map[string]any)
				if len(status) != 3 || r["$ref"] == nil && r["description"] == nil {
					t.Errorf("%s %s: answer %s", method, path, status)
				}
			}
		}
	}
}

// TestHead: each GET that answers can be asked for its header alone, and only open routes without a key.
func TestHead(t *testing.T) {
	s := routes.New(routes.Config{Auth: stages.Auth("k"), Log: slog.New(slog.DiscardHandler)})
	s.Handle(face(ops.Deps{Ready: ready, Metrics: metrics.New()})...)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	defer func() {
		http.DefaultClient.CloseIdleConnections()
		if err := errors.Join(s.Shutdown(0), <-done); err != nil {
			t.Error(err)
		}
	}()
	ask := func(method, path, key string) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+ln.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(b)
	}
	for path, open := range map[string]bool{"/health": true, "/openapi.json": true, "/metrics": false, "/v1/models": false, "/v1/skills": false, "/v1/modes": false} {
		get, body := ask("GET", path, "k")
		head, empty := ask("HEAD", path, "k")
		if get.StatusCode != 200 || head.StatusCode != 200 || body == "" || empty != "" || head.Header.Get("Content-Type") != get.Header.Get("Content-Type") ||
			path != "/metrics" && head.ContentLength != int64(len(body)) {
			t.Errorf("%s: GET %d with %d bytes, HEAD %d with %d and length %d", path, get.StatusCode, len(body), head.StatusCode, len(empty), head.ContentLength)
		}
		if resp, _ := ask("HEAD", path, "bad"); (resp.StatusCode == 200) != open {
			t.Errorf("%s without the key: %d", path, resp.StatusCode)
		}
	}
}
