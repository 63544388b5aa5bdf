package chat_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/molecule-man/go-brrr"

	"amplifier-agent/routes"
	"amplifier-agent/routes/chat/chattest"
	"amplifier-agent/upstream/simulator"
)

// do sends any request and reads the answer.
func (s *server) do(t *testing.T, method, path, body string, header ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, b
}

const (
	missing = `{"error":{"message":"Missing or malformed Authorization header","type":"invalid_request_error"}}` + "\n"
	invalid = `{"error":{"message":"Invalid API key","type":"invalid_request_error"}}` + "\n"
)

func TestAuth(t *testing.T) {
	s := start(t, setup{})
	paths := []struct{ method, path string }{
		{"POST", "/v1/chat/completions"}, {"GET", "/v1/models"}, {"GET", "/v1/models/x"}, {"GET", "/v1/skills"}, {"GET", "/v1/modes"},
		{"GET", "/v1/nothing"}, {"DELETE", "/v1/models"}, {"GET", "/v1/sessions/%252e%252e/x"},
	}
	for _, p := range paths {
		for _, row := range []struct {
			header []string
			want   string
		}{
			{nil, missing},
			{[]string{"Authorization", "Basic " + key}, missing},
			{[]string{"Authorization", "Bearer"}, missing},
			{[]string{"Authorization", "Bearer " + key, "Authorization", "Bearer " + key}, missing},
			{[]string{"Authorization", "Bearer wrong"}, invalid},
			{[]string{"Authorization", "Bearer " + key + "x"}, invalid},
		} {
			// The body is no JSON: the key is looked at before.
			resp, b := s.do(t, p.method, p.path+"?api_key="+key, "{", row.header...)
			if resp.StatusCode != 401 || string(b) != row.want || resp.Header.Get("WWW-Authenticate") != "Bearer" || resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s with %q: status %d, header %v, body %s", p.method, p.path, row.header, resp.StatusCode, resp.Header, b)
			}
		}
	}
	for _, auth := range []string{"bearer " + key, "BEARER   " + key, "Bearer " + key + "  "} {
		if resp, b := s.do(t, "GET", "/v1/models", "", "Authorization", auth); resp.StatusCode != 200 {
			t.Errorf("%q: status %d: %s", auth, resp.StatusCode, b)
		}
	}
}

func TestNoRoute(t *testing.T) {
	s := start(t, setup{})
	for _, row := range []struct {
		method, path string
		status       int
		code, allow  string
	}{
		{"GET", "/v1/nothing", 404, "not_found", ""},
		{"GET", "/", 404, "not_found", ""},
		{"POST", "/v1/chat/completions/", 404, "not_found", ""},
		{"GET", "/v1/sessions/%252e%252e/x", 404, "not_found", ""},
		{"GET", "/v1/chat/completions", 405, "method_not_allowed", "POST"},
		{"PUT", "/v1/models", 405, "method_not_allowed", "GET"},
		{"POST", "/health", 405, "method_not_allowed", "GET"},
		{"GET", "/v1/models/no/such", 404, "model_not_found", ""},
	} {
		resp, b := s.do(t, row.method, row.path, "", "Authorization", "Bearer "+key)
		e := parseError(t, b)
		if resp.StatusCode != row.status || e.Code == nil || *e.Code != row.code || e.Type != "invalid_request_error" || resp.Header.Get("Allow") != row.allow {
			t.Errorf("%s %s: status %d, Allow %q: %s", row.method, row.path, resp.StatusCode, resp.Header.Get("Allow"), b)
		}
		if !bytes.Contains(b, []byte(`"param":`)) {
			t.Errorf("%s %s: the four keys are not there: %s", row.method, row.path, b)
		}
	}
}

func TestLists(t *testing.T) {
	s := start(t, setup{})
	resp, b := s.do(t, "GET", "/v1/models", "", "Authorization", "Bearer "+key)
	var list struct {
		Object string
		Data   []struct {
			ID, Object string
			Created    int64
			OwnedBy    string `json:"owned_by"`
			Provider   string `json:"_provider"`
			Name       string `json:"display_name"`
			Limit      *struct{ Context int64 }
		}
	}
	if err := json.Unmarshal(b, &list); err != nil || resp.StatusCode != 200 || list.Object != "list" || len(list.Data) == 0 {
		t.Fatalf("status %d, error %v: %s", resp.StatusCode, err, b)
	}
	for _, m := range list.Data {
		if m.ID == "" || m.Object != "model" || m.Created == 0 || m.OwnedBy != "amplifier-agent" || m.Provider != "commandcode" || m.Name == "" || m.Limit == nil || m.Limit.Context == 0 {
			t.Errorf("model %+v", m)
		}
		resp, one := s.do(t, "GET", "/v1/models/"+m.ID, "", "Authorization", "Bearer "+key)
		if resp.StatusCode != 200 || !bytes.Contains(one, []byte(fmt.Sprintf("%q", m.ID))) {
			t.Errorf("%s: status %d: %s", m.ID, resp.StatusCode, one)
		}
	}
	for path, name := range map[string]string{"/v1/skills": "code-review", "/v1/modes": "brainstorm"} {
		resp, b := s.do(t, "GET", path, "", "Authorization", "Bearer "+key)
		if begin := `{"object":"list","data":[{"name":"` + name + `","description":"`; resp.StatusCode != 200 || !strings.HasPrefix(string(b), begin) || !strings.HasSuffix(string(b), `"shadowed":[]}]}`+"\n") {
			t.Errorf("%s: status %d: %s", path, resp.StatusCode, b)
		}
	}
	if resp, b := s.do(t, "HEAD", "/v1/models", "", "Authorization", "Bearer "+key); resp.StatusCode != 200 || len(b) != 0 {
		t.Errorf("HEAD: status %d, body %q", resp.StatusCode, b)
	}
	if resp, b := s.do(t, "GET", "/health", ""); resp.StatusCode != 200 || string(b) != `{"status":"ok"}`+"\n" {
		t.Errorf("health: status %d: %s", resp.StatusCode, b)
	}
}

func TestRejections(t *testing.T) {
	s := start(t, setup{})
	user := `"messages":[{"role":"user","content":"x"}]`
	for _, row := range []struct {
		body        string
		code, param string
		says        string
	}{
		{`{"model": `, "invalid_request", "", "not valid JSON"},
		{`[]`, "invalid_request", "", "object"},
		{`{` + user + `}`, "invalid_request", "model", "model is required"},
		{`{"model":7,` + user + `}`, "invalid_request", "model", "string"},
		{`{"model":"` + model + `"}`, "invalid_request", "messages", "required"},
		{`{"model":"` + model + `","messages":[]}`, "invalid_request", "messages", "at least one"},
		{`{"model":"` + model + `","messages":[{"role":"user","content":"x"},{"role":"usr","content":"x"}]}`, "invalid_request", "messages[1].role", "role"},
		{`{"model":"` + model + `","stream":"yes",` + user + `}`, "invalid_request", "stream", "true"},
		{`{"model":"` + model + `","messages":[{"role":"tool","content":"x"}]}`, "invalid_request", "messages[0].tool_call_id", "tool_call_id"},
		{`{"model":"` + model + `","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://127.0.0.1/x.png"}}]}]}`, "invalid_request", "messages[0].content[0].image_url.url", "data URL"},
		{`{"model":"DEEPSEEK/deepseek-v4-pro",` + user + `}`, "unknown_model", "model", "Did you mean 'deepseek/deepseek-v4-pro'?"},
		{`{"model":"` + model + `","messages":[{"role":"system","content":"[amplifier-agent:mode=nope]"},{"role":"user","content":"x"}]}`, "unknown_mode", "", "nope"},
		{strings.Repeat(`{"a":`, 100_000), "invalid_request", "", "nested"},
	} {
		resp, b := s.do(t, "POST", "/v1/chat/completions", row.body, "Authorization", "Bearer "+key, "Content-Type", "text/plain")
		e := parseError(t, b)
		param := orEmpty(e.Param)
		if resp.StatusCode != 400 || e.Type != "invalid_request_error" || orEmpty(e.Code) != row.code || param != row.param || !strings.Contains(e.Message, row.says) {
			t.Errorf("%.80s: status %d: %s", row.body, resp.StatusCode, b)
		}
		if by := resp.Header.Get("X-Amplifier-Upstream"); by != "" {
			t.Errorf("%.80s: refused by %s, who was not asked", row.body, by)
		}
	}
	if n := len(s.sim.Requests()); n != 0 {
		t.Errorf("%d rejected requests reached the upstream", n)
	}
}

func TestTransportOfARequestThatDoesNotSay(t *testing.T) {
	s := start(t, setup{})
	body := `{"model":"` + model + `","messages":[{"role":"user","content":"Reply with exactly: x"}]}`
	for _, row := range []struct {
		flag, accept, agent string
		stream              bool
	}{
		{"", "*/*", "curl/8", true},
		{"", "", "", true},
		{"", "text/event-stream", "ai/7.0.173", true},
		{"", "application/json", "OpenAI/JS 7.59.0", false},
		{"", "*/*", "ai/7.0.173 ai-sdk-provider-utils/5.0.81 runtime/node.js/22", false},
		{"", "*/*", "ai-sdk/openai-compatible/0.1", false},
		{"true", "application/json", "OpenAI/JS 7.59.0", true},
		{"false", "text/event-stream", "curl/8", false},
		{"null", "*/*", "curl/8", true},
	} {
		b := body
		if row.flag != "" {
			b = strings.Replace(body, "{", `{"stream":`+row.flag+`,`, 1)
		}
		resp, _ := s.do(t, "POST", "/v1/chat/completions", b, "Authorization", "Bearer "+key, "Accept", row.accept, "User-Agent", row.agent)
		if got := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"); resp.StatusCode != 200 || got != row.stream {
			t.Errorf("%+v: status %d, %s", row, resp.StatusCode, resp.Header.Get("Content-Type"))
		}
	}
}

type plainWriter struct{ io.Writer }

func (plainWriter) Close() error { return nil }

func TestCompressedRequests(t *testing.T) {
	s := start(t, setup{})
	plain := []byte(ask(false, "Reply with exactly: squeezed"))
	pack := func(open func(io.Writer) io.WriteCloser, b []byte) string {
		var out bytes.Buffer
		w := open(&out)
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	codings := map[string]func(io.Writer) io.WriteCloser{
		"gzip":     func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"deflate":  func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
		"Identity": func(w io.Writer) io.WriteCloser { return plainWriter{w} },
		"x-gzip":   func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"zstd":     func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z },
		"br":       func(w io.Writer) io.WriteCloser { z, _ := brrr.NewWriter(w, 5); return z },
	}
	for name, open := range codings {
		resp, b := s.post(t, pack(open, plain), "Content-Encoding", name)
		if resp.StatusCode != 200 || !bytes.Contains(b, []byte("squeezed")) {
			t.Errorf("%s: status %d: %s", name, resp.StatusCode, b)
		}
	}
	bomb := pack(codings["gzip"], make([]byte, routes.DefaultMaxBody+1))
	if resp, b := s.post(t, bomb, "Content-Encoding", "gzip"); resp.StatusCode != 413 || *parseError(t, b).Code != "payload_too_large" {
		t.Errorf("bomb: status %d: %s", resp.StatusCode, b)
	}
	if resp, b := s.post(t, "x", "Content-Encoding", "lzw"); resp.StatusCode != 415 || *parseError(t, b).Code != "unsupported_encoding" {
		t.Errorf("lzw: status %d: %s", resp.StatusCode, b)
	}
	if resp, b := s.post(t, "not gzip at all", "Content-Encoding", "gzip"); resp.StatusCode != 400 {
		t.Errorf("broken: status %d: %s", resp.StatusCode, b)
	}
}

// TestTooLarge: the client reads the 413 each time, however it sends its body.
func TestTooLarge(t *testing.T) {
	s := start(t, setup{})
	body := strings.Repeat("x", routes.DefaultMaxBody+1)
	for i := range 20 {
		var r io.Reader = strings.NewReader(body)
		if i%2 == 1 {
			r = io.MultiReader(r) // of unknown length: chunked
		}
		req, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/v1/chat/completions", r)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := s.http.Do(req)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 413 || *parseError(t, b).Code != "payload_too_large" {
			t.Fatalf("request %d: status %d, error %v: %s", i, resp.StatusCode, err, b)
		}
	}
	if resp, b := s.do(t, "GET", "/v1/models", "", "Authorization", "Bearer "+key, "X-Long", strings.Repeat("x", 20_000)); resp.StatusCode != 431 || *parseError(t, b).Code != "header_too_large" {
		t.Errorf("a long header: status %d: %s", resp.StatusCode, b)
	}
}

// TestConnectionIsKept: a connection serves one stream after the other, and other requests between them.
func TestConnectionIsKept(t *testing.T) {
	s := start(t, setup{})
	c := s.dial(t)
	br := bufio.NewReader(c)
	for i := range 5 {
		for _, stream := range []bool{true, false} {
			text := fmt.Sprintf("answer %d", i)
			body := ask(stream, "Reply with exactly: "+text)
			raw(c, "HTTP/1.1", body)
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if a, err := chattest.Parser(stream)(b); err != nil || a.Content != text {
				t.Fatalf("answer %+v, error %v", a, err)
			}
		}
	}
}

// TestKeepaliveOverASocket: silence of the upstream, and what two kinds of client see of it.
func TestKeepaliveOverASocket(t *testing.T) {
	for agent, want := range map[string]string{"curl/8": ": keepalive\n\n", "OpenAI/Go 3.28.0": ": keepalive\ndata: "} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			s := start(t, setup{})
			resp, b := s.post(t, ask(true, "Stay silent for 4 seconds"), "User-Agent", agent)
			if resp.StatusCode != 200 || strings.Count(string(b), ": keepalive\n") != 1 || !strings.Contains(string(b), want) {
				t.Errorf("status %d: %s", resp.StatusCode, b)
			}
			if _, err := chattest.ParseSSE(b); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestHalfCloseIsGone: a client that closes its side while it waits gets no answer, and least of all an empty success.
func TestHalfCloseIsGone(t *testing.T) {
	for _, stream := range []bool{true, false} {
		s := start(t, setup{})
		c := s.dial(t)
		body := ask(stream, "Stay silent for 20 seconds")
		raw(c, "HTTP/1.1", body)
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(c); len(b) > 0 {
			t.Errorf("stream=%v: %q", stream, b)
		}
		eventually(t, "the upstream exchange is closed", func() bool { return s.sim.Active() == 0 })
	}
}

// TestGoneBehindMoreBytes: that a client has left shows although it has sent more than its request.
func TestGoneBehindMoreBytes(t *testing.T) {
	s := start(t, setup{})
	s.sim.Script(func(*simulator.Request) *simulator.Answer {
		return &simulator.Answer{HeaderDelay: simulator.Forever}
	})
	for _, stream := range []bool{true, false} {
		c := s.dial(t)
		body := ask(stream, "x")
		raw(c, "HTTP/1.1", body)
		eventually(t, "the upstream has been asked", func() bool { return s.sim.Active() == 1 })
		fmt.Fprint(c, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
		c.Close()
		eventually(t, "the upstream exchange is closed", func() bool { return s.sim.Active() == 0 })
	}
}
