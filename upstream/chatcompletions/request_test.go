package chatcompletions

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
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

func toolCall(id, name, arguments string) pipeline.Call {
	return pipeline.Call{ID: id, Name: name, Arguments: []byte(arguments)}
}

func toolResult(id string, parts ...pipeline.Part) pipeline.Message {
	return pipeline.Message{Role: pipeline.RoleTool, ToolCallID: id, Parts: parts}
}

func developer(text string) pipeline.Message {
	return pipeline.Message{Role: pipeline.RoleDeveloper, Parts: []pipeline.Part{say(text)}}
}

func say(text string) pipeline.Part { return pipeline.Part{Text: text} }
func show() pipeline.Part           { return pipeline.Part{Image: png, MediaType: "image/png"} }

var schema = []byte("{ \"type\" : \"object\",\n\"properties\":{\"path\":{\"type\":\"string\"},\"n\":{\"const\": 1.0}} }")

// requests are the rounds whose bodies are kept in testdata, each with its preset.
var requests = map[string]struct {
	preset string
	change func(*Config)
	round  *pipeline.Round
}{
	"minimal":           {round: ask("hi")},
	"effort":            {preset: "openai", round: &pipeline.Round{Messages: []pipeline.Message{user("hi")}, Sampling: pipeline.Sampling{Effort: "minimal", Temperature: []byte("1")}}},
	"effort_configured": {change: func(c *Config) { c.Effort = "a \"lot\"" }, round: ask("hi")},
	"effort_both":       {change: func(c *Config) { c.Effort = "low" }, round: &pipeline.Round{Messages: []pipeline.Message{user("hi")}, Sampling: pipeline.Sampling{Effort: "high"}}},
	"signatures": {preset: "gemini", round: &pipeline.Round{Messages: []pipeline.Message{
		user("compare"), assistant("", toolCall("c1", "f", `{}`), toolCall("c2", "f", `{"a": 1}`)), toolResult("c1", say("1")), toolResult("c2", say("2")),
	}}},
	"images": {round: &pipeline.Round{System: "look", Messages: []pipeline.Message{
		{Role: pipeline.RoleUser, Parts: []pipeline.Part{say("what is this?"), show(), say(""), show(), say("and \"that\"?\n\u2028")}},
		assistant("a dot"),
		{Role: pipeline.RoleUser, Parts: []pipeline.Part{say(""), say("really?")}},
		{Role: pipeline.RoleUser, Parts: []pipeline.Part{show()}},
	}}},
	"tools": {round: &pipeline.Round{System: "call", Messages: []pipeline.Message{
		user("compare"),
		assistant("Looking.", toolCall("c1", "read_file", `{"path": "a",  "n": 1.50}`), toolCall("c2", "read_file", `{"path":"b","n":12345678901234567890}`)),
		toolResult("c1", say("content of a")),
		{Role: pipeline.RoleTool, ToolCallID: "c2", IsError: true, Parts: []pipeline.Part{say("no such"), say("file")}},
		assistant("", toolCall("c3", "read_file", `{}`)),
		toolResult("c3"),
		assistant("b is missing."),
		user("and now?"),
	}, Tools: []pipeline.ToolSpec{{Name: "read_file", Description: "Reads \"one\" file", Parameters: schema}, {Name: "bare"}}}},
	"tool_images": {round: &pipeline.Round{Messages: []pipeline.Message{
		user("draw"),
		assistant("", toolCall("c1", "draw", `{}`), toolCall("c2", "draw", `{}`)),
		toolResult("c1", say("drawn"), show()),
		toolResult("c2", show()),
		user("thanks"),
	}}},
	"assistant_images": {round: &pipeline.Round{Messages: []pipeline.Message{
		user("draw"),
		{Role: pipeline.RoleAssistant, Parts: []pipeline.Part{show()}},
		user("again"),
		{Role: pipeline.RoleAssistant, Parts: []pipeline.Part{say("here"), show()}, ToolCalls: []pipeline.Call{toolCall("c1", "f", `{}`)}},
		toolResult("c1", say("ok")),
	}}},
	"reasoning":        {round: thoughtful},
	"reasoning_ollama": {preset: "ollama", round: thoughtful},
	"reasoning_openai": {preset: "openai", round: thoughtful},
	"reasoning_never":  {change: func(c *Config) { c.Reasoning = ReasoningNever }, round: thoughtful},
	"reasoning_named":  {preset: "openai", change: func(c *Config) { c.Reasoning = `th"ink` }, round: thoughtful},
	"system_folded":    {round: instructed},
	"system_in_place":  {preset: "openai", round: instructed},
	"only_developer":   {round: &pipeline.Round{Messages: []pipeline.Message{developer("be brief")}}},
	"sampling": {round: &pipeline.Round{Messages: []pipeline.Message{user("hi")}, Tools: []pipeline.ToolSpec{{Name: "f", Parameters: []byte(`{}`)}}, Sampling: pipeline.Sampling{
		Temperature: []byte("0.70"), TopP: []byte("1e0"), MaxTokens: 77, Stop: []string{"\n\n", "END"}, ToolChoice: []byte(`{"type": "function","function":{"name":"f"}}`)}}},
	"sampling_openai": {preset: "openai", round: &pipeline.Round{Messages: []pipeline.Message{user("hi")}, Sampling: pipeline.Sampling{MaxTokens: 77, ToolChoice: []byte(`"none"`)}}},
	"max_tokens":      {change: func(c *Config) { c.MaxTokens = 55 }, round: &pipeline.Round{Messages: []pipeline.Message{user("hi")}, Sampling: pipeline.Sampling{MaxTokens: -1, Stop: []string{"x"}}}},
	"empty_prompt":    {round: ask("")},
	"nothing":         {round: &pipeline.Round{System: "be brief"}},
	"odd_text":        {round: ask("ctl \x01\t, bytes \xff\xfe, quotes \"\\\", é 😀 \u2028\u0085")},
}

var thoughtful = &pipeline.Round{Messages: []pipeline.Message{
	user("read"),
	{Role: pipeline.RoleAssistant, Reasoning: "I \"should\"", ToolCalls: []pipeline.Call{toolCall("c1", "f", `{}`)}},
	toolResult("c1", say("ok")),
	{Role: pipeline.RoleAssistant, Reasoning: "only thought"},
	{Role: pipeline.RoleAssistant, Reasoning: "and said", Parts: []pipeline.Part{say("one"), say("two")}},
	user("thanks"),
}}

var instructed = &pipeline.Round{System: "the system", Messages: []pipeline.Message{
	developer("first"), user("hi"), {Role: pipeline.RoleSystem, Parts: []pipeline.Part{say("later")}}, developer(""), assistant("hello"), user("again"),
}}

// arriving is the body that arrives at an upstream.
func arriving(t *testing.T, preset string, change func(*Config), round *pipeline.Round) []byte {
	t.Helper()
	var got []byte
	answer := sse(hello, stop)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/base/chat/completions" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		got, _ = io.ReadAll(r.Body)
		answer(w, r)
	})
	p := connect(t, s.URL+"/base", func(c *Config) {
		if c.Preset = preset; change != nil {
			change(c)
		}
	})
	r := *round
	r.Model = testModel
	if res := run(t, p, &r); res.Err != nil {
		t.Fatal(res.Err)
	}
	if !json.Valid(got) {
		t.Errorf("no JSON: %s", got)
	}
	return got
}

func TestRequests(t *testing.T) {
	for name, row := range requests {
		t.Run(name, func(t *testing.T) {
			golden(t, name, append(arriving(t, row.preset, row.change, row.round), '\n'))
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
		if _, ok := requests[strings.TrimSuffix(filepath.Base(f), ".golden")]; !ok {
			t.Errorf("%s belongs to no request", f)
		}
	}
}

// TestArgumentsArriveByteByByte: what a model wrote is what it gets back (rulings 25), whatever stands in it.
func TestArgumentsArriveByteByByte(t *testing.T) {
	arguments := "{\"path\": \"a\\u00e9é\u2028\",\r\n\t\"n\": 1.50,\"n\":12345678901234567890, \"s\":\"\\\\\\\"\"}"
	raw := arriving(t, "", nil, &pipeline.Round{Messages: []pipeline.Message{user("hi"), assistant("", toolCall("c1", "f", arguments)), toolResult("c1", say("ok"))}})
	var got struct {
		Messages []struct {
			ToolCalls []struct {
				Function struct{ Arguments string }
			} `json:"tool_calls"`
		}
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if a := got.Messages[1].ToolCalls[0].Function.Arguments; a != arguments {
		t.Errorf("%q, want %q", a, arguments)
	}
}
