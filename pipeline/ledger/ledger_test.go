package ledger

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"amplifier-agent/pipeline"
)

// Variables of child processes, which append rows.
const (
	childPath = "LEDGER_TEST_PATH"
	childName = "LEDGER_TEST_NAME"
	childMax  = "LEDGER_TEST_MAX"
)

const childRows = 2500

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		if err := appendRows(path, os.Getenv(childName), os.Getenv(childMax)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// appendRows appends numbered rows and prints each number once its row is there.
func appendRows(path, name, limit string) error {
	var logged bytes.Buffer
	l, err := Open(path, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		return err
	}
	if l.max, err = strconv.ParseInt(limit, 10, 64); err != nil {
		return err
	}
	if l.max < maxFileBytes {
		l.look = 0 // such a file may be moved aside twice before a look
	}
	for n := range childRows {
		l.Record(turn(name, n), pipeline.Outcome{Status: pipeline.StatusDone, Reason: pipeline.ReasonStop})
		if _, err := fmt.Println(n); err != nil {
			return err
		}
	}
	if logged.Len() > 0 {
		return fmt.Errorf("logged %s", logged.String())
	}
	return l.Close()
}

func turn(name string, n int) *pipeline.Turn {
	return &pipeline.Turn{ID: name + "." + strconv.Itoa(n), Received: time.Unix(int64(n), 0), Model: strings.Repeat("m", n%200)}
}

var quiet = slog.New(slog.DiscardHandler)

// rows are those of a file that are whole; torn counts lines that are neither blank nor JSON.
func rows(t *testing.T, path string) (list []map[string]any, torn int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bytes.Split(b, []byte{'\n'}) {
		var row map[string]any
		if len(line) == 0 {
			continue
		}
		if json.Unmarshal(line, &row) != nil {
			torn++
			continue
		}
		list = append(list, row)
	}
	return list, torn
}

func open(t *testing.T, path string) *Ledger {
	t.Helper()
	l, err := Open(path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

type provider struct{ pipeline.Provider }

func (provider) Name() string { return "commandcode" }

func price(t *testing.T, s string) pipeline.Price {
	t.Helper()
	p, ok := pipeline.ParsePrice(s)
	if !ok {
		t.Fatalf("%q is no price", s)
	}
	return p
}

func TestRows(t *testing.T) {
	at := time.Date(2026, 11, 30, 19, 4, 5, 6_999_999, time.FixedZone("", 3600))
	long := strings.Repeat("北", 200)
	for _, row := range []struct {
		name string
		turn pipeline.Turn
		out  pipeline.Outcome
		want string
	}{
		{"all that can be known", pipeline.Turn{ID: "t1", Received: at, Session: "http-s", Model: `claude "x"`, UpstreamID: "claude/x", Provider: provider{}, Mode: "plan",
			Usage: pipeline.Usage{Input: 10, CacheRead: 200, CacheWrite: 3000, Output: 7, Reasoning: 5, Has: pipeline.HasInput | pipeline.HasCache | pipeline.HasOutput | pipeline.HasReasoning},
			Cost:  price(t, "0.04210000000000000001")},
			pipeline.Outcome{Status: pipeline.StatusDone, Reason: pipeline.ReasonToolCalls, First: 1500 * time.Microsecond, Took: 2*time.Second + 900*time.Microsecond},
			`{"ts":"2026-11-30T18:04:05.006Z","turn":"t1","session":"http-s","model":"claude \"x\"","provider":"commandcode","upstream_model":"claude/x","mode":"plan","status":"ok","code":null,"finish":"tool_calls",` +
				`"prompt_tokens":3210,"completion_tokens":7,"cached_tokens":200,"cache_write_tokens":3000,"reasoning_tokens":5,"cost_usd":"0.04210000000000000001","first_ms":1,"took_ms":2000}`},
		{"cut by the upstream: unknown is not 0 (B020)", pipeline.Turn{ID: "t2", Received: at, Model: "m", Provider: provider{}},
			pipeline.Outcome{Status: pipeline.StatusFailed, Code: pipeline.CodeTruncated, Reason: pipeline.ReasonStop, First: time.Microsecond},
			`{"ts":"2026-11-30T18:04:05.006Z","turn":"t2","session":null,"model":"m","provider":"commandcode","upstream_model":null,"mode":null,"status":"error","code":"truncated","finish":null,` +
				`"prompt_tokens":null,"completion_tokens":null,"cached_tokens":null,"cache_write_tokens":null,"reasoning_tokens":null,"cost_usd":null,"first_ms":0,"took_ms":0}`},
		{"a real 0 stays 0 (B054)", pipeline.Turn{ID: "t3", Received: at, Usage: pipeline.Usage{Has: pipeline.HasOutput | pipeline.HasCache}, Cost: price(t, "0")},
			pipeline.Outcome{Status: pipeline.StatusDone, Reason: pipeline.ReasonLength},
			`{"ts":"2026-11-30T18:04:05.006Z","turn":"t3","session":null,"model":null,"provider":null,"upstream_model":null,"mode":null,"status":"ok","code":null,"finish":"length",` +
				`"prompt_tokens":null,"completion_tokens":0,"cached_tokens":0,"cache_write_tokens":0,"reasoning_tokens":null,"cost_usd":"0","first_ms":null,"took_ms":0}`},
		{"the client left: what is known by then (B059, B060)", pipeline.Turn{ID: "t4", Received: at, Usage: pipeline.Usage{Input: 5, Has: pipeline.HasInput}},
			pipeline.Outcome{Status: pipeline.StatusAborted},
			`{"ts":"2026-11-30T18:04:05.006Z","turn":"t4","session":null,"model":null,"provider":null,"upstream_model":null,"mode":null,"status":"aborted","code":null,"finish":null,` +
				`"prompt_tokens":5,"completion_tokens":null,"cached_tokens":null,"cache_write_tokens":null,"reasoning_tokens":null,"cost_usd":null,"first_ms":null,"took_ms":0}`},
		{"words of others are cut, between characters", pipeline.Turn{ID: "t5", Received: at, Model: long, Mode: "\xff\n"},
			pipeline.Outcome{Status: pipeline.StatusRejected, Code: pipeline.CodeUnknownModel},
			`{"ts":"2026-11-30T18:04:05.006Z","turn":"t5","session":null,"model":"` + long[:255] + `","provider":null,"upstream_model":null,"mode":"` + "\uFFFD" + `\n","status":"rejected","code":"unknown_model","finish":null,` +
				`"prompt_tokens":null,"completion_tokens":null,"cached_tokens":null,"cache_write_tokens":null,"reasoning_tokens":null,"cost_usd":null,"first_ms":null,"took_ms":0}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "w", "ledger.jsonl")
			l := open(t, path)
			l.Record(&row.turn, row.out)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(b) != row.want+"\n" {
				t.Errorf("got  %swant %s", b, row.want)
			}
			if !json.Valid(b) {
				t.Error("not valid JSON")
			}
			if runtime.GOOS == "windows" {
				return
			}
			for p, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
				if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
					t.Errorf("%s: %v, %v", p, info.Mode(), err)
				}
			}
		})
	}
}

// TestTornTail cuts a ledger at every byte: the next row stands by itself, and no whole one is lost (B076).
func TestTornTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l := open(t, path)
	for n := range 3 {
		l.Record(turn("a", n), pipeline.Outcome{})
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		l.Record(turn("b", 0), pipeline.Outcome{}) // it was open already: another process was killed
		late := open(t, path)
		late.Record(turn("c", 0), pipeline.Outcome{})
		list, _ := rows(t, path)
		full := bytes.Count(whole[:n], []byte("\n"))
		last := whole[:n][bytes.LastIndexByte(whole[:n], '\n')+1:]
		if json.Valid(last) {
			full++
		}
		if len(list) != full+2 || list[full]["turn"] != "b.0" || list[full+1]["turn"] != "c.0" {
			t.Fatalf("cut at %d: %d rows, want %d: %v", n, len(list), full+2, list)
		}
		if b, err := os.ReadFile(path); err != nil || bytes.Contains(b, []byte("\n\n")) {
			t.Fatalf("cut at %d: a blank line, %v", n, err)
		}
	}
}

func startChild(t *testing.T, path, name string, limit int64) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childPath+"="+path, childName+"="+name, childMax+"="+strconv.FormatInt(limit, 10))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// TestTwoProcesses: rows of two processes do not tear each other, and the rotation, for which both are ready at the same moment,
// loses none.
func TestTwoProcesses(t *testing.T) {
	size := int64(0)
	for n := range childRows {
		size += int64(len(appendRow(nil, turn("a", n), pipeline.Outcome{Status: pipeline.StatusDone})))
	}
	for name, limit := range map[string]int64{"one file": 1 << 40, "rotated once": 2 * size * 2 / 3} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.jsonl")
			var all sync.WaitGroup
			for _, name := range []string{"a", "b"} {
				cmd, out := startChild(t, path, name, limit)
				all.Go(func() {
					for out.Scan() {
					}
					if err := cmd.Wait(); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			list, torn := rows(t, path)
			if limit < 1<<40 {
				before, t2 := rows(t, Rotated(path))
				list, torn = append(before, list...), torn+t2
			}
			if torn > 0 {
				t.Errorf("%d rows are torn", torn)
			}
			checkAll(t, list, map[string]int{"a": childRows, "b": childRows})
		})
	}
}

// checkAll fails the test unless the rows of each name are there, once each. Of one process they are in order.
func checkAll(t *testing.T, list []map[string]any, want map[string]int) {
	t.Helper()
	seen := map[string]bool{}
	got := map[string]int{}
	for _, row := range list {
		id, _ := row["turn"].(string)
		if seen[id] {
			t.Errorf("%s is there twice", id)
		}
		seen[id] = true
		name, _, _ := strings.Cut(id, ".")
		got[name]++
	}
	for name, n := range want {
		for i := range n {
			if id := name + "." + strconv.Itoa(i); !seen[id] {
				t.Fatalf("%s is lost; %d of %d rows are there", id, got[name], n)
			}
		}
	}
}

// TestKilled kills a process that appends while another does: what was acknowledged is there, and so is all of the other.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	survivor, out := startChild(t, path, "live", 1<<40)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for out.Scan() {
		}
	}()
	want := map[string]int{"live": childRows}
	for round := range 10 {
		name := "victim" + strconv.Itoa(round)
		cmd, out := startChild(t, path, name, 1<<40)
		for acknowledged := 0; out.Scan(); {
			n, err := strconv.Atoi(out.Text())
			if err != nil {
				t.Fatal(err)
			}
			want[name] = n + 1
			if acknowledged++; acknowledged == 50*round+1 {
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait()
	}
	<-drained
	if err := survivor.Wait(); err != nil {
		t.Error(err)
	}
	l := open(t, path)
	l.Record(turn("last", 0), pipeline.Outcome{})
	want["last"] = 1
	list, torn := rows(t, path)
	if torn > 10 {
		t.Errorf("%d torn lines of 10 kills", torn)
	}
	checkAll(t, list, want)
}

func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	a, b := open(t, path), open(t, path)
	one := int64(len(appendRow(nil, turn("a", 0), pipeline.Outcome{})))
	a.max, b.max = 2*one+2, 2*one+2
	a.look, b.look = time.Hour, time.Hour        // a full file is looked for anyway
	for n, l := range []*Ledger{a, b, b, a, a} { // b rotates; a notices
		l.Record(&pipeline.Turn{ID: "a." + strconv.Itoa(n), Received: time.Unix(0, 0)}, pipeline.Outcome{})
		if n == 3 {
			before, _ := rows(t, Rotated(path))
			now, _ := rows(t, path)
			if len(before) != 2 || len(now) != 2 {
				t.Errorf("%d rows before the rotation, %d behind it", len(before), len(now))
			}
		}
	}
	if before, _ := rows(t, Rotated(path)); len(before) != 2 || before[0]["turn"] != "a.2" {
		t.Errorf("after the second rotation: %v", before)
	}
	if info, err := os.Stat(path + ".lock"); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the lock: %v", err)
	}
	if got := Rotated("w.x/ledger.jsonl"); got != "w.x/ledger.1.jsonl" {
		t.Error(got)
	}
}

// TestRotationFails: rows are not lost because a full file cannot be moved.
func TestRotationFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	var logged bytes.Buffer
	l := open(t, path)
	l.log, l.max = slog.New(slog.NewTextHandler(&logged, nil)), 10
	if err := os.MkdirAll(filepath.Join(Rotated(path), "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		l.Record(turn("a", n), pipeline.Outcome{})
	}
	list, torn := rows(t, path)
	checkAll(t, list, map[string]int{"a": 5})
	if torn != 0 || strings.Count(logged.String(), "level=WARN") != 1 {
		t.Errorf("%d torn, logged %s", torn, logged.String())
	}
}

func TestRemovedFileComesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "w")
	l := open(t, filepath.Join(dir, "ledger.jsonl"))
	if err := os.RemoveAll(dir); err != nil {
		t.Skip("not while it is open:", err)
	}
	time.Sleep(lookEvery)
	l.Record(turn("a", 0), pipeline.Outcome{})
	if list, _ := rows(t, l.path); len(list) != 1 {
		t.Errorf("%d rows", len(list))
	}
}

// records counts what is logged.
type records struct {
	slog.Handler
	lost []int64
}

func (r *records) Handle(_ context.Context, rec slog.Record) error {
	rec.Attrs(func(a slog.Attr) bool {
		if a.Key == "lost" {
			r.lost = append(r.lost, a.Value.Int64())
		}
		return true
	})
	return nil
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }

func TestFailingWritesAreLoggedOnceAMinute(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "w")
	var seen records
	l := open(t, filepath.Join(dir, "ledger.jsonl"))
	now := time.Unix(1000, 0)
	l.log, l.look, l.now = slog.New(&seen), 0, func() time.Time { return now }
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Skip("not while it is open:", err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		l.Record(turn("a", 0), pipeline.Outcome{})
		now = now.Add(warnEvery / 5)
	}
	l.Record(turn("a", 0), pipeline.Outcome{}) // a minute after the first
	if want := fmt.Sprint([]int64{1, 5}); fmt.Sprint(seen.lost) != want {
		t.Errorf("lost rows as logged: %v, want %v", seen.lost, want)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	l.Record(turn("a", 1), pipeline.Outcome{})
	if list, _ := rows(t, l.path); len(list) != 1 || list[0]["turn"] != "a.1" {
		t.Errorf("once it is possible again: %v", list)
	}
}

func TestOpenErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, path := range []string{filepath.Join(file, "ledger.jsonl"), folder} {
		if l, err := Open(path, quiet); err == nil || !strings.Contains(err.Error(), filepath.Dir(path)) {
			t.Errorf("%s: %v, %v", path, l, err)
		}
	}
}

func TestClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l := open(t, path)
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		l.Record(turn("a", 0), pipeline.Outcome{})
	}
	if list, _ := rows(t, path); len(list) != 0 {
		t.Errorf("%d rows", len(list))
	}
}

func TestConcurrentRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l := open(t, path)
	var all sync.WaitGroup
	want := map[string]int{}
	for c := range 4 {
		name := "c" + strconv.Itoa(c)
		want[name] = 250
		all.Go(func() {
			for n := range 250 {
				l.Record(turn(name, n), pipeline.Outcome{})
			}
		})
	}
	all.Wait()
	list, torn := rows(t, path)
	if torn > 0 {
		t.Errorf("%d torn", torn)
	}
	checkAll(t, list, want)
}

// FuzzRow: whatever a client calls its model, a row is one line of JSON and small enough to stay whole.
func FuzzRow(f *testing.F) {
	f.Add("claude", "http-x", "plan")
	f.Add("\xff\u2028\"\\\n", strings.Repeat("\x01", 300), strings.Repeat("é", 200))
	f.Fuzz(func(t *testing.T, model, session, mode string) {
		b := appendRow(nil, &pipeline.Turn{Model: model, Session: session, Mode: mode}, pipeline.Outcome{})
		if !json.Valid(b) || bytes.IndexByte(b, '\n') != len(b)-1 || len(b) > 8<<10 {
			t.Fatalf("%q", b)
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	l, err := Open(filepath.Join(b.TempDir(), "ledger.jsonl"), quiet)
	if err != nil {
		b.Fatal(err)
	}
	t := turn("a", 50)
	b.ReportAllocs()
	for b.Loop() {
		l.Record(t, pipeline.Outcome{Status: pipeline.StatusDone})
	}
	if err := l.Close(); err != nil {
		b.Error(err)
	}
}

// TestGlued: a row that another process has torn between the look and the write does not take the next one along.
func TestGlued(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l := open(t, path)
	row := appendRow(nil, turn("a", 0), pipeline.Outcome{})
	for text, want := range map[string]bool{string(row): false, "{}\n" + string(row): false, `{"torn":` + string(row): true, `{"torn":` + string(row) + "{}\n": true, "{}\n": false} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := l.glued(row, int64(len(text))); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
