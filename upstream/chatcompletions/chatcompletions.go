package chatcompletions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
)

// Name is the name of the module, and of the preset of which nothing is known.
const Name = "chat-completions"

// ReasoningNever as Config.Reasoning keeps the client's reasoning from the upstream.
const ReasoningNever = "never"

// Config configures a Provider. What is required depends on the preset.
type Config struct {
	ID     string // what the provider is called; "" means the preset's name
	Preset string // one of Presets; "" means PresetPlain
	// Own is a preset of the caller's, in place of one of Presets; nil for none. It is read only.
	Own *Preset
	// BaseURL is what /chat/completions is put behind; "" means the preset's. Its query goes with every request.
	BaseURL   string
	Key       string
	Header    [][2]string // sent with every request, over what is sent otherwise
	UserAgent string
	MaxTokens int    // of an answer, where the client has no wish; 0 leaves it to the upstream
	Effort    string // reasoning_effort, where the client has no wish; "" leaves it to the upstream
	// Reasoning is the name of the member in which an assistant message replays reasoning; "" means the preset's.
	Reasoning string
	Idle      time.Duration     // longest silence, see upstream.TransportConfig
	Tries     int               // of a turn, see upstream.TransportConfig
	CAFile    string            // see upstream.TransportConfig
	Dial      upstream.Dialer   // see upstream.TransportConfig
	Recorder  upstream.Recorder // see upstream.TransportConfig
	MaxLine   int               // bytes; 0 means upstream.DefaultMaxLine
	Log       *slog.Logger      // nil logs nothing
	Mask      *secret.Mask      // learns the key, and takes what it knows out of errors; nil means one of its own
	// Models are what is served if the upstream does not list it; it is not asked then.
	Models []string
	// Judge sees each error that the upstream reports before it is handed over, and may change it; f is what it was made of. It may
	// be called concurrently. Nil for nobody.
	Judge func(e *pipeline.Error, f *upstream.Fault)
}

// Provider implements pipeline.Provider. Close it to give up its idle connections.
type Provider struct {
	cfg    Config
	preset Preset
	query  string // of every request, with its question mark
	t      *upstream.Transport
	header [][2]string
	mask   *secret.Mask
}

var _ pipeline.Provider = (*Provider)(nil)

// New returns the provider. Its errors are for the user who configured it; the caller says which provider it is.
func New(c Config) (*Provider, error) {
	c.Preset = cmp.Or(c.Preset, PresetPlain)
	preset, ok := Presets[c.Preset]
	if c.Own != nil {
		preset = *c.Own
	} else if !ok {
		return nil, fmt.Errorf("unknown preset %q: use one of %s", c.Preset, strings.Join(slices.Sorted(maps.Keys(Presets)), ", "))
	}
	c.ID = cmp.Or(c.ID, c.Preset)
	base, err := baseURL(c.BaseURL, &preset)
	if err != nil {
		return nil, err
	}
	if preset.Deployments && len(c.Models) == 0 {
		return nil, errors.New("no models: name the deployments, as they cannot be listed")
	}
	if base.User != nil { // the transport sends it
		if c.Key == preset.Placeholder {
			c.Key = ""
		}
		preset.Placeholder = ""
	}
	query := base.RawQuery
	base.RawQuery, base.Fragment = "", ""
	if c.Mask == nil {
		c.Mask = new(secret.Mask)
	}
	t, err := upstream.NewTransport(upstream.TransportConfig{BaseURL: base.String(), Idle: c.Idle, Tries: c.Tries, CAFile: c.CAFile, Dial: c.Dial, Recorder: c.Recorder, Mask: c.Mask})
	if err != nil {
		return nil, err
	}
	if preset.Deployments = preset.Deployments && !strings.HasSuffix(base.Path, "/v1"); preset.Deployments {
		query = cmp.Or(query, preset.Query)
	}
	if query != "" {
		query = "?" + query
	}
	if c.Key = secret.CleanKey(c.Key); c.Key == "" && !preset.KeyOptional {
		return nil, fmt.Errorf("no key: export %s", preset.KeyVariables[0])
	}
	if c.MaxTokens < 0 {
		return nil, fmt.Errorf("max_tokens %d: use 1 or more", c.MaxTokens)
	}
	if c.Reasoning = cmp.Or(c.Reasoning, preset.Reasoning); c.Reasoning == ReasoningNever {
		c.Reasoning = ""
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.MaxLine = cmp.Or(c.MaxLine, upstream.DefaultMaxLine)
	p := &Provider{cfg: c, preset: preset, query: query, t: t, mask: c.Mask}
	p.learn()
	p.header = header(&c, &preset)
	return p, nil
}

// baseURL is the configured base URL, or the preset's, with what users leave out of it.
func baseURL(configured string, preset *Preset) (*url.URL, error) {
	base := cmp.Or(strings.TrimSpace(configured), preset.BaseURL)
	if base == "" {
		return nil, fmt.Errorf("no base URL: export %s", preset.BaseVariables[0])
	}
	if !strings.Contains(base, "://") {
		if preset.Scheme == "" {
			shown, _, _ := strings.Cut(base, "?") // the query may hold a key
			return nil, fmt.Errorf("base URL %q: an http:// or https:// URL is needed", shown)
		}
		base = preset.Scheme + "://" + base
		if u, err := url.Parse(base); err == nil && u.Port() == "" && preset.Port != "" {
			u.Host = net.JoinHostPort(u.Hostname(), preset.Port)
			base = u.String()
		}
	}
	u, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("base URL: %w", errors.Unwrap(err)) // url.Error would show what may hold a key
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/chat/completions")
	u.RawPath = ""
	u.Path = cmp.Or(u.Path, preset.Path)
	return u, nil
}

// Reseller implements upstream.Reseller.
func (p *Provider) Reseller() string { return p.preset.Reseller }

// learn has the mask know every credential that is sent.
func (p *Provider) learn() {
	if p.cfg.Key != p.preset.Placeholder {
		p.mask.Add(p.cfg.Key)
	}
	for _, h := range p.cfg.Header {
		if secretive(h[0]) {
			p.mask.Add(h[1], strings.TrimPrefix(h[1], "Bearer "))
		}
	}
	values, _ := url.ParseQuery(strings.TrimPrefix(p.query, "?"))
	for name, v := range values {
		if secretive(name) {
			p.mask.Add(v...)
		}
	}
}

// secretive reports whether a field or parameter of this name holds a credential.
func secretive(name string) bool {
	if secret.Parameter(name) {
		return true
	}
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"auth", "key", "token", "secret", "cookie", "sig"}, func(w string) bool { return strings.Contains(name, w) })
}

// header is what every request brings. The user's own fields come last, so that they win.
func header(c *Config, preset *Preset) [][2]string {
	h := [][2]string{
		{"Content-Type", "application/json"},
		{"Accept-Encoding", "identity"},
		{"User-Agent", cmp.Or(c.UserAgent, "amplifier-agent")},
	}
	if key := cmp.Or(c.Key, preset.Placeholder); key != "" && preset.KeyHeader != "" {
		h = append(h, [2]string{preset.KeyHeader, key})
	} else if key != "" {
		h = append(h, [2]string{"Authorization", "Bearer " + key})
	}
	return append(append(h, preset.Header...), c.Header...)
}

// Name implements pipeline.Provider.
func (p *Provider) Name() string { return p.cfg.ID }

// Close closes the idle connections.
func (p *Provider) Close() { p.t.Close() }

// Stream implements pipeline.Provider.
func (p *Provider) Stream(ctx context.Context, r *pipeline.Round) pipeline.Stream {
	return func(yield func(*pipeline.Event, error) bool) {
		call := &upstream.Call{
			Method:  "POST",
			Path:    p.path(r.Model),
			Header:  p.roundHeader(r),
			Body:    p.appendRequest(nil, r),
			Silence: r.Silence,
			Tries:   r.Tries,
			Model:   r.Model,
		}
		begin := func() upstream.Decoder { return &Decoder{mask: p.mask, judge: p.cfg.Judge} }
		p.t.Stream(ctx, call, codec.LineOptions{MaxBytes: p.cfg.MaxLine}, begin, upstream.NewEmitter(yield), p.refusal)
	}
}

func (p *Provider) path(model string) string {
	if p.preset.Deployments {
		return "/deployments/" + url.PathEscape(model) + "/chat/completions" + p.query
	}
	return "/chat/completions" + p.query
}

// roundHeader is the header with what the upstream wants to know about the round.
func (p *Provider) roundHeader(r *pipeline.Round) [][2]string {
	if !p.preset.Initiator {
		return p.header
	}
	who, images := "user", false
	for i := range r.Messages {
		m := &r.Messages[i]
		if who = "user"; m.Role != pipeline.RoleUser {
			who = "agent"
		}
		images = images || slices.ContainsFunc(m.Parts, func(p pipeline.Part) bool { return p.Image != "" })
	}
	h := [][2]string{{"X-Initiator", who}}
	if images {
		h = append(h, [2]string{"Copilot-Vision-Request", "true"})
	}
	return append(h, p.header...)
}
