package replay_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/anthropic"
	"amplifier-agent/upstream/chatcompletions"
	"amplifier-agent/upstream/commandcode"
	"amplifier-agent/upstream/recording"
	"amplifier-agent/upstream/replay"
	"amplifier-agent/upstream/upstreamtest"
)

// TestConformance: each answer of the suite is recorded as it comes, through the provider that it is meant for, and then played from
// the files, byte by byte. What is played is what was recorded, and it is what the suite sees.
func TestConformance(t *testing.T) {
	gateway := upstreamtest.ChatCompletions()
	gateway.Gateway = commandcode.Name
	for _, row := range []struct {
		module, surface string
		d               upstreamtest.Dialect
	}{
		{commandcode.Name, commandcode.SurfaceGenerate, upstreamtest.Generate()},
		{commandcode.Name, commandcode.SurfaceProvider, gateway},
		{chatcompletions.Name, "", upstreamtest.ChatCompletions()},
		{anthropic.Name, "", upstreamtest.Messages()},
	} {
		t.Run(strings.TrimSuffix(row.module+", "+row.surface, ", "), func(t *testing.T) {
			d := row.d
			d.New = func(t *testing.T, o upstreamtest.Options) (pipeline.Provider, error) {
				return &recorded{t: t, dir: t.TempDir(), module: row.module, surface: row.surface, o: o}, nil
			}
			d = lacking(d, map[upstreamtest.Feature]string{upstreamtest.Connections: "what is played comes from files, and what never answered is not recorded"})
			upstreamtest.Run(t, d)
		})
	}
	t.Run("bare streams", func(t *testing.T) {
		d := upstreamtest.Generate()
		d.New = func(t *testing.T, o upstreamtest.Options) (pipeline.Provider, error) {
			return &recorded{t: t, dir: t.TempDir(), module: commandcode.Name, o: o, bare: true}, nil
		}
		upstreamtest.Run(t, lacking(d, map[upstreamtest.Feature]string{
			upstreamtest.Keys:        "a file is read without one",
			upstreamtest.Requests:    "nobody is asked",
			upstreamtest.Refusals:    "a file has no status",
			upstreamtest.Cuts:        "a file ends where it ends",
			upstreamtest.Connections: "it reads files",
		}))
	})
}

// stride is how many bytes lie between the places where a recorded answer is cut: each is written to a disk, and played byte by byte.
const stride = 97

// lacking is d without what else is lacking.
func lacking(d upstreamtest.Dialect, more map[upstreamtest.Feature]string) upstreamtest.Dialect {
	for f, why := range d.Lacks {
		more[f] = why
	}
	d.Lacks, d.Stride = more, stride
	return d
}

// recorded is a provider that records what it is answered, and answers with what it then plays.
type recorded struct {
	t               *testing.T
	dir             string
	module, surface string
	o               upstreamtest.Options
	bare            bool // plays the body alone
	n               atomic.Int64
}

func (p *recorded) Name() string { return replay.Name }

func (p *recorded) Models(context.Context) ([]pipeline.Model, error) { return nil, nil }

func (p *recorded) Stream(ctx context.Context, r *pipeline.Round) pipeline.Stream {
	return func(yield func(*pipeline.Event, error) bool) {
		dir := filepath.Join(p.dir, fmt.Sprint(p.n.Add(1)))
		live := p.record(ctx, r, dir)
		player, round := replay.New(replay.Config{Files: os.DirFS(dir), MaxLine: p.o.MaxLine, Cut: iotest.OneByteReader}), *r
		models, err := player.Models(ctx)
		if err != nil || len(models) != 1 {
			p.t.Errorf("recordings %v, %v", models, err)
			yield(nil, pipeline.AsError(err))
			return
		}
		if round.Model = models[0].ID; p.bare {
			player = p.body(dir, &round)
		}
		var played strings.Builder
		for ev, err := range player.Stream(ctx, &round) {
			note(&played, ev, err)
			if !yield(ev, err) {
				return
			}
		}
		if played.String() != live && !p.bare {
			p.t.Errorf("played\n%s\nrecorded\n%s", played.String(), live)
		}
	}
}

// record has the upstream asked, and returns what it answered.
func (p *recorded) record(ctx context.Context, r *pipeline.Round, dir string) string {
	mask := new(secret.Mask)
	folder, err := recording.NewFolder(dir, mask, slog.New(slog.DiscardHandler))
	if err != nil {
		p.t.Error(err)
		return ""
	}
	live, err := p.open(folder.Recorder(recording.Source{Provider: "mine", Module: p.module, Surface: p.surface}), mask)
	if err != nil {
		p.t.Error(err)
		return ""
	}
	defer live.Close()
	var b strings.Builder
	for ev, err := range live.Stream(ctx, r) {
		note(&b, ev, err)
	}
	return b.String()
}

type provider interface {
	pipeline.Provider
	Close()
}

func (p *recorded) open(rec upstream.Recorder, mask *secret.Mask) (provider, error) {
	o := &p.o
	switch p.module {
	case commandcode.Name:
		return commandcode.New(commandcode.Config{BaseURL: o.BaseURL, Key: o.Key, Surface: p.surface, Tries: o.Tries, MaxLine: o.MaxLine, Recorder: rec, Mask: mask})
	case anthropic.Name:
		return anthropic.New(anthropic.Config{BaseURL: o.BaseURL, Key: o.Key, Tries: o.Tries, MaxLine: o.MaxLine, Recorder: rec, Mask: mask})
	}
	return chatcompletions.New(chatcompletions.Config{BaseURL: o.BaseURL, Key: o.Key, Tries: o.Tries, MaxLine: o.MaxLine, Recorder: rec, Mask: mask})
}

// body plays the body of a recording as a stream of its own.
func (p *recorded) body(dir string, round *pipeline.Round) *replay.Provider {
	files, err := filepath.Glob(filepath.Join(dir, "*.ndjson"))
	if err != nil || len(files) != 1 {
		p.t.Errorf("bodies %v, %v", files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		p.t.Error(err)
	}
	round.Model = "answer"
	return replay.New(replay.Config{Files: fstest.MapFS{"answer.ndjson": {Data: b}}, MaxLine: p.o.MaxLine, Cut: iotest.OneByteReader})
}

// note writes down what is not a matter of time.
func note(b *strings.Builder, ev *pipeline.Event, err error) {
	switch {
	case err != nil:
		e := pipeline.AsError(err)
		fmt.Fprintf(b, "%s %d %v %v %s\n", e.Code, e.Status, e.Retry, e.RetryAfter, e.Error())
	case ev.Kind != pipeline.Flush && ev.Kind != pipeline.Idle:
		fmt.Fprintf(b, "%d %s %s %s %v\n", ev.Kind, ev.ID, ev.Name, []byte(ev.Text), ev.Step)
	}
}
