package replay

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/anthropic"
	"amplifier-agent/upstream/chatcompletions"
	"amplifier-agent/upstream/commandcode"
	"amplifier-agent/upstream/commandcode/fixtures"
	"amplifier-agent/upstream/recording"
)

// events is what a stream brings, without what depends on timing.
func events(ctx context.Context, p pipeline.Provider, model string) string {
	var b strings.Builder
	for ev, err := range p.Stream(ctx, &pipeline.Round{Model: model, Messages: []pipeline.Message{{Role: pipeline.RoleUser, Parts: []pipeline.Part{{Text: "my diary"}}}}}) {
		switch {
		case err != nil:
			e := pipeline.AsError(err)
			fmt.Fprintf(&b, "%s %d %v %v %s\n", e.Code, e.Status, e.Retry, e.RetryAfter, e.Message)
		case ev.Kind != pipeline.Flush && ev.Kind != pipeline.Idle:
			fmt.Fprintf(&b, "%d %s %s %s %v\n", ev.Kind, ev.ID, ev.Name, []byte(ev.Text), ev.Step)
		}
	}
	return b.String()
}

// TestRecordAndReplay: what a recording plays is what was recorded, whoever it was that was asked and however it ended; also when it
// is read byte by byte.
func TestRecordAndReplay(t *testing.T) {
	sse := func(events ...string) string { return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n" }
	type answer struct {
		status int
		header string // Retry-After
		body   string
		cut    bool
	}
	answers := map[string]answer{}
	for _, name := range fixtures.Names() {
		answers["commandcode "+name] = answer{200, "", string(fixtures.Body(name)), false}
	}
	for name, a := range map[string]answer{
		"openai answers": {200, "", sse(`{"choices":[{"index":0,"delta":{"content":"Yé\u00e9s"}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\""}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":": 1}"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5}}`, "[DONE]"), false},
		"azure-openai cut": {200, "", sse(`{"choices":[{"index":0,"delta":{"content":"half"}}]}`), true},
		"anthropic answers": {200, "", sse(`{"type":"message_start","message":{"usage":{"input_tokens":15}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Yes"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}`, `{"type":"message_stop"}`), false},
		"anthropic overloaded": {529, "3", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, false},
		"commandcode waits":    {429, "3600", `{"error":{"code":"RATE_LIMITED","message":"wait","rateLimit":{"window":"weekly"}}}`, false},
		"openai page":          {503, "", `<html>the sorry page</html>`, false},
		"openai nothing":       {500, "", ``, false},
	} {
		answers[name] = a
	}
	for name, a := range answers {
		t.Run(name, func(t *testing.T) {
			module, _, _ := strings.Cut(name, " ")
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if a.header != "" {
					w.Header().Set("Retry-After", a.header)
				}
				w.Header().Set("Content-Type", "text/event-stream")
				w.WriteHeader(a.status)
				_, _ = io.WriteString(w, a.body)
				if a.cut {
					_ = http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				}
			}))
			defer server.Close()
			dir := t.TempDir()
			mask := new(secret.Mask)
			folder, err := recording.NewFolder(dir, mask, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			rec := folder.Recorder(recording.Source{Provider: "mine", Module: module})
			p, err := open(module, server.URL, rec, mask)
			if err != nil {
				t.Fatal(err)
			}
			want := events(t.Context(), p, "vendor/model")
			p.Close()
			if want == "" {
				t.Error("nothing was recorded")
			}
			for _, cut := range []func(io.Reader) io.Reader{nil, iotest.OneByteReader} {
				r := New(Config{Files: os.DirFS(dir), Cut: cut})
				models, err := r.Models(t.Context())
				if err != nil || len(models) != 1 || models[0].Name != fmt.Sprintf("mine/vendor/model, status %d", a.status) {
					t.Fatalf("%+v, %v", models, err)
				}
				if got := events(t.Context(), r, models[0].ID); got != want {
					t.Errorf("played\n%s\nrecorded\n%s", got, want)
				}
			}
			list, err := os.ReadDir(dir)
			for _, f := range list {
				b, err := os.ReadFile(filepath.Join(dir, f.Name()))
				if err != nil || strings.Contains(string(b), "the-real-key") || strings.Contains(string(b), "diary") {
					t.Errorf("%s holds what is private (%v)", f.Name(), err)
				}
			}
			if err != nil || len(list) != 2 {
				t.Errorf("%d files, %v", len(list), err)
			}
		})
	}
}

func open(module, url string, rec upstream.Recorder, mask *secret.Mask) (provider, error) {
	switch module {
	case commandcode.Name:
		return commandcode.New(commandcode.Config{BaseURL: url, Key: "the-real-key", Tries: 1, Recorder: rec, Mask: mask})
	case anthropic.Name:
		return anthropic.New(anthropic.Config{BaseURL: url, Key: "the-real-key", Tries: 1, Recorder: rec, Mask: mask})
	}
	return chatcompletions.New(chatcompletions.Config{Preset: module, BaseURL: url, Key: "the-real-key", Models: []string{"vendor/model"}, Tries: 1, Recorder: rec, Mask: mask})
}

// TestRecordingStops: a consumer that has had enough, or whose context ends, ends the exchange in memory too.
func TestRecordingStops(t *testing.T) {
	dir := t.TempDir()
	meta := `{"schema_version":1,"provider":"p","module":%q,"model":"m","request":{"method":"POST"},"response":{"status":200,"header":{"Content-Type":"text/event-stream"},"body":"b.ndjson","whole":true}}`
	for name, content := range map[string]string{
		"a.json": fmt.Sprintf(meta, "commandcode"), "b.ndjson": string(fixtures.Body("02_reasoning_text_tool")), "c.json": fmt.Sprintf(meta, "unheard-of"),
	} {
		if err := os.WriteFile(dir+"/"+name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := New(Config{Files: os.DirFS(dir)})
	for n := 1; n < 8; n++ {
		events := 0
		if _, _, err := play(t.Context(), p, "a", func(*pipeline.Event) bool { events++; return events < n }); err != nil || events != n {
			t.Errorf("%d events, %v", events, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err := play(ctx, New(Config{Files: os.DirFS(dir), Cut: iotest.OneByteReader}), "a", func(ev *pipeline.Event) bool {
		if ev.Kind == pipeline.Reasoning {
			cancel()
		}
		return true
	})
	if e := pipeline.AsError(err); e.Code != pipeline.CodeAborted {
		t.Errorf("got %v", err)
	}
	if _, _, err := play(t.Context(), p, "c", nil); err == nil || !strings.Contains(err.Error(), "unheard-of") {
		t.Errorf("got %v", err)
	}
}
