package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/catalog"
	"amplifier-agent/pipeline/config"
	"amplifier-agent/pipeline/engine"
	"amplifier-agent/pipeline/fetch"
	"amplifier-agent/pipeline/ledger"
	"amplifier-agent/pipeline/metrics"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/pipeline/transcript"
	"amplifier-agent/routes"
	"amplifier-agent/routes/chat"
	"amplifier-agent/routes/lists"
	"amplifier-agent/routes/ops"
	"amplifier-agent/stages"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/recording"
)

// parts is what a server is made of.
type parts struct {
	o      serveOptions
	host   *config.Host
	mask   *secret.Mask
	log    *slog.Logger
	up     *upstreams
	modes  *catalog.Modes
	skills *catalog.Skills
	ledger *ledger.Ledger // nil keeps none
}

func (p *parts) close() {
	if p.ledger != nil {
		if err := p.ledger.Close(); err != nil {
			p.log.Error("close the ledger", "error", err)
		}
	}
	p.up.close()
}

// assemble does everything of a startup that takes time or can fail, in the order of rulings 5: the host config, the providers and
// their models, skills and modes.
func assemble(ctx context.Context, o serveOptions, log *slog.Logger, mask *secret.Mask) (*parts, error) {
	host, err := config.Load(o.config)
	if err != nil {
		return nil, err
	}
	if err := ignored(host, log); err != nil {
		return nil, err
	}
	var records *recording.Folder
	if o.record != "" {
		if records, err = recording.NewFolder(o.record, mask, log); err != nil {
			return nil, err
		}
	}
	up, err := openUpstreams(ctx, sources{host: host, demo: o.demo, env: getenv, home: o.home, own: o.key, records: records, log: log, mask: mask})
	if err != nil {
		return nil, err
	}
	p := &parts{o: o, host: host, mask: mask, log: log, up: up}
	p.modes, p.skills = discover(o.cwd, host, getenv, log)
	if host.Store.Ledger && !o.demo { // what the simulator charges is no money
		path := filepath.Join(o.home, "state", "workspaces", o.workspace, "ledger.jsonl")
		if p.ledger, err = ledger.Open(path, log); err != nil {
			p.close()
			return nil, fmt.Errorf("%w (the host config's store.ledger: false does without)", err)
		}
	}
	return p, nil
}

// ignored says which settings of the host config do nothing here, where somebody might rely on them.
func ignored(host *config.Host, log *slog.Logger) error {
	if len(host.Tools) > 0 {
		return errors.New("config: tools: this build has no server-side tools: leave the list empty")
	}
	if host.Approval.Mode != "" || len(host.Approval.Patterns) > 0 {
		log.Warn("the host config's approval block has no effect on this face: every tool call is auto-approved")
	}
	return nil
}

// discover looks for modes and skills, each by itself: one that fails leaves the other alone.
func discover(cwd string, host *config.Host, env func(string) string, log *slog.Logger) (*catalog.Modes, *catalog.Skills) {
	home, err := os.UserHomeDir()
	if err != nil {
		log.Warn("no home directory: its modes and skills are not looked for", "error", err)
	}
	modes := catalog.DiscoverModes(catalog.ModeOptions{Cwd: cwd, Home: home, Log: log})
	if err := modes.Err(); err != nil {
		log.Error("modes could not be discovered: none is served", "error", err)
	}
	base := cwd
	if host.Path != "" {
		base = filepath.Dir(host.Path)
	}
	skills := catalog.DiscoverSkills(catalog.SkillOptions{Dirs: host.Skills.Dirs, Base: base, EnvDir: env("AMPLIFIER_SKILLS_DIR"), Cwd: cwd, Home: home, Log: log})
	if err := skills.Err(); err != nil {
		log.Error("skills could not be discovered: none is served", "error", err)
	}
	return modes, skills
}

// newServer puts the faces, the stages and the upstreams together. Adding a face or a stage is a line here.
func newServer(p *parts) *routes.Server {
	o, host, log := p.o, p.host, p.log
	auth := stages.Auth(o.key)
	if o.noAuth {
		auth = pipeline.Stage{}
	}
	rc := routes.Config{
		Auth:     auth,
		Guard:    routes.Guard{Bind: o.bind, Hosts: o.hosts, Origins: o.origins},
		MaxBody:  host.Limits.BodyBytes,
		MaxConns: host.Limits.Connections,
		Log:      log,
	}
	books := []stages.Accounts{turnLog{log}}
	if p.ledger != nil {
		books = append(books, p.ledger)
	}
	var outer []pipeline.Stage
	var counts *metrics.Metrics
	if host.Telemetry.Metrics {
		counts = metrics.New()
		rc.Rejected = counts.Rejected
		books = append(books, counts)
		outer = append(outer, counts.Running())
	}
	s := routes.New(rc)
	face := &chat.Handler{
		Stages:      append(outer, p.turn(s.Ready, books)...),
		Runner:      &engine.Runner{Round: p.round(), ForwardSampling: host.Sampling == config.SamplingForward, Failover: &engine.Failover{Log: log}},
		Label:       o.modelID,
		System:      host.System.Prompt,
		MaxBody:     host.Limits.BodyBytes,
		Preflight:   max(host.Preflight, time.Millisecond), // none at all would mean the provider's own
		Default:     o.stream,
		ErrorEvents: host.StreamErrors == config.StreamErrorsEvent,
		Mask:        p.mask.String,
		Waits:       host.Limits.FetchImages,
		Rejected:    rc.Rejected,
		Log:         log,
		Base:        s.Base(),
	}
	s.Handle(routes.Route{Method: fasthttp.MethodPost, Path: "/v1/chat/completions", Handle: face.Serve})
	s.Handle(lists.Routes(lists.Deps{Models: p.up.models, Skills: p.skills, Modes: p.modes, Started: time.Now()})...)
	s.Handle(ops.Routes(ops.Deps{Ready: s.Ready, Metrics: counts, OpenMetrics: routes.Loopback(o.bind), Version: version()})...)
	return s
}

// turn are the stages of a turn, outermost first.
func (p *parts) turn(ready func() error, books []stages.Accounts) []pipeline.Stage {
	var served []string
	for _, m := range p.up.models.All() {
		served = append(served, m.ID)
	}
	reconciling := stages.Reconciling{Workspace: p.o.workspace, SessionID: transcript.SessionID, Repair: transcript.Repair, Log: p.log}
	if p.host.Store.Transcripts {
		disk := transcript.NewDisk(p.o.home, p.log)
		reconciling.Conversations = transcript.NewSessions(disk, disk.Exists, p.log)
	}
	list := []pipeline.Stage{
		stages.Account(books...),
		stages.Ready(ready),
		stages.Decode(stages.DecodeOptions{RemoteImages: p.host.Limits.FetchImages}),
		stages.Model(p.up.models, stages.ModeAliases(p.modes.Names(), served, p.log)),
		stages.Fallbacks(fallbacks(p.host.Fallbacks, p.up.models, p.log)),
		stages.Mode(p.modes),
	}
	if p.host.Limits.FetchImages {
		list = append(list, stages.Images(images{fetch.New(fetch.Options{MaxBytes: int64(p.host.Limits.ImageBytes), UserAgent: "amplifier-agent/" + version()})}, int64(p.host.Limits.BodyBytes)))
	}
	return append(list,
		stages.Reconcile(reconciling),
		stages.History(),
		stages.Containment(p.host.System.Client == config.ClientForward),
		stages.Skill(p.skills, p.log),
		stages.ToolMount(),
	)
}

// round are the stages of each answer of a model.
func (p *parts) round() []pipeline.Stage {
	return []pipeline.Stage{stages.EventMap(p.log), stages.UsageFold(p.log)}
}

// fallbacks finds the models that the host config names. One that is not served is passed over: its provider may be down.
func fallbacks(list []config.Fallback, models *upstream.Registry, log *slog.Logger) map[pipeline.Target][]pipeline.Target {
	of := map[pipeline.Target][]pipeline.Target{}
	find := func(id string) (pipeline.Target, bool) {
		provider, model, err := models.Lookup(id)
		if err != nil {
			log.Warn("the host config's fallbacks name a model that is not served: it is passed over", "model", id, "error", err)
		}
		return pipeline.Target{Provider: provider, Model: model}, err == nil
	}
	put := func(first pipeline.Target, others []pipeline.Target) {
		others = slices.DeleteFunc(slices.Clone(others), func(t pipeline.Target) bool { return t == first })
		of[first] = others
	}
	var rest []pipeline.Target
	for _, f := range list {
		var others []pipeline.Target
		for _, id := range f.Others {
			if t, ok := find(id); ok {
				others = append(others, t)
			}
		}
		if f.Model == config.AnyModel {
			rest = others
		} else if first, ok := find(f.Model); ok {
			put(first, others)
		}
	}
	for _, m := range models.All() {
		first := pipeline.Target{Provider: m.Provider, Model: m.Model.ID}
		if _, ok := of[first]; !ok && len(rest) > 0 {
			put(first, rest)
		}
	}
	return of
}

// images fetches images for stages.Images.
type images struct{ client *fetch.Client }

// FetchImage implements stages.ImageFetcher.
func (i images) FetchImage(ctx context.Context, url string) (string, []byte, error) {
	page, err := i.client.Get(ctx, url)
	if err != nil {
		return "", nil, err
	}
	return page.MediaType, page.Body, nil
}

// turnLog writes a line for each turn.
type turnLog struct{ log *slog.Logger }

// Record implements stages.Accounts.
func (l turnLog) Record(t *pipeline.Turn, o pipeline.Outcome) {
	if o.Status == pipeline.StatusRejected || !l.log.Enabled(context.Background(), slog.LevelInfo) {
		return // the face has said so, with its reason; or nobody wants to know
	}
	attrs := []any{"turn", t.ID, "status", o.Status, "upstream", t.Upstream(), "took", o.Took.Round(time.Millisecond)}
	if o.First > 0 {
		attrs = append(attrs, "first", o.First.Round(time.Millisecond))
	}
	if t.Usage.Has != 0 {
		attrs = append(attrs, "prompt_tokens", t.Usage.Prompt(), "completion_tokens", t.Usage.Output)
	}
	if t.Cost.Known() {
		attrs = append(attrs, "cost_usd", t.Cost.String())
	}
	if t.Mode != "" {
		attrs = append(attrs, "mode", t.Mode)
	}
	if o.Code != "" {
		attrs = append(attrs, "code", o.Code)
	}
	l.log.Info("turn", attrs...)
}

func getenv(name string) string { return os.Getenv(name) }
