package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"go.uber.org/goleak"

	"amplifier-agent/pipeline"
	"amplifier-agent/upstream/commandcode/fixtures"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play is what a recording brings; on, which may be nil, may stop it.
func play(ctx context.Context, p *Provider, model string, on func(*pipeline.Event) bool) (events string, flushes int, err error) {
	var b strings.Builder
	for ev, e := range p.Stream(ctx, &pipeline.Round{Model: model}) {
		if e != nil {
			return b.String(), flushes, e
		}
		if ev.Kind == pipeline.Flush {
			flushes++
		} else {
			fmt.Fprintf(&b, "%d %s %s %s %v\n", ev.Kind, ev.ID, ev.Name, []byte(ev.Text), ev.Step)
		}
		if on != nil && !on(ev) {
			break
		}
	}
	return b.String(), flushes, nil
}

func TestModels(t *testing.T) {
	p := New(Config{Files: fixtures.Files})
	models, err := p.Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range models {
		ids = append(ids, m.ID)
	}
	if !slices.Equal(ids, fixtures.Names()) || p.Name() != "replay" {
		t.Errorf("%q", ids)
	}
	if models, err := New(Config{Files: fstest.MapFS{"a.txt": {}, "d/b.ndjson": {}}}).Models(t.Context()); len(models) != 0 || err != nil {
		t.Errorf("%v, %v", models, err)
	}
}

// TestPlaysEveryRecording to an end of the kind that is expected, however its bytes are cut.
func TestPlaysEveryRecording(t *testing.T) {
	whole := New(Config{Files: fixtures.Files})
	bytewise := New(Config{Files: fixtures.Files, Cut: iotest.OneByteReader})
	for name := range fixtures.Expected() {
		want, flushes, err := play(t.Context(), whole, name, nil)
		if want == "" && err == nil || flushes == 0 {
			t.Errorf("%s: nothing came, %d flushes", name, flushes)
		}
		got, _, gotErr := play(t.Context(), bytewise, name, nil)
		if got != want || fmt.Sprint(gotErr) != fmt.Sprint(err) {
			t.Errorf("%s: byte by byte\n is %s %v\nnot %s %v", name, got, gotErr, want, err)
		}
	}
}

// TestCutAtEveryByte: one cut, anywhere, changes nothing.
func TestCutAtEveryByte(t *testing.T) {
	for _, name := range []string{"02_reasoning_text_tool", "03_parallel_interleaved_tools", "14_unicode_escapes", "19_cost_present"} {
		want, _, err := play(t.Context(), New(Config{Files: fixtures.Files}), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		for at := range fixtures.Body(name) {
			cut := func(r io.Reader) io.Reader { return io.MultiReader(io.LimitReader(r, int64(at)), r) }
			if got, _, err := play(t.Context(), New(Config{Files: fixtures.Files, Cut: cut}), name, nil); got != want || err != nil {
				t.Fatalf("%s cut at %d: %v\n is %s\nnot %s", name, at, err, got, want)
			}
		}
	}
}

// TestFlushComesFirst: before each read, so that what was decoded is out when the read blocks.
func TestFlushComesFirst(t *testing.T) {
	_, flushes, _ := play(t.Context(), New(Config{Files: fixtures.Files, Cut: iotest.OneByteReader}), "01_plain_text", nil)
	if n := len(fixtures.Body("01_plain_text")); flushes != n+1 {
		t.Errorf("%d flushes for %d reads", flushes, n+1)
	}
}

func TestFailures(t *testing.T) {
	want := func(err error, code pipeline.Code, text string) {
		t.Helper()
		if e, ok := errors.AsType[*pipeline.Error](err); !ok || e.Code != code || !strings.Contains(e.Error(), text) {
			t.Errorf("%v, want %s %q", err, code, text)
		}
	}
	p := New(Config{Files: fixtures.Files})
	for _, model := range []string{"none", "../fixtures/01_plain_text", "/01_plain_text", ""} {
		_, _, err := play(t.Context(), p, model, nil)
		want(err, pipeline.CodeUpstream, "open the recording")
	}
	boom := errors.New("boom")
	broken := New(Config{Files: fixtures.Files, Cut: func(r io.Reader) io.Reader { return io.MultiReader(io.LimitReader(r, 300), iotest.ErrReader(boom)) }})
	_, _, err := play(t.Context(), broken, "01_plain_text", nil)
	if want(err, pipeline.CodeUpstream, "read the recording"); !errors.Is(err, boom) {
		t.Error(err)
	}
	short := New(Config{Files: fixtures.Files, MaxLine: 100})
	_, _, err = play(t.Context(), short, "01_plain_text", nil)
	want(err, pipeline.CodeUpstream, "line longer than the limit")

	cause := errors.New("the cause")
	ctx, cancel := context.WithCancelCause(t.Context())
	events := 0
	_, _, err = play(ctx, New(Config{Files: fixtures.Files, Cut: iotest.OneByteReader}), "01_plain_text", func(*pipeline.Event) bool {
		if events++; events == 300 {
			cancel(cause)
		}
		return true
	})
	if want(err, pipeline.CodeAborted, "cancelled"); !errors.Is(err, cause) {
		t.Error(err)
	}
}

// TestStops after each event: nothing is yielded behind a false yield, or the range would panic.
func TestStops(t *testing.T) {
	p := New(Config{Files: fixtures.Files})
	for n := 1; n < 12; n++ {
		events := 0
		if _, _, err := play(t.Context(), p, "02_reasoning_text_tool", func(*pipeline.Event) bool { events++; return events < n }); err != nil {
			t.Error(err)
		}
	}
}
