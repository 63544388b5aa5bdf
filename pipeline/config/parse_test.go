package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// rules are files that are wrong in one way each, in the order in which a file is judged.
var rules = []struct {
	file    string
	code    Code
	path    string
	message string // in part
}{
	// Parse.
	{"{\"tools\": [\"\xff\"]}", CodeMalformed, "", "line 1, column 13: not UTF-8"},
	{"\xff\xfe{\x00}\x00", CodeMalformed, "", "line 1, column 1: not UTF-8"},
	{"", CodeMalformed, "", "the file is empty: the smallest config is {}"},
	{"\uFEFF \n", CodeMalformed, "", "the file is empty"},
	{"{\n  \"sampling\": \"ignore\",\n}", CodeMalformed, "", "line 3, column 1: not valid JSON: is there a comma too many"},
	{"{\n  // how\n}", CodeMalformed, "", "line 2, column 3: not valid JSON: it has no comments"},
	{"{'sampling': 1}", CodeMalformed, "", "line 1, column 2: not valid JSON: strings stand in double quotes"},
	{"{\"ü\": \"C:\\Users\"}", CodeMalformed, "", `line 1, column 7: not valid JSON: a string that does not end in its line, or holds a lone \`},
	{"{\"a\": \"two\nlines\"}", CodeMalformed, "", "line 1, column 7: not valid JSON: a string"},
	{"{\"tools\": [1, 2", CodeMalformed, "", "line 1, column 16: not valid JSON: it ends too early"},
	{"{} {}", CodeMalformed, "", "line 1, column 4: not valid JSON"},
	{"{\"debug\": True}", CodeMalformed, "", "line 1, column 11: not valid JSON"},
	{strings.Repeat("[", 600), CodeMalformed, "", "more than 512 levels"},
	{"{\n\"limits\": {},\n\"limits\": {}}", CodeMalformed, "limits", `line 3, column 11: the key "limits" is there twice`},
	{`{"limits": {"bodyBytes": 1024, "body\u0042ytes": 2048}}`, CodeMalformed, "limits.bodyBytes", `the key "limits.bodyBytes" is there twice`},
	{`{"mcp": [0, {"a": [[{"b": 1, "c": 2, "b": 3}]]}]}`, CodeMalformed, "mcp[1].a[0][0].b", `"mcp[1].a[0][0].b" is there twice`},
	{`{"unknown": {"a": 1, "a": 2}}`, CodeMalformed, "unknown.a", "twice"},

	// Root type.
	{`[]`, CodeMalformed, "", "expected an object, got a list"},
	{`"x"`, CodeMalformed, "", "expected an object, got a string"},
	{`1`, CodeMalformed, "", "expected an object, got a number"},
	{`false`, CodeMalformed, "", "expected an object, got true or false"},

	// Unknown keys.
	{`{"limit": {}}`, CodeUnknownKey, "limit", `unknown key "limit": did you mean "limits"?`},
	{`{"Sampling": "ignore"}`, CodeUnknownKey, "Sampling", `did you mean "sampling"?`},
	{`{"body_bytes": 1}`, CodeUnknownKey, "body_bytes", `did you mean "limits.bodyBytes"?`},
	{`{"zzzzzz": 1}`, CodeUnknownKey, "zzzzzz", `known here are mcp, allowProtocolSkew, approval, provider, skills, debug, providers, fallbacks, tools, system, sampling, streamErrors, preflightMs, store, limits, telemetry`},
	{`{"": 1}`, CodeUnknownKey, "", `unknown key ""`},
	{`{"` + strings.Repeat("x", 5000) + `": 1}`, CodeUnknownKey, strings.Repeat("x", 5000), `…: known here are mcp`},

	// approval.patterns, approval.mode.
	{`{"approval": {"patterns": "rm"}}`, CodeInvalidType, "approval.patterns", "approval.patterns: expected a list of strings, got a string"},
	{`{"approval": {"patterns": {}}}`, CodeInvalidType, "approval.patterns", "expected a list of strings, got an object"},
	{`{"approval": {"patterns": ["a", 1]}}`, CodeInvalidType, "approval.patterns[1]", "approval.patterns[1]: expected a string, got a number"},
	{`{"approval": {"mode": "maybe"}}`, CodeInvalidType, "approval.mode", `approval.mode: expected "yes", "no" or "prompt", got "maybe"`},
	{`{"approval": {"mode": true}}`, CodeInvalidType, "approval.mode", "got true or false"},

	// provider.module.
	{`{"provider": {"module": "auto"}}`, CodeInvalidModule, "provider.module", `provider.module: expected "commandcode", "chat-completions", "anthropic", "openai", "azure-openai", "ollama", "vllm", "gemini", "github-copilot" or "replay", got "auto"`},
	{`{"provider": {"module": "antropic"}}`, CodeInvalidModule, "provider.module", `got "antropic": did you mean "anthropic"?`},
	{`{"provider": {"module": 5}}`, CodeInvalidModule, "provider.module", "got a number"},
	{`{"provider": {"module": ""}}`, CodeInvalidModule, "provider.module", "got an empty string"},

	// skills.
	{`{"skills": {"dirs": []}}`, CodeInvalidType, "skills.dirs", `unknown key "skills.dirs"`},
	{`{"skills": {"visibility": []}}`, CodeInvalidType, "skills.visibility", "expected an object, got a list"},
	{`{"skills": {"visibility": null}}`, CodeInvalidType, "skills.visibility", "expected an object, got null"},
	{`{"skills": {"skills": "x"}}`, CodeInvalidType, "skills.skills", "expected a list of strings, got a string"},
	{`{"skills": {"skills": [null]}}`, CodeInvalidType, "skills.skills[0]", "expected a string, got null"},

	// debug.
	{`{"debug": []}`, CodeInvalidType, "debug", "debug: expected an object, got a list"},
	{`{"debug": {"rawLLMPayloads": true}}`, CodeInvalidType, "debug.rawLLMPayloads", `did you mean "debug.rawLlmPayloads"?`},
	{`{"debug": {"rawLlmPayloads": 1}}`, CodeInvalidType, "debug.rawLlmPayloads", "expected true or false, got a number"},
	{`{"debug": {"rawLlmPayloads": null}}`, CodeInvalidType, "debug.rawLlmPayloads", "expected true or false, got null"},

	// providers, an entry after the other.
	{`{"providers": null}`, CodeInvalidType, "providers", "providers: expected an object, got null"},
	{`{"providers": ["openai"]}`, CodeInvalidType, "providers", "expected an object, got a list"},
	{`{"providers": {"": {}}}`, CodeInvalidType, "providers", "the name of a provider must not be empty"},
	{`{"providers": {"openai": "x"}}`, CodeInvalidType, "providers.openai", "providers.openai: expected an object, got a string"},
	{`{"providers": {"openai": null}}`, CodeInvalidType, "providers.openai", "expected an object, got null"},
	{`{"providers": {"mine": {}}}`, CodeInvalidModule, "providers.mine.module", `providers.mine.module is missing, and the name "mine" is no module: expected "commandcode"`},
	{`{"providers": {"ollma": {}}}`, CodeInvalidModule, "providers.ollma.module", `did you mean "ollama"?`},
	{`{"providers": {"mine": {"module": 5}}}`, CodeInvalidType, "providers.mine.module", "got a number"},
	{`{"providers": {"openai": {"module": null}}}`, CodeInvalidType, "providers.openai.module", "got null"},
	{`{"providers": {"openai": {"module": ""}}}`, CodeInvalidType, "providers.openai.module", "got an empty string"},
	{`{"providers": {"openai": {"module": "auto"}}}`, CodeInvalidModule, "providers.openai.module", `got "auto"`},
	{`{"providers": {"openai": {"config": []}}}`, CodeInvalidType, "providers.openai.config", "expected an object, got a list"},
	{`{"providers": {"openai": {"config": null}}}`, CodeInvalidType, "providers.openai.config", "expected an object, got null"},
	{`{"providers": {"openai": {"modul": "openai"}}}`, CodeUnknownKey, "providers.openai.modul", `unknown key "providers.openai.modul": did you mean "providers.openai.module"?`},
	{`{"providers": {"a.b": {"module": "vllm", "base_url": ""}}}`, CodeUnknownKey, "providers.a.b.base_url", `known here are module, config`},

	// Ours.
	// fallbacks.
	{`{"fallbacks": ["a"]}`, CodeInvalidType, "fallbacks", "fallbacks: expected an object of lists of strings, got a list"},
	{`{"fallbacks": {"m": "a"}}`, CodeInvalidType, "fallbacks.m", "fallbacks.m: expected a list of strings, got a string"},
	{`{"fallbacks": {"m": ["a", {}]}}`, CodeInvalidType, "fallbacks.m[1]", "fallbacks.m[1]: expected a string, got an object"},

	{`{"tools": "bash"}`, CodeInvalidType, "tools", "tools: expected a list of strings, got a string"},
	{`{"tools": null}`, CodeInvalidType, "tools", "got null"},
	{`{"system": "be nice"}`, CodeInvalidType, "system", "expected an object, got a string"},
	{`{"system": {"promt": ""}}`, CodeUnknownKey, "system.promt", `did you mean "system.prompt"?`},
	{`{"system": {"prompt": ["a"]}}`, CodeInvalidType, "system.prompt", "expected a string, got a list"},
	{`{"system": {"client": "drop"}}`, CodeInvalidType, "system.client", `expected "contain" or "forward", got "drop"`},
	{`{"sampling": "Forward"}`, CodeInvalidType, "sampling", `expected "ignore" or "forward", got "Forward": did you mean "forward"?`},
	{`{"streamErrors": {}}`, CodeInvalidType, "streamErrors", `expected "inline" or "event", got an object`},
	{`{"preflightMs": "50"}`, CodeInvalidType, "preflightMs", "preflightMs: expected a whole number from 0 to 60000, got a string"},
	{`{"preflightMs": -1}`, CodeInvalidType, "preflightMs", "got -1"},
	{`{"preflightMs": 60001}`, CodeInvalidType, "preflightMs", "got 60001"},
	{`{"preflightMs": 0.5}`, CodeInvalidType, "preflightMs", "got 0.5"},
	{`{"preflightMs": 1e99}`, CodeInvalidType, "preflightMs", "got 1e99"},
	{`{"store": true}`, CodeInvalidType, "store", "expected an object, got true or false"},
	{`{"store": {"transcript": true}}`, CodeUnknownKey, "store.transcript", `did you mean "store.transcripts"?`},
	{`{"store": {"transcripts": "no"}}`, CodeInvalidType, "store.transcripts", "expected true or false, got a string"},
	{`{"store": {"ledger": 0}}`, CodeInvalidType, "store.ledger", "got a number"},
	{`{"limits": []}`, CodeInvalidType, "limits", "got a list"},
	{`{"limits": {"idle": 1}}`, CodeUnknownKey, "limits.idle", `unknown key "limits.idle"`},
	{`{"limits": {"bodyBytes": 0}}`, CodeInvalidType, "limits.bodyBytes", "expected a whole number from 1024 to 1073741824, got 0"},
	{`{"limits": {"lineBytes": 1073741825}}`, CodeInvalidType, "limits.lineBytes", "got 1073741825"},
	{`{"limits": {"idleSeconds": null}}`, CodeInvalidType, "limits.idleSeconds", "got null"},
	{`{"limits": {"drainSeconds": 3601}}`, CodeInvalidType, "limits.drainSeconds", "got 3601"},
	{`{"limits": {"connections": -5}}`, CodeInvalidType, "limits.connections", "got -5"},
	{`{"limits": {"fetchImages": "yes"}}`, CodeInvalidType, "limits.fetchImages", "expected true or false, got a string"},
	{`{"limits": {"imageBytes": 12}}`, CodeInvalidType, "limits.imageBytes", "got 12"},
	{`{"telemetry": {"metrics": "off"}}`, CodeInvalidType, "telemetry.metrics", "expected true or false, got a string"},
	{`{"telemetry": {"send": false}}`, CodeUnknownKey, "telemetry.send", "known here are metrics"},
}

func TestRules(t *testing.T) {
	for _, r := range rules {
		h, err := Parse([]byte(r.file))
		e, ok := errors.AsType[*Error](err)
		if !ok || h != nil {
			t.Errorf("%.80s: got %+v, %v", r.file, h, err)
			continue
		}
		if e.Code != r.code || e.Path != r.path || !strings.Contains(e.Message, r.message) {
			t.Errorf("%.80s:\n got %s at %.100q: %s\nwant %s at %.100q: %s", r.file, e.Code, e.Path, e.Message, r.code, r.path, r.message)
		}
	}
}

// TestOrder puts two rules' faults into one file: the one that is judged first is reported, whichever stands first in the file.
func TestOrder(t *testing.T) {
	topLevel := func(file string) (key string, member json.RawMessage) {
		var m map[string]json.RawMessage
		if json.Unmarshal([]byte(file), &m) != nil || len(m) != 1 {
			return "", nil
		}
		for k, v := range m {
			key, member = k, v
		}
		return key, member
	}
	tried := 0
	for i, first := range rules {
		for _, second := range rules[i+1:] {
			a, av := topLevel(first.file)
			b, bv := topLevel(second.file)
			if av == nil || bv == nil || a == b || first.code == CodeUnknownKey && second.code == CodeUnknownKey {
				continue
			}
			if first.code == CodeMalformed || second.code == CodeUnknownKey && second.path == b {
				continue // rows out of the order that this compares
			}
			tried++
			var file bytes.Buffer
			name, _ := json.Marshal(b)
			file.WriteString("{" + string(name) + ": " + string(bv) + ", ")
			name, _ = json.Marshal(a)
			file.WriteString(string(name) + ": " + string(av) + "}")
			_, err := Parse(file.Bytes())
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Code != first.code || e.Path != first.path {
				t.Errorf("%.200s: got %v, want %s at %.100q", file.Bytes(), err, first.code, first.path)
			}
		}
	}
	if tried < 500 {
		t.Errorf("only %d pairs were tried", tried)
	}
}

// TestOrderInside is TestOrder for faults in one object, and for the steps before there is an object.
func TestOrderInside(t *testing.T) {
	for _, r := range []struct {
		file string
		code Code
		path string
	}{
		{`{"sampling": 1, "unknown": 1, "unknown": 2}`, CodeMalformed, "unknown"},
		{`{"a": 1, "a": 2, }`, CodeMalformed, ""},
		{`{"unknown2": 1, "unknown1": 1}`, CodeUnknownKey, "unknown2"},
		{`{"approval": {"mode": 1, "patterns": 1}}`, CodeInvalidType, "approval.patterns"},
		{`{"skills": {"skills": 1, "visibility": 1}}`, CodeInvalidType, "skills.visibility"},
		{`{"skills": {"skills": 1, "visibility": 1, "x": 1}}`, CodeInvalidType, "skills.x"},
		{`{"debug": {"rawLlmPayloads": 1, "x": 1}}`, CodeInvalidType, "debug.x"},
		{`{"providers": {"openai": {"x": 1, "config": 1, "module": 1}}}`, CodeInvalidType, "providers.openai.module"},
		{`{"providers": {"openai": {"x": 1, "config": 1}}}`, CodeInvalidType, "providers.openai.config"},
		{`{"providers": {"mine": {"x": 1, "config": 1}}}`, CodeInvalidModule, "providers.mine.module"},
		{`{"providers": {"openai": {"x": 1}, "": 1}}`, CodeUnknownKey, "providers.openai.x"},
		{`{"providers": {"": 1, "openai": {"x": 1}}}`, CodeInvalidType, "providers"},
		{`{"limits": {"imageBytes": 1, "bodyBytes": 1}}`, CodeInvalidType, "limits.bodyBytes"},
		{`{"limits": {"imageBytes": 1, "x": 1}}`, CodeUnknownKey, "limits.x"},
	} {
		_, err := Parse([]byte(r.file))
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Code != r.code || e.Path != r.path {
			t.Errorf("%s: got %v, want %s at %q", r.file, err, r.code, r.path)
		}
	}
}

// TestDefaults pins the config of no file, and that a file that says nothing is the same.
func TestDefaults(t *testing.T) {
	want := &Host{
		System:       System{Prompt: DefaultPrompt, Client: ClientContain},
		Sampling:     SamplingIgnore,
		StreamErrors: StreamErrorsInline,
		Preflight:    50 * time.Millisecond,
		Store:        Store{Transcripts: true, Ledger: true},
		Limits: Limits{BodyBytes: 33554432, LineBytes: 16777216, Idle: 15 * time.Minute, Tries: 3, Drain: 3 * time.Second, Connections: 0,
			FetchImages: false, ImageBytes: 20971520},
		Telemetry: Telemetry{Metrics: true},
	}
	if got := Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	for _, file := range []string{
		`{}`, `null`, " null\n", "\uFEFF{}", `{"approval": {}, "debug": null, "providers": {}, "skills": {}, "system": {}, "store": {}, "limits": {}, "telemetry": {}}`,
		`{"approval": "no object", "provider": ["none"], "skills": 5}`,
		`{"approval": null, "provider": null, "skills": null, "allowProtocolSkew": null}`,
		`{"approval": {"mode": null, "patterns": null, "anything": [1]}, "skills": {"skills": null}}`,
		`{"approval": {"patterns": []}, "tools": [], "debug": {}}`,
	} {
		if got, err := Parse([]byte(file)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", file, got, err)
		}
	}
}

// everything sets every key to something else than its default.
const everything = `{
  "mcp": {"servers": {"b": 1, "a": [2.50, "é\n"]}},
  "approval": {"mode": "prompt", "patterns": ["rm *", ""], "more": true},
  "provider": {"module": "anthropic", "config": {"default_model": "m", "n": 1e3}, "more": true},
  "providers": {
    "zeta": {"module": "chat-completions", "config": {"base_url": "http://127.0.0.1:1/v1", "b": {"y": 1, "x": 2}}},
    "openai": {},
    "alpha": {"config": {}, "module": "commandcode"}
  },
  "allowProtocolSkew": "yes",
  "skills": {"skills": ["a", "~/b"], "visibility": {"enabled": false}},
  "debug": {"rawLlmPayloads": true},
  "fallbacks": {"b": ["c", "d"], "*": []},
  "tools": ["read_file"],
  "system": {"prompt": "", "client": "forward"},
  "sampling": "forward",
  "streamErrors": "event",
  "preflightMs": 0,
  "store": {"transcripts": false, "ledger": false},
  "limits": {"bodyBytes": 1024, "lineBytes": 2e3, "idleSeconds": 0, "tries": 10, "drainSeconds": 3600, "connections": 7, "fetchImages": true, "imageBytes": 268435456},
  "telemetry": {"metrics": false}
}`

func TestEverything(t *testing.T) {
	want := &Host{
		MCP:      []byte(`{"servers":{"b":1,"a":[2.50,"é\n"]}}`),
		Approval: Approval{Mode: "prompt", Patterns: []string{"rm *", ""}},
		Provider: Override{Set: true, Module: "anthropic", Config: []byte(`{"default_model":"m","n":1e3}`)},
		Providers: []Provider{
			{ID: "zeta", Module: "chat-completions", Config: []byte(`{"base_url":"http://127.0.0.1:1/v1","b":{"y":1,"x":2}}`)},
			{ID: "openai", Module: "openai", Config: []byte(`{}`)},
			{ID: "alpha", Module: "commandcode", Config: []byte(`{}`)},
		},
		AllowProtocolSkew: true,
		Skills:            Skills{Dirs: []string{"a", "~/b"}, Visibility: []byte(`{"enabled":false}`)},
		Debug:             Debug{RawLLMPayloads: true},
		Fallbacks:         []Fallback{{"b", []string{"c", "d"}}, {AnyModel, nil}},
		Tools:             []string{"read_file"},
		System:            System{Client: ClientForward},
		Sampling:          SamplingForward,
		StreamErrors:      StreamErrorsEvent,
		Limits:            Limits{BodyBytes: 1024, LineBytes: 2000, Tries: 10, Drain: time.Hour, Connections: 7, FetchImages: true, ImageBytes: 1 << 28},
	}
	data := []byte(everything)
	got, err := Parse(data)
	clear(data) // a Host does not borrow
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

// TestOverride: the block provider is let be unless its module is wrong, also when its config is no object.
func TestOverride(t *testing.T) {
	for file, want := range map[string]Override{
		`{}`:                 {Set: true, Config: []byte(`{}`)},
		`{"module": null}`:   {Set: true, Config: []byte(`{}`)},
		`{"config": "none"}`: {Set: true, Config: []byte(`{}`)},
		`{"module": "vllm"}`: {Set: true, Config: []byte(`{}`), Module: "vllm"},
		`[]`:                 {},
	} {
		if h, err := Parse([]byte(`{"provider": ` + file + `}`)); err != nil || !reflect.DeepEqual(h.Provider, want) {
			t.Errorf("%s: got %+v, %v", file, h, err)
		}
	}
}

func TestTruthy(t *testing.T) {
	for raw, want := range map[string]bool{
		"false": false, "null": false, "0": false, "-0.0e5": false, `""`: false, "[ ]": false, "{ }": false,
		"true": true, "1": true, "-0.01": true, "1e-9": true, `"false"`: true, `" "`: true, "[0]": true, `{"a": null}`: true,
	} {
		h, err := Parse([]byte(`{"allowProtocolSkew": ` + raw + `}`))
		if err != nil || h.AllowProtocolSkew != want {
			t.Errorf("%s: got %+v, %v", raw, h, err)
		}
	}
}

// TestModules takes each module by its name and behind another.
func TestModules(t *testing.T) {
	for _, m := range Modules {
		h, err := Parse([]byte(`{"providers": {"` + m + `": {}, "my own": {"module": "` + m + `"}}, "provider": {"module": "` + m + `"}}`))
		if err != nil || h.Providers[0].Module != m || h.Providers[1].Module != m || h.Providers[1].ID != "my own" || h.Provider.Module != m {
			t.Errorf("%s: got %+v, %v", m, h, err)
		}
	}
}

// FuzzParse: whatever is parsed is shown as a file that is parsed as the same.
func FuzzParse(f *testing.F) {
	for _, r := range rules {
		f.Add([]byte(r.file))
	}
	f.Add([]byte(everything))
	f.Add([]byte(`{"mcp": "\ud800 \/ \u2028", "providers": {"\ud83d\ude00": {"module": "vllm"}, "token": {"module": "vllm", "config": {"key": ["a"]}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := Parse(data)
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok || h != nil {
				t.Fatalf("got %+v, %T", h, err)
			}
			return
		}
		again, err := Parse(h.JSON())
		if err != nil || !reflect.DeepEqual(again, h) {
			t.Fatalf("%+v\nas %s\nis %+v, %v", h, h.JSON(), again, err)
		}
		shown, err := h.Show()
		if err != nil {
			t.Fatal(err)
		}
		masked, err := Parse(shown)
		if err != nil {
			t.Fatalf("%s: %v", shown, err)
		}
		if got, want := string(masked.JSON()), string(h.Masked()); got != want {
			t.Fatalf("shown as %s\nis %s\nwant %s", shown, got, want)
		}
	})
}
