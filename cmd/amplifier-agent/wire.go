package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/valyala/fasthttp"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/engine"
	"amplifier-agent/routes"
	"amplifier-agent/routes/chat"
	"amplifier-agent/routes/lists"
	"amplifier-agent/routes/ops"
	"amplifier-agent/stages"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/commandcode"
	"amplifier-agent/upstream/simulator"
)

// demoPace is the pause between two deltas of the simulator's answers: that of a quick model.
const demoPace = 15 * time.Millisecond

// systemPrompt is what a model is told before anything else.
const systemPrompt = "You are Amplifier, a careful software assistant. You answer precisely and briefly, use the tools you are offered " +
	"when they help, and say so when you do not know."

// errNoProvider tells what to do when there is nobody to ask.
var errNoProvider = errors.New("no provider has credentials: export COMMANDCODE_API_KEY, or try the server without one: --demo")

// upstreams are the providers of a process and the models that they serve.
type upstreams struct {
	models *upstream.Registry
	closer []func()
}

func (u *upstreams) close() {
	for _, f := range u.closer {
		f()
	}
}

// openUpstreams configures the providers and asks them for their models. Adding a provider is a line here.
func openUpstreams(ctx context.Context, demo bool, env func(string) string, log *slog.Logger) (*upstreams, error) {
	u := new(upstreams)
	c := commandcode.Config{
		BaseURL:   env("COMMANDCODE_BASE_URL"),
		Key:       env("COMMANDCODE_API_KEY"),
		Surface:   env("COMMANDCODE_SURFACE"),
		Version:   env("COMMANDCODE_VERSION"),
		ZDR:       env("CMD_ZDR") == "1",
		UserAgent: "amplifier-agent/" + version(),
	}
	if c.Key == "" {
		c.Key = env("COMMAND_CODE_API_KEY")
	}
	if demo {
		sim, err := simulator.Start(simulator.Options{Pace: demoPace})
		if err != nil {
			return nil, fmt.Errorf("start the simulator: %w", err)
		}
		u.closer = append(u.closer, func() { _ = sim.Close() })
		c.BaseURL, c.Key, c.Surface = sim.URL(), "demo", commandcode.SurfaceGenerate
	}
	if c.Key == "" {
		return nil, errNoProvider
	}
	p, err := commandcode.New(c)
	if err != nil {
		u.close()
		return nil, err
	}
	u.closer = append([]func(){p.Close}, u.closer...)
	if u.models, err = upstream.Enumerate(ctx, log, p); err != nil {
		u.close()
		return nil, err
	}
	return u, nil
}

// newServer puts the faces, the stages and the upstreams together. Adding a face or a stage is a line here.
func newServer(o serveOptions, u *upstreams, log *slog.Logger) *routes.Server {
	s := routes.New(routes.Config{Auth: stages.Auth(o.key), Log: log})
	face := &chat.Handler{
		Stages: []pipeline.Stage{
			stages.Ready(s.Ready),
			stages.Decode(),
			stages.Model(u.models),
			stages.Mode(stages.NoModes{}),
			stages.History(),
			stages.Containment(),
			stages.ToolMount(),
		},
		Runner:    &engine.Runner{Round: []pipeline.Stage{stages.EventMap(log), stages.UsageFold(log)}},
		Label:     o.modelID,
		System:    systemPrompt,
		MaxBody:   routes.DefaultMaxBody,
		Preflight: chat.DefaultPreflight,
		Default:   o.stream,
		Log:       log,
		Base:      s.Base(),
	}
	s.Handle(routes.Route{Method: fasthttp.MethodPost, Path: "/v1/chat/completions", Handle: face.Serve})
	s.Handle(lists.Routes(lists.Deps{Models: u.models, Started: time.Now()})...)
	s.Handle(ops.Routes(s.Ready)...)
	return s
}

func getenv(name string) string { return os.Getenv(name) }
