package commandcode

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"amplifier-agent/pipeline"
	"amplifier-agent/upstream/simulator"
)

func onProvider(c *Config) { c.Surface = SurfaceProvider }

// TestChatSurface: rulings 11. The same models, asked by chat completions.
func TestChatSurface(t *testing.T) {
	s := simulate(t, simulator.Options{Keys: []string{testKey}})
	p := connect(t, s.URL(), onProvider, func(c *Config) { c.ZDR, c.UserAgent = true, "amplifier-agent/1.2" })
	if models, err := p.Models(t.Context()); err != nil || len(models) == 0 || models[0].ID != testModel {
		t.Fatal(models, err)
	}
	r := ask(`Call the tool f once with these arguments: {"path": "a",  "n": 1.50}.`)
	r.System, r.Conversation = "be brief", "conversation-1"
	r.Tools = []pipeline.ToolSpec{{Name: "f", Parameters: []byte(`{ "type": "object" }`)}}
	got := run(t, p, r)
	if got.Err != nil || got.Reasoning != "Let me think." || len(got.Calls) != 1 || string(got.Calls[0].Arguments) != `{"path": "a",  "n": 1.50}` || got.Finish.Reason != pipeline.ReasonToolCalls {
		t.Errorf("%+v", got)
	}
	if u := got.Turn.Usage; u.Prompt() == 0 || u.Output == 0 || u.Reasoning == 0 {
		t.Errorf("%+v", u)
	}
	sent := s.Requests()[0]
	for name, want := range map[string]string{
		"Authorization": "Bearer " + testKey, "Content-Type": "application/json", "X-Cmd-Zdr": "1", "User-Agent": "amplifier-agent/1.2",
		"X-Command-Code-Version": "", "X-Cli-Environment": "", "X-Session-Id": "",
	} {
		if got := sent.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if sent.Model != testModel || sent.System != "be brief" || sent.MaxTokens != DefaultMaxTokens || !bytes.Contains(sent.Raw, []byte(`"stream":true,"stream_options":{"include_usage":true}`)) ||
		string(sent.Tools[0].InputSchema) != `{ "type": "object" }` || bytes.Contains(sent.Raw, []byte("conversation-")) {
		t.Errorf("%s", sent.Raw)
	}

	r.Messages = append(r.Messages, pipeline.Message{Role: pipeline.RoleAssistant, Reasoning: "hm", ToolCalls: got.Calls}, toolResult(got.Calls[0].ID, say("42")))
	if got := run(t, p, r); got.Err != nil || got.Text != "The tool said: 42" {
		t.Errorf("%+v", got)
	}
	if m := s.Requests()[1].Messages[1]; m.Parts[0].Text != "hm" || string(m.Parts[1].Input) != `{"path": "a",  "n": 1.50}` {
		t.Errorf("%+v", m)
	}
	wantError(t, run(t, connect(t, s.URL(), onProvider, func(c *Config) { c.Key = "user_wrong" }), ask("hi")).Err, pipeline.CodeUpstreamAuth, 401, "Invalid or missing API key")
}

// TestChatAddress: the surface is below the path of the base URL.
func TestChatAddress(t *testing.T) {
	var path atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { path.Store(r.URL.String()) }))
	defer s.Close()
	for _, base := range []string{"/base", "/base/", "/base?x=1"} {
		p := connect(t, s.URL+base, onProvider)
		run(t, p, ask("hi"))
		if path.Load() != "/base/provider/v1/chat/completions" {
			t.Errorf("%s: %s", base, path.Load())
		}
		p.Close()
	}
}

// TestChatFaults runs every fault of the simulator on the provider surface. What is told of errors is what the other surface tells.
func TestChatFaults(t *testing.T) {
	differ := map[simulator.Fault]func(*wanted){
		simulator.FaultEOF:            func(w *wanted) { w.message = "no finish reason arrived" },
		simulator.FaultEOFTool:        func(w *wanted) { w.message = "no finish reason arrived" },
		simulator.FaultCut:            func(w *wanted) { w.message = "no finish reason arrived" },
		simulator.FaultFinishStepOnly: func(w *wanted) { w.noUsage = true }, // usage comes behind the finish reason
		simulator.FaultAbort:          func(w *wanted) { w.code, w.status, w.retry = pipeline.CodeUpstream, 502, true },
		simulator.FaultNetworkError:   func(w *wanted) { w.message = "network_error" },
	}
	s := simulate(t, simulator.Options{})
	for _, f := range simulator.Faults() {
		t.Run(string(f), func(t *testing.T) {
			w := faults[f]
			w.cost = false // nothing is said of it here
			if change := differ[f]; change != nil {
				change(&w)
			}
			s := s
			if w.idle > 0 {
				t.Parallel()
				s = simulate(t, simulator.Options{})
			}
			p := connect(t, s.URL(), onProvider, func(c *Config) { c.Idle = w.idle })
			r := ask(faultPrompt(f))
			if w.idle > 0 {
				r.Silence = 10 * time.Millisecond
			}
			w.check(t, run(t, p, r))
			if f == simulator.FaultProxyUse {
				asked := len(s.Requests())
				wantError(t, run(t, p, ask("hi")).Err, w.code, w.status, "the provider surface is switched off")
				if len(s.Requests()) != asked {
					t.Error("it was asked again")
				}
			}
			until(t, "the exchanges over", func() bool { return s.Active() == 0 })
		})
	}
}

// TestBreaker: "Proxy use detected" switches a surface off also where it comes in a stream or in answer to the list of models, and
// never another surface.
func TestBreaker(t *testing.T) {
	const words = `"message":"Proxy use detected. This endpoint only serves CLI."`
	for surface, line := range map[string]string{SurfaceGenerate: `{"type":"error","error":{` + words + `}}`, SurfaceProvider: `data: {"error":{` + words + `}}`} {
		var asked atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			_, _ = w.Write([]byte(line + "\n\n"))
		}))
		p := connect(t, s.URL, func(c *Config) { c.Surface, c.Tries = surface, 3 })
		other := connect(t, s.URL, func(c *Config) {
			c.Surface = map[string]string{SurfaceGenerate: SurfaceProvider, SurfaceProvider: SurfaceGenerate}[surface]
		})
		for _, want := range []string{"Proxy use detected", "the " + surface + " surface is switched off", "the " + surface + " surface is switched off"} {
			if e := wantError(t, run(t, p, ask("hi")).Err, pipeline.CodeUpstreamRequest, 502, want); e.Retry {
				t.Error("to be retried")
			}
		}
		if run(t, other, ask("hi")); asked.Load() != 2 {
			t.Errorf("%s: asked %d times", surface, asked.Load())
		}
		s.Close()
	}
}

// TestWrongModel: an id that the gateway does not know is not asked for again, and the error says the id that was meant.
func TestWrongModel(t *testing.T) {
	for _, surface := range []string{SurfaceGenerate, SurfaceProvider} {
		s := simulate(t, simulator.Options{})
		p := connect(t, s.URL(), func(c *Config) { c.Surface = surface })
		r := ask("hi")
		r.Model = "nobody/nothing"
		e := wantError(t, run(t, p, r).Err, pipeline.CodeUpstreamRequest, 404, "answered 403: Model/provider not recognized: nobody/nothing (404: the gateway serves no model of that id")
		if e.Param != "model" || e.Retry || strings.Contains(e.Message, "Did you mean") {
			t.Errorf("%+v", e)
		}
	}
	for refused, want := range map[string]string{
		"anthropic:Claude-Sonnet-5": ". Did you mean 'claude-sonnet-5'?", "glm-5.3": ". Did you mean 'zai-org/GLM-5.3'?", "claude-sonnet-5": "", "longcat-2.0:free": ". Did you mean 'meituan/LongCat-2.0:free'?", "x": "",
	} {
		body, _ := json.Marshal(map[string]any{"success": false, "error": map[string]any{"message": "Model/provider not recognized: " + refused}})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(403)
			_, _ = w.Write(body)
		}))
		e := pipeline.AsError(run(t, connect(t, s.URL), ask("hi")).Err)
		if hint := e.Message[strings.Index(e.Message, "lower case)")+len("lower case)"):]; hint != want {
			t.Errorf("%s: %q, want %q", refused, e.Message, want)
		}
		s.Close()
	}
}
