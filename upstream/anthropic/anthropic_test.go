package anthropic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"amplifier-agent/pipeline"
)

func TestNew(t *testing.T) {
	for _, row := range []struct {
		c    Config
		want string // of the error
	}{
		{Config{}, "no key: export ANTHROPIC_API_KEY"},
		{Config{Key: " \x1b[200~\n\x1b[201~"}, "no key"},
		{Config{Key: testKey, BaseURL: "ftp://x"}, "set ANTHROPIC_BASE_URL"},
		{Config{Key: testKey, MaxTokens: -1}, "max_tokens -1"},
		{Config{Key: testKey}, ""},
	} {
		p, err := New(row.c)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: %v, want %q", row.c, err, row.want)
		}
		if err == nil && (p.Name() != Name || p.t.Host() != "api.anthropic.com") {
			t.Errorf("%s at %s", p.Name(), p.t.Host())
		}
	}
	if p := connect(t, "http://x", func(c *Config) { c.ID = "mine" }); p.Name() != "mine" {
		t.Error(p.Name())
	}
}

// TestExchange holds a whole exchange: what is asked, and what comes of the answer.
func TestExchange(t *testing.T) {
	for base, change := range map[string]func(*Config){
		"": func(c *Config) {}, "/v1": func(c *Config) {}, "/v1/": func(c *Config) { c.Key = "\x1b[200~" + testKey + "\n\x1b[201~" },
	} {
		var problem error
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			h := r.Header
			if r.Method != "POST" || r.URL.String() != "/v1/messages" || h.Get("x-api-key") != testKey || h.Get("anthropic-version") != "2023-06-01" ||
				h.Get("Content-Type") != "application/json" || h.Get("User-Agent") != "amplifier-agent" || h.Get("Authorization") != "" {
				err = fmt.Errorf("%s %s, %v", r.Method, r.URL, h)
			}
			problem = errors.Join(err, validate(b))
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, recorded())
		})
		p := connect(t, url+base, change)
		for range 2 {
			r := run(t, p, ask("hi"))
			if r.Err != nil || problem != nil {
				t.Fatal(r.Err, problem)
			}
			if r.Text != "hello" || r.Reasoning != `Hm, "so" é` || r.Told() != `toolu_1 read({"path":"a\n"})` ||
				r.Finish.Reason != pipeline.ReasonToolCalls || r.Turn.Usage.Prompt() != 128 || r.Turn.Usage.Output != 15 {
				t.Errorf("%+v", r)
			}
		}
	}
}

// TestNoEndOfTheBody: the end of a round that is known is not kept back by a server that keeps the connection open.
func TestNoEndOfTheBody(t *testing.T) {
	t.Parallel()
	for _, lines := range [][]string{{begun, hello, why, stopped}, {begun, hello, why}} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, framed(lines...))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		r := run(t, connect(t, url), ask("hi"))
		if r.Err != nil || r.Text != "hello" || r.Turn.Usage.Output != 15 {
			t.Errorf("%+v", r)
		}
	}
}

// TestCancel: the end of the context closes the exchange, before the answer begins and in the middle of it.
func TestCancel(t *testing.T) {
	t.Parallel()
	for _, lines := range [][]string{nil, {begun, opened}, {begun, opened, hello}} {
		asked, gone := make(chan bool, 1), make(chan bool, 1)
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if len(lines) > 0 {
				_, _ = io.WriteString(w, framed(lines...))
				w.(http.Flusher).Flush()
			}
			asked <- true
			<-r.Context().Done()
			gone <- true
		})
		cause := errors.New("the client has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-asked
			cancel(cause)
		}()
		r := collect(t, connect(t, url).Stream(ctx, ask("hi")))
		if wantError(t, r.Err, pipeline.CodeAborted, 0, "cancelled"); !errors.Is(r.Err, cause) {
			t.Errorf("%v", r.Err)
		}
		select {
		case <-gone:
		case <-time.After(never):
			t.Fatal("the exchange goes on")
		}
	}
}

// TestConsumerStops: a consumer that wants no more ends the exchange too.
func TestConsumerStops(t *testing.T) {
	t.Parallel()
	gone := make(chan bool, 1)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, framed(begun, hello, hello))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		gone <- true
	})
	n := 0
	for ev, err := range connect(t, url).Stream(t.Context(), ask("hi")) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == pipeline.Text {
			n++
			break
		}
	}
	select {
	case <-gone:
	case <-time.After(never):
		t.Fatal("the exchange goes on")
	}
	if n != 1 {
		t.Errorf("%d deltas", n)
	}
}

// TestStalled: silence in the middle ends in an error.
func TestStalled(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, framed(begun, hello))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	r := run(t, connect(t, url, func(c *Config) { c.Idle = 50 * time.Millisecond }), ask("hi"))
	wantError(t, r.Err, pipeline.CodeStalled, 0, "silent")
	if r.Text != "hello" {
		t.Errorf("%+v", r)
	}
}

// TestCutOff: a connection that ends in the middle is no end of an answer.
func TestCutOff(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, framed(begun, hello))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	r := run(t, connect(t, url), ask("hi"))
	if e := wantError(t, r.Err, pipeline.CodeTruncated, 0, "cut off"); !e.Retry || r.Text != "hello" || r.Turn.Usage.Prompt() != 128 {
		t.Errorf("%+v", r)
	}
}

// TestLongLine: a line that outgrows the limit ends the stream.
func TestLongLine(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, framed(begun, strings.Replace(hello, "hello", strings.Repeat("x", 1<<20), 1), stopped))
	})
	r := run(t, connect(t, url, func(c *Config) { c.MaxLine = 1 << 16 }), ask("hi"))
	wantError(t, r.Err, pipeline.CodeUpstream, 0, "too long")
}

func TestModels(t *testing.T) {
	const list = `{"data":[
		{"type":"model","id":"claude-opus-9","display_name":"Claude Opus 9","created_at":"2026-01-01T00:00:00Z","max_input_tokens":1000000,"max_tokens":128000,"capabilities":{"image_input":{"supported":true},"thinking":{"supported":true,"types":{}}}},
		{"id":"claude-plain-9","max_tokens":8192,"capabilities":{"image_input":{"supported":false},"thinking":{"supported":false}}},
		{"id":"claude-old-9","display_name":"Old"},
		{"id":"claude-3-5-haiku-20241022"},{"id":"claude-3-7-sonnet-20250219"},{"id":"claude-3-opus-20240229"},
		{"id":"claude-odd-9","display_name":"Odd","max_tokens":"many"},
		{"id":"other","max_tokens":null},
		7, {"id":7}, {}, null
	],"has_more":true,"first_id":"x","last_id":"y"}`
	var asked string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String() + " " + r.Header.Get("x-api-key")
		_, _ = io.WriteString(w, list)
	})
	var log bytes.Buffer
	p := connect(t, url, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	models, err := p.Models(t.Context())
	if err != nil || asked != "GET /v1/models?limit=1000 "+testKey {
		t.Fatal(err, asked)
	}
	all, seeing := []string{"tools", "vision", "thinking"}, []string{"tools", "vision"}
	full := []byte(`{"max_tokens":32000}`)
	want := []pipeline.Model{
		{ID: "claude-opus-9", Name: "Claude Opus 9", ContextTokens: 1000000, OutputTokens: 128000, Capabilities: all, Defaults: full},
		{ID: "claude-plain-9", OutputTokens: 8192, Capabilities: []string{"tools"}, Defaults: []byte(`{"max_tokens":8192}`)},
		{ID: "claude-old-9", Name: "Old", Capabilities: all, Defaults: full},
		{ID: "claude-3-5-haiku-20241022", Capabilities: seeing, Defaults: full},
		{ID: "claude-3-7-sonnet-20250219", Capabilities: all, Defaults: full},
		{ID: "claude-3-opus-20240229", Capabilities: seeing, Defaults: full},
		{ID: "claude-odd-9", Name: "Odd", Capabilities: all, Defaults: full},
		{ID: "other", Defaults: full},
	}
	if !slices.EqualFunc(models, want, func(a, b pipeline.Model) bool { return reflect.DeepEqual(a, b) }) {
		t.Errorf("%+v", models)
	}
	if n := strings.Count(log.String(), "not understood"); n != 4 || !strings.Contains(log.String(), "more models") {
		t.Errorf("%d entries logged: %s", n, log.String())
	}
	r := ask("hi")
	r.Model = "claude-plain-9"
	if n := p.maxTokens(r); n != 8192 {
		t.Errorf("%d tokens for a model that gives 8192", n)
	}
}

func TestModelsFail(t *testing.T) {
	for _, row := range []struct {
		status int
		body   string
		want   string
	}{
		{401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key ` + testKey + `"}}`, "list models: the upstream answered 401: invalid x-api-key ***"},
		{200, `<html>`, "list models: "},
		{200, `{"data":7}`, "list models: "},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(row.status)
			_, _ = io.WriteString(w, row.body)
		}))
		models, err := connect(t, s.URL).Models(t.Context())
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), testKey) {
			t.Errorf("%v, %v", models, err)
		}
		s.Close()
	}
}
