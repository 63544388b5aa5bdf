package chat_test

import (
	"net"
	"strings"
	"sync"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/routes/chat/chattest"
	"amplifier-agent/stages"
	"amplifier-agent/upstream/simulator"
)

// accounts keeps what it is told of the turns that are over, as a ledger would.
type accounts struct {
	mu   sync.Mutex
	rows []account
}

type account struct {
	pipeline.Outcome
	usage pipeline.Usage
}

func (a *accounts) Record(t *pipeline.Turn, o pipeline.Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rows = append(a.rows, account{o, t.Usage})
}

// next waits for the row of the turn that is over, and takes it. It is the only one.
func (a *accounts) next(t *testing.T) account {
	t.Helper()
	eventually(t, "the turn is recorded", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.rows) > 0
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.rows) != 1 {
		t.Errorf("recorded %d times", len(a.rows))
	}
	row := a.rows[0]
	a.rows = nil
	return row
}

// accounted is a server that keeps accounts, around all other stages.
func accounted(t *testing.T, extra ...pipeline.Stage) (*server, *accounts) {
	t.Helper()
	a := new(accounts)
	return start(t, setup{extra: append([]pipeline.Stage{stages.Account(a)}, extra...)}), a
}

const (
	input  = pipeline.HasInput
	cache  = pipeline.HasCache
	output = pipeline.HasOutput
)

// TestCaseUsage: B054, B055, B057, B059. What the upstream says of tokens, as the client reads it and as it is recorded.
func TestCaseUsage(t *testing.T) {
	s, books := accounted(t, patient...)
	step := func(reason, usage string) string {
		return `{"type":"finish-step","finishReason":"` + reason + `","usage":` + usage + `}`
	}
	total := func(usage string) string { return `{"type":"finish","finishReason":"stop","totalUsage":` + usage + `}` }
	for _, row := range []struct {
		name   string
		lines  []string
		reason pipeline.Reason
		want   chattest.Usage // but for the pointers
		cached int64          // -1: not there
		kept   pipeline.Usage
	}{
		{"B054 zero output", []string{total(`{"inputTokens":9,"outputTokens":0}`)}, pipeline.ReasonStop, chattest.Usage{Prompt: 9, Total: 9}, 0, pipeline.Usage{Input: 9, Has: input | output}},
		{"B054 zero everything", []string{total(`{"inputTokens":0,"outputTokens":0,"cachedInputTokens":0}`)}, pipeline.ReasonStop, chattest.Usage{}, 0, pipeline.Usage{Has: input | output | cache}},
		{"B054 zero behind a step", []string{step("stop", `{"inputTokens":9,"outputTokens":5}`), total(`{"inputTokens":9,"outputTokens":0}`)}, pipeline.ReasonStop,
			chattest.Usage{Prompt: 9, Total: 9}, 0, pipeline.Usage{Input: 9, Has: input | output}},
		{"B054 no output", []string{total(`{"inputTokens":9}`)}, pipeline.ReasonStop, chattest.Usage{Prompt: 9, Total: 9}, 0, pipeline.Usage{Input: 9, Has: input}},
		{"B054 null output", []string{total(`{"inputTokens":9,"outputTokens":null}`)}, pipeline.ReasonStop, chattest.Usage{Prompt: 9, Total: 9}, 0, pipeline.Usage{Input: 9, Has: input}},
		{"B054 nothing", []string{total(`null`)}, pipeline.ReasonStop, chattest.Usage{}, -1, pipeline.Usage{}},
		{"B055 running totals and the total", []string{step("tool-calls", `{"inputTokens":100,"outputTokens":10}`), step("stop", `{"inputTokens":250,"outputTokens":25}`), total(`{"inputTokens":250,"outputTokens":25}`)}, pipeline.ReasonStop,
			chattest.Usage{Prompt: 250, Completion: 25, Total: 275}, 0, pipeline.Usage{Input: 250, Output: 25, Has: input | output}},
		{"B055 steps alone", []string{step("tool-calls", `{"inputTokens":100,"outputTokens":10}`), step("stop", `{"inputTokens":250,"outputTokens":25}`)}, pipeline.ReasonStop,
			chattest.Usage{Prompt: 350, Completion: 35, Total: 385}, 0, pipeline.Usage{Input: 350, Output: 35, Has: input | output}},
		{"B055 the same twice", []string{step("stop", `{"inputTokens":100,"outputTokens":10}`), total(`{"inputTokens":100,"outputTokens":10}`)}, pipeline.ReasonStop,
			chattest.Usage{Prompt: 100, Completion: 10, Total: 110}, 0, pipeline.Usage{Input: 100, Output: 10, Has: input | output}},
		{"B057 the input includes the cache", []string{total(`{"inputTokens":1000,"outputTokens":10,"inputTokenDetails":{"noCacheTokens":30,"cacheReadTokens":950,"cacheWriteTokens":20}}`)}, pipeline.ReasonStop,
			chattest.Usage{Prompt: 1000, Completion: 10, Total: 1010}, 950, pipeline.Usage{Input: 30, CacheRead: 950, CacheWrite: 20, Output: 10, Has: input | cache | output}},
		{"B057 parts alone", []string{total(`{"outputTokens":10,"inputTokenDetails":{"noCacheTokens":30,"cacheReadTokens":950,"cacheWriteTokens":20}}`)}, pipeline.ReasonStop,
			chattest.Usage{Prompt: 1000, Completion: 10, Total: 1010}, 950, pipeline.Usage{Input: 30, CacheRead: 950, CacheWrite: 20, Output: 10, Has: input | cache | output}},
		{"B059 no finish", []string{step("length", `{"inputTokens":100,"outputTokens":10}`)}, pipeline.ReasonLength,
			chattest.Usage{Prompt: 100, Completion: 10, Total: 110}, 0, pipeline.Usage{Input: 100, Output: 10, Has: input | output}},
	} {
		for _, stream := range []bool{true, false} {
			s.play(simulator.Answer{}, append([]string{said}, row.lines...)...)
			a := s.answer(t, ask(stream, "x"), stream)
			if a.Finish != row.reason.String() || a.Usage.Prompt != row.want.Prompt || a.Usage.Completion != row.want.Completion || a.Usage.Total != row.want.Total {
				t.Errorf("%s: finish %q, usage %+v", row.name, a.Finish, a.Usage)
			}
			if d := a.Usage.PromptDetails; (d == nil) != (row.cached < 0) || d != nil && d.Cached != row.cached {
				t.Errorf("%s: prompt_tokens_details %+v", row.name, d)
			}
			if got := books.next(t); got.Status != pipeline.StatusDone || got.Reason != row.reason || got.Code != "" || got.usage != row.kept {
				t.Errorf("%s: recorded %+v", row.name, got)
			}
		}
	}
}

// TestCaseCutStreamsAreRecorded: B020. A stream that the upstream cuts is no success, and its tokens are unknown, not 0.
func TestCaseCutStreamsAreRecorded(t *testing.T) {
	s, books := accounted(t, patient...)
	var texts []string
	for range 200 {
		texts = append(texts, said)
	}
	const spent = `{"type":"finish-step","finishReason":"tool-calls","usage":{"inputTokens":7,"outputTokens":2}}`
	for name, row := range map[string]struct {
		how   simulator.Answer
		lines []string
		code  pipeline.Code
		kept  pipeline.Usage
	}{
		"end":     {simulator.Answer{}, texts, pipeline.CodeTruncated, pipeline.Usage{}},
		"cut":     {simulator.Answer{End: simulator.EndCut}, texts, pipeline.CodeTruncated, pipeline.Usage{}},
		"reset":   {simulator.Answer{End: simulator.EndReset}, texts, pipeline.CodeUpstream, pipeline.Usage{}},
		"error":   {simulator.Answer{}, append(texts[:200:200], `{"type":"error","error":"x"}`), pipeline.CodeUpstream, pipeline.Usage{}},
		"refused": {simulator.Answer{Status: 500}, nil, pipeline.CodeUpstream, pipeline.Usage{}},
		"what's known": {simulator.Answer{}, append([]string{spent}, append(texts[:200:200], `{"type":"abort"}`)...), pipeline.CodeAborted,
			pipeline.Usage{Input: 7, Output: 2, Has: input | output}},
	} {
		for _, stream := range []bool{true, false} {
			s.play(row.how, row.lines...)
			s.post(t, ask(stream, "x"))
			if got := books.next(t); got.Status != pipeline.StatusFailed || got.Code != row.code || got.usage != row.kept {
				t.Errorf("%s: recorded %+v", name, got)
			}
		}
	}
	s.post(t, `{`)
	if got := books.next(t); got.Status != pipeline.StatusRejected || got.Code != pipeline.CodeInvalidRequest || got.usage.Known() {
		t.Errorf("rejected: recorded %+v", got)
	}
}

// TestCaseClientsThatLeaveAreRecorded: B060. A turn whose client leaves is recorded with what is known by then.
func TestCaseClientsThatLeaveAreRecorded(t *testing.T) {
	const spent = `{"type":"finish-step","finishReason":"tool-calls","usage":{"inputTokens":7,"outputTokens":2}}`
	for _, stream := range []bool{true, false} {
		for _, how := range []string{"FIN", "RST"} {
			s, books := accounted(t)
			body := []string{spent, said, said, said, stopped}
			at := len(strings.Join(body[:4], "\n")) + 1
			s.play(simulator.Answer{Pauses: []simulator.Pause{{At: at, For: simulator.Forever}}}, body...)
			c := s.dial(t)
			raw(c, "HTTP/1.1", ask(stream, "x"))
			eventually(t, "the upstream has been asked", func() bool { return s.sim.Active() == 1 })
			next := lines(c)
			for read := 0; stream && read < 3; {
				line, err := next()
				if err != nil {
					t.Fatal(err)
				}
				read += strings.Count(line, `"content":"said"`)
			}
			if how == "RST" {
				_ = c.(*net.TCPConn).SetLinger(0)
			}
			c.Close()
			got := books.next(t)
			if got.Status != pipeline.StatusAborted || got.Code != "" || stream && got.usage != (pipeline.Usage{Input: 7, Output: 2, Has: input | output}) {
				t.Errorf("stream=%v, %s: recorded %+v", stream, how, got)
			}
			eventually(t, "the upstream exchange is closed", func() bool { return s.sim.Active() == 0 })
		}
	}
}
