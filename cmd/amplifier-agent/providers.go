package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/config"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/anthropic"
	"amplifier-agent/upstream/chatcompletions"
	"amplifier-agent/upstream/commandcode"
	"amplifier-agent/upstream/recording"
	"amplifier-agent/upstream/replay"
	"amplifier-agent/upstream/simulator"
)

// demoPace is the pause between two deltas of the simulator's answers: that of a quick model.
const demoPace = 15 * time.Millisecond

// errNoProvider tells what to do when there is nobody to ask.
var errNoProvider = errors.New("no provider has credentials: export COMMANDCODE_API_KEY, or the key of another provider (amplifier-agent auth list names them), " +
	"store one (amplifier-agent auth set), name providers in a host config (--config), or try the server without one: --demo")

// errNotBuilt is the error of a module that a host config may name and this build does not have.
var errNotBuilt = errors.New("it is not built yet")

// sources is what providers are made from.
type sources struct {
	host *config.Host
	demo bool
	env  func(string) string
	home string // where credentials may be stored
	own  string // key of this server's clients, which is no provider's
	log  *slog.Logger
	mask *secret.Mask // learns each credential

	records *recording.Folder // takes down exchanges; nil takes down none

	warned map[string]bool // what was said of credentials
}

// upstreams are the providers of a process and the models that they serve.
type upstreams struct {
	models *upstream.Registry
	closer []func() // called in reverse
}

func (u *upstreams) close() {
	for _, f := range slices.Backward(u.closer) {
		f()
	}
}

// summary counts the models of each provider.
func (u *upstreams) summary() map[string]int {
	n := map[string]int{}
	for _, m := range u.models.All() {
		n[m.Provider.Name()]++
	}
	return n
}

// module makes a provider of one kind from its entry in the host config, whose config may be empty.
type module func(s *sources, u *upstreams, id string, cfg []byte) (pipeline.Provider, error)

// modules are the kinds of providers that this build has. Adding a provider is a line here, or a preset of chatcompletions.
var modules = func() map[string]module {
	m := map[string]module{
		commandcode.Name: openCommandCode,
		anthropic.Name:   openAnthropic,
		replay.Name:      openReplay,
	}
	for name := range chatcompletions.Presets {
		m[name] = openPreset(name)
	}
	return m
}()

// openUpstreams makes the providers and asks them for their models (http-face.md, "Startup behavior"). Those that the host config
// names are the ones; if it names none, they are those that have credentials. One that cannot be made fails like one that cannot
// list its models: it is logged and skipped.
func openUpstreams(ctx context.Context, s sources) (u *upstreams, err error) {
	u = new(upstreams)
	defer func() {
		if err != nil {
			u.close()
		}
	}()
	uses := s.uses()
	if len(uses) == 0 {
		return u, errNoProvider
	}
	if u.models, err = upstream.Enumerate(ctx, s.log, s.open(u, uses)...); errors.Is(err, upstream.ErrNoModels) {
		err = fmt.Errorf("%w: check the addresses and keys above, or try the server without any: --demo", err)
	}
	return u, err
}

// use is a provider that a server has.
type use struct {
	id, module string
	cfg        []byte // its own config
}

// uses are the providers of a server, in the order in which they serve.
func (s *sources) uses() (list []use) {
	switch {
	case s.demo:
		list = append(list, use{id: commandcode.Name, module: commandcode.Name})
	case len(s.host.Providers) > 0:
		for _, p := range s.host.Providers {
			list = append(list, use{p.ID, p.Module, p.Config})
		}
	default:
		for _, name := range s.resolvable() {
			list = append(list, use{id: name, module: name})
		}
	}
	return list
}

// open makes providers, which u closes. In the place of one that cannot be made is one that says why, whatever it is asked.
func (s *sources) open(u *upstreams, uses []use) []pipeline.Provider {
	list := make([]pipeline.Provider, len(uses))
	for i, e := range uses {
		p, err := construct(s, u, e.id, e.module, e.cfg)
		if err != nil {
			p = broken{e.id, err}
		}
		list[i] = p
	}
	return list
}

// resolvable are the modules that have credentials without being told any. A variable that holds the key of this server's own
// clients, as OPENAI_API_KEY may in a shell that is one, is none.
func (s *sources) resolvable() (names []string) {
	all := config.ResolveAll(s.env, s.home, userHome(), nil)
	s.warn(all.Warnings)
	for _, c := range all.List {
		if c.Resolved && !s.ownKey(c.Key) {
			names = append(names, c.Module)
		}
	}
	if m := s.host.Provider.Module; m != "" && !slices.Contains(names, m) && brings(s.host.Provider.Config) {
		names = append(names, m) // the host config's block is its credential
	}
	return names
}

// ownKey reports whether a key is that of this server's clients, and so nothing for an upstream.
func (s *sources) ownKey(key string) bool { return key != "" && key == s.own }

// brings reports whether a provider's config says what the provider is reached with.
func brings(cfg []byte) bool {
	var c struct {
		BaseURL string `json:"base_url"`
		APIKey  string `json:"api_key"`
	}
	return len(cfg) > 0 && codec.Unmarshal(cfg, &c) == nil && (c.APIKey != "" || c.BaseURL != "")
}

// sole reports whether there is one provider only, so that a block for no module in particular is for that one.
func (s *sources) sole() bool {
	if n := len(s.host.Providers); n > 0 || s.demo {
		return n == 1
	}
	return len(s.resolvable()) == 1
}

// warn says each warning once, however many providers it concerns.
func (s *sources) warn(warnings []string) {
	if s.warned == nil {
		s.warned = map[string]bool{}
	}
	for _, w := range warnings {
		if !s.warned[w] {
			s.warned[w] = true
			s.log.Warn(w)
		}
	}
}

// credential is what a provider is reached with. Its own config has the last word.
func (s *sources) credential(id, module string, cfg []byte) (config.Credential, error) {
	c, err := config.Resolve(config.Provider{ID: id, Module: module, Config: cfg}, s.env, s.home, userHome())
	s.warn(c.Warnings)
	if c.Shared {
		s.warn([]string{fmt.Sprintf("the %s key of the environment or of the credentials file goes to the base_url of the host config, %s: give the provider an api_key of its own if that is not meant",
			module, shownURL(c.Endpoint))})
	}
	return c, err
}

func construct(s *sources, u *upstreams, id, name string, cfg []byte) (pipeline.Provider, error) {
	f, ok := modules[name]
	if !ok {
		return nil, fmt.Errorf("module %s: %w: use one of %s", name, errNotBuilt, strings.Join(slices.Sorted(maps.Keys(modules)), ", "))
	}
	cfg, err := overlay(s, name, cfg)
	if err != nil {
		return nil, err
	}
	return f(s, u, id, cfg)
}

// overlay puts the members of the host config's single provider block over those of a provider's own config, unless the block is
// for another module. One that names no module is for the only provider there is: among several, a key or an address in it would
// go to, or draw keys from, all of them.
func overlay(s *sources, name string, cfg []byte) ([]byte, error) {
	p := s.host.Provider
	if !p.Set || p.Module != "" && p.Module != name || len(p.Config) == 0 {
		return cfg, nil
	}
	if p.Module == "" && !s.sole() {
		s.warn([]string{"the host config's block provider names no module, and there are several providers: it is ignored, say which module it is for"})
		return cfg, nil
	}
	members := map[string]codec.RawMessage{}
	for _, data := range [][]byte{cfg, p.Config} {
		if len(data) == 0 {
			continue
		}
		if err := codec.Unmarshal(data, &members); err != nil {
			return nil, err
		}
	}
	return codec.Marshal(members)
}

// settings decodes a provider's config into v, and warns of members that it does not know.
func settings(s *sources, id string, cfg []byte, v any, known ...string) error {
	if len(cfg) == 0 {
		return nil
	}
	members := map[string]codec.RawMessage{}
	if err := codec.Unmarshal(cfg, &members); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	for name := range members {
		if !slices.Contains(known, name) {
			s.log.Warn("the provider's config has a member that is not known: it is ignored", "provider", id, "member", name, "known", known)
		}
	}
	if err := codec.Unmarshal(cfg, v); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return nil
}

func openCommandCode(s *sources, u *upstreams, id string, cfg []byte) (pipeline.Provider, error) {
	cc, err := commandCode(s, u, id, cfg)
	if err != nil {
		return nil, err
	}
	cc.Recorder = s.recorder(id, commandcode.Name, cmp.Or(cc.Surface, commandcode.SurfaceGenerate))
	p, err := commandcode.New(cc)
	if err != nil {
		return nil, err
	}
	u.closer = append(u.closer, p.Close)
	return p, nil
}

// commandCode is what the gateway, for its models as for the account, is asked with. In a demo it starts the simulator.
func commandCode(s *sources, u *upstreams, id string, cfg []byte) (cc commandcode.Config, err error) {
	var c struct {
		BaseURL   string `json:"base_url"`
		APIKey    string `json:"api_key"` // config.Resolve reads it: this is for its type
		Surface   string `json:"surface"`
		Version   string `json:"version"`
		ZDR       bool   `json:"zdr"`
		MaxTokens int    `json:"max_tokens"`
		Effort    string `json:"reasoning_effort"`
		ThreadID  bool   `json:"thread_id"`
		CAFile    string `json:"ca_file"`
	}
	err = settings(s, id, cfg, &c, "base_url", "api_key", "surface", "version", "zdr", "max_tokens", "reasoning_effort", "thread_id", "ca_file", "default_model")
	if err != nil {
		return cc, err
	}
	zdr, err := switched(s.env, "CMD_ZDR")
	if err != nil {
		return cc, err
	}
	var cred config.Credential
	if !s.demo {
		if cred, err = s.credential(id, commandcode.Name, cfg); err != nil {
			return cc, err
		}
	}
	cc = commandcode.Config{
		ID:        id,
		BaseURL:   cmp.Or(c.BaseURL, s.env("COMMANDCODE_BASE_URL")),
		Key:       cred.Key,
		CAFile:    s.file(c.CAFile),
		Surface:   cmp.Or(c.Surface, s.env("COMMANDCODE_SURFACE")),
		Version:   cmp.Or(c.Version, s.env("COMMANDCODE_VERSION")),
		ZDR:       c.ZDR || zdr,
		MaxTokens: c.MaxTokens,
		Effort:    c.Effort,
		ThreadID:  c.ThreadID,
		UserAgent: userAgent(),
		Idle:      idle(s.host.Limits.Idle),
		Tries:     s.host.Limits.Tries,
		MaxLine:   s.host.Limits.LineBytes,
		Log:       s.log,
		Mask:      s.mask,
	}
	if s.demo {
		sim, err := simulator.Start(simulator.Options{Pace: demoPace})
		if err != nil {
			return cc, fmt.Errorf("start the simulator: %w", err)
		}
		u.closer = append(u.closer, func() { _ = sim.Close() })
		cc.BaseURL, cc.Key, cc.Surface = sim.URL(), "key-of-the-demo", commandcode.SurfaceGenerate
	}
	return cc, nil
}

// recorder records a provider's exchanges, if any are.
func (s *sources) recorder(id, module, surface string) upstream.Recorder {
	if s.records == nil {
		return nil
	}
	return s.records.Recorder(recording.Source{Provider: id, Module: module, Surface: surface})
}

// file is a path of the host config, which is relative to that; "" stays "".
func (s *sources) file(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(s.host.Path), path)
}

func openAnthropic(s *sources, u *upstreams, id string, cfg []byte) (pipeline.Provider, error) {
	var c struct {
		BaseURL   string `json:"base_url"`
		APIKey    string `json:"api_key"` // config.Resolve reads it: this is for its type
		Version   string `json:"version"`
		MaxTokens int    `json:"max_tokens"`
		CAFile    string `json:"ca_file"`
	}
	if err := settings(s, id, cfg, &c, "base_url", "api_key", "version", "max_tokens", "ca_file", "default_model"); err != nil {
		return nil, err
	}
	cred, err := s.credential(id, anthropic.Name, cfg)
	if err != nil {
		return nil, err
	}
	p, err := anthropic.New(anthropic.Config{
		ID: id, BaseURL: cmp.Or(c.BaseURL, s.env("ANTHROPIC_BASE_URL")), Key: cred.Key, Version: c.Version, MaxTokens: c.MaxTokens, CAFile: s.file(c.CAFile), Recorder: s.recorder(id, anthropic.Name, ""),
		UserAgent: userAgent(), Idle: idle(s.host.Limits.Idle), Tries: s.host.Limits.Tries, MaxLine: s.host.Limits.LineBytes, Log: s.log, Mask: s.mask,
	})
	if err != nil {
		return nil, err
	}
	u.closer = append(u.closer, p.Close)
	return p, nil
}

// openPreset makes providers of a preset of chat-completions. The base URL of the preset openai comes from the host config only:
// OPENAI_BASE_URL is the variable by which clients find this server.
func openPreset(name string) module {
	return func(s *sources, u *upstreams, id string, cfg []byte) (pipeline.Provider, error) {
		var c struct {
			BaseURL   string            `json:"base_url"`
			APIKey    string            `json:"api_key"` // config.Resolve reads it: this is for its type
			Headers   map[string]string `json:"headers"`
			MaxTokens int               `json:"max_tokens"`
			Effort    string            `json:"reasoning_effort"`
			Models    []string          `json:"models"`
			Reasoning string            `json:"reasoning"`
			CAFile    string            `json:"ca_file"`
		}
		if err := settings(s, id, cfg, &c, "base_url", "api_key", "headers", "max_tokens", "reasoning_effort", "models", "reasoning", "ca_file", "default_model"); err != nil {
			return nil, err
		}
		cred, err := s.credential(id, name, cfg)
		if err != nil {
			return nil, err
		}
		var header [][2]string
		for _, field := range slices.Sorted(maps.Keys(c.Headers)) {
			header = append(header, [2]string{field, c.Headers[field]})
		}
		p, err := chatcompletions.New(chatcompletions.Config{
			ID: id, Preset: name, BaseURL: cred.Endpoint, Key: cred.Key, Header: header, MaxTokens: c.MaxTokens, Effort: c.Effort, Models: c.Models, Reasoning: c.Reasoning,
			CAFile: s.file(c.CAFile), Recorder: s.recorder(id, name, ""), UserAgent: userAgent(), Idle: idle(s.host.Limits.Idle), Tries: s.host.Limits.Tries, MaxLine: s.host.Limits.LineBytes, Log: s.log, Mask: s.mask,
		})
		if err != nil {
			return nil, err
		}
		u.closer = append(u.closer, p.Close)
		return p, nil
	}
}

// userAgent is how this program names itself to upstreams.
func userAgent() string { return "amplifier-agent/" + version() }

// switched reads a variable that is on or off. What is neither is an error: somebody meant something by it.
func switched(env func(string) string, name string) (bool, error) {
	switch v := strings.ToLower(strings.TrimSpace(env(name))); v {
	case "1", "true", "yes", "on":
		return true, nil
	case "", "0", "false", "no", "off":
		return false, nil
	default:
		return false, fmt.Errorf("%s=%q: use 1 or 0", name, v)
	}
}

// idle is the longest silence of an upstream in the terms of the providers, to whom 0 is their default and less than that no limit.
func idle(limit time.Duration) time.Duration {
	if limit == 0 {
		return -1
	}
	return limit
}

func openReplay(s *sources, _ *upstreams, id string, cfg []byte) (pipeline.Provider, error) {
	var c struct {
		Dir string `json:"dir"`
	}
	if err := settings(s, id, cfg, &c, "dir"); err != nil {
		return nil, err
	}
	if c.Dir == "" {
		return nil, errors.New(`say where the recordings are: "config": {"dir": "…"}`)
	}
	c.Dir = s.file(c.Dir)
	if _, err := os.ReadDir(c.Dir); err != nil {
		return nil, fmt.Errorf("recordings: %w", err)
	}
	return replay.New(replay.Config{ID: id, Files: os.DirFS(c.Dir), MaxLine: s.host.Limits.LineBytes, Log: s.log}), nil
}

// broken is a provider that could not be made.
type broken struct {
	id  string
	err error
}

func (b broken) Name() string                                            { return b.id }
func (b broken) Models(context.Context) ([]pipeline.Model, error)        { return nil, b.err }
func (b broken) Stream(context.Context, *pipeline.Round) pipeline.Stream { return pipeline.Fail(b.err) }
