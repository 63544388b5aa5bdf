package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"amplifier-agent/pipeline"
)

// vendor is a provider that only lists.
type vendor struct {
	name   string
	models []string
	err    error
	hang   bool
	after  time.Duration
}

func (v vendor) Name() string { return v.name }

func (v vendor) Models(ctx context.Context) ([]pipeline.Model, error) {
	if v.hang {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	time.Sleep(v.after)
	var list []pipeline.Model
	for _, id := range v.models {
		list = append(list, pipeline.Model{ID: id, Name: "the " + id})
	}
	return list, v.err
}

func (v vendor) Stream(context.Context, *pipeline.Round) pipeline.Stream { return nil }

func list(name string, models ...string) vendor { return vendor{name: name, models: models} }

func enumerate(t *testing.T, providers ...pipeline.Provider) (*Registry, string, error) {
	t.Helper()
	var log bytes.Buffer
	r, err := Enumerate(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), providers...)
	return r, log.String(), err
}

func served(r *Registry) string {
	var ids []string
	for _, s := range r.All() {
		ids = append(ids, s.ID)
	}
	return strings.Join(ids, " ")
}

// TestNamespaces: rulings 12.
func TestNamespaces(t *testing.T) {
	rows := []struct {
		name      string
		providers []pipeline.Provider
		all       string
		lookup    map[string]string // → provider, id
	}{
		{"one", []pipeline.Provider{list("a", "x", "y/z")}, "x y/z",
			map[string]string{"x": "a x", "a/x": "a x", "y/z": "a y/z", "a/y/z": "a y/z", "z": "", "X": "", "a/": "", "": "", " x": "", "y": ""}},
		{"shared id", []pipeline.Provider{list("a", "x"), list("b", "w", "x"), list("c", "x")}, "x w b/x c/x",
			map[string]string{"x": "a x", "a/x": "a x", "b/x": "b x", "c/x": "c x", "w": "b w", "b/w": "b w"}},
		{"listed twice", []pipeline.Provider{list("a", "x", "x", "y"), list("b", "x", "x")}, "x y b/x",
			map[string]string{"x": "a x", "b/x": "b x"}},
		{"an id that looks like another's full one", []pipeline.Provider{list("a", "b/x"), list("b", "x")}, "b/x x",
			map[string]string{"b/x": "a b/x", "x": "b x", "a/b/x": "a b/x"}},
		{"the other way round", []pipeline.Provider{list("b", "x"), list("a", "b/x")}, "x a/b/x",
			map[string]string{"b/x": "b x", "x": "b x", "a/b/x": "a b/x"}},
		{"shadowed in both forms", []pipeline.Provider{list("a", "x", "b/x"), list("b", "x")}, "x b/x",
			map[string]string{"x": "a x", "b/x": "a b/x"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r, log, err := enumerate(t, row.providers...)
			if err != nil || log != "" {
				t.Fatal(err, log)
			}
			if got := served(r); got != row.all {
				t.Errorf("served %q, want %q", got, row.all)
			}
			for id, want := range row.lookup {
				p, upstreamID, err := r.Lookup(id)
				got := ""
				if err == nil {
					got = p.Name() + " " + upstreamID
				}
				if got != want {
					t.Errorf("%q is %q, want %q", id, got, want)
				}
			}
			for _, s := range r.All() {
				if got, ok := r.Get(s.ID); !ok || got.Model.ID != s.Model.ID || got.Provider.Name() != s.Provider.Name() || s.Model.Name != "the "+s.Model.ID {
					t.Errorf("%q is listed but serves %+v", s.ID, got)
				}
			}
		})
	}
}

func TestUnknownModel(t *testing.T) {
	r, _, err := enumerate(t, list("a", "deepseek/deepseek-v4-pro", "claude-sonnet-5", "gpt-6-sol"))
	if err != nil {
		t.Fatal(err)
	}
	for model, hint := range map[string]string{
		"deepseek-v4-pro":          "deepseek/deepseek-v4-pro", // without its namespace
		"Deepseek/DeepSeek-V4-Pro": "deepseek/deepseek-v4-pro", // in other letters
		"claude-sonet-5":           "claude-sonnet-5",
		"claude-sonnet-4":          "claude-sonnet-5",
		"GPT-6-SOL":                "gpt-6-sol",
		"mistral":                  "",
		"":                         "",
		strings.Repeat("x", 9000):  "",
	} {
		_, _, err := r.Lookup(model)
		e := wantError(t, err, pipeline.CodeUnknownModel, "model '"+pipeline.Short(model)+"' is not served by this instance. Call GET /v1/models")
		if e.Param != "model" || e.Origin != pipeline.OriginClient {
			t.Errorf("%+v", e)
		}
		if hint == "" && strings.Contains(e.Message, "Did you mean") || hint != "" && !strings.HasSuffix(e.Message, " Did you mean '"+hint+"'?") {
			t.Errorf("%.40q: %q, want %q", model, e.Message[max(0, len(e.Message)-80):], hint)
		}
	}
}

// clever is a provider that knows its models by other names.
type clever struct {
	vendor
	names map[string]string
}

func (c clever) Resolve(name string) string { return c.names[name] }

// TestHintAsksTheProviders before it looks for what is spelt alike. The request is refused all the same (rulings 12).
func TestHintAsksTheProviders(t *testing.T) {
	r, _, err := enumerate(t, list("a", "sonnet", "shared"), clever{list("b", "shared", "zai-org/GLM-5.3", "claude-sonnet-5"),
		map[string]string{"sonnett": "claude-sonnet-5", "glm-5.3": "zai-org/GLM-5.3", "dup": "shared", "gone": "not-served"}}, list("c", "x"))
	if err != nil {
		t.Fatal(err)
	}
	for model, hint := range map[string]string{
		"sonnett": "claude-sonnet-5", "glm-5.3": "zai-org/GLM-5.3", "b/glm-5.3": "zai-org/GLM-5.3", "dup": "b/shared", "gone": "",
		"sonet": "sonnet", // by its letters
	} {
		_, _, err := r.Lookup(model)
		if e := wantError(t, err, pipeline.CodeUnknownModel, "is not served"); hint == "" && strings.Contains(e.Message, "Did you mean") || hint != "" && !strings.HasSuffix(e.Message, " Did you mean '"+hint+"'?") {
			t.Errorf("%q: %q, want %q", model, e.Message, hint)
		}
	}
}

func TestFailuresAreSkipped(t *testing.T) {
	r, log, err := enumerate(t, vendor{name: "down", err: errors.New("no route")}, list("empty"), list("up", "x"))
	if err != nil || served(r) != "x" {
		t.Fatal(err)
	}
	for _, want := range []string{"level=ERROR", "provider=down", "no route", "level=WARN", "provider=empty"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in %s", want, log)
		}
	}
}

// TestListBesideAnError is not trusted half: a provider that fails is skipped as a whole.
func TestListBesideAnError(t *testing.T) {
	r, _, err := enumerate(t, vendor{name: "half", models: []string{"x"}, err: errors.New("cut off")}, list("up", "y"))
	if err != nil {
		t.Fatal(err)
	}
	if served(r) != "y" {
		t.Errorf("served %q", served(r))
	}
}

func TestNoModels(t *testing.T) {
	boom := errors.New("boom")
	_, _, err := enumerate(t, vendor{name: "down", err: fmt.Errorf("list: %w", boom)}, list("empty"))
	if !errors.Is(err, ErrNoModels) || !errors.Is(err, boom) || !strings.Contains(err.Error(), "empty: it lists no models") {
		t.Error(err)
	}
	if _, _, err := enumerate(t); !errors.Is(err, ErrNoModels) {
		t.Error(err)
	}
}

// TestEnumerateTimeout: each provider has 15 s, all at once (rulings 5).
func TestEnumerateTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r, log, err := enumerate(t, vendor{name: "one", hang: true}, vendor{name: "slow", models: []string{"x"}, after: 14 * time.Second}, vendor{name: "two", hang: true})
		if err != nil || served(r) != "x" {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 15*time.Second {
			t.Errorf("took %s", d)
		}
		if strings.Count(log, "no answer within 15s") != 2 {
			t.Error(log)
		}
	})
}

func TestEnumerateCancelled(t *testing.T) {
	cause := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	_, err := Enumerate(ctx, slog.New(slog.DiscardHandler), vendor{name: "one", hang: true})
	if !errors.Is(err, cause) || !errors.Is(err, ErrNoModels) {
		t.Error(err)
	}
}

// reseller is a provider whose models are others'.
type reseller struct{ pipeline.Provider }

func (reseller) Reseller() string { return "Shop" }

// TestResellers: a reseller's models are served under its name, even if nobody else has them, and say whose they are.
func TestResellers(t *testing.T) {
	r, _, err := enumerate(t, reseller{list("shop", "m", "only")}, list("maker", "m"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range r.All() {
		got = append(got, s.ID+"="+s.Model.Name)
	}
	if want := "shop/m=the m (Shop) shop/only=the only (Shop) m=the m"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, " "), want)
	}
	if p, id, err := r.Lookup("m"); err != nil || p.Name() != "maker" || id != "m" {
		t.Errorf("m is served by %v as %q, %v", p, id, err)
	}
	if p, id, err := r.Lookup("shop/m"); err != nil || p.Name() != "shop" || id != "m" {
		t.Errorf("shop/m is served by %v as %q, %v", p, id, err)
	}
	if _, _, err := r.Lookup("only"); err == nil {
		t.Error("a reseller's model has a bare name")
	}
}
