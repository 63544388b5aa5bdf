package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"amplifier-agent/pipeline"
	"amplifier-agent/routes/chat/chattest"
	"amplifier-agent/stages"
	"amplifier-agent/upstream/simulator"
)

func turnStages() []pipeline.Stage { return []pipeline.Stage{stages.ToolMount()} }

type wireError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func parseError(t *testing.T, b []byte) wireError {
	t.Helper()
	var e struct {
		Error *wireError `json:"error"`
	}
	if err := json.Unmarshal(b, &e); err != nil || e.Error == nil || e.Error.Message == "" {
		t.Fatalf("no error body (%v): %s", err, b)
	}
	return *e.Error
}

func TestAnswerTravelsTheWholePath(t *testing.T) {
	s := start(t, setup{label: `la"bel`})
	text := "naïve — 東京 😀 \"q\" \\ tab\tline\nbreak \u2028 end"
	s.both(t, "Reply with exactly: "+text, func(t *testing.T, a answer) {
		if a.Content != text {
			t.Errorf("content %q, want %q", a.Content, text)
		}
		if a.Reasoning == "" || a.Finish != "stop" || a.Mode != nil || a.Model != `la"bel` || a.Usage.Prompt == 0 || a.Usage.Cost == nil {
			t.Errorf("answer %+v, usage %+v", a, a.Usage)
		}
		if len(a.ID) != len("chatcmpl-")+24 || !strings.HasPrefix(a.ID, "chatcmpl-") || strings.Trim(a.ID[9:], "0123456789abcdef") != "" {
			t.Errorf("id %q", a.ID)
		}
	})
}

func TestHeadersOfAStream(t *testing.T) {
	s := start(t, setup{})
	resp, b := s.post(t, ask(true, "Reply with exactly: x"), "Accept-Encoding", "gzip, br, zstd")
	want := map[string]string{"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Content-Encoding": ""}
	for k, v := range want {
		if got := resp.Header.Get(k); got != v {
			t.Errorf("%s: %q, want %q", k, got, v)
		}
	}
	for _, sep := range []string{"\u2028", "\u2029", "\u0085", "\r"} {
		if strings.Contains(string(b), sep) {
			t.Errorf("the stream holds a raw %U", []rune(sep))
		}
	}
}

func TestToolRoundTrip(t *testing.T) {
	s := start(t, setup{})
	arguments := `{"city":"Paris",  "big":9223372036854775807,"n":1.50,"a":{"z":1,"b":"\u00e9"}}`
	prompt, _ := json.Marshal("Call the tool get_weather once with these arguments: " + arguments + ".")
	tools := `"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]`
	for _, stream := range []bool{true, false} {
		a := s.answer(t, fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[{"role":"user","content":%s}],%s}`, model, stream, prompt, tools), stream)
		if a.Finish != "tool_calls" || len(a.Calls) != 1 || a.Calls[0].Function.Name != "get_weather" || a.Calls[0].Function.Arguments != arguments {
			t.Fatalf("answer %+v", a)
		}
		if index := a.Calls[0].Index; stream && (index == nil || *index != 0) || !stream && index != nil {
			t.Errorf("index %v", index)
		}
		call, _ := json.Marshal(a.Calls[0])
		a = s.answer(t, fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[{"role":"user","content":%s},{"role":"assistant","content":null,"reasoning_content":%q,"tool_calls":[%s]},{"role":"tool","tool_call_id":%q,"content":"kit-sunny"}],%s}`,
			model, stream, prompt, a.Reasoning, call, a.Calls[0].ID, tools), stream)
		if a.Finish != "stop" || !strings.Contains(a.Content, "kit-sunny") {
			t.Errorf("answer after the result %+v", a)
		}
		var sent json.RawMessage
		for _, p := range last(s.sim.Requests()).Messages[1].Parts {
			if p.Type == "tool-call" {
				sent = p.Input
			}
		}
		if string(sent) != arguments {
			t.Errorf("the upstream was sent back %s, want %s", sent, arguments)
		}
	}
}

func last[T any](s []T) T { return s[len(s)-1] }

// deltas is a body of the upstream that streams texts.
func deltas(texts ...string) []byte {
	var b []byte
	b = append(b, `{"type":"start"}`+"\n"...)
	for _, s := range texts {
		q, _ := json.Marshal(s)
		b = fmt.Appendf(b, `{"type":"text-delta","id":"t","text":%s}`+"\n", q)
	}
	return append(b, `{"type":"finish","finishReason":"stop","rawFinishReason":"stop","totalUsage":{"inputTokens":3,"outputTokens":4},"providerMetadata":{"gateway":{"cost":"0.10"}}}`+"\n"...)
}

// TestALoneEventIsNotHeldBack: the upstream sends one delta and then nothing; the client has it all the same.
func TestALoneEventIsNotHeldBack(t *testing.T) {
	s := start(t, setup{})
	body := deltas("first", "second")
	s.sim.Script(func(*simulator.Request) *simulator.Answer {
		return &simulator.Answer{Body: body, Pauses: []simulator.Pause{{At: simulator.LineOffset(body, 2), For: simulator.Forever}}}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, err := s.http.Do(s.request(ctx, t, ask(true, "x")))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	next := lines(resp.Body)
	for {
		line, err := next()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"content":"first"`) {
			break
		}
	}
	cancel()
	eventually(t, "the upstream exchange is closed", func() bool { return s.sim.Active() == 0 && s.sim.Gone() == 1 })
}

// TestRoleChunkBeforeTheFirstToken: after the preflight window the client has its headers and the role chunk.
func TestRoleChunkBeforeTheFirstToken(t *testing.T) {
	for _, fault := range []simulator.Fault{"stall-headers", "stall"} {
		s := start(t, setup{})
		s.sim.Script(func(*simulator.Request) *simulator.Answer {
			if fault == "stall" {
				return &simulator.Answer{Pauses: []simulator.Pause{{For: simulator.Forever}}}
			}
			return &simulator.Answer{HeaderDelay: simulator.Forever}
		})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		resp, err := s.http.Do(s.request(ctx, t, ask(true, "x")))
		if err != nil {
			t.Fatalf("%s: %v", fault, err)
		}
		line, err := lines(resp.Body)()
		if err != nil || !strings.Contains(line, `"delta":{"role":"assistant"}`) {
			t.Errorf("%s: first line %q, error %v", fault, line, err)
		}
		cancel()
		resp.Body.Close()
		eventually(t, "the upstream exchange is closed", func() bool { return s.sim.Active() == 0 })
	}
}

func TestPreflight(t *testing.T) {
	s := start(t, setup{})
	for _, stream := range []bool{true, false} {
		for _, row := range []struct {
			fault, message string
		}{
			{"error-first", "MODEL_NOT_IN_PLAN"},
			{"status-500", "500"},
			{"status-429", "429"},
			{"status-503", "503"},
			{"html", ""},
			{"reset", "connection"},
			{"empty", "without any output"},
		} {
			resp, b := s.post(t, ask(stream, "x [fault:"+row.fault+"]"))
			e := parseError(t, b)
			if resp.StatusCode != http.StatusBadGateway || e.Type != "upstream_error" || e.Code == nil || *e.Code != "upstream_error" {
				t.Errorf("%s: status %d: %s", row.fault, resp.StatusCode, b)
			}
			if !strings.Contains(e.Message, row.message) || strings.Contains(e.Message, "<") || strings.Contains(e.Message, "upstream-key") {
				t.Errorf("%s: message %q", row.fault, e.Message)
			}
		}
	}
}

// TestLateErrorIsInline: once committed, an error is text, then comes the normal end.
func TestLateErrorIsInline(t *testing.T) {
	s := start(t, setup{})
	s.both(t, "x [fault:error-late]", func(t *testing.T, a answer) {
		if !strings.HasPrefix(a.Content, "[amplifier-agent error: UpstreamError: ") || a.Finish != "stop" {
			t.Errorf("answer %+v", a)
		}
	})
}

// TestClientGone: an answer that nobody reads is not paid for.
func TestClientGone(t *testing.T) {
	for _, stream := range []bool{true, false} {
		for _, where := range []string{"headers", "first token", "mid-stream"} {
			for _, how := range []string{"FIN", "RST"} {
				t.Run(fmt.Sprintf("stream=%v/%s/%s", stream, where, how), func(t *testing.T) {
					t.Parallel()
					s := start(t, setup{})
					body := deltas("a", "b", "c")
					s.sim.Script(func(*simulator.Request) *simulator.Answer {
						switch where {
						case "headers":
							return &simulator.Answer{HeaderDelay: simulator.Forever}
						case "first token":
							return &simulator.Answer{Body: body, Pauses: []simulator.Pause{{At: simulator.LineOffset(body, 1), For: simulator.Forever}}}
						}
						return &simulator.Answer{Body: body, Pauses: []simulator.Pause{{At: simulator.LineOffset(body, 3), For: simulator.Forever}}}
					})
					c := s.dial(t)
					req := ask(stream, "x")
					raw(c, "HTTP/1.1", req)
					eventually(t, "the upstream has been asked", func() bool { return s.sim.Active() == 1 })
					if stream { // wait for the answer to begin
						if _, err := c.Read(make([]byte, 1)); err != nil {
							t.Fatal(err)
						}
					}
					if how == "RST" {
						_ = c.(*net.TCPConn).SetLinger(0)
					}
					c.Close()
					eventually(t, "the upstream exchange is closed", func() bool { return s.sim.Active() == 0 })
					if s.sim.Gone() != 1 {
						t.Errorf("%d exchanges were given up, want 1", s.sim.Gone())
					}
				})
			}
		}
	}
}

// TestClientGoneWhileDeltasFlow: a non-streaming turn writes nothing, so only a look shows that the client has gone.
func TestClientGoneWhileDeltasFlow(t *testing.T) {
	s := start(t, setup{sim: simulator.Options{Pace: 20 * time.Millisecond}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		resp, err := s.http.Do(s.request(ctx, t, ask(false, "Count slowly to 100000")))
		if err == nil {
			resp.Body.Close()
		}
		done <- err
	}()
	eventually(t, "the upstream has been asked", func() bool { return s.sim.Active() == 1 })
	cancel()
	if err := <-done; err == nil {
		t.Error("the request did not fail")
	}
	eventually(t, "the upstream exchange is closed", func() bool { return s.sim.Active() == 0 })
}

// TestThousandStreams: each client gets its own answer, whole.
func TestThousandStreams(t *testing.T) {
	const n = 1000
	s := start(t, setup{sim: simulator.Options{Pace: time.Millisecond}})
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for i := range n {
		wg.Go(func() {
			marker := fmt.Sprintf("marker-%d-%s-end", i, strings.Repeat(string(rune('a'+i%26)), 40))
			ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
			defer cancel()
			resp, err := s.http.Do(s.request(ctx, t, ask(true, "Reply with exactly: "+marker)))
			if err != nil {
				errs <- err
				return
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				errs <- fmt.Errorf("stream %d: %w", i, err)
				return
			}
			a, err := chattest.ParseSSE(b)
			if err != nil || a.Content != marker || a.Finish != "stop" {
				errs <- fmt.Errorf("stream %d: content %q finish %q error %v", i, a.Content, a.Finish, err)
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

// TestPanicEndsOneStream: a stage that panics costs one turn, which still ends as the wire demands.
func TestPanicEndsOneStream(t *testing.T) {
	boom := pipeline.Stage{
		Name: "boom",
		Request: func(_ context.Context, t *pipeline.Turn) error {
			if strings.Contains(string(t.Body), "panic early") {
				panic("early")
			}
			return nil
		},
		Events: func(t *pipeline.Turn, in pipeline.Stream) pipeline.Stream {
			return func(yield func(*pipeline.Event, error) bool) {
				for ev, err := range in {
					if err == nil && ev.Kind == pipeline.Text && strings.Contains(string(t.Body), "panic late") {
						panic("late")
					}
					if !yield(ev, err) {
						return
					}
				}
			}
		},
	}
	s := start(t, setup{extra: []pipeline.Stage{boom}})
	for _, stream := range []bool{true, false} {
		resp, b := s.post(t, ask(stream, "panic early"))
		if e := parseError(t, b); resp.StatusCode != 500 || e.Type != "server_error" || strings.Contains(e.Message, "early") {
			t.Errorf("status %d: %s", resp.StatusCode, b)
		}
		a := s.answer(t, ask(stream, "Reply with exactly: panic late"), stream)
		if !strings.HasSuffix(a.Content, "[amplifier-agent error: InternalError: internal error]") || a.Finish != "stop" {
			t.Errorf("answer %+v", a)
		}
		if a := s.answer(t, ask(stream, "Reply with exactly: alive"), stream); a.Content != "alive" {
			t.Errorf("the next answer is %+v", a)
		}
	}
	eventually(t, "no exchange is left open", func() bool { return s.sim.Active() == 0 })
}

func TestShutdownLetsStreamsEnd(t *testing.T) {
	s := start(t, setup{sim: simulator.Options{}})
	body := deltas("one", "two")
	s.sim.Script(func(*simulator.Request) *simulator.Answer {
		return &simulator.Answer{Body: body, Pauses: []simulator.Pause{{At: simulator.LineOffset(body, 2), For: 300 * time.Millisecond}}}
	})
	idle, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	result := make(chan []byte, 1)
	go func() {
		defer close(result) // also if the request fails
		_, b := s.post(t, ask(true, "x"))
		result <- b
	}()
	eventually(t, "the upstream has been asked", func() bool { return s.sim.Active() == 1 })
	if err := s.srv.Shutdown(patience); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	a, err := chattest.ParseSSE(<-result)
	if err != nil || a.Content != "onetwo" {
		t.Errorf("content %q, error %v", a.Content, err)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://")); err == nil {
		t.Error("the listener still accepts")
	}
}

func TestShutdownCutsOffWhatDoesNotEnd(t *testing.T) {
	s := start(t, setup{})
	body := deltas("one", "two")
	s.sim.Script(func(*simulator.Request) *simulator.Answer {
		return &simulator.Answer{Body: body, Pauses: []simulator.Pause{{At: simulator.LineOffset(body, 2), For: simulator.Forever}}}
	})
	result := make(chan []byte, 1)
	go func() {
		defer close(result) // also if the request fails
		_, b := s.post(t, ask(true, "x"))
		result <- b
	}()
	eventually(t, "the upstream has been asked", func() bool { return s.sim.Active() == 1 })
	if err := s.srv.Shutdown(100 * time.Millisecond); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	a, err := chattest.ParseSSE(<-result)
	if err != nil || !strings.HasPrefix(a.Content, "one") || !strings.Contains(a.Content, "shutting down") || a.Finish != "stop" {
		t.Errorf("answer %+v, error %v", a, err)
	}
}
