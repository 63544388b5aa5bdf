package anthropic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
)

// Name is the provider's name.
const Name = "anthropic"

// Defaults of Config.
const (
	DefaultBaseURL   = "https://api.anthropic.com"
	DefaultVersion   = "2023-06-01"
	DefaultMaxTokens = 32000 // what every model since Claude 4 allows; lower limits are learned from the list of models
)

// Config configures a Provider. Only Key is required.
type Config struct {
	ID        string // what the provider is called; "" means Name
	BaseURL   string // the API's root, with or without the /v1 that its paths begin with
	Key       string
	UserAgent string
	Version   string            // of the API: the field anthropic-version
	MaxTokens int               // of an answer whose request has no wish; the API insists on a number
	Idle      time.Duration     // longest silence, see upstream.TransportConfig
	Tries     int               // of a turn, see upstream.TransportConfig
	CAFile    string            // see upstream.TransportConfig
	Dial      upstream.Dialer   // see upstream.TransportConfig
	Recorder  upstream.Recorder // see upstream.TransportConfig
	MaxLine   int               // bytes; 0 means upstream.DefaultMaxLine
	Log       *slog.Logger      // nil logs nothing
	Mask      *secret.Mask      // learns the key, and takes what it knows out of errors; nil means one of its own
}

// Provider implements pipeline.Provider. Close it to give up its idle connections.
type Provider struct {
	cfg    Config
	t      *upstream.Transport
	header [][2]string
	lines  codec.LineOptions
	mask   *secret.Mask // knows the key
	// limits are the longest answers of the models, in tokens, as far as the API has told them; nil until it was asked.
	limits atomic.Pointer[map[string]int64]
}

var _ pipeline.Provider = (*Provider)(nil)

// New returns the provider. Its errors are for the user who configured it; the caller says which provider it is.
func New(c Config) (*Provider, error) {
	if c.ID == "" {
		c.ID = Name
	}
	if c.BaseURL == "" {
		c.BaseURL = DefaultBaseURL
	}
	c.BaseURL = strings.TrimSuffix(strings.TrimRight(c.BaseURL, "/"), "/v1")
	if c.Mask == nil {
		c.Mask = new(secret.Mask)
	}
	t, err := upstream.NewTransport(upstream.TransportConfig{BaseURL: c.BaseURL, Idle: c.Idle, Tries: c.Tries, CAFile: c.CAFile, Dial: c.Dial, Recorder: c.Recorder, Mask: c.Mask})
	if err != nil {
		return nil, fmt.Errorf("%w (set ANTHROPIC_BASE_URL)", err)
	}
	if c.Key = secret.CleanKey(c.Key); c.Key == "" {
		return nil, errors.New("no key: export ANTHROPIC_API_KEY, or try the server without one: --demo")
	}
	if c.Version == "" {
		c.Version = DefaultVersion
	}
	if c.UserAgent == "" {
		c.UserAgent = "amplifier-agent"
	}
	if c.MaxTokens == 0 {
		c.MaxTokens = DefaultMaxTokens
	}
	if c.MaxTokens < 0 {
		return nil, fmt.Errorf("max_tokens %d: use 1 or more", c.MaxTokens)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.MaxLine == 0 {
		c.MaxLine = upstream.DefaultMaxLine
	}
	p := &Provider{cfg: c, t: t, lines: codec.LineOptions{MaxBytes: c.MaxLine}, mask: c.Mask}
	p.mask.Add(c.Key)
	p.header = [][2]string{
		{"x-api-key", c.Key},
		{"anthropic-version", c.Version},
		{"Content-Type", "application/json"},
		{"Accept-Encoding", "identity"},
		{"User-Agent", c.UserAgent},
	}
	return p, nil
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
			Path:    "/v1/messages",
			Header:  p.header,
			Body:    p.appendRequest(nil, r),
			Silence: r.Silence,
			Tries:   r.Tries,
			Model:   r.Model,
		}
		p.t.Stream(ctx, call, p.lines, func() upstream.Decoder { return NewDecoder(p.mask) }, upstream.NewEmitter(yield), p.refusal)
	}
}
