package commandcode

import (
	"bytes"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/upstream/simulator"
)

// both runs f on each surface, in front of a gateway that serves models. It is given what arrives there.
func both(t *testing.T, models []string, change func(*Config), f func(t *testing.T, p *Provider, sent func(*pipeline.Round) *simulator.Request)) {
	t.Helper()
	var rows []simulator.Model
	for _, id := range models {
		rows = append(rows, simulator.Model{ID: id})
	}
	for _, surface := range []string{SurfaceGenerate, SurfaceProvider} {
		t.Run(surface, func(t *testing.T) {
			s := simulate(t, simulator.Options{Models: rows})
			p := connect(t, s.URL(), change, func(c *Config) { c.Surface = surface })
			f(t, p, func(r *pipeline.Round) *simulator.Request {
				t.Helper()
				if res := run(t, p, r); res.Err != nil {
					t.Error(res.Err)
				}
				all := s.Requests()
				return all[len(all)-1]
			})
		})
	}
}

func TestEffort(t *testing.T) {
	const (
		all    = "claude-sonnet-5"          // low to max
		two    = "deepseek/deepseek-v4-pro" // high, max
		gap    = "Qwen/Qwen3.8-Max"         // low, medium, xhigh
		none   = "claude-haiku-4-5-20251001"
		unseen = "acme/new"
	)
	models := []string{all, two, gap, none, unseen}
	for _, configured := range []string{"", "high", "none", " Minimal "} {
		both(t, models, func(c *Config) { c.Effort = configured }, func(t *testing.T, _ *Provider, sent func(*pipeline.Round) *simulator.Request) {
			rows := [][3]string{
				{all, "low", "low"}, {all, "HIGH", "high"}, {all, "max", "max"}, {all, "minimal", "low"}, {all, "none", ""}, {all, "off", ""}, {all, "huge", ""},
				{two, "low", "high"}, {two, "medium", "high"}, {two, "xhigh", "high"}, {two, "max", "max"},
				{gap, "high", "medium"}, {gap, "max", "xhigh"}, {gap, "minimal", "low"},
				{none, "high", ""}, {unseen, "medium", "medium"}, {unseen, "none", ""},
			}
			defaults := map[string]string{"": "", "high": "high", "none": "", " Minimal ": "low"}
			rows = append(rows, [3]string{all, "", defaults[configured]})
			for _, row := range rows {
				r := ask("hi")
				r.Model, r.Sampling.Effort = row[0], row[1]
				got := sent(r)
				if got.ReasoningEffort != row[2] || bytes.Contains(got.Raw, []byte("reasoning_effort")) != (row[2] != "") {
					t.Errorf("%q, configured %q, is %q for %s, want %q", row[1], configured, got.ReasoningEffort, row[0], row[2])
				}
			}
		})
	}
	if _, err := New(Config{BaseURL: "http://127.0.0.1:9", Key: testKey, Effort: "huge"}); err == nil || err.Error() != `reasoning_effort "huge": use low, medium, high, xhigh, max, or none` {
		t.Error(err)
	}
}

// TestLeftOutEffortIsLogged: a wish that is not passed on is not lost without a word.
func TestLeftOutEffortIsLogged(t *testing.T) {
	var log bytes.Buffer
	p := connect(t, "http://127.0.0.1:9", func(c *Config) { c.Log = debugLog(&log) })
	for wish, want := range map[string]string{"huge": "effort=huge", "high": "takes no reasoning effort", "none": "", "": ""} {
		log.Reset()
		r := ask("hi")
		r.Model, r.Sampling.Effort = "claude-haiku-4-5-20251001", wish
		p.fit(r)
		if got := log.String(); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%q: logged %q", wish, got)
		}
	}
}

func TestMaxTokensOfModels(t *testing.T) {
	both(t, []string{"Qwen/Qwen3.8-27B", "claude-sonnet-5"}, func(c *Config) { c.MaxTokens = 64000 }, func(t *testing.T, p *Provider, sent func(*pipeline.Round) *simulator.Request) {
		for _, row := range []struct {
			model string
			wish  int64
			want  int
		}{
			{"Qwen/Qwen3.8-27B", 0, 32768}, {"Qwen/Qwen3.8-27B", 40000, 32768}, {"Qwen/Qwen3.8-27B", 100, 100}, {"Qwen/Qwen3.8-27B", -1, 32768},
			{"claude-sonnet-5", 0, 64000}, {"claude-sonnet-5", 1 << 30, 200000},
		} {
			r := ask("hi")
			r.Model, r.Sampling.MaxTokens = row.model, row.wish
			if got := sent(r).MaxTokens; got != row.want {
				t.Errorf("%s: %d became %d, want %d", row.model, row.wish, got, row.want)
			}
		}
		models, err := p.Models(t.Context())
		if err != nil || string(models[0].Defaults) != `{"max_tokens":32768}` || string(models[1].Defaults) != `{"max_tokens":64000}` {
			t.Errorf("%+v, %v", models, err)
		}
	})
}

// TestOnlyGoogleSchemasChange: all others arrive byte for byte.
func TestOnlyGoogleSchemasChange(t *testing.T) {
	const schema = `{ "type":"object", "properties":{"a":{"type":["string","null"],"x":1.0}} }`
	both(t, []string{"google/gemini-3.8-flash", "claude-sonnet-5"}, nop, func(t *testing.T, _ *Provider, sent func(*pipeline.Round) *simulator.Request) {
		for model, want := range map[string]string{
			"google/gemini-3.8-flash": `{"type":"object","properties":{"a":{"type":"string","x":1.0,"nullable":true}}}`,
			"gemini-3.8-flash":        `{"type":"object","properties":{"a":{"type":"string","x":1.0,"nullable":true}}}`,
			"claude-sonnet-5":         schema,
		} {
			r := ask("hi")
			r.Model, r.Tools = model, []pipeline.ToolSpec{{Name: "f", Parameters: []byte(schema)}}
			if got := string(sent(r).Tools[0].InputSchema); got != want {
				t.Errorf("%s: %s", model, got)
			}
			if string(r.Tools[0].Parameters) != schema {
				t.Error("the round was changed")
			}
		}
	})
}

// TestBlindModels: images for a model that is not known to see are sent all the same, with one warning.
func TestBlindModels(t *testing.T) {
	var log bytes.Buffer
	s := simulate(t, simulator.Options{Models: []simulator.Model{{ID: "zai-org/GLM-5.3"}, {ID: "zai-org/GLM-5.2"}, {ID: "claude-sonnet-5"}, {ID: "acme/new"}}})
	p := connect(t, s.URL(), func(c *Config) { c.Log = debugLog(&log) })
	for _, row := range []struct {
		model  string
		images bool
		warned bool
	}{
		{"zai-org/GLM-5.3", false, false}, {"zai-org/GLM-5.3", true, true}, {"zai-org/GLM-5.3", true, false}, {"zai-org/GLM-5.2", true, true},
		{"claude-sonnet-5", true, false}, {"acme/new", true, false},
	} {
		log.Reset()
		r := ask("hi")
		r.Model = row.model
		if row.images {
			r.Messages[0].Parts = append(r.Messages[0].Parts, show())
		}
		if res := run(t, p, r); res.Err != nil {
			t.Error(res.Err)
		}
		all := s.Requests()
		if parts := all[len(all)-1].Messages[0].Parts; (len(parts) == 2) != row.images {
			t.Errorf("%+v: %+v", row, parts)
		}
		if got := strings.Contains(log.String(), "level=WARN"); got != row.warned {
			t.Errorf("%+v: logged %q", row, log.String())
		}
	}
}

// TestThreadID is the session's id, if it is asked for.
func TestThreadID(t *testing.T) {
	s := simulate(t, simulator.Options{}) // which insists on version 4
	for _, on := range []bool{false, true} {
		p := connect(t, s.URL(), func(c *Config) { c.ThreadID = on })
		ids := map[string]bool{}
		for _, conversation := range []string{"one", "one", "two", ""} {
			r := ask("hi")
			r.Conversation = conversation
			if res := run(t, p, r); res.Err != nil {
				t.Fatal(res.Err)
			}
			all := s.Requests()
			got := all[len(all)-1]
			if want := map[bool]string{true: got.Header.Get("X-Session-Id")}[on]; got.ThreadID != want || bytes.Contains(got.Raw, []byte("threadId")) != on {
				t.Errorf("thread %q, session %q", got.ThreadID, got.Header.Get("X-Session-Id"))
			}
			ids[got.ThreadID] = true
		}
		if want := map[bool]int{false: 1, true: 3}[on]; len(ids) != want {
			t.Errorf("%d ids", len(ids))
		}
	}
}
