package anthropic

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
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

func failed(m pipeline.Message) pipeline.Message {
	m.IsError = true
	return m
}

func say(text string) pipeline.Part { return pipeline.Part{Text: text} }
func show() pipeline.Part           { return pipeline.Part{Image: png, MediaType: "image/png"} }

// requests are the rounds whose bodies are kept in testdata.
var requests = map[string]*pipeline.Round{
	"minimal": ask("hi"),
	"images": {System: "look", Messages: []pipeline.Message{
		{Role: pipeline.RoleUser, Parts: []pipeline.Part{say("what is this?"), show(), say(""), {Image: "data:image/jpg;base64,/9j/", MediaType: "image/jpg"}, say("and \"that\"?\n\u2028")}},
	}},
	"tools": {System: "call", Messages: []pipeline.Message{
		user("compare"),
		assistant("Looking.", call("c1", "read_file", `{"path": "a",  "n": 1.50}`), call("c2", "read_file", `{"path":"b","n":12345678901234567890}`)),
		toolResult("c2", say("content of b")), // in another order than the calls
		failed(toolResult("c1", say("no such"), say("file"))),
		user("and now?"),
		assistant("a is missing."),
		user("thanks"),
		user("and bye"),
	}},
	"continuation": {Messages: []pipeline.Message{
		user("read"), assistant("", call("c1", "read_file", `{}`)), toolResult("c1"),
	}},
	"foreign_ids": {Messages: []pipeline.Message{
		user("read"),
		assistant("", call("functions.read:0", "fs.read", `{}`), call("functions.read|0", "f", `{}`), call("", "f", `{}`)),
		toolResult("functions.read|0", say("2")), toolResult("functions.read:0", say("1")), toolResult("", say("3")),
		assistant("", call("functions.read:0", "f", `{}`), call("functions_read_0", "f", `{}`), call("é", "f", `{}`)),
		toolResult("functions.read:0", say("4")), toolResult("functions_read_0", say("5")), toolResult("é", say("6")),
	}},
	"tool_images": {Messages: []pipeline.Message{
		user("draw"),
		assistant("", call("c1", "draw", `{}`), call("c2", "draw", `{}`), call("c3", "draw", `{}`)),
		toolResult("c1", say("drawn"), show(), say(" "), say("so")),
		toolResult("c2", show()),
		failed(toolResult("c3", show())),
		user("thanks"),
	}},
	"assistant_images": {Messages: []pipeline.Message{
		user("draw"),
		{Role: pipeline.RoleAssistant, Parts: []pipeline.Part{show()}},
		user("again"),
		{Role: pipeline.RoleAssistant, Parts: []pipeline.Part{say("here"), show()}, ToolCalls: []pipeline.Call{call("c1", "f", `{}`)}},
		toolResult("c1", say("ok")),
		{Role: pipeline.RoleAssistant, Parts: []pipeline.Part{say("done"), show()}},
	}},
	"broken_history": {Messages: []pipeline.Message{
		toolResult("c0", say("of no call")),
		assistant("", call("c1", "f", `{}`), call("c2", "f", `{}`)),
		toolResult("c2", say("first")), toolResult("c2", say("second")),
		assistant("on"),
		toolResult("c1", say("too late")),
		user("go"),
		assistant("", call("c3", "f", `{}`)),
	}},
	"reasoning": {Messages: []pipeline.Message{
		user("think"),
		{Role: pipeline.RoleAssistant, Reasoning: "hm, \"so\"", Parts: []pipeline.Part{say("because"), say(""), say("of that")}},
		user("\n"),
		{Role: pipeline.RoleAssistant, Reasoning: "only thought"},
		assistant("and so on"),
		user("more"),
	}},
	"prefill":        {Messages: []pipeline.Message{assistant("The answer is: \n")}},
	"empty_prompt":   {Messages: []pipeline.Message{user("hi"), assistant("hello"), user(" \n")}},
	"nothing":        {},
	"only_developer": {Messages: []pipeline.Message{{Role: pipeline.RoleDeveloper, Parts: []pipeline.Part{say("be brief")}}}},
	"system_texts": {System: "the system", Messages: []pipeline.Message{
		{Role: pipeline.RoleDeveloper, Parts: []pipeline.Part{say("first"), say("developer")}},
		user("hi"),
		{Role: pipeline.RoleSystem, Parts: []pipeline.Part{say("later")}},
		{Role: pipeline.RoleDeveloper, Parts: []pipeline.Part{say("  ")}},
		user("again"),
	}},
	"sampling": {Messages: []pipeline.Message{user("hi")}, Tools: []pipeline.ToolSpec{{Name: "f", Parameters: []byte(`{"type":"object"}`)}},
		Sampling: pipeline.Sampling{Temperature: []byte("0.20"), TopP: []byte("1"), MaxTokens: 77, Stop: []string{"\n\n", "END", "\"x"},
			ToolChoice: []byte(`{"type":"function","function":{"name":"f"}}`)}},
	"sampling_bounds": {Messages: []pipeline.Message{user("hi")}, Tools: []pipeline.ToolSpec{{Name: "f", Parameters: []byte(`{"type":"object"}`)}},
		Sampling: pipeline.Sampling{Temperature: []byte("1.5"), MaxTokens: -1, Stop: []string{" "}, ToolChoice: []byte(`"required"`)}},
	"sampling_none": {Messages: []pipeline.Message{user("hi")}, Tools: []pipeline.ToolSpec{{Name: "f", Parameters: []byte(`{"type":"object"}`)}},
		Sampling: pipeline.Sampling{TopP: []byte("0.9"), ToolChoice: []byte(`"none"`)}},
	"choice_without_tools": {Messages: []pipeline.Message{user("hi")}, Sampling: pipeline.Sampling{ToolChoice: []byte(`"auto"`)}},
	"odd_text":             ask("ctl \x01\t, bytes \xff\xfe, quotes \"\\\", é 😀 \u2028\u0085"),
	"odd_schemas": {Messages: []pipeline.Message{user("hi")}, Tools: []pipeline.ToolSpec{
		{Name: "spaced", Description: "with \"quotes\"", Parameters: []byte("{ \"type\" : \"object\",\n\t\"properties\" : { \"z\": {\"type\":[\"string\",\"null\"]} }, \"x-odd\": 1e3 }")},
		{Name: "refs", Parameters: []byte(` {"$ref":"#/$defs/é","$defs":{"\u00e9":{"type":"string"}}}`)},
		{Name: "empty", Parameters: []byte(`{ }`)},
		{Name: "absent"},
	}},
}

// TestRequests compares the bodies that arrive, and holds them against the rules of the API.
func TestRequests(t *testing.T) {
	p := connect(t, "http://127.0.0.1:1")
	for name, round := range requests {
		r := *round
		r.Model = testModel
		got := p.appendRequest(nil, &r)
		if err := validate(got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		golden(t, name, append(got, '\n'))
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

func TestMaxTokens(t *testing.T) {
	for _, row := range []struct {
		configured int
		wish, want int64
	}{{0, 0, DefaultMaxTokens}, {500, 0, 500}, {500, 700, 700}, {500, -1, 500}, {0, 1 << 40, 1 << 40}} {
		p := connect(t, "http://127.0.0.1:1", func(c *Config) { c.MaxTokens = row.configured })
		r := ask("hi")
		r.Sampling.MaxTokens = row.wish
		var b sentBody
		if err := json.Unmarshal(p.appendRequest(nil, r), &b); err != nil || b.MaxTokens != row.want {
			t.Errorf("%+v became %d, %v", row, b.MaxTokens, err)
		}
		p.limits.Store(&map[string]int64{testModel: 64})
		if err := json.Unmarshal(p.appendRequest(nil, r), &b); err != nil || b.MaxTokens != 64 {
			t.Errorf("%+v became %d of at most 64, %v", row, b.MaxTokens, err)
		}
	}
}

func TestToolChoice(t *testing.T) {
	for choice, want := range map[string]string{
		"": "", `"auto"`: `{"type":"auto"}`, `"none"`: `{"type":"none"}`, `"required"`: `{"type":"any"}`, `"other"`: "", `7`: "", `{}`: "", `{"function":7}`: "",
		`{"type":"function","function":{"name":"f\"g"}}`: `{"type":"tool","name":"f\"g"}`,
	} {
		var raw []byte
		if choice != "" {
			raw = []byte(choice)
		}
		if got := string(toolChoice(raw)); got != want {
			t.Errorf("%s is %s, want %s", choice, got, want)
		}
	}
}
