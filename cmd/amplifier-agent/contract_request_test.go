package main

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	brotli "github.com/molecule-man/go-brrr"

	"amplifier-agent/upstream/simulator"
)

const (
	hello   = `{"role":"user","content":"Reply with exactly: hello"}`
	ofModel = `"model":"` + contractModel + `"`
)

// wantInvalid checks a 400 for a breach of the schema at param, "" for none in particular. The four keys are there.
func wantInvalid(t *testing.T, resp *http.Response, body, param string) {
	t.Helper()
	wantRefusal(t, resp, body, http.StatusBadRequest, "invalid_request")
	var e struct{ Error map[string]any }
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatal(err)
	}
	var want any
	if param != "" {
		want = param
	}
	if got, there := e.Error["param"]; !there || got != want || e.Error["type"] != "invalid_request_error" || len(e.Error) != 4 {
		t.Errorf("want param %v: %s", want, body)
	}
}

// TestContractUnknownFields: what nobody here knows is ignored, wherever it stands.
func TestContractUnknownFields(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	for _, more := range []string{
		`,"n":3,"logprobs":true,"response_format":{"type":"json_object"},"parallel_tool_calls":false,"seed":7`,
		`,"metadata":null,"store":true,"service_tier":"auto","reasoning_effort":"high","modalities":["text"],"audio":{},"prediction":{}`,
		`,"":0,"Model":"none","MESSAGES":[],"x":{"deep":[[[{"model":"none"}]]]},"stream_options":{"include_obfuscation":true,"x":1}`,
		`,"tools":[{"type":"function","x":1,"function":{"name":"f","strict":true,"x":{}}}],"functions":7,"function_call":7,"\u0078\u0079":1`,
	} {
		if a := w.chat(t, body(hello, more)); a.Content != "hello" {
			t.Errorf("%s: %+v", more, a)
		}
	}
	for _, messages := range []string{
		`{"role":"user","content":"Reply with exactly: hello","x":[1,2],"refusal":7,"audio":null,"function_call":null}`,
		`{"x":{"role":"tool"},"content":[{"type":"text","text":"Reply with exactly: hello","x":1,"cache_control":{"type":"ephemeral"}}],"role":"user"}`,
	} {
		if a := w.chat(t, body(messages)); a.Content != "hello" || w.last(t).LastUser() != "Reply with exactly: hello" {
			t.Errorf("%s: %+v", messages, a)
		}
	}
}

// TestContractRequired: there must be a JSON object with a model and at least one message.
func TestContractRequired(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	for _, row := range []struct{ text, param string }{
		{"", ""}, {" \n", ""}, {"{", ""}, {`{"model":`, ""}, {body(hello) + "x", ""}, {body(hello) + body(hello), ""}, {"{'model':1}", ""}, {"\xff", ""},
		{"[]", ""}, {"null", ""}, {`"x"`, ""}, {"7", ""}, {strings.Repeat(`{"x":`, 100_000), ""},
		{"{}", "model"}, {`{"messages":[` + hello + `]}`, "model"}, {`{"model":null,"messages":[` + hello + `]}`, "model"},
		{`{"model":"","messages":[` + hello + `]}`, "model"}, {`{"model":7,"messages":[` + hello + `]}`, "model"},
		{`{` + ofModel + `}`, "messages"}, {`{` + ofModel + `,"messages":null}`, "messages"}, {`{` + ofModel + `,"messages":[]}`, "messages"},
		{`{` + ofModel + `,"messages":{}}`, "messages"}, {`{` + ofModel + `,"messages":"x"}`, "messages"},
	} {
		resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", row.text)
		if wantInvalid(t, resp, b, row.param); t.Failed() {
			t.Fatalf("of %.80q", row.text)
		}
	}
	if n := len(w.upstream()); n != 0 {
		t.Errorf("%d requests reached the gateway", n)
	}
}

// TestContractFieldTypes: each field takes its types, and null where it may be absent; a breach is told by its path, and nothing is asked
// of the gateway.
func TestContractFieldTypes(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	const call = `{"role":"assistant","content":null,"tool_calls":`
	for _, row := range []struct {
		field  string   // in the request, or "" for messages
		good   []string // values
		bad    []string
		param  string // of the bad ones
		within string // messages with VALUE in the value's place
	}{
		{"stream", []string{"null", "true", "false"}, []string{`"true"`, "1", "[]", "{}"}, "stream", ""},
		{"temperature", []string{"null", "0", "1.5", "1e0"}, []string{`"1"`, "true", "[1]", "{}"}, "temperature", ""},
		{"top_p", []string{"null", "0", "0.25"}, []string{`"1"`, "false", "[]"}, "top_p", ""},
		{"max_tokens", []string{"null", "1", "77", "100000000", "-1"}, []string{`"1"`, "1.5", "true", "[]"}, "max_tokens", ""},
		{"max_completion_tokens", []string{"null", "1", "77"}, []string{`"1"`, "1.5", "{}"}, "max_completion_tokens", ""},
		{"stop", []string{"null", `"x"`, `[]`, `["a","b"]`}, []string{"7", "true", "{}"}, "stop", ""},
		{"stop", nil, []string{`["a",7]`, `["a",null]`}, "stop[1]", ""},
		{"user", []string{"null", `"u"`, `""`}, []string{"7", "{}", "[]"}, "user", ""},
		{"stream_options", []string{"null", "{}"}, []string{"7", `"x"`, "[]", "true"}, "stream_options", ""},
		{"stream_options", []string{`{"include_usage":null}`, `{"include_usage":true}`}, []string{`{"include_usage":"yes"}`, `{"include_usage":1}`}, "stream_options.include_usage", ""},
		{"tool_choice", []string{"null", `"auto"`, `"none"`, `"required"`, `{"type":"function","function":{"name":"f"}}`}, []string{"7", "true", "[]"}, "tool_choice", ""},
		{"tools", []string{"null", "[]", "[7]"}, []string{"{}", `"x"`, "7", "true"}, "tools", ""},
		{"tools", []string{`[{"type":"function","function":{"name":"f","description":null,"parameters":null}}]`},
			[]string{`[{"type":"function","function":{"name":"f","parameters":7}}]`, `[{"type":"function","function":{"name":"f","parameters":[]}}]`}, "tools[0].function.parameters", ""},
		{"tools", nil, []string{`[7,{"type":"function","function":{"name":"f","description":7}}]`}, "tools[1].function.description", ""},

		{"", []string{hello}, []string{"7", "null", `"x"`, "[]"}, "messages[1]", `{"role":"system","content":"x"},VALUE`},
		{"", []string{`"user"`, `"\u0075ser"`}, []string{"null", "7", `""`, `"usr"`, `"User"`, `"function"`, `["user"]`}, "messages[0].role", `{"role":VALUE,"content":"Reply with exactly: hello"}`},
		{"", nil, []string{`"x"`}, "messages[0].role", `{"content":VALUE}`},
		{"", []string{"null", `""`, "[]", `"x"`, `[{"type":"text","text":"x"}]`, `[{"type":"text","text":""},{"type":"text","text":"x"}]`}, []string{"7", "true", "{}"}, "messages[0].content",
			`{"role":"assistant","content":VALUE},` + hello},
		{"", nil, []string{"7", `"x"`, "null", "[]"}, "messages[0].content[1]", `{"role":"user","content":[{"type":"text","text":"x"},VALUE]}`},
		{"", nil, []string{`{"text":"x"}`, `{"type":7}`, `{"type":"","text":"x"}`, `{"type":"input_audio","input_audio":{}}`}, "messages[0].content[0].type", `{"role":"user","content":[VALUE]}`},
		{"", []string{"null", `"n"`, `""`}, []string{"7", "{}"}, "messages[0].name", `{"role":"user","name":VALUE,"content":"Reply with exactly: hello"}`},
		{"", []string{"null", `"c"`}, []string{"7"}, "messages[0].tool_call_id", `{"role":"user","tool_call_id":VALUE,"content":"Reply with exactly: hello"}`},
		{"", nil, []string{"null", `""`}, "messages[0].tool_call_id", `{"role":"tool","tool_call_id":VALUE,"content":"x"}`},
		{"", []string{"null", "[]"}, []string{"7", "{}", `"x"`}, "messages[0].tool_calls", call + `VALUE},` + hello},
		{"", nil, []string{"7", "null", `"x"`}, "messages[0].tool_calls[0]", call + `[VALUE]},` + hello},
		{"", nil, []string{"7", `"x"`, "[]"}, "messages[0].tool_calls[0].function", call + `[{"id":"c","type":"function","function":VALUE}]},` + hello},
		{"", nil, []string{"7", "null", `""`}, "messages[0].tool_calls[0].id", call + `[{"id":VALUE,"type":"function","function":{"name":"f","arguments":"{}"}}]},` + hello},
		{"", nil, []string{"7", "null", `""`}, "messages[0].tool_calls[0].function.name", call + `[{"id":"c","type":"function","function":{"name":VALUE,"arguments":"{}"}}]},` + hello},
	} {
		request := func(value string) string {
			if row.field != "" {
				return body(hello, `,"`+row.field+`":`+value)
			}
			return body(strings.Replace(row.within, "VALUE", value, 1))
		}
		t.Run(row.param, func(t *testing.T) {
			for _, value := range row.good {
				if resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", request(value)); resp.StatusCode != http.StatusOK || strings.Contains(b, "error") {
					t.Errorf("%s: status %d: %s", request(value), resp.StatusCode, b)
				}
			}
			before := len(w.upstream())
			for _, value := range row.bad {
				resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", request(value))
				if wantInvalid(t, resp, b, row.param); t.Failed() {
					t.Fatalf("of %s", request(value))
				}
			}
			if n := len(w.upstream()) - before; n != 0 {
				t.Errorf("%d refused requests reached the gateway", n)
			}
		})
	}
}

// TestContractRoles: each role, with each form of content.
func TestContractRoles(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{config: `{"system":{"client":"forward"}}`})
	w.chat(t, body(`{"role":"system","content":[{"type":"text","text":"Be"},{"type":"text","text":"brief."}]},`+message("developer", "Use tabs.")+","+
		`{"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]},{"role":"assistant","content":[{"type":"text","text":"three"}]},`+message("user", "go")+","+
		calls+`,{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"four"},{"type":"text","text":"five"}]}`, fTools))
	if got := w.last(t).System; got != "Be brief.\n\nUse tabs." {
		t.Errorf("system prompt %q", got)
	}
	wantConversation(t, w, "user: one", "user: two", "assistant: three", "user: go", `call c1 f {"a":1}`, "tool c1: four five")
	for _, role := range []string{"system", "developer", "user", "assistant"} {
		for _, content := range []string{"null", `""`, "[]"} {
			w.chat(t, body(`{"role":"`+role+`","content":`+content+`},`+hello))
			wantConversation(t, w, "user: Reply with exactly: hello")
		}
	}
}

// TestContractStreamFlag: true streams, false does not; what a request gets that leaves the flag out, or says null, depends on what
// its client expects, unless the server was told (rulings 50).
func TestContractStreamFlag(t *testing.T) {
	t.Parallel()
	auto := stage(t, scene{})
	sse := stage(t, scene{env: []string{envPrefix + "STREAM_DEFAULT=sse"}})
	whole := stage(t, scene{env: []string{envPrefix + "STREAM_DEFAULT=json"}})
	const curl, python, ai = "curl/8.5.0", "OpenAI/Python 2.21.0", "ai/7.0.173 ai-sdk-provider-utils/5.0.81 runtime/node.js/22"
	for _, row := range []struct {
		accept, agent string
		stream        bool
	}{
		{"*/*", curl, true}, {"", "", true}, {"", curl, true}, {"text/html, */*;q=0.8", "Mozilla/5.0", true},
		{"application/json", python, false}, {"application/json", "OpenAI/JS 7.59.0", false}, {"application/json", "OpenAI/Go 3.43.0", false},
		{"application/json; charset=utf-8", "Go-http-client/1.1", false}, {"application/json", curl, false},
		{"*/*", ai, false}, {"", ai, false}, {"*/*", "ai-sdk/openai-compatible/0.1.0", false},
		{"text/event-stream", curl, true}, {"text/event-stream", ai, true}, {"text/event-stream, application/json", python, true}, {"application/json, text/event-stream", python, true},
	} {
		for flag, want := range map[string]map[*world]bool{
			"":                {auto: row.stream, sse: true, whole: false},
			`,"stream":null`:  {auto: row.stream, sse: true, whole: false},
			`,"stream":true`:  {auto: true, sse: true, whole: true},
			`,"stream":false`: {auto: false, sse: false, whole: false},
		} {
			for w, stream := range want {
				resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", body(hello, flag), "Accept", row.accept, "User-Agent", row.agent)
				want := "application/json"
				if stream {
					want = "text/event-stream; charset=utf-8"
				}
				if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != want || strings.HasSuffix(b, "data: [DONE]\n\n") != stream {
					t.Errorf("%s with %+v, by default %v: status %d, %s", flag, row, w == auto, resp.StatusCode, got)
				}
			}
		}
	}
}

const sampled = `,"temperature":0.25,"top_p":0.5,"max_tokens":77,"stop":["a","b"],"tool_choice":"required"` + fTools

// TestContractSampling: what a client asks for in the model's settings is taken and goes nowhere.
func TestContractSampling(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	w.chat(t, say("hi", fTools))
	plain := w.last(t)
	for _, more := range []string{sampled, strings.Replace(sampled, `"required"`, `"none"`, 1), strings.Replace(sampled, `max_tokens`, `max_completion_tokens`, 1)} {
		w.chat(t, say("hi", more))
		r := w.last(t)
		if r.MaxTokens != plain.MaxTokens || r.Temperature != nil || len(r.Tools) != 1 || len(r.Raw) != len(plain.Raw) {
			t.Errorf("with %s\n%s\nwithout\n%s", more, r.Raw, plain.Raw)
		}
		for _, word := range []string{"temperature", "top_p", "stop", "tool_choice", "77"} {
			if bytes.Contains(r.Raw, []byte(word)) {
				t.Errorf("%s went up: %s", word, r.Raw)
			}
		}
	}
}

// TestContractSamplingForward: with "sampling":"forward" it goes to the gateway in the gateway's words (rulings 8).
func TestContractSamplingForward(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{config: `{"sampling":"forward"}`})
	params := func(more string) map[string]json.RawMessage {
		t.Helper()
		w.chat(t, say("hi", more))
		var r struct{ Params map[string]json.RawMessage }
		if err := json.Unmarshal(w.last(t).Raw, &r); err != nil {
			t.Fatal(err)
		}
		return r.Params
	}
	p := params(sampled)
	for key, want := range map[string]string{"temperature": "0.25", "top_p": "0.5", "max_tokens": "77", "stop": `["a","b"]`, "tool_choice": `{"type":"any"}`} {
		if got := string(p[key]); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	plain := params(fTools)
	for _, key := range []string{"temperature", "top_p", "stop", "tool_choice"} {
		if _, there := plain[key]; there {
			t.Errorf("%s goes up though nobody asked for it: %s", key, plain[key])
		}
	}
	for more, want := range map[string]string{
		`,"max_tokens":5,"max_completion_tokens":77`: "77", `,"max_completion_tokens":77,"max_tokens":5`: "77", `,"max_tokens":null,"max_completion_tokens":77`: "77",
		`,"max_tokens":-1`: string(plain["max_tokens"]), `,"max_tokens":0`: string(plain["max_tokens"]), `,"max_tokens":null`: string(plain["max_tokens"]),
	} {
		if got := string(params(more)["max_tokens"]); got != want {
			t.Errorf("%s: max_tokens is %s, want %s", more, got, want)
		}
	}
	for choice, want := range map[string]string{`"auto"`: `{"type":"auto"}`, `{"type":"function","function":{"name":"f"}}`: `{"type":"tool","name":"f"}`, `null`: ""} {
		if got := string(params(`,"tool_choice":` + choice + fTools)["tool_choice"]); got != want {
			t.Errorf("tool_choice %s goes up as %s, want %s", choice, got, want)
		}
	}
	if p := params(`,"tool_choice":"none"` + fTools); string(p["tools"]) != "[]" {
		t.Errorf("tools that must not be called are offered: %s", p["tools"])
	}
	if p := params(`,"stop":"x"`); string(p["stop"]) != `["x"]` {
		t.Errorf("stop is %s", p["stop"])
	}
}

// packers compress a body in each way that the server reads.
var packers = map[string]func(io.Writer) (io.WriteCloser, error){
	"gzip":    func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
	"x-gzip":  func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
	"GZip":    func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
	"deflate": func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil },
	"zstd":    func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
	"br":      func(w io.Writer) (io.WriteCloser, error) { return brotli.NewWriter(w, 5) },
}

func pack(t *testing.T, coding, text string) string {
	t.Helper()
	var out bytes.Buffer
	w, err := packers[coding](&out)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestContractBodies: JSON is JSON whatever the content type says, and however it is compressed; what cannot be read is told apart.
func TestContractBodies(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	for _, kind := range []string{"", "application/json", "application/json; charset=utf-8", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "nonsense"} {
		if a := w.chat(t, body(hello), "Content-Type", kind); a.Content != "hello" {
			t.Errorf("%s: %+v", kind, a)
		}
		resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", "model=x", "Content-Type", kind)
		wantInvalid(t, resp, b, "")
	}
	for coding := range packers {
		if a := w.chat(t, pack(t, coding, body(hello)), "Content-Encoding", coding); a.Content != "hello" {
			t.Errorf("%s: %+v", coding, a)
		}
		resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", body(hello), "Content-Encoding", coding)
		if wantInvalid(t, resp, b, ""); t.Failed() {
			t.Fatalf("though it is no %s", coding)
		}
		packed := pack(t, coding, body(hello))
		resp, b = w.request(t, http.MethodPost, "/v1/chat/completions", packed[:len(packed)/2], "Content-Encoding", coding)
		if wantInvalid(t, resp, b, ""); t.Failed() {
			t.Fatalf("though only half of the %s is there", coding)
		}
	}
	if a := w.chat(t, body(hello), "Content-Encoding", "identity"); a.Content != "hello" {
		t.Errorf("identity: %+v", a)
	}
	w.refused(t, http.StatusUnsupportedMediaType, "unsupported_encoding", body(hello), "Content-Encoding", "lzw")
	chunked := bytes.NewReader([]byte(body(hello)))
	if resp, b := w.send(t, "/v1/chat/completions", io.MultiReader(chunked)); resp.StatusCode != http.StatusOK || !strings.Contains(b, "hello") {
		t.Errorf("in chunks: status %d: %s", resp.StatusCode, b)
	}
}

// send posts a body of a length that the client does not tell, in chunks.
func (w *world) send(t *testing.T, path string, r io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.TrimSuffix(w.url, "/v1")+path, r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+contractKey)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// TestContractTooLarge: a body may be as large as the limit, 32 MiB or what the host config says, and no byte larger: at once, in
// chunks, or once it is unpacked.
func TestContractTooLarge(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		config string
		limit  int
	}{"default": {"", 32 << 20}, "configured": {`{"limits":{"bodyBytes":4096}}`, 4096}} {
		t.Run(name, func(t *testing.T) {
			w := stage(t, scene{config: row.config})
			padded := func(size int) string {
				return body(hello, `,"x":"`+strings.Repeat("x", size-len(body(hello, `,"x":""`)))+`"`)
			}
			fits, tooLarge := padded(row.limit), padded(row.limit+1)
			accepted := func(how string, resp *http.Response, b string) {
				t.Helper()
				if resp.StatusCode != http.StatusOK || !strings.Contains(b, `"content":"hello"`) {
					t.Errorf("%s: status %d: %s", how, resp.StatusCode, b)
				}
			}
			resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", fits)
			accepted("at once", resp, b)
			w.refused(t, http.StatusRequestEntityTooLarge, "payload_too_large", tooLarge)
			resp, b = w.send(t, "/v1/chat/completions", io.MultiReader(strings.NewReader(tooLarge)))
			wantRefusal(t, resp, b, http.StatusRequestEntityTooLarge, "payload_too_large")
			w.refused(t, http.StatusRequestEntityTooLarge, "payload_too_large", pack(t, "gzip", tooLarge), "Content-Encoding", "gzip")
			if row.config == "" {
				return // so much takes its time
			}
			resp, b = w.send(t, "/v1/chat/completions", io.MultiReader(strings.NewReader(fits)))
			accepted("in chunks", resp, b)
			for _, coding := range []string{"gzip", "deflate", "zstd", "br"} {
				resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", pack(t, coding, fits), "Content-Encoding", coding)
				accepted(coding, resp, b)
				w.refused(t, http.StatusRequestEntityTooLarge, "payload_too_large", pack(t, coding, tooLarge), "Content-Encoding", coding)
			}
			if a := w.chat(t, body(hello)); a.Content != "hello" {
				t.Errorf("afterwards: %+v", a)
			}
		})
	}
}

// pixel is the smallest of pictures.
const pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func picture(url string) string {
	return `{"role":"user","content":[{"type":"text","text":"Reply with exactly: seen"},{"type":"image_url","image_url":{"url":"` + url + `","detail":"low"}}]}`
}

// TestContractImages: pictures in the request reach the gateway as they are, in their place; what is elsewhere is refused, with its path.
func TestContractImages(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	a := w.chat(t, body(picture(pixel)+","+message("assistant", "ok")+","+picture(strings.Replace(pixel, "png", "webp", 1))))
	var got []simulator.Part
	for _, m := range w.last(t).Messages {
		for _, p := range m.Parts {
			if p.Type == "image" {
				got = append(got, p)
			}
		}
	}
	if a.Content != "seen" || len(got) != 2 || got[0].Image != pixel || got[0].MediaType != "image/png" || got[1].MediaType != "image/webp" {
		t.Errorf("answer %+v, pictures %+v", a, got)
	}
	for _, url := range []string{"https://example.com/x.png", "http://127.0.0.1/x.png", "file:///etc/passwd", "x.png", "data:text/plain;base64,eA==", "data:image/png,raw",
		"data:image/png;base64,?", "data:image/*;base64,eA==", "data:;base64,eA==", "data:image/png;base64,"} {
		resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", body(message("user", "x")+","+message("assistant", "y")+","+picture(url)))
		if wantInvalid(t, resp, b, "messages[2].content[1].image_url.url"); t.Failed() {
			t.Fatalf("of %s", url)
		}
	}
}

// TestContractImagesFetched: if the host config lets the server fetch pictures, it fetches none from a private address.
func TestContractImagesFetched(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{config: `{"limits":{"fetchImages":true}}`})
	for _, url := range []string{w.sim.URL() + "/x.png", "http://localhost/x.png", "http://169.254.169.254/latest/meta-data", "http://[::1]/x.png", "http://0.0.0.0/", "file:///etc/passwd"} {
		resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", body(picture(url)))
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d: %s", url, resp.StatusCode, b)
			continue
		}
		wantRefusal(t, resp, b, http.StatusBadRequest, "invalid_request")
	}
	if a := w.chat(t, body(picture(pixel))); a.Content != "seen" {
		t.Errorf("answer %+v", a)
	}
}
