package commandcode

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/chatcompletions"
)

// Name is the provider's name.
const Name = "commandcode"

// Defaults of Config.
const (
	DefaultBaseURL   = "https://api.commandcode.ai"
	DefaultVersion   = "1.64.0" // of the command line program whose wire format this package speaks
	DefaultMaxTokens = 32000    // below the output limit of every model in the catalogue

	// SurfaceGenerate is POST /alpha/generate.
	SurfaceGenerate = "generate"
	// SurfaceProvider is POST /provider/v1/chat/completions.
	SurfaceProvider = "provider"

	vendorDomain   = "commandcode.ai"
	maxModelsBytes = 8 << 20
)

// Config configures a Provider. Only Key is required, and Surface on the vendor's own host.
type Config struct {
	ID        string // what the provider is called; "" means Name
	BaseURL   string
	Key       string
	Surface   string
	Version   string
	UserAgent string
	ZDR       bool   // ask for zero data retention
	MaxTokens int    // of an answer, where the client has no wish; 0 means DefaultMaxTokens
	Effort    string // how much to think, where the client has no wish: low to max, or none; "" leaves it to the model
	ThreadID  bool   // generate: name the conversation in the body too
	// WorkingDir is told to the gateway as the project's directory; "" tells it nothing.
	WorkingDir string
	Idle       time.Duration     // longest silence, see upstream.TransportConfig
	Tries      int               // of a turn, see upstream.TransportConfig
	CAFile     string            // see upstream.TransportConfig
	Dial       upstream.Dialer   // see upstream.TransportConfig
	Recorder   upstream.Recorder // see upstream.TransportConfig
	MaxLine    int               // bytes; 0 means upstream.DefaultMaxLine
	Log        *slog.Logger      // nil logs nothing
	Mask       *secret.Mask      // learns the key, and takes what it knows out of errors; nil means one of its own
}

// Provider implements pipeline.Provider. Close it to give up its idle connections.
type Provider struct {
	cfg    Config
	t      *upstream.Transport
	chat   *chatcompletions.Provider // of the provider surface; nil on the other
	header [][2]string
	lines  codec.LineOptions
	mask   *secret.Mask                   // knows the key
	listed atomic.Pointer[ids]            // models that the gateway listed last; nil before that
	blind  sync.Map                       // models of which it was logged that they see no images
	banned atomic.Pointer[pipeline.Error] // "Proxy use detected": the surface is off for the life of the process (rulings 11)
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
	if c.Mask == nil {
		c.Mask = new(secret.Mask)
	}
	t, err := upstream.NewTransport(upstream.TransportConfig{BaseURL: c.BaseURL, Idle: c.Idle, Tries: c.Tries, CAFile: c.CAFile, Dial: c.Dial, Recorder: c.Recorder, Mask: c.Mask})
	if err != nil {
		return nil, fmt.Errorf("%w (set COMMANDCODE_BASE_URL)", err)
	}
	if err := checkSurface(c.Surface, t.Host()); err != nil {
		return nil, err
	}
	c.Surface = cmp.Or(c.Surface, SurfaceGenerate)
	if c.Key = secret.CleanKey(c.Key); c.Key == "" {
		return nil, errors.New("no key: export COMMANDCODE_API_KEY, or try the server without one: --demo")
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
		return nil, fmt.Errorf("max_tokens %d: use 1 to %d", c.MaxTokens, maxMaxTokens)
	}
	c.MaxTokens = min(c.MaxTokens, maxMaxTokens)
	if word := effortWord(c.Effort); word != "" && !slices.Contains(efforts, word) {
		return nil, fmt.Errorf("reasoning_effort %q: use %s, or none", c.Effort, strings.Join(efforts, ", "))
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.MaxLine == 0 {
		c.MaxLine = upstream.DefaultMaxLine
	}
	p := &Provider{cfg: c, t: t, lines: codec.LineOptions{MaxBytes: c.MaxLine, Skip: IsEcho}, mask: c.Mask}
	p.mask.Add(c.Key)
	p.header = [][2]string{
		{"Authorization", "Bearer " + c.Key},
		{"Content-Type", "application/json"},
		{"Accept-Encoding", "identity"},
		{"User-Agent", c.UserAgent},
	}
	var zdr [][2]string
	if c.ZDR {
		zdr = [][2]string{{"x-cmd-zdr", "1"}}
	}
	p.header = append(p.header, zdr...)
	if c.Surface == SurfaceProvider {
		if p.chat, err = p.openChat(zdr); err != nil {
			t.Close()
			return nil, err
		}
		return p, nil
	}
	p.header = append(p.header, [2]string{"x-cli-environment", "production"}, [2]string{"x-command-code-version", c.Version})
	return p, nil
}

// checkSurface refuses to choose a surface on the vendor's host (rulings 11).
func checkSurface(surface, host string) error {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	vendor := host == vendorDomain || strings.HasSuffix(host, "."+vendorDomain)
	switch surface {
	case SurfaceGenerate, SurfaceProvider:
		return nil
	case "":
		if vendor {
			return fmt.Errorf("choose a surface on the vendor's own host: COMMANDCODE_SURFACE=%s or COMMANDCODE_SURFACE=%s. "+
				"The vendor serves third-party clients on the provider surface and says that it may refuse or ban proxies on the other, "+
				"so this program does not choose for you", SurfaceProvider, SurfaceGenerate)
		}
		return nil
	}
	return fmt.Errorf("unknown surface %q: use %s or %s", surface, SurfaceGenerate, SurfaceProvider)
}

// Name implements pipeline.Provider.
func (p *Provider) Name() string { return p.cfg.ID }

// Close closes the idle connections.
func (p *Provider) Close() {
	p.t.Close()
	if p.chat != nil {
		p.chat.Close()
	}
}

// Stream implements pipeline.Provider.
func (p *Provider) Stream(ctx context.Context, r *pipeline.Round) pipeline.Stream {
	return func(yield func(*pipeline.Event, error) bool) { // its frame lasts as long as the stream
		if err := p.off(); err != nil {
			yield(nil, err)
			return
		}
		if p.chat != nil {
			p.chat.Stream(ctx, p.fit(r))(yield)
			return
		}
		p.t.Stream(ctx, p.call(p.fit(r)), p.lines, p.decoder, upstream.NewEmitter(yield), p.refusal)
	}
}

// off returns an error if the gateway has refused the surface for good.
func (p *Provider) off() error {
	e := p.banned.Load()
	if e == nil {
		return nil
	}
	off := *e
	off.Message = "the " + p.cfg.Surface + " surface is switched off until this program is started again, since the gateway refused it: " + e.Message
	return &off
}

// scratch are buffers to write requests in: one that is kept is as long as it must be, as it may be asked for again.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// keepScratchBytes is the capacity up to which such a buffer is kept.
const keepScratchBytes = 1 << 20

func (p *Provider) body(q *pipeline.Round, session string) []byte {
	b := scratch.Get().(*[]byte)
	*b = p.appendRequest((*b)[:0], q, session, time.Now())
	body := bytes.Clone(*b)
	if cap(*b) <= keepScratchBytes {
		scratch.Put(b)
	}
	return body
}

// call is what asks for q.
func (p *Provider) call(q *pipeline.Round) *upstream.Call {
	session := sessionID(q.Conversation)
	c := new(struct {
		upstream.Call
		header [8][2]string // room for most
	})
	c.Call = upstream.Call{
		Method:  "POST",
		Path:    "/alpha/generate",
		Header:  append(append(c.header[:0], p.header...), [2]string{"x-session-id", session}),
		Body:    p.body(q, session),
		Silence: q.Silence,
		Tries:   q.Tries,
		Model:   q.Model,
	}
	return &c.Call
}

// Models implements pipeline.Provider.
func (p *Provider) Models(ctx context.Context) ([]pipeline.Model, error) {
	var list struct {
		Data []codec.RawMessage `json:"data"`
	}
	if err := p.t.Get(ctx, &upstream.Call{Method: "GET", Path: "/provider/v1/models", Header: p.header}, maxModelsBytes, &list, p.refusal); err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	models := make([]pipeline.Model, 0, len(list.Data))
	names := make([]string, 0, len(list.Data))
	for _, raw := range list.Data {
		var m struct {
			ID            string `json:"id"`
			Name          string `json:"name"`
			ContextLength int64  `json:"context_length"`
		}
		if err := codec.Unmarshal(raw, &m); err != nil || m.ID == "" {
			p.cfg.Log.Warn("an entry of the gateway's list of models is not understood: it is left out", "provider", p.cfg.ID, "entry", pipeline.Short(string(raw)))
			continue
		}
		models = append(models, p.model(m.ID, m.Name, m.ContextLength))
		names = append(names, m.ID)
	}
	if len(names) > 0 {
		p.listed.Store(newIDs(names))
	}
	return models, nil
}

// model puts together what the gateway and the catalogue know. The gateway's word counts more.
func (p *Provider) model(id, name string, context int64) pipeline.Model {
	k, ok := catalogue()[id]
	m := pipeline.Model{ID: id, Name: name, ContextTokens: context, Defaults: fmt.Appendf(nil, `{"max_tokens":%d}`, p.maxTokens(0, k.output))}
	if ok {
		m.OutputTokens, m.Capabilities = k.output, k.capabilities()
		if m.ContextTokens == 0 {
			m.ContextTokens = k.context
		}
	}
	return m
}

// sessionID is a UUID that is stable for a conversation and tells nothing about it; a fresh one if there is none.
func sessionID(conversation string) string {
	var b [16]byte
	if conversation == "" {
		_, _ = rand.Read(b[:]) // never fails
	} else {
		sum := sha256.Sum256([]byte("amplifier-agent conversation " + conversation))
		copy(b[:], sum[:])
	}
	b[6] = b[6]&0x0f | 0x40 // version 4
	b[8] = b[8]&0x3f | 0x80
	var s [36]byte
	hex.Encode(s[:8], b[:4])
	hex.Encode(s[9:13], b[4:6])
	hex.Encode(s[14:18], b[6:8])
	hex.Encode(s[19:23], b[8:10])
	hex.Encode(s[24:], b[10:])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return string(s[:])
}
