package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"amplifier-agent/routes/chat/chattest"
	"amplifier-agent/upstream/simulator"
)

// script lets the gateway answer with lines, whatever it is asked.
func (w *world) script(lines ...string) {
	a := &simulator.Answer{Body: []byte(strings.Join(lines, "\n") + "\n")}
	w.sim.Script(func(*simulator.Request) *simulator.Answer { return a })
}

// Lines of the gateway.
const (
	saidLine = `{"type":"text-delta","id":"t","text":"said"}`
	thought  = `{"type":"reasoning-delta","id":"r","text":"thought"}`
	stopLine = `{"type":"finish","finishReason":"stop"}`
	callLine = `{"type":"tool-call","toolCallId":"a","toolName":"f","input":{"x":1}}`
	askLine  = `{"type":"finish","finishReason":"tool-calls"}`
)

// rawAnswer is the body of an answer as it goes over the wire, once the status is 200, and what is different in each is x.
func (w *world) rawAnswer(t *testing.T, body string, header ...string) string {
	t.Helper()
	resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", body, header...)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", resp.StatusCode, b)
	}
	b = regexp.MustCompile(`"id":"chatcmpl-[0-9a-f]{24}"`).ReplaceAllString(b, `"id":"x"`)
	return regexp.MustCompile(`"created":[0-9]{10},`).ReplaceAllString(b, `"created":0,`)
}

const usageLine = `{"type":"finish","finishReason":"stop","totalUsage":{"inputTokens":100,"cachedInputTokens":30,"outputTokens":7,"reasoningTokens":3},"providerMetadata":{"gateway":{"cost":"0.0421"}}}`

// TestContractChunks: a stream to the byte: the role, reasoning and content as deltas of their own, each call whole in one chunk, one
// terminal chunk with everything that only it has, and [DONE].
func TestContractChunks(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	chunk := func(rest string) string {
		return `data: {"id":"x","object":"chat.completion.chunk","created":0,"model":"amplifier","choices":[{"index":0,"delta":` + rest + "}\n\n"
	}
	const pending = `,"finish_reason":null}]`
	w.script(thought, thought, saidLine, `{"type":"text-delta","id":"t","text":" \"é\u2028<&>\n"}`, usageLine)
	want := chunk(`{"role":"assistant"}`+pending) +
		chunk(`{"reasoning_content":"thought"}`+pending) + chunk(`{"reasoning_content":"thought"}`+pending) +
		chunk(`{"content":"said"}`+pending) + chunk(`{"content":" \"é\u2028<&>\n"}`+pending) +
		chunk(`{},"finish_reason":"stop"}],"activeMode":null,"usage":{"prompt_tokens":100,"completion_tokens":7,"total_tokens":107,`+
			`"prompt_tokens_details":{"cached_tokens":30},"completion_tokens_details":{"reasoning_tokens":3},"cost_usd":"0.0421"}`) + "data: [DONE]\n\n"
	if got := w.rawAnswer(t, say("x")); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	w.script(saidLine, callLine, `{"type":"tool-call","toolCallId":"b","toolName":"g","input":{}}`, askLine)
	want = chunk(`{"role":"assistant"}`+pending) + chunk(`{"content":"said"}`+pending) +
		chunk(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]}`+pending) +
		chunk(`{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]}`+pending) +
		chunk(`{},"finish_reason":"tool_calls"}],"activeMode":"plan","usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`) + "data: [DONE]\n\n"
	if got := w.rawAnswer(t, body(message("system", directive("plan"))+","+message("user", "x"), fTools)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestContractCompletion: the same answers in one piece, to the byte.
func TestContractCompletion(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	whole := func(message, reason, rest string) string {
		return `{"id":"x","object":"chat.completion","created":0,"model":"amplifier","choices":[{"index":0,"message":{"role":"assistant",` + message +
			`,"refusal":null},"logprobs":null,"finish_reason":"` + reason + `"}],` + rest + "}\n"
	}
	const none = `"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`
	for _, row := range []struct {
		lines    []string
		messages string
		want     string
	}{
		{[]string{thought, thought, saidLine, `{"type":"text-delta","id":"t","text":" \"é\u2028<&>\n"}`, usageLine}, message("user", "x"),
			whole(`"content":"said \"é\u2028<&>\n","reasoning_content":"thoughtthought"`, "stop", `"activeMode":null,"usage":{"prompt_tokens":100,"completion_tokens":7,"total_tokens":107,`+
				`"prompt_tokens_details":{"cached_tokens":30},"completion_tokens_details":{"reasoning_tokens":3},"cost_usd":"0.0421"}`)},
		{[]string{saidLine, callLine, `{"type":"tool-call","toolCallId":"b","toolName":"g","input":{}}`, askLine}, message("system", directive("plan")) + "," + message("user", "x"),
			whole(`"content":"said","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]`,
				"tool_calls", `"activeMode":"plan",`+none)},
		{[]string{callLine, askLine}, message("user", "x"),
			whole(`"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]`, "tool_calls", `"activeMode":null,`+none)},
		{[]string{thought, stopLine}, message("user", "x"), whole(`"content":"","reasoning_content":"thought"`, "stop", `"activeMode":null,`+none)},
	} {
		w.script(row.lines...)
		if got := w.rawAnswer(t, body(row.messages, `,"stream":false`)); got != row.want {
			t.Errorf("got\n%s\nwant\n%s", got, row.want)
		}
	}
}

// TestContractIdentity: an answer has one id, of 24 hex digits and its own, one time, that of its request, and the label for a model,
// whichever model was asked for.
func TestContractIdentity(t *testing.T) {
	t.Parallel()
	const label = `my "label" é` + "\u2028."
	for name, s := range map[string]scene{"flag": {args: []string{"--model-id", label}}, "environment": {env: []string{envPrefix + "MODEL_ID=" + label}}} {
		w := stage(t, s)
		seen := map[string]bool{}
		for i := range 6 {
			before := time.Now().Unix()
			_, b := w.request(t, http.MethodPost, "/v1/chat/completions", strings.Replace(body(hello, ways[i%2]), contractModel, []string{contractModel, "gpt-6-sol"}[i%3%2], 1))
			ids, times := map[string]bool{}, map[int64]bool{}
			for line := range strings.Lines(b) {
				data := strings.TrimPrefix(strings.TrimSpace(line), "data: ")
				if data == "" || data == "[DONE]" {
					continue
				}
				var c struct {
					ID, Model string
					Created   int64
				}
				if err := json.Unmarshal([]byte(data), &c); err != nil {
					t.Fatal(err)
				}
				ids[c.ID], times[c.Created] = true, true
				if c.Model != label || c.Created < before || c.Created > time.Now().Unix() || !regexp.MustCompile(`^chatcmpl-[0-9a-f]{24}$`).MatchString(c.ID) {
					t.Errorf("%s: chunk %s", name, data)
				}
				seen[c.ID] = true
			}
			if len(ids) != 1 || len(times) != 1 {
				t.Errorf("%s: ids %v, times %v", name, ids, times)
			}
		}
		if len(seen) != 6 {
			t.Errorf("%s: 6 answers have %d ids", name, len(seen))
		}
	}
}

// TestContractActiveMode: it is there by both ways, with both finish reasons, null or not; and however an answer ends.
func TestContractActiveMode(t *testing.T) {
	t.Parallel()
	s := zenScene()
	s.config = patiently
	w := stage(t, s)
	for _, way := range ways {
		for _, mode := range []string{"", "zen"} {
			system := ""
			if mode != "" {
				system = message("system", directive(mode)) + ","
			}
			for prompt, finish := range map[string]string{
				"Reply with exactly: x": "stop", `Call the tool f once with these arguments: {}.`: "tool_calls", "[fault:length]": "length", "[fault:eof]": "stop", "[fault:content-filter]": "content_filter",
			} {
				a := w.chat(t, body(system+message("user", prompt), way, fTools)) // which insists that the member is there
				if a.Finish != finish || (a.Mode == nil) != (mode == "") || a.Mode != nil && *a.Mode != mode || a.Usage == nil {
					t.Errorf("%s%s in mode %q: %+v", prompt, way, mode, a)
				}
			}
		}
	}
}

// TestContractFinishReasons: the four reasons of the API and no others (rulings 20).
func TestContractFinishReasons(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	for _, row := range []struct{ lines, want string }{
		{saidLine + "\n" + stopLine, "stop"},
		{saidLine + "\n" + `{"type":"finish","finishReason":"length","rawFinishReason":"max_tokens"}`, "length"},
		{saidLine + "\n" + `{"type":"finish","finishReason":"content-filter"}`, "content_filter"},
		{saidLine + "\n" + `{"type":"finish","finishReason":"unknown","rawFinishReason":"whatever"}`, "stop"},
		{saidLine + "\n" + `{"type":"finish-step","finishReason":"stop"}`, "stop"}, // and no finish
		{saidLine + "\n" + askLine, "stop"}, // no call to be made
		{callLine + "\n" + askLine, "tool_calls"},
		{callLine + "\n" + stopLine, "tool_calls"},
		{callLine + "\n" + `{"type":"finish","finishReason":"length"}`, "tool_calls"},
		{saidLine + "\n" + callLine + "\n" + stopLine, "tool_calls"},
	} {
		w.script(row.lines)
		for _, way := range ways {
			if a := w.chat(t, say("x", way, fTools)); a.Finish != row.want {
				t.Errorf("%s by %s: %+v", row.lines, way, a)
			}
		}
	}
}

// TestContractStreamHeaders: the headers of rulings 36, and no compression, whatever the client would take.
func TestContractStreamHeaders(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	for _, coding := range []string{"gzip", "br", "zstd", "gzip, deflate, br, zstd", "*", "identity;q=0, gzip"} {
		for _, way := range ways {
			resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", body(hello, way), "Accept-Encoding", coding)
			want := map[string]string{"Content-Type": "application/json"}
			if way == ways[0] {
				want = map[string]string{"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
			}
			for name, value := range want {
				if got := resp.Header.Values(name); len(got) != 1 || got[0] != value {
					t.Errorf("%s is %q, want %q", name, got, value)
				}
			}
			if resp.Header.Get("Content-Encoding") != "" || resp.Header.Get("Server") != "" || !strings.Contains(b, "hello") || (resp.ContentLength < 0) != (way == ways[0]) {
				t.Errorf("%s%s: header %v, length %d: %.50q", coding, way, resp.Header, resp.ContentLength, b)
			}
		}
		if resp, b := w.request(t, http.MethodGet, "/v1/models", "", "Accept-Encoding", coding); resp.Header.Get("Content-Encoding") != "" || !strings.HasPrefix(b, "{") {
			t.Errorf("%s: header %v", coding, resp.Header)
		}
	}
}

// TestContractText: what goes out is JSON and UTF-8 whatever comes in, and no character of it splits a line in anybody's eyes; what
// comes in whole goes out whole (rulings 36).
func TestContractText(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{config: patiently})
	for prompt, want := range map[string]string{
		"Reply with exactly: a\u2028b\u2029c\u0085d":                "a\u2028b\u2029c\u0085d",
		"Reply with exactly: 👩‍👩‍👧 🌍 Grüße 世界 \u200b|\ufeff|\ufffd": "👩‍👩‍👧 🌍 Grüße 世界 \u200b|\ufeff|\ufffd",
		"Reply with exactly: two\r\nlines\n\n\tq\"\\/\b\f\x00\x7f":  "two\r\nlines\n\n\tq\"\\/\b\f\x00\x7f",
		"Reply with exactly: data: [DONE]\n\ndata: {}\n\n: x":       "data: [DONE]\n\ndata: {}\n\n: x",
		"Reply with exactly: <b>&amp;</b> \u00a0|":                  "<b>&amp;</b> \u00a0|",
		"[fault:split-surrogate]":                                   "before a 😀 b after",
		"[fault:lone-surrogate]":                                    "before \ufffd alone after",
		"[fault:invalid-utf8]":                                      "before \ufffd \ufffd( \ufffd \ufffd after", // however many of them
	} {
		for _, way := range ways {
			resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", say(prompt, way))
			a, err := chattest.Parser(way == ways[0])([]byte(b))
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%q: status %d, %v", prompt, resp.StatusCode, err)
			}
			if regexp.MustCompile("\ufffd+").ReplaceAllString(a.Content, "\ufffd") != want {
				t.Errorf("%q%s: content %q, want %q", prompt, way, a.Content, want)
			}
			if !utf8.ValidString(b) || strings.ContainsAny(b, "\u2028\u2029\u0085\r\x00\x0b\x0c\x1c\x1d\x1e") {
				t.Errorf("%q%s: %q", prompt, way, b)
			}
			for line := range strings.Lines(b) {
				if data, ok := strings.CutPrefix(line, "data: "); ok && data != "[DONE]\n" && !json.Valid([]byte(data)) {
					t.Errorf("no JSON: %q", data)
				}
			}
		}
	}
}

// open asks and returns the answer as it begins; leave gives it up.
func (w *world) open(t *testing.T, body string, header ...string) (resp *http.Response, leave func()) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+contractKey)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err = http.DefaultClient.Do(req)
	if err != nil {
		leave()
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp, leave
}

// until reads on until a text has come.
func until(t *testing.T, r io.Reader, text string) (got string) {
	t.Helper()
	for buf := make([]byte, 4096); !strings.Contains(got, text); {
		n, err := r.Read(buf)
		if got += string(buf[:n]); err != nil && !strings.Contains(got, text) {
			t.Fatalf("%v instead of %q after %s", err, text, got)
		}
	}
	return got
}

// TestContractKeepalive: after three seconds in which nothing was written to the client a comment is, as often as it takes, also while the
// gateway is busy with what is no business of the client's; for the one client that needs it so, without a blank line (rulings 28, 51).
func TestContractKeepalive(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	gate := make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	defer release()
	busy := strings.Repeat(`{"type":"tool-input-delta","id":"x","delta":"1"}`+"\n", 10_000)
	w.sim.Script(func(r *simulator.Request) *simulator.Answer {
		if r.LastUser() == "busy" {
			return &simulator.Answer{Body: []byte(busy), Every: 50 * time.Millisecond} // for minutes
		}
		<-gate
		return &simulator.Answer{Body: []byte(saidLine + "\n" + stopLine + "\n")}
	})
	const once = ": keepalive\n\n"
	working, leave := w.open(t, say("busy", ways[0]))
	whole := make(chan string, 1)
	go func() {
		_, b := w.request(t, http.MethodPost, "/v1/chat/completions", say("silent", ways[1]))
		whole <- b
	}()
	rows := []struct {
		agent, comment string
		resp           *http.Response
	}{{"curl/8", once, nil}, {"OpenAI/Go 3.43.0", once, nil}, {"OpenAI/Go 3.42.1", ": keepalive\n", nil}}
	for i := range rows {
		rows[i].resp, _ = w.open(t, say("silent", ways[0]), "User-Agent", rows[i].agent)
	}
	until(t, working.Body, "}\n\n"+once)
	leave()
	var begun []string
	for _, row := range rows {
		begun = append(begun, until(t, row.resp.Body, "}\n\n"+row.comment+row.comment))
	}
	release()
	for i, row := range rows {
		b, err := io.ReadAll(row.resp.Body)
		a, parsed := chattest.ParseSSE(append([]byte(begun[i]), b...))
		if err != nil || parsed != nil || a.Content != "said" || a.Finish != "stop" || a.Chunks != 3 {
			t.Errorf("%s: %v, %v, %+v: %s%s", row.agent, err, parsed, a, begun[i], b)
		}
	}
	if b := <-whole; !strings.HasPrefix(b, "{") || strings.Contains(b, "keepalive") {
		t.Errorf("in one piece: %s", b)
	}
}

// TestContractNothingInternal: what the gateway does beside the answer is not shown: no chunk, no word. Text, reasoning and calls never
// change places, and usage stands in the terminal chunk alone.
func TestContractNothingInternal(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	noise := []string{
		`{"type":"start"}`, `{"type":"start-step","request":{"body":{"text":"noise","delta":"noise"}},"warnings":["noise"]}`, `{"type":"stream-start","warnings":[]}`,
		`{"type":"response-metadata","id":"noise","modelId":"noise"}`, `{"type":"raw","rawValue":{"text":"noise"}}`, `{"type":"source","url":"https://noise.example","text":"noise"}`,
		`{"type":"file","mediaType":"image/png","base64":"noise"}`, `{"type":"provider-metadata","providerMetadata":{"gateway":{"cost":"0.1"}}}`,
		`{"type":"tool-input-start","id":"own","toolName":"noise","providerExecuted":true}`, `{"type":"tool-call","toolCallId":"own","toolName":"noise","input":{},"providerExecuted":true}`,
		`{"type":"tool-result","toolCallId":"own","toolName":"noise","output":"noise","providerExecuted":true}`, `{"type":"text-start","id":"t"}`, `{"type":"text-end","id":"t"}`,
		`{"type":"reasoning-start","id":"r"}`, `{"type":"reasoning-end","id":"r"}`, `{"type":"from-the-future","text":"noise","delta":"noise"}`, "noise", "", ": noise", "data: noise", `["noise"]`, `{"text":"noise"}`,
	}
	var lines []string
	for _, line := range []string{thought, saidLine, thought, saidLine, `{"type":"text-delta","id":"t","text":""}`} {
		lines = append(append(lines, noise...), line)
	}
	w.script(append(append(lines, noise...), stopLine)...)
	for _, way := range ways {
		b := w.rawAnswer(t, say("x", way))
		a, err := chattest.Parser(way == ways[0])([]byte(b))
		if err != nil || a.Content != "saidsaid" || a.Reasoning != "thoughtthought" || len(a.Calls) > 0 || a.Finish != "stop" || strings.Contains(b, "noise") {
			t.Errorf("%+v, %v: %s", a, err, b)
		}
		if n := strings.Count(b, `"usage"`); n != 1 || way == ways[0] && a.Chunks != 6 {
			t.Errorf("%d chunks, %d times usage: %s", a.Chunks, n, b)
		}
	}
	// Reasoning alone does not become the answer, nor an answer reasoning.
	w.script(thought, stopLine)
	for _, way := range ways {
		if a := w.chat(t, say("x", way)); a.Content != "" || a.Reasoning != "thought" || a.Finish != "stop" {
			t.Errorf("%s: %+v", way, a)
		}
	}
	w.script(saidLine, stopLine)
	for _, way := range ways {
		if b := w.rawAnswer(t, say("x", way)); strings.Contains(b, "reasoning_content") {
			t.Errorf("%s: %s", way, b)
		}
	}
}

// TestContractBothWays: whatever is asked and however it fails, both ways tell the same facts, and the same status.
func TestContractBothWays(t *testing.T) {
	t.Parallel()
	s := zenScene()
	s.config = patiently
	w := stage(t, s)
	type facts struct {
		status             int
		refusal            string
		content, reasoning string
		calls              []chattest.Call
		finish             string
		mode               *string
		usage              *chattest.Usage
	}
	ask := func(request, way string) (f facts) {
		t.Helper()
		resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", strings.TrimSuffix(request, "}")+way+"}")
		if f.status = resp.StatusCode; f.status != http.StatusOK {
			f.refusal = b
			return f
		}
		a, err := chattest.Parser(way == ways[0])([]byte(b))
		if err != nil {
			t.Fatal(err)
		}
		f.content, f.reasoning, f.calls, f.finish, f.mode, f.usage = a.Content, a.Reasoning, a.Calls, a.Finish, a.Mode, a.Usage
		for i := range f.calls {
			if c := &f.calls[i]; (way == ways[0]) != (c.Index != nil && *c.Index == i) || c.ID == "" || c.Type != "function" {
				t.Errorf("call %+v", c)
			}
			f.calls[i].Index, f.calls[i].ID = nil, "" // the gateway gives another at each time
		}
		return f
	}
	requests := []string{
		say("What is this?"), say("Reply with exactly: x"), say("Count slowly to 3"), say("!amplifier:skill nonesuch"), say("!amplifier:skill council go"),
		say(`Call the tool f once with these arguments: {"z":1.50,"a":[ ]}.`, fTools), say("use some tool", fTools), body(message("user", "go")+","+calls+","+result, fTools),
		body(message("system", directive("zen")) + "," + message("user", "hi")), `{"model":"mode-zen","messages":[` + hello + `]}`, body(message("system", directive("gone")) + "," + message("user", "hi")),
		`{"model":"none","messages":[` + hello + `]}`, `{"messages":[` + hello + `]}`, body(message("assistant", "hi")), body(`{"role":"user","content":7}`), say(""),
	}
	slow := []simulator.Fault{simulator.FaultStall, simulator.FaultStallHeaders, simulator.FaultNoNewline, simulator.FaultHugeLine, simulator.FaultHugeDelta, simulator.FaultProxyUse,
		simulator.FaultResetMid, simulator.FaultLateCost, simulator.FaultCostTooLate} // or not the same twice
	for _, fault := range simulator.Faults() {
		if !slices.Contains(slow, fault) {
			requests = append(requests, failing(fault), say(`Call the tool f once with these arguments: {"z":1}. [fault:`+string(fault)+`]`, fTools))
		}
	}
	for _, request := range requests {
		if stream, whole := ask(request, ways[0]), ask(request, ways[1]); !reflect.DeepEqual(stream, whole) {
			t.Errorf("%s\nas a stream     %+v\nin one piece    %+v\nusages %+v %+v", request, stream, whole, stream.usage, whole.usage)
		}
	}
}

// leave asks, and leaves once the gateway has been asked, which must not come to an end by itself.
func (w *world) leave(t *testing.T, body string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+contractKey)
	eventually(t, "the gateway has noticed who left before", func() bool { return w.sim.Active() == 0 })
	left := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		left <- err
	}()
	eventually(t, "the gateway is asked", func() bool { return w.sim.Active() > 0 })
	cancel()
	if err := <-left; err == nil {
		t.Error("the answer came to an end")
	}
}

// TestContractClientLeaves: a client that leaves ends the exchange with the gateway, by both ways, before the gateway has answered, while it is
// silent, and in the middle of an answer (rulings 29).
func TestContractClientLeaves(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	for name, prompt := range map[string]string{"silent": "[fault:stall-headers]", "stalled": "[fault:stall]", "talking": "Count slowly to 10000"} {
		for _, way := range ways {
			t.Run(name+way, func(t *testing.T) {
				gone := w.sim.Gone()
				w.leave(t, say(prompt, way))
				eventually(t, "the exchange with the gateway is over", func() bool { return w.sim.Active() == 0 })
				if n := w.sim.Gone() - gone; n != 1 {
					t.Errorf("%d exchanges were given up", n)
				}
			})
		}
	}
	if a := w.chat(t, body(hello)); a.Content != "hello" {
		t.Errorf("afterwards: %+v", a)
	}
}

// TestContractStreamsAtOnce: what the gateway has said reaches the client before the gateway goes on.
func TestContractStreamsAtOnce(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	w.sim.Script(func(*simulator.Request) *simulator.Answer {
		return &simulator.Answer{Body: []byte(thought + "\n" + saidLine + "\n"), End: simulator.EndHang} // it never goes on
	})
	resp, leave := w.open(t, say("x", ways[0]))
	defer leave()
	until(t, resp.Body, `{"content":"said"}`)
}
