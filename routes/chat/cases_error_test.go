package chat_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"amplifier-agent/pipeline"
	"amplifier-agent/routes/chat/chattest"
	"amplifier-agent/upstream/simulator"
)

// patient lets the preflight window last until the upstream has answered, however busy the machine is.
var patient = []pipeline.Stage{{Name: "patient", Request: func(_ context.Context, t *pipeline.Turn) error {
	t.Silence = time.Hour
	return nil
}}}

// TestCaseErrorEvents: B030 and B071. An error inside a 200 is told, whatever its shape: as a status where it comes first, else
// in the content.
func TestCaseErrorEvents(t *testing.T) {
	s := start(t, setup{extra: patient})
	for _, event := range []string{
		`{"type":"error","error":{"message":"rate limited"}}`,
		`{"type":"error","error":"rate limited"}`,
		`{"type":"error","message":"rate limited"}`,
		`{"type":"error","error":{"error":{"message":"rate limited","statusCode":429}}}`,
	} {
		for _, stream := range []bool{true, false} {
			for _, first := range []string{"", `{"type":"start"}`, ": ping"} {
				s.play(simulator.Answer{}, first, event, said, stopped)
				resp, b := s.post(t, ask(stream, "x"))
				e := parseError(t, b)
				if resp.StatusCode != http.StatusBadGateway || e.Type != "upstream_error" || orEmpty(e.Code) != "upstream_error" || !strings.Contains(e.Message, "rate limited") {
					t.Errorf("%s behind %q: status %d: %s", event, first, resp.StatusCode, b)
				}
			}
			s.play(simulator.Answer{}, said, event, said, stopped)
			a := s.answer(t, ask(stream, "x"), stream)
			if !strings.HasPrefix(a.Content, "said\n\n[amplifier-agent error: ") || !strings.Contains(a.Content, "rate limited") || !strings.HasSuffix(a.Content, "]") || a.Finish != "stop" {
				t.Errorf("%s: answer %+v", event, a)
			}
		}
	}
}

// TestCaseBrokenStreams: B016 and B073. However a stream breaks off, what came before stays, said once, the terminal chunk and
// [DONE] follow, and nothing is asked of the upstream again, though it may be before that: also on a connection that was used before.
func TestCaseBrokenStreams(t *testing.T) {
	s := start(t, setup{extra: patient, tries: 3})
	three := []string{`{"type":"text-delta","id":"t","text":"one "}`, `{"type":"text-delta","id":"t","text":"two "}`, `{"type":"text-delta","id":"t","text":"three"}`}
	overloaded := `{"type":"error","error":{"message":"Overloaded","statusCode":529,"isRetryable":true}}`
	for name, row := range map[string]struct {
		how  simulator.Answer
		last string
	}{
		"reset":         {simulator.Answer{End: simulator.EndReset}, ""},
		"reset in line": {simulator.Answer{End: simulator.EndReset}, `{"type":"text-delta","id":"t","te`},
		"cut":           {simulator.Answer{End: simulator.EndCut}, ""},
		"end":           {simulator.Answer{}, ""},
		"error event":   {simulator.Answer{}, overloaded},
		"abort":         {simulator.Answer{}, `{"type":"abort"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s.sim.Script(nil)
			s.answer(t, ask(true, "Reply with exactly: warm"), true) // leaves a connection to be used again
			s.play(row.how, append(three[:3:3], row.last)...)
			before := len(s.sim.Requests())
			resp, b := s.post(t, ask(true, "x"))
			reset := row.how.End == simulator.EndReset // which may overtake what was sent before it
			if resp.StatusCode != http.StatusOK {
				if !reset {
					t.Errorf("status %d: %s", resp.StatusCode, b)
				}
			} else if a, err := chattest.ParseSSE(b); err != nil {
				t.Error(err)
			} else if text, fail, _ := strings.Cut(a.Content, "\n\n[amplifier-agent error: "); !strings.HasPrefix("one two three", text) || !reset && text != "one two three" || !strings.HasSuffix(fail, "]") || a.Finish != "stop" {
				t.Errorf("answer %+v", a)
			}
			if n := len(s.sim.Requests()) - before; n != 1 && !reset {
				t.Errorf("the upstream was asked %d times", n)
			}
		})
	}
}

// TestCaseRetryAfter: B074 by rulings 11. No other key is tried: the client hears of the 429, and for how long to wait.
func TestCaseRetryAfter(t *testing.T) {
	s := start(t, setup{extra: patient})
	s.play(simulator.Answer{Status: 429, Header: http.Header{"Retry-After": {"60"}}}, `{"error":{"message":"slow down","code":"RATE_LIMITED"}}`)
	for i, stream := range []bool{true, false} {
		resp, b := s.post(t, ask(stream, "x"))
		e := parseError(t, b)
		if resp.StatusCode != http.StatusBadGateway || resp.Header.Get("Retry-After") != "60" || !strings.Contains(e.Message, "429") || !strings.Contains(e.Message, "slow down") {
			t.Errorf("stream=%v: status %d, Retry-After %q: %s", stream, resp.StatusCode, resp.Header.Get("Retry-After"), b)
		}
		if n := len(s.sim.Requests()); n != i+1 {
			t.Errorf("the upstream was asked %d times", n)
		}
	}
	for _, r := range s.sim.Requests() {
		if got := r.Header.Get("Authorization"); got != "Bearer upstream-key" {
			t.Errorf("asked with %q", got)
		}
	}
}

// TestCaseCompressedUpstream: B070. An upstream that compresses unasked is understood, or told from one that says nothing.
func TestCaseCompressedUpstream(t *testing.T) {
	s := start(t, setup{extra: patient})
	for _, coding := range []string{"gzip", "deflate", "zstd", "br"} {
		for _, stream := range []bool{true, false} {
			s.play(simulator.Answer{Encoding: coding}, said, stopped)
			if a := s.answer(t, ask(stream, "x"), stream); a.Content != "said" || a.Finish != "stop" {
				t.Errorf("%s: answer %+v", coding, a)
			}
			s.play(simulator.Answer{Encoding: coding, End: simulator.EndCut}, said)
			if resp, b := s.post(t, ask(stream, "x")); !strings.Contains(string(b), "[amplifier-agent error: ") && resp.StatusCode != http.StatusBadGateway {
				t.Errorf("%s, cut: status %d: %s", coding, resp.StatusCode, b)
			}
			s.play(simulator.Answer{Header: http.Header{"Content-Encoding": {coding}}}, said, stopped)
			resp, b := s.post(t, ask(stream, "x"))
			if e := parseError(t, b); resp.StatusCode != http.StatusBadGateway || e.Type != "upstream_error" {
				t.Errorf("%s, which it is not: status %d: %s", coding, resp.StatusCode, b)
			}
		}
	}
	s.play(simulator.Answer{Header: http.Header{"Content-Encoding": {"rot13"}}}, said, stopped)
	resp, b := s.post(t, ask(true, "x"))
	if e := parseError(t, b); resp.StatusCode != http.StatusBadGateway || !strings.Contains(e.Message, "rot13") {
		t.Errorf("status %d: %s", resp.StatusCode, b)
	}
}

// TestCaseEndlessLine: B029. A line without end is an error, and nothing of the exchange is left.
func TestCaseEndlessLine(t *testing.T) {
	s := start(t, setup{})
	for _, stream := range []bool{true, false} {
		s.sim.Script(func(*simulator.Request) *simulator.Answer {
			return &simulator.Answer{Body: []byte(said + "\n"), Filler: 200 << 20}
		})
		a := s.answer(t, ask(stream, "x"), stream)
		if !strings.HasPrefix(a.Content, "said\n\n[amplifier-agent error: UpstreamError: ") || !strings.Contains(a.Content, "too long") || a.Finish != "stop" {
			t.Errorf("answer %+v", a)
		}
		eventually(t, "the upstream exchange is closed", func() bool { return s.sim.Active() == 0 })
		s.sim.Script(nil)
		if a := s.answer(t, ask(stream, "Reply with exactly: alive"), stream); a.Content != "alive" {
			t.Errorf("the next answer is %+v", a)
		}
	}
	if n := s.sim.Gone(); n != 2 {
		t.Errorf("%d exchanges were given up, want 2", n)
	}
}
