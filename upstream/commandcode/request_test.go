package commandcode

import (
	"bytes"
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/upstream/simulator"
)

var update = flag.Bool("update", false, "write testdata/*.golden")

const png = "data:image/png;base64,iVBORw0KGgo="

func assistant(text string, calls ...pipeline.Call) pipeline.Message {
	m := pipeline.Message{Role: pipeline.RoleAssistant, ToolCalls: calls}
	if text != "" {
		m.Parts = []pipeline.Part{{Text: text}}
	}
	return m
}

func call(id, name, arguments string) pipeline.Call {
	return pipeline.Call{ID: id, Name: name, Arguments: []byte(arguments)}
}

func toolResult(id string, parts ...pipeline.Part) pipeline.Message {
	return pipeline.Message{Role: pipeline.RoleTool, ToolCallID: id, Parts: parts}
}

func say(text string) pipeline.Part { return pipeline.Part{Text: text} }
func show() pipeline.Part           { return pipeline.Part{Image: png, MediaType: "image/png"} }

// requests are the rounds whose bodies are kept in testdata.
var requests = map[string]*pipeline.Round{
	"minimal": ask("hi"),
	"images": {System: "look", Messages: []pipeline.Message{
		{Role: pipeline.RoleUser, Parts: []pipeline.Part{say("what is this?"), show(), say(""), show(), say("and \"that\"?\n\u2028")}},
	}},
	"tools": {System: "call", Messages: []pipeline.Message{
		user("compare"),
		assistant("Looking.", call("c1", "read_file", `{"path": "a",  "n": 1.50}`), call("c2", "read_file", `{"path":"b","n":12345678901234567890}`)),
		toolResult("c1", say("content of a")),
		{Role: pipeline.RoleTool, ToolCallID: "c2", IsError: true, Parts: []pipeline.Part{say("no such"), say("file")}},
		assistant("b is missing."),
		user("and now?"),
	}},
	"continuation": {Messages: []pipeline.Message{
		user("read"), assistant("", call("c1", "read_file", `{}`)), toolResult("c1"),
	}},
	"unknown_tool_names": {Messages: []pipeline.Message{
		user("read"),
		assistant("", call("c1", "first", `{}`)), toolResult("c1", say("1")),
		assistant("", call("c1", "second", `{}`)), toolResult("c1", say("2")), // ids are used again: the nearest call counts
		user("go on"),
	}},
	"tool_images": {Messages: []pipeline.Message{
		user("draw"),
		assistant("", call("c1", "draw", `{}`), call("c2", "draw", `{}`)),
		toolResult("c1", say("drawn"), show()),
		toolResult("c2", show()),
		user("thanks"),
	}},
	"assistant_images": {Messages: []pipeline.Message{
		user("draw"),
		{Role: pipeline.RoleAssistant, Parts: []pipeline.Part{show()}},
		user("again"),
		{Role: pipeline.RoleAssistant, Parts: []pipeline.Part{say("here"), show()}, ToolCalls: []pipeline.Call{call("c1", "f", `{}`)}},
		toolResult("c1", say("ok")),
		{Role: pipeline.RoleAssistant, Parts: []pipeline.Part{say("done"), show()}},
		user("thanks"),
	}},
	"reasoning": {Messages: []pipeline.Message{
		user("think"),
		{Role: pipeline.RoleAssistant, Reasoning: "hm, \"so\"", Parts: []pipeline.Part{say("because"), say(""), say("of that")}, ToolCalls: []pipeline.Call{call("c1", "f", `{}`)}},
		toolResult("c1", say("ok")),
		{Role: pipeline.RoleAssistant, Reasoning: "only thought"},
		{Role: pipeline.RoleAssistant},
		{Role: pipeline.RoleAssistant, Parts: []pipeline.Part{say("")}},
		user(""),
		user("more"),
	}},
	"sampling": {Messages: []pipeline.Message{user("hi")}, Tools: []pipeline.ToolSpec{{Name: "f", Parameters: []byte(`{"type":"object"}`)}},
		Sampling: pipeline.Sampling{Temperature: []byte("0.20"), TopP: []byte("1"), MaxTokens: 77, Stop: []string{"\n\n", "END"},
			ToolChoice: []byte(`{"type":"function","function":{"name":"f"}}`)}},
	"sampling_bounds": {Messages: []pipeline.Message{user("hi")}, Tools: []pipeline.ToolSpec{{Name: "f", Parameters: []byte(`{"type":"object"}`)}},
		Sampling: pipeline.Sampling{MaxTokens: 1 << 30, ToolChoice: []byte(`"none"`)}},
	"sampling_required": {Messages: []pipeline.Message{user("hi")}, Tools: []pipeline.ToolSpec{{Name: "f", Parameters: []byte(`{"type":"object"}`)}},
		Sampling: pipeline.Sampling{MaxTokens: -1, ToolChoice: []byte(`"required"`)}},
	"system_texts": {System: "the system", Messages: []pipeline.Message{
		{Role: pipeline.RoleDeveloper, Parts: []pipeline.Part{say("first"), say("developer")}},
		user("hi"),
		{Role: pipeline.RoleSystem, Parts: []pipeline.Part{say("later")}},
		{Role: pipeline.RoleDeveloper, Parts: []pipeline.Part{say("  ")}},
		assistant("hello"),
		user("again"),
	}},
	"only_developer": {Messages: []pipeline.Message{{Role: pipeline.RoleDeveloper, Parts: []pipeline.Part{say("be brief")}}}},
	"empty_prompt":   ask(""),
	"odd_text":       ask("ctl \x01\t, bytes \xff\xfe, quotes \"\\\", é 😀 \u2028\u0085"),
	"odd_schemas": {Messages: []pipeline.Message{user("hi")}, Tools: []pipeline.ToolSpec{
		{Name: "spaced", Description: "with \"quotes\"", Parameters: []byte("{ \"type\" : \"object\",\n\t\"properties\" : { \"z\": {\"type\":[\"string\",\"null\"]}, \"a\": {\"const\": 1.0} }, \"x-odd\": 1e3 }")},
		{Name: "refs", Parameters: []byte(`{"$ref":"#/$defs/é","$defs":{"\u00e9":{"anyOf":[{"type":"null"},true,false]}},"required":[]}`)},
		{Name: "empty", Parameters: []byte(`{}`)},
	}},
}

// TestRequests compares the bodies that arrive at a gateway which checks them as strictly as the real one.
func TestRequests(t *testing.T) {
	s := simulate(t, simulator.Options{})
	p := connect(t, s.URL(), func(c *Config) { c.WorkingDir = "/home/dev/\"dir\"" })
	date := regexp.MustCompile(`"date":"\d{4}-\d\d-\d\d"`)
	for name, round := range requests {
		t.Run(name, func(t *testing.T) {
			r := *round
			r.Model = testModel
			if res := run(t, p, &r); res.Err != nil {
				t.Fatal(res.Err)
			}
			all := s.Requests()
			got := all[len(all)-1]
			if got.Refused || got.Header.Get("Content-Type") != "application/json" {
				t.Errorf("refused %v, %v", got.Refused, got.Header)
			}
			for i, tool := range got.Tools {
				if !bytes.Equal(tool.InputSchema, r.Tools[i].Parameters) || tool.Name != r.Tools[i].Name || tool.Description != r.Tools[i].Description {
					t.Errorf("tool %+v arrived as %+v", r.Tools[i], tool)
				}
			}
			if !json.Valid(got.Raw) {
				t.Error("no JSON")
			}
			body := append(date.ReplaceAll(got.Raw, []byte(`"date":"2026-11-30"`)), '\n')
			golden(t, name, body)
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s (run with -update if this is meant)\n got %s\nwant %s", path, got, want)
	}
}

// TestEveryGoldenFileIsUsed so that none outlives its test.
func TestEveryGoldenFileIsUsed(t *testing.T) {
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) != len(requests) {
		t.Errorf("%d files for %d requests, %v", len(files), len(requests), err)
	}
	for _, f := range files {
		if requests[strings.TrimSuffix(filepath.Base(f), ".golden")] == nil {
			t.Errorf("%s belongs to no request", f)
		}
	}
}

// TestRequestStructure holds what the golden files cannot say for themselves.
func TestRequestStructure(t *testing.T) {
	s := simulate(t, simulator.Options{})
	p := connect(t, s.URL())
	arrive := func(name string) *simulator.Request {
		r := *requests[name]
		r.Model = testModel
		run(t, p, &r)
		all := s.Requests()
		return all[len(all)-1]
	}
	roles := func(r *simulator.Request) string {
		var roles []string
		for _, m := range r.Messages {
			kinds := make([]string, len(m.Parts))
			for i, p := range m.Parts {
				kinds[i] = p.Type
			}
			roles = append(roles, m.Role+"("+strings.Join(kinds, " ")+")")
		}
		return strings.Join(roles, " ")
	}
	for name, want := range map[string]string{
		"minimal":          "user(text)",
		"images":           "user(text image image text)",
		"tools":            "user(text) assistant(text tool-call tool-call) tool(tool-result tool-result) assistant(text) user(text)",
		"tool_images":      "user(text) assistant(tool-call tool-call) tool(tool-result tool-result) user(text image image) user(text)",
		"assistant_images": "user(text) user(text image) user(text) assistant(text tool-call) tool(tool-result) assistant(text) user(text image) user(text)",
		"reasoning":        "user(text) assistant(reasoning text text tool-call) tool(tool-result) assistant(reasoning) user(text)",
		"system_texts":     "user(text) assistant(text) user(text)",
		"only_developer":   "user(text)",
	} {
		if got := roles(arrive(name)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if r := arrive("tools"); string(r.Messages[1].Parts[1].Input) != `{"path": "a",  "n": 1.50}` || string(r.Messages[1].Parts[2].Input) != `{"path":"b","n":12345678901234567890}` {
		t.Errorf("arguments %s %s", r.Messages[1].Parts[1].Input, r.Messages[1].Parts[2].Input)
	}
	if r := arrive("tools"); r.Messages[2].Parts[1].Output != (simulator.Output{Type: "error-text", Value: "no such file"}) || r.Messages[2].Parts[1].ToolName != "read_file" {
		t.Errorf("%+v", r.Messages[2])
	}
	if r := arrive("unknown_tool_names"); r.Messages[2].Parts[0].ToolName != "first" || r.Messages[4].Parts[0].ToolName != "second" {
		t.Errorf("%+v", r.Messages)
	}
	if r := arrive("system_texts"); r.System != "the system\n\nfirst developer\n\nlater" {
		t.Errorf("system %q", r.System)
	}
	if r := arrive("minimal"); !r.HasSystem || r.System != " " || r.MaxTokens != DefaultMaxTokens {
		t.Errorf("system %q, %d tokens", r.System, r.MaxTokens)
	}
	if r := arrive("odd_text"); r.LastUser() != "ctl \x01\t, bytes \uFFFD\uFFFD, quotes \"\\\", é 😀 \u2028\u0085" {
		t.Errorf("%q", r.LastUser())
	}
}

// TestOrphanResult: a result whose call nobody knows goes out under a name all the same; the gateway decides.
func TestOrphanResult(t *testing.T) {
	for name, want := range map[string]string{"": `"toolName":"unknown"`, "given": `"toolName":"given"`} {
		m := toolResult("c9", say("x"))
		m.Name = name
		if got := string(first(appendMessages(nil, []pipeline.Message{user("hi"), m}))); !strings.Contains(got, want) {
			t.Error(got)
		}
	}
}

func TestMaxTokens(t *testing.T) {
	s := simulate(t, simulator.Options{})
	for n, want := range map[int]int{0: DefaultMaxTokens, 1: 1, 200000: 200000, 256000: 200000} {
		p := connect(t, s.URL(), func(c *Config) { c.MaxTokens = n })
		run(t, p, ask("hi"))
		all := s.Requests()
		if got := all[len(all)-1].MaxTokens; got != want {
			t.Errorf("%d became %d", n, got)
		}
	}
}

func first(b []byte, _ int) []byte { return b }

// TestMovedImagesAreLogged: what the gateway would have dropped without a word is not moved without one.
func TestMovedImagesAreLogged(t *testing.T) {
	s := simulate(t, simulator.Options{})
	var log bytes.Buffer
	p, err := New(Config{BaseURL: s.URL(), Key: testKey, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	for name, want := range map[string]bool{"tools": false, "tool_images": true} {
		log.Reset()
		r := *requests[name]
		r.Model = testModel
		run(t, p, &r)
		if got := strings.Contains(log.String(), "images=2"); got != want {
			t.Errorf("%s: logged %q", name, log.String())
		}
	}
}
