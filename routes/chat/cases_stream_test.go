package chat_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"amplifier-agent/upstream/simulator"
)

// The tests named TestCase… go through docs/cases.md: what others' servers were reported for, sent to ours.

// play lets the upstream answer with lines.
func (s *server) play(a simulator.Answer, lines ...string) {
	a.Body = []byte(strings.Join(lines, "\n") + "\n")
	s.sim.Script(func(*simulator.Request) *simulator.Answer { return &a })
}

// called writes the calls of an answer as "id name arguments", and checks their indexes.
func called(t *testing.T, a answer) []string {
	t.Helper()
	var calls []string
	for i, c := range a.Calls {
		if c.Index != nil && *c.Index != i {
			t.Errorf("call %d has the index %d", i, *c.Index)
		}
		calls = append(calls, c.ID+" "+c.Function.Name+" "+c.Function.Arguments)
	}
	return calls
}

const (
	stopped  = `{"type":"finish","finishReason":"stop"}`
	asksTool = `{"type":"finish","finishReason":"tool-calls"}`
	said     = `{"type":"text-delta","id":"t","text":"said"}`
)

func toolStart(id, name string) string {
	return fmt.Sprintf(`{"type":"tool-input-start","id":%q,"toolName":%q}`, id, name)
}

func toolDelta(id, piece string) string {
	return fmt.Sprintf(`{"type":"tool-input-delta","id":%q,"delta":%q}`, id, piece)
}

func toolEnd(id string) string { return fmt.Sprintf(`{"type":"tool-input-end","id":%q}`, id) }

func toolCall(id, name, input string) string {
	return fmt.Sprintf(`{"type":"tool-call","toolCallId":%q,"toolName":%q,"input":%s}`, id, name, input)
}

func ends(kind, reason string) string {
	return fmt.Sprintf(`{"type":%q,"finishReason":%q}`, kind, reason)
}

// TestCaseStreams: what lines of the upstream become, over both transports. What has begun, or is well, is not asked again.
func TestCaseStreams(t *testing.T) {
	s := start(t, setup{extra: patient})
	large := `{"text":"` + strings.Repeat("x", 70_000) + `"}`
	for _, row := range []struct {
		name    string
		lines   []string
		content string
		calls   string // as called writes them, joined by "; "
		finish  string
		fail    string // the inline error that the content ends in
	}{
		{"B002 interleaved fragments", []string{toolStart("A", "f"), toolStart("B", "g"), toolDelta("A", `{"x":`), toolDelta("B", `{"y":`), toolDelta("A", "1}"), toolDelta("B", "2}"), asksTool},
			"", `A f {"x":1}; B g {"y":2}`, "tool_calls", ""},
		{"B004 three calls without fragments", []string{toolCall("A", "f", `{"n":1}`), toolCall("B", "f", `{"n":2}`), toolCall("C", "f", `{"n":3}`), asksTool},
			"", `A f {"n":1}; B f {"n":2}; C f {"n":3}`, "tool_calls", ""},
		{"B004 done in another order", []string{toolStart("A", "f"), toolStart("B", "f"), toolStart("C", "f"), toolCall("C", "f", `{"n":3}`), toolCall("B", "f", `{"n":2}`), toolCall("A", "f", `{"n":1}`), asksTool},
			"", `A f {"n":1}; B f {"n":2}; C f {"n":3}`, "tool_calls", ""},
		{"B005 one id twice in a turn", []string{toolCall("list_dir:0", "f", "{}"), toolCall("list_dir:0", "f", "{}"), asksTool}, "", "list_dir:0 f {}", "tool_calls", ""},
		{"B005 one id twice while it waits", []string{toolStart("A", "f"), toolCall("B", "f", `{"n":1}`), toolCall("B", "f", `{"n":2}`), toolCall("A", "f", "{}"), asksTool},
			"", `A f {}; B f {"n":1}`, "tool_calls", ""},
		{"B008 a call and stop", []string{toolCall("A", "f", "{}"), ends("finish-step", "stop")}, "", "A f {}", "tool_calls", ""},
		{"B008 a call and stop twice", []string{said, toolCall("A", "f", "{}"), ends("finish-step", "stop"), stopped}, "said", "A f {}", "tool_calls", ""},
		{"B009 tool-calls without a call", []string{said, ends("finish-step", "tool-calls")}, "said", "", "stop", ""},
		{"B009 and twice", []string{said, ends("finish-step", "tool-calls"), asksTool}, "said", "", "stop", ""},
		{"B011 fragments and the call", []string{toolStart("a", "f"), toolDelta("a", "{}"), toolEnd("a"), toolCall("a", "f", "{}"), asksTool}, "", "a f {}", "tool_calls", ""},
		{"B011 the call before the end", []string{toolStart("a", "f"), toolDelta("a", "{}"), toolCall("a", "f", `{"whole":true}`), toolDelta("a", "{}"), toolEnd("a"), asksTool}, "", `a f {"whole":true}`, "tool_calls", ""},
		{"B011 late fragments while it waits", []string{toolStart("b", "f"), toolStart("a", "f"), toolDelta("a", "{}"), toolCall("a", "f", "{}"), toolDelta("a", "{}"), toolEnd("a"), toolCall("b", "f", "{}"), asksTool},
			"", "b f {}; a f {}", "tool_calls", ""},

		{"B013 max_output_tokens", []string{said, ends("finish-step", "max_output_tokens")}, "said", "", "length", ""},
		{"B013 model_context_window_exceeded", []string{said, ends("finish", "model_context_window_exceeded")}, "said", "", "length", ""},
		{"B013 pause_turn", []string{said, ends("finish", "pause_turn")}, "said", "", "length", ""},
		{"B013 network-error", []string{said, ends("finish-step", "network-error")}, "said", "", "stop", "UpstreamError"},
		{"B013 banana", []string{said, ends("finish-step", "banana")}, "said", "", "stop", ""},
		{"B015 half a call behind text", []string{said, toolStart("a", "f"), toolDelta("a", `{"pa`)}, "said", "", "stop", "TruncatedError"},
		{"B015 half a call and a finish", []string{said, toolStart("a", "f"), toolDelta("a", `{"pa`), asksTool}, "said", "", "stop", "InvalidToolCallError"},
		{"B015 a whole call, cut behind it", []string{toolCall("a", "f", "{}"), toolStart("b", "f"), toolDelta("b", `{"pa`)}, "", "a f {}", "stop", "TruncatedError"},
		{"B016 an end without a finish", []string{said}, "said", "", "stop", "TruncatedError"},
		{"B017 finish-step and finish", []string{said, ends("finish-step", "length"), ends("finish", "length")}, "said", "", "length", ""},
		{"B017 finish says nothing", []string{said, ends("finish-step", "length"), `{"type":"finish"}`}, "said", "", "length", ""},

		{"B024 a call of 70,000 bytes", []string{toolCall("a", "f", large), asksTool}, "", "a f " + large, "tool_calls", ""},
		{"B024 a delta of 70,000 bytes", []string{toolStart("a", "f"), toolDelta("a", large), asksTool}, "", "a f " + large, "tool_calls", ""},
		{"B026 CR and LF", []string{said + "\r", "\r", said + "\r", stopped + "\r"}, "saidsaid", "", "stop", ""},
		{"B027 comments", []string{": ping", "", said, ":", " : ping", "data: : ping", stopped}, "said", "", "stop", ""},
		{"B036 integers above 2^53", []string{toolCall("a", "f", `{"id":9223372036854775807}`), toolStart("b", "f"), toolDelta("b", `{"id":9007199254740993}`), asksTool},
			"", `a f {"id":9223372036854775807}; b f {"id":9007199254740993}`, "tool_calls", ""},
	} {
		for _, size := range []int{0, 1, simulator.Coalesce} {
			if size == 1 && len(strings.Join(row.lines, "")) > 10_000 {
				continue // codec's tests cut long lines
			}
			s.play(simulator.Answer{WriteSize: size}, row.lines...)
			for _, stream := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%d/%v", row.name, size, stream), func(t *testing.T) {
					before := len(s.sim.Requests())
					a := s.answer(t, ask(stream, "x"), stream)
					content, fail, _ := strings.Cut(a.Content, "[amplifier-agent error: ")
					if content = strings.TrimSuffix(content, "\n\n"); content != row.content || row.fail == "" && fail != "" || !strings.HasPrefix(fail, row.fail) {
						t.Errorf("content %.200q, want %q and %q", a.Content, row.content, row.fail)
					}
					if got := strings.Join(called(t, a), "; "); got != row.calls {
						t.Errorf("calls %.200s, want %.200s", got, row.calls)
					}
					if a.Finish != row.finish {
						t.Errorf("finish_reason %q, want %q", a.Finish, row.finish)
					}
					if n := len(s.sim.Requests()) - before; n != 1 && (stream || row.fail == "") {
						t.Errorf("the upstream was asked %d times", n)
					}
				})
			}
		}
	}
}

// TestCaseNothingButHalfACall: B015, where a status can still be chosen.
func TestCaseNothingButHalfACall(t *testing.T) {
	s := start(t, setup{extra: patient})
	s.play(simulator.Answer{}, toolStart("a", "f"), toolDelta("a", `{"pa`))
	for _, stream := range []bool{true, false} {
		resp, b := s.post(t, ask(stream, "x"))
		if e := parseError(t, b); resp.StatusCode != http.StatusBadGateway || e.Type != "upstream_error" || strings.Contains(string(b), "tool_calls") {
			t.Errorf("status %d: %s", resp.StatusCode, b)
		}
	}
}

// TestCaseCutCharacters: B022, wherever text comes from: a byte a write.
func TestCaseCutCharacters(t *testing.T) {
	const text = "北京 é 😀"
	s := start(t, setup{extra: patient})
	oneByOne := simulator.Answer{WriteSize: 1}
	for _, stream := range []bool{true, false} {
		s.play(oneByOne, `{"type":"reasoning-delta","id":"r","text":"`+text+`"}`, `{"type":"text-delta","id":"t","text":"`+text+`"}`,
			toolStart("a", "f"), toolDelta("a", `{"x":"`+text+`"}`), toolCall("b", "f", `{"x":"`+text+`"}`), stopped)
		a := s.answer(t, ask(stream, "x"), stream)
		if arguments := `{"x":"` + text + `"}`; a.Content != text || a.Reasoning != text || len(a.Calls) != 2 || a.Calls[0].Function.Arguments != arguments || a.Calls[1].Function.Arguments != arguments {
			t.Errorf("answer %+v", a)
		}
		s.play(oneByOne, said, `{"type":"error","error":{"message":"`+text+`"}}`)
		if a := s.answer(t, ask(stream, "x"), stream); !strings.Contains(a.Content, text) {
			t.Errorf("content %q", a.Content)
		}
		s.play(simulator.Answer{WriteSize: 1, Status: 500}, `{"message":"`+text+`"}`)
		if _, b := s.post(t, ask(stream, "x")); !strings.Contains(parseError(t, b).Message, text) {
			t.Errorf("%s", b)
		}
	}
}

// TestCaseUsageChunk: B058, whatever the client says about usage. chattest.ParseSSE insists on one choice a chunk, and on usage in the
// terminal one only.
func TestCaseUsageChunk(t *testing.T) {
	s := start(t, setup{})
	for _, options := range []string{"", `"stream_options":{"include_usage":true},`, `"stream_options":{"include_usage":false},`, `"stream_options":{},`, `"stream_options":null,`} {
		for _, stream := range []bool{true, false} {
			a := s.answer(t, strings.Replace(ask(stream, "Reply with exactly: x"), "{", "{"+options, 1), stream)
			if a.Content != "x" || a.Usage.Prompt == 0 || a.Usage.Completion == 0 {
				t.Errorf("%s: answer %+v", options, a)
			}
		}
	}
}
