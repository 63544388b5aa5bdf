package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"amplifier-agent/upstream/simulator"
)

// surfaces are the ways to ask the gateway (rulings 11).
var surfaces = []string{"generate", "provider"}

// TestContractSurfaces: what a client sees does not depend on how the gateway is asked.
func TestContractSurfaces(t *testing.T) {
	t.Parallel()
	for _, surface := range surfaces {
		w := stage(t, scene{env: []string{"COMMANDCODE_SURFACE=" + surface}})
		if ids := listed[struct{ ID string }](t, w, "/v1/models"); len(ids) < 5 || ids[0].ID != contractModel {
			t.Errorf("%s: models %v", surface, ids)
		}
		for _, way := range []string{`,"stream":true`, `,"stream":false`} {
			if a := w.chat(t, say("Reply with exactly: yes, \u00e9 \\\"so\\\"", way)); a.Content != `yes, é \"so\"` || a.Reasoning != "Let me think." || a.Finish != "stop" || a.Usage.Prompt == 0 || a.Usage.Completion == 0 {
				t.Errorf("%s%s: %+v", surface, way, a)
			}
			if sent := w.last(t); sent.Refused || bytes.HasPrefix(sent.Raw, []byte(`{"model":`)) != (surface == "provider") {
				t.Errorf("%s: %s", surface, sent.Raw)
			}
			a := w.chat(t, say(`Call the tool f once with these arguments: {"a":  1.50}.`, fTools, way))
			if a.Finish != "tool_calls" || len(a.Calls) != 1 || a.Calls[0].Function.Arguments != `{"a":  1.50}` {
				t.Errorf("%s%s: %+v", surface, way, a)
			}
			if a := w.chat(t, body(message("user", "go")+","+calls+","+result, fTools, way)); !strings.HasPrefix(a.Content, "The tool said: ") {
				t.Errorf("%s%s: %+v", surface, way, a)
			}
		}
		w.end(t)
	}
}

// TestContractSurfaceSettings: what providers.commandcode.config and a client's settings become, on either surface.
func TestContractSurfaceSettings(t *testing.T) {
	t.Parallel()
	for _, surface := range surfaces {
		models := []simulator.Model{{ID: "claude-sonnet-5"}, {ID: "deepseek/deepseek-v4-pro"}, {ID: "Qwen/Qwen3.8-27B"}, {ID: "google/gemini-3.8-flash"}}
		for _, sampling := range []string{"ignore", "forward"} {
			w := stage(t, scene{sim: simulator.Options{Models: models}, config: `{"sampling":"` + sampling + `","providers":{"commandcode":{"config":{"surface":"` + surface +
				`","reasoning_effort":"medium","thread_id":true,"max_tokens":150000}}}}`})
			for _, row := range []struct {
				model, members     string
				ignored, forwarded string // effort and tokens
			}{
				{"claude-sonnet-5", `,"reasoning_effort":"xhigh","max_tokens":300000`, "medium 150000", "xhigh 200000"},
				{"claude-sonnet-5", `,"reasoning":{"effort":"minimal"},"max_completion_tokens":7`, "medium 150000", "low 7"},
				{"claude-sonnet-5", `,"reasoning_effort":"none"`, "medium 150000", " 150000"},
				{"deepseek/deepseek-v4-pro", `,"reasoning_effort":"max"`, "high 150000", "max 150000"},
				{"Qwen/Qwen3.8-27B", ``, "medium 32768", "medium 32768"},
			} {
				w.chat(t, `{"model":"`+row.model+`","messages":[`+message("user", "hi")+`]`+row.members+`}`, "X-Session-Id", "one")
				want := map[string]string{"ignore": row.ignored, "forward": row.forwarded}[sampling]
				sent := w.last(t)
				if got := sent.ReasoningEffort + " " + strconv.Itoa(sent.MaxTokens); got != want {
					t.Errorf("%s, %s: %s%s is %q, want %q", surface, sampling, row.model, row.members, got, want)
				}
				if (sent.ThreadID != "") != (surface == "generate") || sent.ThreadID != sent.Header.Get("X-Session-Id") {
					t.Errorf("%s: thread %q, session %q", surface, sent.ThreadID, sent.Header.Get("X-Session-Id"))
				}
			}
			w.chat(t, `{"model":"google/gemini-3.8-flash","messages":[`+message("user", "hi")+`],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"anyOf":[{"type":"integer"},{"type":"null"}]}}}}}]}`)
			if got := string(w.last(t).Tools[0].InputSchema); got != `{"type":"object","properties":{"a":{"type":"integer","nullable":true}}}` {
				t.Errorf("%s: %s", surface, got)
			}
			w.end(t)
		}
	}
}

// TestContractSurfaceRefusals: a wrong model, a limit of the plan and a banned surface, as clients hear of them.
func TestContractSurfaceRefusals(t *testing.T) {
	t.Parallel()
	for _, surface := range surfaces {
		w := stage(t, scene{env: []string{"COMMANDCODE_SURFACE=" + surface}})
		for _, row := range [][2]string{{"GLM-5.3-20260101", "zai-org/GLM-5.3"}, {"commandcode/glm-5.3", "zai-org/GLM-5.3"}, {"CLAUDE-SONNET-5@20260101", "claude-sonnet-5"}} {
			asked := len(w.upstream())
			if got := w.refused(t, 400, "unknown_model", `{"model":"`+row[0]+`","messages":[`+message("user", "hi")+`]}`); !strings.HasSuffix(got, "Did you mean '"+row[1]+"'?") || len(w.upstream()) != asked {
				t.Errorf("%s: %s", row[0], got)
			}
		}
		w.sim.Script(func(*simulator.Request) *simulator.Answer {
			return &simulator.Answer{Status: 403, Body: []byte(`{"error":{"message":"Model/provider not recognized: x"}}`), WriteSize: simulator.Coalesce}
		})
		if got := w.refused(t, 502, "upstream_error", say("hi")); !strings.Contains(got, "answered 403: Model/provider not recognized: x (404: ") || strings.Contains(got, "upstream status") {
			t.Errorf("%s: %s", surface, got)
		}
		w.sim.Script(nil)
		resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", say("[fault:status-429]"))
		if got := wantRefusal(t, resp, b, 502, "upstream_error"); resp.Header.Get("Retry-After") != "3600" || !strings.Contains(got, "(five-hour limit, of model "+contractModel+", resets at 20") {
			t.Errorf("%s: after %q: %s", surface, resp.Header.Get("Retry-After"), got)
		}
		asked := len(w.upstream())
		w.refused(t, 502, "upstream_error", say("[fault:credits]"))
		w.refused(t, 502, "upstream_error", say("[fault:proxy-use]"))
		for range 2 {
			if got := w.refused(t, 502, "upstream_error", say("hi")); !strings.HasPrefix(got, "the "+surface+" surface is switched off") || len(w.upstream()) != asked+2 {
				t.Errorf("%s: %s, after %d requests", surface, got, len(w.upstream())-asked)
			}
		}
		w.end(t)
	}
}

// TestContractSurfaceRecord: a recording of the provider surface is played by what speaks on it, and keeps no text of the request.
func TestContractSurfaceRecord(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{env: []string{"COMMANDCODE_SURFACE=provider"}, args: []string{"--record", "tapes"}})
	want := w.chat(t, say("my diary of today"))
	w.end(t)
	tapes := filepath.Join(w.cwd, "tapes")
	told, err := filepath.Glob(filepath.Join(tapes, "*.json"))
	if err != nil || len(told) != 1 {
		t.Fatal(told, err)
	}
	if b, err := os.ReadFile(told[0]); err != nil || strings.Contains(string(b), "diary") || !strings.Contains(string(b), `"surface":"provider"`) && !strings.Contains(string(b), `"surface": "provider"`) {
		t.Errorf("%s, %v", b, err)
	}
	again := stage(t, scene{config: `{"providers":{"tapes":{"module":"replay","config":{"dir":"` + tapes + `"}}}}`, env: []string{"COMMANDCODE_BASE_URL=http://127.0.0.1:1"}})
	model := listed[struct{ ID string }](t, again, "/v1/models")[0].ID
	if got := again.chat(t, `{"model":"`+model+`","messages":[`+message("user", "whatever")+`]}`); want.Content == "" || got.Content != want.Content || got.Usage.Prompt != want.Usage.Prompt {
		t.Errorf("played\n%+v\nrecorded\n%+v", got, want)
	}
	again.end(t)
}
