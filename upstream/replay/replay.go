package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/commandcode"
	"amplifier-agent/upstream/recording"
)

// Name is the provider's name.
const Name = "replay"

const ext = ".ndjson"

// Config configures a Provider.
type Config struct {
	ID string // what the provider is called; "" means Name
	// Files holds, in its root, recordings (package recording) and bare streams NAME.ndjson as the Command Code gateway sends them.
	// Each is a model of its name.
	Files fs.FS
	// MaxLine is the longest line in bytes; 0 means upstream.DefaultMaxLine.
	MaxLine int
	// Cut wraps the file's reader, so that a test can choose how the bytes arrive. May be nil.
	Cut func(io.Reader) io.Reader
	Log *slog.Logger // nil logs nothing
}

// Provider implements pipeline.Provider.
type Provider struct{ cfg Config }

var _ pipeline.Provider = (*Provider)(nil)

// New returns a provider for what is in c.Files.
func New(c Config) *Provider {
	if c.ID == "" {
		c.ID = Name
	}
	if c.MaxLine == 0 {
		c.MaxLine = upstream.DefaultMaxLine
	}
	if c.Cut == nil {
		c.Cut = func(r io.Reader) io.Reader { return r }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Provider{cfg: c}
}

// Name implements pipeline.Provider.
func (p *Provider) Name() string { return p.cfg.ID }

// Models implements pipeline.Provider: the recordings and streams in lexical order. A recording that cannot be read is left out.
func (p *Provider) Models(context.Context) ([]pipeline.Model, error) {
	names, err := recording.List(p.cfg.Files)
	if err != nil {
		return nil, err
	}
	var models []pipeline.Model
	bodies := map[string]bool{}
	for _, name := range names {
		r, body, err := recording.Read(p.cfg.Files, name)
		if err != nil {
			p.cfg.Log.Warn("a recording is left out", "provider", p.cfg.ID, "error", err)
			continue
		}
		_ = body.Close() // nothing was written
		bodies[r.Response.Body] = true
		models = append(models, pipeline.Model{ID: name, Name: fmt.Sprintf("%s/%s, status %d", r.Provider, r.Model, r.Response.Status)})
	}
	streams, err := fs.Glob(p.cfg.Files, "*"+ext)
	if err != nil {
		return nil, fmt.Errorf("list recordings: %w", err)
	}
	for _, file := range streams {
		if !bodies[file] {
			models = append(models, pipeline.Model{ID: strings.TrimSuffix(file, ext)})
		}
	}
	slices.SortFunc(models, func(a, b pipeline.Model) int { return strings.Compare(a.ID, b.ID) })
	return models, nil
}

// Stream implements pipeline.Provider. A recording is played through the provider that it was made by, from the header of the answer
// on: what failed then fails again. What the round asks for has no influence.
func (p *Provider) Stream(ctx context.Context, r *pipeline.Round) pipeline.Stream {
	return func(yield func(*pipeline.Event, error) bool) {
		rec, body, err := recording.Read(p.cfg.Files, r.Model)
		if err == nil {
			p.answer(ctx, r, rec, body, yield)
			return
		}
		out := upstream.NewEmitter(yield)
		if !errors.Is(err, fs.ErrNotExist) {
			out.Fail(unreadable(err))
			return
		}
		p.stream(ctx, r.Model, out)
	}
}

func unreadable(err error) error {
	return &pipeline.Error{Code: pipeline.CodeUpstream, Origin: pipeline.OriginUpstream, Message: "open the recording", Err: err}
}

// stream plays a bare stream.
func (p *Provider) stream(ctx context.Context, name string, out *upstream.Emitter) {
	f, err := p.cfg.Files.Open(name + ext)
	if err != nil {
		out.Fail(unreadable(err))
		return
	}
	defer func() { _ = f.Close() }() // nothing was written
	lines := codec.LineOptions{MaxBytes: p.cfg.MaxLine, Skip: commandcode.IsEcho}
	if _, err := upstream.Drive(&flushing{ctx, p.cfg.Cut(f), out}, lines, commandcode.NewDecoder(nil), out, nil); err != nil {
		e := &pipeline.Error{Code: pipeline.CodeUpstream, Origin: pipeline.OriginUpstream, Message: "read the recording", Err: err}
		if ctx.Err() != nil {
			e.Code, e.Origin, e.Message = pipeline.CodeAborted, pipeline.OriginInternal, "the turn was cancelled"
		}
		out.Fail(e)
	}
}

// flushing hands what was decoded to the client before each read, as a connection does.
type flushing struct {
	ctx  context.Context
	body io.Reader
	out  *upstream.Emitter
}

func (f *flushing) Read(p []byte) (int, error) {
	if f.ctx.Err() != nil {
		return 0, context.Cause(f.ctx)
	}
	if !f.out.Reading() {
		return 0, io.ErrClosedPipe
	}
	return f.body.Read(p)
}
