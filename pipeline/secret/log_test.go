package secret_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"amplifier-agent/pipeline/secret"
)

const key = "sk-0123456789"

type stringer struct{ s string }

func (s stringer) String() string { return s.s }

type valuer struct{ s string }

func (v valuer) LogValue() slog.Value {
	return slog.GroupValue(slog.String("inner", v.s), slog.Any("deep", stringer(v)))
}

type plain struct {
	Key  string
	Raw  []byte
	Next *plain
}

// TestHandler logs a secret in every way there is: it never comes out, whatever handler is behind.
func TestHandler(t *testing.T) {
	var broken *url.Error // whose Error panics
	_, here, _, _ := runtime.Caller(0)
	for name, open := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler {
			return slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug})
		},
		"JSON": func(b *bytes.Buffer) slog.Handler {
			return slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true})
		},
	} {
		m := new(secret.Mask)
		m.Add(key, odd)
		var out bytes.Buffer
		log := slog.New(m.Handler(open(&out)))
		lines := 0
		for what, write := range map[string]func(){
			"message":      func() { log.Debug("key " + key + " in it") },
			"string":       func() { log.Debug("m", "k", key, "odd", odd) },
			"key":          func() { log.Debug("m", key, 1) },
			"group":        func() { log.Debug("m", slog.Group("g", "k", key, slog.Group("h", "k", "x"+key))) },
			"error":        func() { log.Debug("m", "k", fmt.Errorf("get %s: %w", key, errors.New(odd))) },
			"joined":       func() { log.Debug("m", "k", errors.Join(errors.New(key), errors.New("x"))) },
			"stringer":     func() { log.Debug("m", "k", stringer{key}) },
			"URL":          func() { log.Debug("m", "k", &url.URL{Scheme: "http", User: url.UserPassword("u", key), Host: "h"}) },
			"valuer":       func() { log.Debug("m", "k", valuer{key}) },
			"bytes":        func() { log.Debug("m", "k", []byte(key)) },
			"raw":          func() { log.Debug("m", "k", json.RawMessage(`{"a":"`+key+`"}`)) },
			"struct":       func() { log.Debug("m", "k", plain{Key: key}) },
			"pointers":     func() { log.Debug("m", "k", &plain{Next: &plain{Next: &plain{Key: key}}}) },
			"bytes inside": func() { log.Debug("m", "k", plain{Raw: []byte(key)}) },
			"hex":          func() { log.Debug(fmt.Sprintf("%x %X", key, key)) },
			"map":          func() { log.Debug("m", "k", map[string]any{key: []string{key}}) },
			"strings":      func() { log.Debug("m", "k", []string{"a", key}) },
			"With":         func() { log.With("k", key, slog.Group("g", "k", stringer{key})).Debug("m") },
			"WithGroup":    func() { log.WithGroup(key).With("k", key).Debug("m", "k", key) },
			"empty group":  func() { log.WithGroup("g").With("k", key).WithGroup("h").Debug("m") },
			"harmless": func() {
				log.Debug("m", "i", 5, "b", true, "d", time.Second, "t", time.Now(), "n", nil, "e", broken, slog.Attr{})
			},
		} {
			before := out.Len()
			write()
			lines++
			line := strings.ReplaceAll(out.String()[before:], filepath.Dir(here), "") // the source, which may lie anywhere
			if line == "" || strings.Count(line, "\n") != 1 {
				t.Errorf("%s, %s: got %q", name, what, line)
			}
			for _, s := range []string{key, odd, "sk-", "p/w", "115 107 45", "736b2d", "736B2D"} {
				if strings.Contains(line, s) {
					t.Errorf("%s, %s: %q came out: %s", name, what, s, line)
				}
			}
			if what != "harmless" && what != "pointers" && !strings.Contains(line, "***") {
				t.Errorf("%s, %s: nothing was masked: %s", name, what, line)
			}
		}
		log.Debug("m", "i", 5, "s", "still there", "e", errors.New("words"))
		if got := out.String(); strings.Count(got, "\n") != lines+1 || !strings.Contains(got, "still there") || !strings.Contains(got, "words") {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// TestHandlerLater: secrets that become known after the logger was made are masked too.
func TestHandlerLater(t *testing.T) {
	var out bytes.Buffer
	m := new(secret.Mask)
	log := slog.New(m.Handler(slog.NewTextHandler(&out, nil))).With("a", 1).WithGroup("g")
	m.Add(key)
	log.Info("key "+key, "k", key)
	log.Debug("not enabled")
	if got := out.String(); strings.Contains(got, key) || strings.Count(got, "***") != 2 || !strings.Contains(got, "a=1") || strings.Contains(got, "enabled") {
		t.Errorf("got %s", got)
	}
}

func TestHandlerOfNothing(t *testing.T) {
	h := slog.NewTextHandler(&bytes.Buffer{}, nil)
	if got := (*secret.Mask)(nil).Handler(h); got != slog.Handler(h) {
		t.Errorf("got %T", got)
	}
}

// TestHandlerConforms holds the handler against the rules of the standard library.
func TestHandlerConforms(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return new(secret.Mask).Handler(slog.NewJSONHandler(&out, nil))
	}, func(t *testing.T) map[string]any {
		var m map[string]any
		if err := json.Unmarshal(out.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m
	})
}
