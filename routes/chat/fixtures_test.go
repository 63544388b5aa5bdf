package chat_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/engine"
	"amplifier-agent/routes/chat"
	"amplifier-agent/routes/chat/chattest"
	"amplifier-agent/upstream/commandcode/fixtures"
	"amplifier-agent/upstream/replay"
	"amplifier-agent/upstream/simulator"
)

// inlineNames are the names under which a fixture's class of error stands in the content.
var inlineNames = map[string]string{
	"upstream": "UpstreamError", "rate_limit": "RateLimitError", "plan": "PlanError", "truncated": "TruncatedError",
	"empty": "EmptyAnswerError", "invalid_tool_call": "InvalidToolCallError", "aborted": "AbortedError",
}

// checkFixture compares an answer with a 200 to what the fixture means.
func checkFixture(t *testing.T, a answer, want fixtures.Result) {
	t.Helper()
	content, finish := "", "stop" // of an error, which is told inline
	if want.Content != nil {
		content = *want.Content
	}
	calls := want.ToolCalls
	if e := want.Error; e != nil {
		inline := a.Content[len(content):]
		if !strings.HasPrefix(strings.TrimSpace(inline), "[amplifier-agent error: "+inlineNames[e.Class]+": ") || !strings.HasSuffix(inline, "]") {
			t.Errorf("the error is told as %q", inline)
		}
		if !strings.Contains(inline, e.Message) && (e.Class == "upstream" && want.Reasoning == nil || e.Class == "rate_limit") {
			t.Errorf("%q does not hold the upstream's words %q", inline, e.Message)
		}
		a.Content = a.Content[:len(content)]
		if e.Class == "invalid_tool_call" {
			calls = nil // half a call is never handed out
		}
	} else {
		finish = *want.FinishReason
	}
	if a.Content != content {
		t.Errorf("content %q, want %q", a.Content, content)
	}
	if reasoning := orEmpty(want.Reasoning); a.Reasoning != reasoning {
		t.Errorf("reasoning %q, want %q", a.Reasoning, reasoning)
	}
	if a.Finish != finish {
		t.Errorf("finish_reason %q, want %q", a.Finish, finish)
	}
	if len(a.Calls) != len(calls) {
		t.Fatalf("%d tool calls, want %d", len(a.Calls), len(calls))
	}
	for i, c := range a.Calls {
		w := calls[i]
		if c.ID != w.ID || c.Type != "function" || c.Function.Name != w.Name || c.Function.Arguments != w.Arguments || c.Index != nil && *c.Index != i {
			t.Errorf("tool call %d is %+v, want %+v", i, c, w)
		}
	}
	if want.Error == nil { // the tokens of a failed turn are reported as far as they are known, of which a fixture says nothing
		checkUsage(t, a.Usage, want)
	}
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func checkUsage(t *testing.T, u *chattest.Usage, want fixtures.Result) {
	t.Helper()
	w := want.Usage
	if w == nil {
		w = &fixtures.Usage{} // the block is always there, without what nobody said
	}
	if u.Prompt != w.Prompt || u.Completion != w.Completion || u.Total != w.Total {
		t.Errorf("usage %+v, want %+v", u, w)
	}
	if (u.PromptDetails == nil) != (w.PromptDetails == nil) || u.PromptDetails != nil && u.PromptDetails.Cached != w.PromptDetails.Cached {
		t.Errorf("prompt_tokens_details %+v, want %+v", u.PromptDetails, w.PromptDetails)
	}
	if (u.CompletionDetails == nil) != (w.CompletionDetails == nil) || u.CompletionDetails != nil && u.CompletionDetails.Reasoning != w.CompletionDetails.Reasoning {
		t.Errorf("completion_tokens_details %+v, want %+v", u.CompletionDetails, w.CompletionDetails)
	}
	if (u.Cost == nil) != (want.CostUSD == nil) || u.Cost != nil && *u.Cost != *want.CostUSD {
		t.Errorf("cost_usd %v, want %v", u.Cost, want.CostUSD)
	}
}

// refused reports whether a fixture fails before it has answered anything, so that the error is a status.
func refused(r fixtures.Result) bool {
	return r.Error != nil && r.Content == nil && r.Reasoning == nil
}

func TestFixturesOverSockets(t *testing.T) {
	s := start(t, setup{})
	for name, want := range fixtures.Expected() {
		for _, how := range []struct {
			name string
			size int
		}{{"line by line", 0}, {"at once", simulator.Coalesce}, {"byte by byte", 1}} {
			if how.size == 1 && len(fixtures.Body(name)) > 10_000 {
				how.size = 7 // 140,000 writes would show nothing more
			}
			for _, stream := range []bool{true, false} {
				t.Run(name+"/"+how.name, func(t *testing.T) {
					s.sim.Script(func(*simulator.Request) *simulator.Answer {
						return &simulator.Answer{Body: fixtures.Body(name), WriteSize: how.size}
					})
					resp, b := s.post(t, ask(stream, "x"))
					if refused(want) && resp.StatusCode != http.StatusOK {
						checkRefusal(t, resp.StatusCode, b, want)
						return
					}
					if resp.StatusCode != http.StatusOK {
						t.Fatalf("status %d: %s", resp.StatusCode, b)
					}
					a, err := chattest.Parser(stream)(b)
					if err != nil {
						t.Fatal(err)
					}
					checkFixture(t, a, want)
				})
			}
		}
	}
}

func checkRefusal(t *testing.T, status int, b []byte, want fixtures.Result) {
	t.Helper()
	e := parseError(t, b)
	if status != http.StatusBadGateway || e.Type != "upstream_error" || e.Code == nil || *e.Code != "upstream_error" {
		t.Errorf("status %d: %s", status, b)
	}
	if want.Error.Class == "plan" && !strings.Contains(e.Message, want.Error.Message) {
		t.Errorf("%q does not hold the upstream's words %q", e.Message, want.Error.Message)
	}
}

// cutter hands out its bytes in two reads.
type cutter struct {
	b  []byte
	at int
}

func (c *cutter) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := len(c.b)
	if c.at > 0 && c.at < n {
		n = c.at
	}
	n = copy(p, c.b[:n])
	c.b, c.at = c.b[n:], c.at-n
	return n, nil
}

// translate plays body through the whole pipeline, in memory. An error is one that took the first frame's place.
func translate(body []byte, stream bool, cut func(io.Reader) io.Reader) (out []byte, frames int, err error) {
	p := replay.New(replay.Config{Files: fstest.MapFS{"m.ndjson": {Data: body}}, Cut: cut})
	t := &pipeline.Turn{ID: "0123456789abcdef01234567", Received: time.Unix(1_700_000_000, 0), Provider: p, UpstreamID: "m"}
	runner := &engine.Runner{Round: round(quietLog)}
	encode := chat.JSON
	if stream {
		encode = chat.SSE
	}
	wire := chat.Wire{Label: "amplifier", Alive: func() bool { return true }, Log: quietLog}
	events := pipeline.Chain(turnStages(), t, runner.Run(context.Background(), t))
	for frame, ferr := range encode(t, events, wire) {
		if ferr != nil {
			return nil, frames, ferr
		}
		out = append(out, frame...)
		frames++
	}
	return out, frames, nil
}

func TestFixturesCutAtEveryOffset(t *testing.T) {
	for name := range fixtures.Expected() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := fixtures.Body(name)
			for _, variant := range [][]byte{body, bytes.ReplaceAll(body, []byte("\n"), []byte("\r\n")), bytes.TrimSuffix(body, []byte("\n"))} {
				for _, stream := range []bool{true, false} {
					want, _, wantErr := translate(variant, stream, nil)
					for at := 1; at < len(variant); at++ {
						if len(variant) > 10_000 && at > 400 && at < len(variant)-1600 && at%4099 != 0 {
							continue // inside one long string every offset is like the next
						}
						got, _, err := translate(variant, stream, func(io.Reader) io.Reader { return &cutter{variant, at} })
						if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
							t.Fatalf("cut at %d: error %v, uncut %v", at, err, wantErr)
						}
						if !bytes.Equal(got, want) {
							t.Fatalf("cut at %d:\n%s\nuncut:\n%s", at, got, want)
						}
					}
				}
			}
		})
	}
}

func TestFixturesInMemory(t *testing.T) {
	for name, want := range fixtures.Expected() {
		for _, stream := range []bool{true, false} {
			out, _, err := translate(fixtures.Body(name), stream, nil)
			if (err != nil) != refused(want) {
				t.Errorf("%s: error %v", name, err)
			}
			if err != nil {
				continue
			}
			a, err := chattest.Parser(stream)(out)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			t.Run(name, func(t *testing.T) { checkFixture(t, a, want) })
		}
	}
}
