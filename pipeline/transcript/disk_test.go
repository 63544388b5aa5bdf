package transcript_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/transcript"
)

var key = pipeline.SessionKey{Workspace: "my-project", Session: "http-abc"}

func folder(home string, k pipeline.SessionKey) string {
	return filepath.Join(home, "state", "workspaces", k.Workspace, "sessions", k.Session)
}

func raw(m pipeline.Message, raw string) pipeline.Message {
	m.Raw = []byte(raw)
	return m
}

func call(id, name, arguments string) pipeline.Call {
	return pipeline.Call{ID: id, Name: name, Arguments: []byte(arguments)}
}

// lineRows are messages and the lines that they are stored as.
var lineRows = []struct {
	name string
	m    pipeline.Message
	line string
}{
	{"built: a user", user("a\nb \"北\""), `{"role":"user","content":"a\nb \"北\""}`},
	{"built: no content", pipeline.Message{Role: pipeline.RoleUser}, `{"role":"user","content":null}`},
	{"built: a list without parts", pipeline.Message{Role: pipeline.RoleUser, Parts: []pipeline.Part{}}, `{"role":"user","content":[]}`},
	{"built: parts", pipeline.Message{Role: pipeline.RoleUser, Parts: []pipeline.Part{{Text: "a"}, {Image: "data:image/png;base64,AAAA", MediaType: "image/png"}}},
		`{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}`},
	{"built: one image", pipeline.Message{Role: pipeline.RoleUser, Parts: []pipeline.Part{{Image: "data:image/png;name=x;base64,AA==", MediaType: "image/png"}}},
		`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;name=x;base64,AA=="}}]}`},
	{"built: calls and reasoning", pipeline.Message{Role: pipeline.RoleAssistant, Name: "n", Reasoning: "why", ToolCalls: []pipeline.Call{
		call("c1", "read", `{ "b" : 1.0, "a": "x y" }`), call("c2", "ls", ``)}},
		`{"role":"assistant","content":"","reasoning_content":"why","tool_calls":[{"id":"c1","tool":"read","arguments":{"b":1.0,"a":"x y"}},{"id":"c2","tool":"ls","arguments":{}}],"name":"n"}`},
	{"built: an error", pipeline.Message{Role: pipeline.RoleTool, Name: "read", ToolCallID: "c1", IsError: true, Parts: []pipeline.Part{{Text: "no"}}},
		`{"role":"tool","content":"no","tool_call_id":"c1","name":"read","is_error":true}`},
	{"raw: members that nobody knows", raw(user("hi"), "{ \"cache_control\" : {\"type\" : \"x\"},\r\n \"role\":\"user\", \"content\" : \"h\\u0069\",\n\"n\":1.50 }"),
		`{"cache_control":{"type":"x"},"role":"user","content":"h\u0069","n":1.50}`},
	{"raw: escaped and repeated keys", raw(user("2"), `{"r\u006fle":"user","content":"1","content": "2", "a\"b" : 1}`),
		`{"r\u006fle":"user","content":"1","content":"2","a\"b":1}`},
	{"raw: an assistant's null", raw(pipeline.Message{Role: pipeline.RoleAssistant}, `{"role":"assistant","content":null}`),
		`{"role":"assistant","content":""}`},
	{"raw: an assistant without content", raw(pipeline.Message{Role: pipeline.RoleAssistant, ToolCalls: []pipeline.Call{call("c", "t", `{"a": 1}`)}},
		`{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"t","arguments":"{\"a\": 1}"}}], "x":0}`),
		`{"role":"assistant","tool_calls":[{"id":"c","tool":"t","arguments":{"a":1}}],"x":0,"content":""}`},
	{"raw: a user's null stays", raw(pipeline.Message{Role: pipeline.RoleUser}, `{"role":"user","content":null}`), `{"role":"user","content":null}`},
	{"raw: no calls", raw(assistant("a"), `{"role":"assistant","content":"a","tool_calls":[], "reasoning": null}`),
		`{"role":"assistant","content":"a","tool_calls":[],"reasoning":null}`},
	{"raw: reasoning under its other name", raw(pipeline.Message{Role: pipeline.RoleAssistant, Reasoning: "why", Parts: []pipeline.Part{{Text: "a"}}},
		`{"role":"assistant","content":[{"type":"text","text":"a","cache_control":{}}],"reasoning":"why"}`),
		`{"role":"assistant","content":[{"type":"text","text":"a","cache_control":{}}],"reasoning":"why"}`},
	{"raw: parts that are passed over", raw(pipeline.Message{Role: pipeline.RoleAssistant, Parts: []pipeline.Part{{Text: "no"}}},
		`{"role":"assistant","content":[{"type":"thinking","thinking":"x"},{"type":"refusal","refusal":"no"},7]}`),
		`{"role":"assistant","content":[{"type":"thinking","thinking":"x"},{"type":"refusal","refusal":"no"},7]}`},
	{"raw: an empty object", raw(pipeline.Message{Role: pipeline.RoleTool, ToolCallID: "c"}, `{"tool_call_id":"c","role":"tool"}`),
		`{"tool_call_id":"c","role":"tool"}`},
}

// expected is what m is once it was stored and loaded as line.
func expected(m pipeline.Message, line string) pipeline.Message {
	m.Raw = []byte(line)
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i, c := range m.ToolCalls {
		if len(c.Arguments) == 0 {
			c.Arguments = []byte("{}")
		}
		var b bytes.Buffer
		if err := json.Compact(&b, c.Arguments); err != nil {
			panic(err)
		}
		m.ToolCalls[i].Arguments = b.Bytes()
	}
	if len(m.ToolCalls) == 0 {
		m.ToolCalls = nil
	}
	if m.Role == pipeline.RoleAssistant && len(m.Parts) == 1 && m.Parts[0] == (pipeline.Part{}) {
		m.Parts = nil
	}
	return m
}

func TestDiskRoundTrip(t *testing.T) {
	home := t.TempDir()
	d := transcript.NewDisk(home, quiet)
	var messages, want []pipeline.Message
	var lines []string
	for _, row := range lineRows {
		messages = append(messages, row.m)
		want = append(want, expected(row.m, row.line))
		lines = append(lines, row.line)
	}
	if d.Exists(key) {
		t.Error("a session before anything was stored")
	}
	if _, err := d.Load(t.Context(), key); err != pipeline.ErrNoSession {
		t.Errorf("load before anything was stored: %v", err)
	}
	before := clone(messages)
	if err := d.Replace(t.Context(), key, pipeline.Transcript{Messages: messages, Mark: pipeline.MarkClient}); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(messages, before) {
		t.Error("the messages were changed")
	}
	b, err := os.ReadFile(filepath.Join(folder(home, key), "transcript.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(string(b), "\n")
	for i, row := range lineRows {
		if i < len(got) && got[i] != row.line {
			t.Errorf("%s:\ngot  %s\nwant %s", row.name, got[i], row.line)
		}
	}
	if string(b) != strings.Join(lines, "\n") {
		t.Errorf("the file holds %d lines", len(got))
	}
	if b, err := os.ReadFile(filepath.Join(folder(home, key), "metadata.json")); err != nil || string(b) != `{"last_turn":"client_reconciled"}` {
		t.Errorf("metadata: %s, %v", b, err)
	}
	loaded, err := d.Load(t.Context(), key)
	if err != nil || len(loaded.Messages) != len(want) || loaded.Mark != pipeline.MarkClient {
		t.Fatalf("loaded %d messages with mark %q: %v", len(loaded.Messages), loaded.Mark, err)
	}
	for i, row := range lineRows {
		if !reflect.DeepEqual(loaded.Messages[i], want[i]) {
			t.Errorf("%s:\nloaded %+v\nwant   %+v", row.name, loaded.Messages[i], want[i])
		}
	}
	if !d.Exists(key) || d.Exists(pipeline.SessionKey{Workspace: "my-project", Session: "http-other"}) {
		t.Error("exists is wrong")
	}

	// What was loaded is stored as the same bytes.
	if err = d.Replace(t.Context(), key, pipeline.Transcript{Messages: loaded.Messages, Mark: pipeline.MarkRepaired}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"transcript.jsonl", "transcript.jsonl.backup"} {
		if again, err := os.ReadFile(filepath.Join(folder(home, key), name)); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s is another one: %v", name, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(folder(home, key), "metadata.json.backup")); err != nil || string(b) != `{"last_turn":"client_reconciled"}` {
		t.Errorf("backup of the metadata: %s, %v", b, err)
	}
	if runtime.GOOS != "windows" {
		checkModes(t, home)
	}
}

func checkModes(t *testing.T, home string) {
	err := filepath.WalkDir(filepath.Join(home, "state"), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %#o, want %#o", path, got, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestLineUnfit: whatever is handed in, the file can be read back.
func TestLineUnfit(t *testing.T) {
	d := transcript.NewDisk(t.TempDir(), quiet)
	in := []pipeline.Message{
		raw(user("a"), `{"role":"user","content":"b"`),
		raw(user("b"), `[1]`),
		raw(user("c"), "{\"role\":\"user\",\"content\":\"\xff\"}"),
		{Role: pipeline.RoleAssistant, ToolCalls: []pipeline.Call{call("x", "t", `{"a":`)}},
		raw(pipeline.Message{Role: pipeline.RoleAssistant, ToolCalls: []pipeline.Call{call("x", "t", `{}`)}}, `{}`),
		raw(pipeline.Message{Role: pipeline.RoleUser, ToolCalls: []pipeline.Call{call("x", "t", `{}`)}}, `{"role":"user"}`),
	}
	want := []string{
		`{"role":"user","content":"a"}`,
		`{"role":"user","content":"b"}`,
		`{"role":"user","content":"` + "\uFFFD" + `"}`,
		`{"role":"assistant","content":"","tool_calls":[{"id":"x","tool":"t","arguments":{"_raw_arguments":"{\"a\":"}}]}`,
		`{"content":"","tool_calls":[{"id":"x","tool":"t","arguments":{}}]}`,
		`{"role":"user"}`,
	}
	for i := range in {
		k := pipeline.SessionKey{Workspace: "w", Session: fmt.Sprint("s", i)}
		if err := d.Replace(t.Context(), k, pipeline.Transcript{Messages: in[i : i+1]}); err != nil {
			t.Fatal(err)
		}
		got, err := d.Load(t.Context(), k)
		if i == 4 { // has no role; the client's decoder refuses that
			if err == nil {
				t.Error("a message without a role was loaded")
			}
			continue
		}
		if err != nil || len(got.Messages) != 1 || string(got.Messages[0].Raw) != want[i] || got.Mark != "" {
			t.Errorf("%d: %+v, %v, want the line %s", i, got, err, want[i])
		}
	}
}

func TestLoadCorrupt(t *testing.T) {
	home := t.TempDir()
	d := transcript.NewDisk(home, quiet)
	dir := folder(home, key)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "transcript.jsonl")
	for _, row := range []struct {
		name, content string
		line          int // 0: it loads
		messages      int
	}{
		{"nothing", "", 0, 0},
		{"blank lines", "\n\r\n{\"role\":\"user\"}\r\n \n{\"role\":\"user\"}\n\n", 0, 2},
		{"a torn line", "{\"role\":\"user\"}\n\n{\"role\":\"us", 3, 0},
		{"a list", "[]", 1, 0},
		{"no role", "{}", 1, 0},
		{"a role that is no string", `{"role":7}`, 1, 0},
		{"two values", `{"role":"user"}{"role":"user"}`, 1, 0},
		{"members of other types", `{"role":"user","content":7,"name":[],"tool_calls":{},"is_error":"x","reasoning_content":1}`, 0, 1},
		{"odd calls", `{"role":"assistant","tool_calls":[1,{"id":2,"x":3}],"content":[{"type":"image_url","image_url":"u"},{"type":"image_url","image_url":{"x":1}}]}`, 0, 1},
		{"calls that are no list", `{"role":"assistant","tool_calls":7}`, 0, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(row.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := d.Load(t.Context(), key)
			if row.line == 0 {
				if err != nil || len(got.Messages) != row.messages {
					t.Errorf("%d messages, %v", len(got.Messages), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%s line %d ", path, row.line)) || !strings.Contains(err.Error(), path+".backup") {
				t.Errorf("the error is %v", err)
			}
		})
	}

	var logged bytes.Buffer
	d = transcript.NewDisk(home, slog.New(slog.NewTextHandler(&logged, nil)))
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "metadata.json"), []byte(`{"last_`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Load(t.Context(), key); err != nil || got.Mark != "" || !strings.Contains(logged.String(), "metadata.json") {
		t.Errorf("broken metadata: %+v, %v, logged %s", got, err, logged.String())
	}
}

// TestTornTranscript cuts a transcript at every byte: it loads without what is gone, or says where it broke.
func TestTornTranscript(t *testing.T) {
	home := t.TempDir()
	d := transcript.NewDisk(home, quiet)
	messages := []pipeline.Message{user("one"), asks("x"), result("x", "two"), assistant("three")}
	messages[1].Raw, messages[2].Raw = nil, nil
	if err := d.Replace(t.Context(), key, pipeline.Transcript{Messages: messages}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder(home, key), "transcript.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		lines := bytes.Split(whole[:n], []byte{'\n'})
		last := lines[len(lines)-1]
		got, err := d.Load(t.Context(), key)
		if whole := len(last) == 0 || json.Valid(last); whole != (err == nil) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if err == nil && len(got.Messages) != bytes.Count(whole[:n], []byte("\n"))+min(1, len(last)) {
			t.Fatalf("cut at %d: %d messages", n, len(got.Messages))
		}
	}
	if err := d.Replace(t.Context(), key, pipeline.Transcript{Messages: messages}); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Load(t.Context(), key); err != nil || len(got.Messages) != 4 {
		t.Errorf("after the next write: %d messages, %v", len(got.Messages), err)
	}
}

func TestDiskRefusesPaths(t *testing.T) {
	outside := t.TempDir()
	home := filepath.Join(outside, "home")
	d := transcript.NewDisk(home, quiet)
	for _, bad := range []string{"", ".", "..", "...", "../x", "a/../../x", "a/b", `a\b`, `..\x`, "/etc", "C:x", "a\x00b", "a b", "é", "\u2024\u2024",
		"a\n", "%2e%2e", "~", "\xff", strings.Repeat("a", 300)} {
		for _, k := range []pipeline.SessionKey{{Workspace: bad, Session: "s"}, {Workspace: "w", Session: bad}} {
			err := d.Replace(t.Context(), k, pipeline.Transcript{Messages: []pipeline.Message{user("x")}})
			_, load := d.Load(t.Context(), k)
			if err == nil || load == nil || errors.Is(load, pipeline.ErrNoSession) || d.Exists(k) {
				t.Errorf("%+v: replace %v, load %v", k, err, load)
			}
		}
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 0 {
		t.Errorf("%v was made: %v", entries, err)
	}
}

func TestDiskContext(t *testing.T) {
	home := t.TempDir()
	d := transcript.NewDisk(home, quiet)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(pipeline.ErrClientGone)
	if err := d.Replace(ctx, key, pipeline.Transcript{}); !errors.Is(err, pipeline.ErrClientGone) {
		t.Errorf("replace: %v", err)
	}
	if _, err := d.Load(ctx, key); !errors.Is(err, pipeline.ErrClientGone) {
		t.Errorf("load: %v", err)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) != 0 {
		t.Errorf("%v was made: %v", entries, err)
	}
}

// TestDiskFaults: a write that cannot go through leaves what was there.
func TestDiskFaults(t *testing.T) {
	for name, obstruct := range map[string]func(dir string) error{
		"a folder in place of the backup": func(dir string) error { return os.MkdirAll(filepath.Join(dir, "transcript.jsonl.backup", "x"), 0o700) },
		"a folder in place of the metadata": func(dir string) error {
			if err := os.Remove(filepath.Join(dir, "metadata.json")); err != nil {
				return err
			}
			return os.MkdirAll(filepath.Join(dir, "metadata.json", "x"), 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			d := transcript.NewDisk(home, quiet)
			if err := d.Replace(t.Context(), key, pipeline.Transcript{Messages: []pipeline.Message{user("old")}, Mark: pipeline.MarkClient}); err != nil {
				t.Fatal(err)
			}
			if err := obstruct(folder(home, key)); err != nil {
				t.Fatal(err)
			}
			err := d.Replace(t.Context(), key, pipeline.Transcript{Messages: []pipeline.Message{user("new")}, Mark: pipeline.MarkClient})
			if err == nil || !strings.Contains(err.Error(), folder(home, key)) {
				t.Errorf("the error is %v", err)
			}
			got, err := d.Load(t.Context(), key)
			if err != nil || len(got.Messages) != 1 || got.Messages[0].Text() != "old" && got.Messages[0].Text() != "new" {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	home := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(home, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := transcript.NewDisk(home, quiet).Replace(t.Context(), key, pipeline.Transcript{}); err == nil || !strings.Contains(err.Error(), home) {
		t.Errorf("a file in place of the home: %v", err)
	}
}

func TestDiskSweeps(t *testing.T) {
	home := t.TempDir()
	d := transcript.NewDisk(home, quiet)
	if err := d.Replace(t.Context(), key, pipeline.Transcript{}); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{".transcript.jsonl-1.tmp": time.Hour, ".metadata.json-2.tmp": 2 * time.Minute, ".transcript.jsonl-3.tmp": 0} {
		path := filepath.Join(folder(home, key), name)
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(-age)
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Replace(t.Context(), key, pipeline.Transcript{}); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(folder(home, key), ".*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != ".transcript.jsonl-3.tmp" {
		t.Errorf("%q stay, %v", left, err)
	}
}

// FuzzLine: any file either loads or is refused, and what loads is stored as something that loads as the same.
func FuzzLine(f *testing.F) {
	for _, row := range lineRows {
		f.Add([]byte(row.line))
	}
	f.Add([]byte("{\"role\":\"tool\",\"content\":[{\"type\":\"text\"}]}\n\n{\"role\":\"user\",\"content\":\"\xff\"}"))
	home := f.TempDir()
	d := transcript.NewDisk(home, quiet)
	dir := folder(home, key)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		f.Fatal(err)
	}
	second := pipeline.SessionKey{Workspace: "w", Session: "second"}
	f.Fuzz(func(t *testing.T, file []byte) {
		if err := os.WriteFile(filepath.Join(dir, "transcript.jsonl"), file, 0o600); err != nil {
			t.Fatal(err)
		}
		first, err := d.Load(t.Context(), key)
		if err != nil {
			return
		}
		if err = d.Replace(t.Context(), second, first); err != nil {
			t.Fatal(err)
		}
		again, err := d.Load(t.Context(), second)
		if err != nil || len(again.Messages) != len(first.Messages) {
			t.Fatalf("%d messages of %d, %v", len(again.Messages), len(first.Messages), err)
		}
		for i, m := range first.Messages {
			want, got := expected(m, ""), again.Messages[i]
			if m.Raw, got.Raw = nil, nil; m.Role == pipeline.RoleAssistant && m.Parts == nil {
				got.Parts = nil
			}
			if want.Raw = nil; !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v became %+v", want, got)
			}
		}
	})
}
