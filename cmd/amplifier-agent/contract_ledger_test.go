package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"amplifier-agent/routes/chat/chattest"
	"amplifier-agent/upstream/simulator"
)

// ledgerRow is a row of the ledger as its readers know it. What is null is nil.
type ledgerRow struct {
	TS         string  `json:"ts"`
	Turn       string  `json:"turn"`
	Session    *string `json:"session"`
	Model      *string `json:"model"`
	Provider   *string `json:"provider"`
	Upstream   *string `json:"upstream_model"`
	Mode       *string `json:"mode"`
	Status     string  `json:"status"`
	Code       *string `json:"code"`
	Finish     *string `json:"finish"`
	Prompt     *int64  `json:"prompt_tokens"`
	Completion *int64  `json:"completion_tokens"`
	Cached     *int64  `json:"cached_tokens"`
	Written    *int64  `json:"cache_write_tokens"`
	Reasoning  *int64  `json:"reasoning_tokens"`
	Cost       *string `json:"cost_usd"`
	First      *int64  `json:"first_ms"`
	Took       *int64  `json:"took_ms"`
}

func (r ledgerRow) String() string {
	show := func(p *int64) string {
		if p == nil {
			return "null"
		}
		return strconv.FormatInt(*p, 10)
	}
	return strings.Join([]string{orNull(r.Model), orNull(r.Provider), orNull(r.Mode), r.Status, orNull(r.Code), orNull(r.Finish), show(r.Prompt), show(r.Completion), show(r.Cached), show(r.Reasoning), orNull(r.Cost)}, " ")
}

func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func (w *world) ledgerPath() string {
	return filepath.Join(w.home, ".amplifier-agent", "state", "workspaces", contractWorkspace, "ledger.jsonl")
}

// ledger reads the ledger, which has n rows in the end: the last one is written when its client may have its answer already.
func (w *world) ledger(t *testing.T, n int) (rows []ledgerRow) {
	t.Helper()
	var b []byte
	eventually(t, fmt.Sprintf("%d rows are written", n), func() bool {
		b, _ = os.ReadFile(w.ledgerPath())
		return bytes.Count(b, []byte("}\n")) >= n
	})
	for line := range strings.Lines(string(b)) {
		if line == "\n" {
			continue // two servers have met: readers pass over it
		}
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		var r ledgerRow
		if err := d.Decode(&r); err != nil || !strings.HasSuffix(line, "}\n") {
			t.Fatalf("row %q: %v", line, err)
		}
		rows = append(rows, r)
	}
	if len(rows) != n {
		t.Fatalf("%d rows, want %d:\n%s", len(rows), n, b)
	}
	return rows
}

// metric is the value of a series of /metrics, 0 if there is none.
func (w *world) metric(t *testing.T, series string) float64 {
	t.Helper()
	_, b := w.request(t, http.MethodGet, "/metrics", "")
	m := regexp.MustCompile(`(?m)^amplifier_agent_` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(b)
	if m == nil {
		return 0
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// idle waits until no turn runs: then all that have run are counted.
func (w *world) idle(t *testing.T) {
	t.Helper()
	eventually(t, "no turn runs", func() bool {
		_, b := w.request(t, http.MethodGet, "/metrics", "")
		return strings.Contains(b, "\namplifier_agent_turns_running 0\n")
	})
}

// TestContractLedger: each turn is a row, with what is known of its tokens and its cost, however it ended; what is not known is null, and
// not zero. The client and /metrics are told the same.
func TestContractLedger(t *testing.T) {
	t.Parallel()
	s := zenScene()
	s.config, s.args = patiently, []string{"--workspace", contractWorkspace}
	w := stage(t, s)
	full := step(`{"inputTokens":100,"cachedInputTokens":30,"outputTokens":7,"reasoningTokens":3}`, `"0.1"`)
	rest := step(`{"inputTokens":50,"cachedInputTokens":10,"outputTokens":2,"reasoningTokens":1}`, `"0.200000000001"`)
	zen := message("system", directive("zen")) + "," + message("user", "x")
	const m = contractModel + " commandcode"
	rows := []struct {
		name  string
		lines []string // of the gateway
		end   simulator.End
		text  string // of the request
		want  string // as ledgerRow.String writes it
	}{
		{"done", []string{thought, saidLine, full, stopLine}, 0, say("x"), m + " null ok null stop 100 7 30 3 0.1"},
		{"two steps", []string{saidLine, full, rest, stopLine}, 0, say("x"), m + " null ok null stop 150 9 40 4 0.300000000001"},
		{"a mode", []string{saidLine, full, stopLine}, 0, body(zen), m + " zen ok null stop 100 7 30 3 0.1"},
		{"an alias", []string{saidLine, full, stopLine}, 0, `{"model":"mode-zen","messages":[` + hello + `]}`, "mode-zen commandcode zen ok null stop 100 7 30 3 0.1"},
		{"calls", []string{callLine, full, askLine}, 0, say("x", fTools), m + " null ok null tool_calls 100 7 30 3 0.1"},
		{"length", []string{saidLine, `{"type":"finish-step","finishReason":"length","usage":{"outputTokens":7}}`}, 0, say("x"), m + " null ok null length null 7 null null null"},
		{"zero", []string{saidLine, step(`{"inputTokens":0,"cachedInputTokens":0,"outputTokens":0,"reasoningTokens":0}`, `"0"`), stopLine}, 0, say("x"), m + " null ok null stop 0 0 0 0 0"},
		{"nothing known", []string{saidLine, stopLine}, 0, say("x"), m + " null ok null stop null null null null null"},
		{"cut", []string{saidLine}, simulator.EndCut, say("x"), m + " null error truncated null null null null null null"},
		{"error behind a step", []string{saidLine, full, `{"type":"error","error":{"message":"lost","statusCode":529}}`}, 0, say("x"), m + " null error upstream_error null 100 7 30 3 0.1"},
		{"refused", []string{`{"type":"error","error":{"message":"no","statusCode":403}}`}, 0, say("x"), m + " null error upstream_auth null null null null null null"},
		{"unknown model", nil, 0, `{"model":"none\n\"","messages":[` + hello + `]}`, "none\n\" null null rejected unknown_model null null null null null null"},
		{"no JSON", nil, 0, `{`, "null null null rejected invalid_request null null null null null null"},
	}
	var told []chattest.Usage // by answers that came to their end
	n, completed := 0, 0
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w.sim.Script(func(*simulator.Request) *simulator.Answer {
				return &simulator.Answer{Body: []byte(strings.Join(row.lines, "\n") + "\n"), End: row.end}
			})
			for _, way := range ways {
				if row.text == "{" && way == ways[1] {
					return // it cannot say how
				}
				text := row.text
				if text != "{" {
					text = strings.TrimSuffix(text, "}") + way + "}"
				}
				before := time.Now().Add(-time.Second)
				resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", text, "X-Session-Id", "s"+strconv.Itoa(n))
				n++
				list := w.ledger(t, n)
				got := list[n-1]
				if got.Provider != nil && orNull(got.Upstream) != servedAs(orNull(got.Model)) {
					t.Errorf("%s was served by %s", orNull(got.Model), orNull(got.Upstream))
				}
				if got.String() != row.want {
					t.Errorf("row %s, want %s", got, row.want)
				}
				at, err := time.Parse(time.RFC3339Nano, got.TS)
				if err != nil || at.Before(before) || at.After(time.Now()) || !strings.HasSuffix(got.TS, "Z") || got.Took == nil || *got.Took < 0 {
					t.Errorf("row %+v, %v", got, err)
				}
				if resp.StatusCode == http.StatusOK {
					a, err := chattest.Parser(way == ways[0])([]byte(b))
					if err != nil {
						t.Fatal(err)
					}
					completed++
					told = append(told, *a.Usage)
					if "chatcmpl-"+got.Turn != a.ID || got.First == nil || orNull(got.Cost) != orNull(a.Usage.Cost) {
						t.Errorf("row %+v, answer %+v", got, a)
					}
				} else if got.First != nil {
					t.Errorf("row %+v of status %d", got, resp.StatusCode)
				}
				if got.Status != "rejected" && orNull(got.Session) != "http-s"+strconv.Itoa(n-1) {
					t.Errorf("session %s", orNull(got.Session))
				}
			}
		})
	}
	if info, err := os.Stat(w.ledgerPath()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}

	w.refusedByKey(t)
	w.idle(t)
	counts := map[string]float64{}
	for _, r := range w.ledger(t, n) { // no turn began
		counts[fmt.Sprintf(`turns_total{status=%q,code=%q,provider=%q}`, r.Status, noneIf(r.Code), noneIf(r.Provider))]++
		for kind, p := range map[string]*int64{"output": r.Completion, "cache_read": r.Cached, "reasoning": r.Reasoning} {
			if p != nil {
				counts[fmt.Sprintf(`turn_tokens_total{kind=%q,provider="commandcode",model=%q}`, kind, servedAs(*r.Model))] += float64(*p)
			}
		}
	}
	counts[`requests_rejected_total{code="invalid_api_key"}`] = 1
	counts[`requests_rejected_total{code="not_found"}`] = 1
	counts[`turn_duration_seconds_count`] = float64(n - 3) // but for the rejected ones
	counts[`turn_first_chunk_seconds_count`] = float64(completed)
	for series, want := range counts {
		if got := w.metric(t, series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	prompts := 0.0
	for _, u := range told {
		prompts += float64(u.Prompt)
	}
	counted := 0.0
	for _, kind := range []string{"input", "cache_read", "cache_write"} {
		for _, model := range []string{contractModel, servedAs("mode-zen")} {
			counted += w.metric(t, fmt.Sprintf(`turn_tokens_total{kind=%q,provider="commandcode",model=%q}`, kind, model))
		}
	}
	if counted != prompts || prompts == 0 {
		t.Errorf("%v prompt tokens are counted, the clients were told of %v", counted, prompts)
	}
}

// refusedByKey sends what is refused before it is a turn.
func (w *world) refusedByKey(t *testing.T) {
	t.Helper()
	for _, r := range []struct{ path, key string }{{"/v1/chat/completions", "wrong"}, {"/v1/nothing", contractKey}} {
		w.request(t, http.MethodPost, r.path, body(hello), "Authorization", "Bearer "+r.key)
	}
}

// servedAs is the model that serves what was asked for: an alias stands for the smallest id.
func servedAs(model string) string {
	if strings.HasPrefix(model, "mode-") {
		return "Qwen/Qwen3.8-Max"
	}
	return model
}

func noneIf(s *string) string {
	if s == nil {
		return "none"
	}
	return *s
}

// TestContractLedgerOfTheGone: a client that leaves before the end leaves a row too, with what is known, by both ways.
func TestContractLedgerOfTheGone(t *testing.T) {
	t.Parallel()
	w := stage(t, sessionScene())
	for i, row := range []struct {
		lines []string
		way   string
		until string // what the client has got when it leaves
		want  string
	}{
		{[]string{saidLine}, ways[0], "said", contractModel + " commandcode null aborted null null null null null null null"},
		{[]string{saidLine}, ways[1], "", contractModel + " commandcode null aborted null null null null null null null"},
		{[]string{saidLine, step(`{"inputTokens":100,"cachedInputTokens":30,"outputTokens":7,"reasoningTokens":3}`, `"0.1"`), thought}, ways[0], "thought", contractModel + " commandcode null aborted null null 100 7 30 3 0.1"},
	} {
		w.sim.Script(func(*simulator.Request) *simulator.Answer {
			return &simulator.Answer{Body: []byte(strings.Join(row.lines, "\n") + "\n"), End: simulator.EndHang}
		})
		if row.way == ways[0] {
			resp, leave := w.open(t, say("x", row.way))
			until(t, resp.Body, row.until)
			leave()
		} else {
			w.leave(t, say("x", row.way))
		}
		if got := w.ledger(t, i+1)[i]; got.String() != row.want {
			t.Errorf("row %s, want %s", got, row.want)
		}
	}
	w.idle(t)
	if got := w.metric(t, `turns_total{status="aborted",code="none",provider="commandcode"}`); got != 3 {
		t.Errorf("%v turns are counted as aborted", got)
	}
}

// TestContractLedgerShared: two servers on one home write whole rows into one ledger.
func TestContractLedgerShared(t *testing.T) {
	t.Parallel()
	w := stage(t, sessionScene())
	other := &world{sim: w.sim, home: w.home, cwd: w.cwd}
	other.server = startServer(t, w.environ(), "serve", "chat-completions", "--port", "0", "--workspace", contractWorkspace)
	const turns = 20
	var wg sync.WaitGroup
	for _, one := range []*world{w, other} {
		wg.Go(func() {
			for range turns {
				if status, b := one.post(t, contractKey, body(hello)); status != http.StatusOK {
					t.Errorf("status %d: %s", status, b)
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, r := range w.ledger(t, 2*turns) {
		seen[r.Turn] = true
	}
	if len(seen) != 2*turns {
		t.Errorf("%d turns in the ledger", len(seen))
	}
}

// TestContractLedgerOff: no ledger if the host config does not want one, nor of the demo's play money.
func TestContractLedgerOff(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]scene{"off": {config: `{"store":{"ledger":false}}`}, "demo": {args: []string{"--demo"}}} {
		w := stage(t, s)
		if status, b := w.post(t, contractKey, body(hello)); status != http.StatusOK {
			t.Errorf("%s: status %d: %s", name, status, b)
		}
		w.end(t)
		err := filepath.WalkDir(w.home, func(path string, _ fs.DirEntry, err error) error {
			if strings.Contains(filepath.Base(path), "ledger") {
				t.Errorf("%s: there is %s", name, path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
