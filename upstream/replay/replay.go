// Package replay is a provider that plays files of newline-delimited JSON, as the Command Code gateway sends them. Its models are
// the files. It imports pipeline, codec, upstream and upstream/commandcode.
package replay

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/commandcode"
)

// Name is the provider's name.
const Name = "replay"

const ext = ".ndjson"

// Config configures a Provider.
type Config struct {
	ID string // what the provider is called; "" means Name
	// Files holds the recordings: each NAME.ndjson in its root is the model NAME.
	Files fs.FS
	// MaxLine is the longest line in bytes; 0 means upstream.DefaultMaxLine.
	MaxLine int
	// Cut wraps the file's reader, so that a test can choose how the bytes arrive. May be nil.
	Cut func(io.Reader) io.Reader
}

// Provider implements pipeline.Provider.
type Provider struct{ cfg Config }

var _ pipeline.Provider = (*Provider)(nil)

// New returns a provider for the recordings in c.Files.
func New(c Config) *Provider {
	if c.ID == "" {
		c.ID = Name
	}
	if c.MaxLine == 0 {
		c.MaxLine = upstream.DefaultMaxLine
	}
	return &Provider{cfg: c}
}

// Name implements pipeline.Provider.
func (p *Provider) Name() string { return p.cfg.ID }

// Models implements pipeline.Provider: the files in lexical order.
func (p *Provider) Models(context.Context) ([]pipeline.Model, error) {
	names, err := fs.Glob(p.cfg.Files, "*"+ext)
	if err != nil {
		return nil, fmt.Errorf("list recordings: %w", err)
	}
	models := make([]pipeline.Model, len(names))
	for i, name := range names {
		models[i].ID = strings.TrimSuffix(path.Base(name), ext)
	}
	return models, nil
}

// Stream implements pipeline.Provider.
func (p *Provider) Stream(ctx context.Context, r *pipeline.Round) pipeline.Stream {
	return func(yield func(*pipeline.Event, error) bool) {
		out := upstream.NewEmitter(yield)
		f, err := p.cfg.Files.Open(r.Model + ext)
		if err != nil {
			out.Fail(&pipeline.Error{Code: pipeline.CodeUpstream, Origin: pipeline.OriginUpstream, Message: "open the recording", Err: err})
			return
		}
		defer f.Close()
		body := io.Reader(f)
		if p.cfg.Cut != nil {
			body = p.cfg.Cut(body)
		}
		lines := codec.LineOptions{MaxBytes: p.cfg.MaxLine, Skip: commandcode.IsEcho}
		if _, err := upstream.Drive(&flushing{ctx, body, out}, lines, commandcode.NewDecoder(nil), out, nil); err != nil {
			e := &pipeline.Error{Code: pipeline.CodeUpstream, Origin: pipeline.OriginUpstream, Message: "read the recording", Err: err}
			if ctx.Err() != nil {
				e.Code, e.Origin, e.Message = pipeline.CodeAborted, pipeline.OriginInternal, "the turn was cancelled"
			}
			out.Fail(e)
		}
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
