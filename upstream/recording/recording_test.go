package recording_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/recording"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const theKey = "sk-very-secret-key"

// take records one exchange whose body comes in pieces, and returns the recording, its body, and all that was written.
func take(t *testing.T, e *upstream.Exchange, whole bool, pieces ...string) (*recording.Recording, string, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a", "b")
	mask := new(secret.Mask)
	mask.Add(theKey)
	f, err := recording.NewFolder(dir, mask, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if e.Header == nil {
		e.Header = func(string) string { return "" }
	}
	tape := f.Recorder(recording.Source{Provider: "mine", Module: "openai"}).Begin(e)
	for _, p := range pieces {
		b := []byte(p)
		if n, err := tape.Write(b); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
		clear(b) // it was borrowed
	}
	tape.Close(whole)
	files := os.DirFS(dir)
	names, err := recording.List(files)
	if err != nil || len(names) != 1 {
		t.Fatalf("%q, %v", names, err)
	}
	rec, body, err := recording.Read(files, names[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = body.Close() }()
	b, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	all, err := fs.Glob(files, "*")
	if err != nil || len(all) != 2 {
		t.Errorf("files %q, %v", all, err)
	}
	text := string(b)
	for _, name := range all {
		info, err := fs.Stat(files, name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
		b, _ := fs.ReadFile(files, name)
		text += name + string(b)
	}
	return rec, string(b), text
}

func TestRedacted(t *testing.T) {
	body := `{"model":"gpt","stream":true,"temperature":0.70,"messages":[{"role":"system","content":"you are mine"},{"role":"user","content":[{"type":"text","text":"my diary"},` +
		`{"type":"image","image":"data:image/png;base64,DIARY","mediaType":"image/png"}]},{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"save","arguments":"{\"diary\":1}"}}]},` +
		`{"role":"assistant","content":[{"type":"tool-call","toolName":"save","input":{"name":"my diary","n":17,"deep":[{"type":"diary"}],"yes":true,"no":null}}]}],` +
		`"tools":[{"name":"save","description":"writes the diary","input_schema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}],"e":[],"o":{},"s":"","` + theKey + `":"` + theKey + `"}`
	at := time.Date(2026, 11, 30, 12, 0, 0, 5e6, time.UTC)
	rec, _, all := take(t, &upstream.Exchange{
		Call: &upstream.Call{Method: "POST", Path: "/v1/x?key=" + theKey, Model: "vendor/Model One", Body: []byte(body),
			Header: [][2]string{{"Authorization", "Bearer " + theKey}, {"x-api-key", "another key"}, {"Content-Type", "application/json"}, {"User-Agent", "me " + theKey}}},
		Began: at, Status: 200,
		Header: func(name string) string {
			return map[string]string{"Content-Type": "text/event-stream", "Set-Cookie": "session=diary", "X-Request-Id": "r1 " + theKey}[name]
		},
	}, true, "data: {\"a\":\"", "and ", theKey, " here\"}\n\nda", "ta: [DONE]")
	for _, word := range []string{theKey, "another key", "diary", "DIARY", "you are mine", "session="} {
		if strings.Contains(all, word) {
			t.Errorf("%q was written", word)
		}
	}
	want := `{"model":"gpt","stream":true,"temperature":0.70,"messages":[{"role":"system","content":"[12 bytes]"},{"role":"user","content":[{"type":"text","text":"[8 bytes]"},` +
		`{"type":"image","image":"[27 bytes]","mediaType":"image/png"}]},{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"save","arguments":"[11 bytes]"}}]},` +
		`{"role":"assistant","content":[{"type":"tool-call","toolName":"save","input":{"name":"[8 bytes]","n":0,"deep":[{"type":"[5 bytes]"}],"yes":true,"no":null}}]}],` +
		`"tools":[{"name":"save","description":"[16 bytes]","input_schema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}],"e":[],"o":{},"s":"","***":"[18 bytes]"}`
	var got bytes.Buffer
	if err := json.Compact(&got, rec.Request.Body); err != nil || got.String() != want {
		t.Errorf("request (%v)\n is %s\nnot %s", err, got.String(), want)
	}
	if rec.Model != "vendor/Model One" || rec.Provider != "mine" || rec.Module != "openai" || !rec.RecordedAt.Equal(at) || rec.Request.Path != "/v1/x?key=***" ||
		len(rec.Request.Header) != 2 || rec.Request.Header["User-Agent"] != "me ***" ||
		len(rec.Response.Header) != 2 || rec.Response.Header["X-Request-Id"] != "r1 ***" || !rec.Response.Whole || !strings.HasSuffix(rec.Response.Body, ".sse") ||
		!strings.HasPrefix(rec.Response.Body, "20261130T120000.005-mine-vendor_Model_One-") {
		t.Errorf("got %+v", rec)
	}
}

func TestBodies(t *testing.T) {
	echo := func(head []byte) bool { return bytes.HasPrefix(head, []byte(`{"echo"`)) }
	long := strings.Repeat("x", 17<<20)
	for name, row := range map[string]struct {
		status int
		echo   func([]byte) bool
		whole  bool
		pieces []string
		want   string
		ext    string
		cut    bool
	}{
		"lines":            {200, echo, true, []string{"{\"a\":1}\n{\"b\"", ":2}\n"}, "{\"a\":1}\n{\"b\":2}\n", ".ndjson", false},
		"an echo":          {200, echo, true, []string{"{\"echo\":\"my di", "ary\"}\n{}\n"}, "{\"type\":\"start-step\"}\n{}\n", ".ndjson", false},
		"a long echo":      {200, echo, true, []string{"{\"a\":1}\n{\"echo\":\"", long, long, "\"}\n{\"b\":2}\n", "{}"}, "{\"a\":1}\n{\"type\":\"start-step\"}\n{\"b\":2}\n{}", ".ndjson", false},
		"half a long echo": {200, echo, false, []string{"{\"echo\":\"" + long, long}, "{\"type\":\"start-step\"}\n", ".ndjson", true},
		"cut in a line":    {200, echo, false, []string{"{}\n{\"half"}, "{}\n{\"half", ".ndjson", true},
		"a refusal":        {429, echo, true, []string{`{"error":"wait"}`}, `{"error":"wait"}`, ".txt", false},
		"nothing":          {200, nil, true, nil, "", ".txt", false},
		"an endless line":  {200, nil, true, []string{"ok\n", long, long, "\nnot reached\n"}, "ok\n", ".txt", true},
	} {
		t.Run(name, func(t *testing.T) {
			rec, body, _ := take(t, &upstream.Exchange{Call: &upstream.Call{}, Status: row.status, Echo: row.echo}, row.whole, row.pieces...)
			if body != row.want || !strings.HasSuffix(rec.Response.Body, row.ext) || rec.Response.Whole == row.cut || rec.Response.Status != row.status {
				t.Errorf("got %q in %+v", body[:min(len(body), 200)], rec.Response)
			}
		})
	}
	rec, _, _ := take(t, &upstream.Exchange{Call: &upstream.Call{Body: []byte("no json")}}, true)
	if string(rec.Request.Body) != `"[7 bytes that are no JSON]"` {
		t.Errorf("got %s", rec.Request.Body)
	}
}

// TestFolderGone: an exchange that cannot be recorded goes on, and the log says why.
func TestFolderGone(t *testing.T) {
	dir := t.TempDir()
	if _, err := recording.NewFolder(filepath.Join(dir, "file"), nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "taken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := recording.NewFolder(filepath.Join(dir, "taken"), nil, nil); err == nil || !strings.Contains(err.Error(), "recordings") {
		t.Errorf("a file was taken for a folder: %v", err)
	}
	var log bytes.Buffer
	f, err := recording.NewFolder(filepath.Join(dir, "gone"), nil, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	exchange := &upstream.Exchange{Call: &upstream.Call{}, Header: func(string) string { return "" }}
	running := f.Recorder(recording.Source{}).Begin(exchange)
	if err := os.RemoveAll(filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	for _, tape := range []upstream.Tape{running, f.Recorder(recording.Source{}).Begin(exchange)} {
		if n, err := tape.Write([]byte("a\n")); n != 2 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		tape.Close(true)
	}
	if n := strings.Count(log.String(), "not recorded"); n != 2 {
		t.Errorf("the log says it %d times: %s", n, log.String())
	}
}

// TestHalfSaved: of a recording that cannot be kept whole nothing is left, as a body alone would be taken for a stream.
func TestHalfSaved(t *testing.T) {
	dir := t.TempDir()
	f, err := recording.NewFolder(dir, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	tape := f.Recorder(recording.Source{}).Begin(&upstream.Exchange{Call: &upstream.Call{}, Status: 200, Echo: func([]byte) bool { return false }, Header: func(string) string { return "" }})
	parts, err := filepath.Glob(filepath.Join(dir, "*.part"))
	if err != nil || len(parts) != 1 {
		t.Fatal(parts, err)
	}
	taken := strings.TrimSuffix(parts[0], ".part") + ".json"
	if err := os.Mkdir(taken, 0o700); err != nil { // so that what tells of the recording cannot be written
		t.Fatal(err)
	}
	tape.Close(true)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != filepath.Base(taken) {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestRead(t *testing.T) {
	files := fstest.MapFS{
		"version.json": {Data: []byte(`{"schema_version":2}`)},
		"away.json":    {Data: []byte(`{"schema_version":1,"response":{"body":"../x"}}`)},
		"gone.json":    {Data: []byte(`{"schema_version":1,"response":{"body":"x"}}`)},
		"broken.json":  {Data: []byte(`{`)},
		"other.txt":    {},
	}
	if names, err := recording.List(files); err != nil || !slices.Equal(names, []string{"away", "broken", "gone", "version"}) {
		t.Errorf("%q, %v", names, err)
	}
	for name, want := range map[string]string{"version": "schema_version 2", "away": "same folder", "gone": "not exist", "broken": "read recording broken", "none": "not exist"} {
		if _, _, err := recording.Read(files, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		} else if name == "none" && !errors.Is(err, fs.ErrNotExist) {
			t.Error("a recording that is not there looks like a broken one")
		}
	}
}
