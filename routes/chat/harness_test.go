package chat_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/engine"
	"amplifier-agent/routes"
	"amplifier-agent/routes/chat"
	"amplifier-agent/routes/lists"
	"amplifier-agent/routes/ops"
	"amplifier-agent/stages"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/commandcode"
	"amplifier-agent/upstream/simulator"
)

const (
	key   = "test-key"
	model = "deepseek/deepseek-v4-pro"
	// patience bounds what a test waits for; nothing takes that long unless it hangs.
	patience = 30 * time.Second
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),    // one a process, for ever
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"), // ends up to 10 s after its server
	)
}

var quietLog = slog.New(slog.DiscardHandler)

func round(log *slog.Logger) []pipeline.Stage {
	return []pipeline.Stage{stages.EventMap(log), stages.UsageFold(log)}
}

// noModes is a server without modes.
type noModes struct{}

func (noModes) Mode(string) (*pipeline.Mode, error) { return nil, nil }

// server is the real server in front of the simulator, over real sockets.
type server struct {
	sim  *simulator.Server
	srv  *routes.Server
	url  string
	http *http.Client
}

type setup struct {
	sim   simulator.Options
	extra []pipeline.Stage // outermost stages of the turn
	idle  time.Duration
	label string
}

func start(t *testing.T, s setup) *server {
	t.Helper()
	sim, err := simulator.Start(s.sim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	p, err := commandcode.New(commandcode.Config{BaseURL: sim.URL(), Key: "upstream-key", Idle: s.idle})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	srv := serve(t, s, p)
	srv.sim = sim
	return srv
}

// serve is the real server in front of p.
func serve(t *testing.T, s setup, p pipeline.Provider) *server {
	t.Helper()
	models, err := upstream.Enumerate(t.Context(), quietLog, p)
	if err != nil {
		t.Fatal(err)
	}
	if s.label == "" {
		s.label = "amplifier"
	}
	srv := routes.New(routes.Config{Auth: stages.Auth(key), Log: quietLog})
	face := &chat.Handler{
		Stages: append(s.extra, stages.Ready(srv.Ready), stages.Decode(stages.DecodeOptions{}), stages.Model(models, nil), stages.Mode(noModes{}),
			stages.History(), stages.Containment(false), stages.ToolMount()),
		Runner:    &engine.Runner{Round: round(quietLog)},
		Label:     s.label,
		MaxBody:   routes.DefaultMaxBody,
		Preflight: chat.DefaultPreflight,
		Default:   chat.StreamAuto,
		Log:       quietLog,
		Base:      srv.Base(),
	}
	srv.Handle(routes.Route{Method: fasthttp.MethodPost, Path: "/v1/chat/completions", Handle: face.Serve})
	srv.Handle(lists.Routes(lists.Deps{Models: models, Started: time.Now()})...)
	srv.Handle(ops.Routes(srv.Ready)...)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := srv.Shutdown(patience); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return &server{srv: srv, url: "http://" + ln.Addr().String(), http: client}
}

func (s *server) request(ctx context.Context, t *testing.T, body string, header ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

// post sends body and reads the whole answer.
func (s *server) post(t *testing.T, body string, header ...string) (*http.Response, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := s.http.Do(s.request(ctx, t, body, header...))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read the answer: %v", err)
	}
	return resp, b
}

// ask is a request body with one user message.
func ask(stream bool, prompt string) string {
	b, _ := json.Marshal(prompt)
	return fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[{"role":"user","content":%s}]}`, model, stream, b)
}

// usage is the usage block as a client reads it.
type usage struct {
	Prompt        int64 `json:"prompt_tokens"`
	Completion    int64 `json:"completion_tokens"`
	Total         int64 `json:"total_tokens"`
	PromptDetails *struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails *struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	Cost *string `json:"cost_usd"`
}

type call struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// answer is a whole answer as a client puts it together, from either transport.
type answer struct {
	ID, Model          string
	Content, Reasoning string
	Calls              []call
	Finish             string
	Mode               *string
	Usage              *usage
	Chunks             int
}

type wireChunk struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Index int `json:"index"`
		Delta *struct {
			Role      string  `json:"role"`
			Content   *string `json:"content"`
			Reasoning *string `json:"reasoning_content"`
			Calls     []call  `json:"tool_calls"`
		} `json:"delta"`
		Message *struct {
			Role      string  `json:"role"`
			Content   *string `json:"content"`
			Reasoning string  `json:"reasoning_content"`
			Calls     []call  `json:"tool_calls"`
			Refusal   *string `json:"refusal"`
		} `json:"message"`
		Finish *string `json:"finish_reason"`
	} `json:"choices"`
	Mode  *json.RawMessage `json:"activeMode"`
	Usage *usage           `json:"usage"`
}

// raw sends body over a connection of its own, byte for byte.
func raw(w io.Writer, proto, body string) {
	fmt.Fprintf(w, "POST /v1/chat/completions %s\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", proto, key, len(body), body)
}

// dial opens a connection that is closed with the test.
func (s *server) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

// parseSSE reads a stream as strictly as the contract describes it.
func parseSSE(b []byte) (a answer, err error) {
	events := bytes.Split(bytes.TrimSuffix(b, []byte("\n\n")), []byte("\n\n"))
	if n := len(events) - 1; n < 0 || string(events[n]) != "data: [DONE]" {
		return a, fmt.Errorf("the stream does not end with [DONE]: %q", tail(b))
	}
	terminal := false
	for i, ev := range events[:len(events)-1] {
		for bytes.HasPrefix(ev, []byte(":")) {
			if string(ev) == ": keepalive" {
				ev = nil
				break
			}
			_, ev, _ = bytes.Cut(ev, []byte("\n"))
		}
		if len(ev) == 0 {
			continue
		}
		data, ok := bytes.CutPrefix(ev, []byte("data: "))
		if !ok || bytes.ContainsAny(data, "\r\n") {
			return a, fmt.Errorf("event %d is not one data line: %q", i, ev)
		}
		if terminal {
			return a, fmt.Errorf("a chunk follows the terminal one: %s", data)
		}
		var c wireChunk
		if err := json.Unmarshal(data, &c); err != nil {
			return a, fmt.Errorf("event %d: %w in %s", i, err, data)
		}
		if c.Object != "chat.completion.chunk" || len(c.Choices) != 1 || c.Choices[0].Delta == nil {
			return a, fmt.Errorf("event %d is no chunk: %s", i, data)
		}
		d := c.Choices[0].Delta
		switch a.Chunks++; {
		case a.Chunks == 1:
			if a.ID, a.Model = c.ID, c.Model; d.Role != "assistant" || d.Content != nil {
				return a, fmt.Errorf("the first chunk is no role chunk: %s", data)
			}
		case c.ID != a.ID || c.Model != a.Model || d.Role != "":
			return a, fmt.Errorf("event %d: id, model or role differ: %s", i, data)
		}
		if d.Content != nil {
			a.Content += *d.Content
		}
		if d.Reasoning != nil {
			a.Reasoning += *d.Reasoning
		}
		a.Calls = append(a.Calls, d.Calls...)
		if f := c.Choices[0].Finish; f != nil {
			terminal = true
			a.Finish = *f
			if c.Usage == nil || !bytes.Contains(data, []byte(`"activeMode":`)) {
				return a, fmt.Errorf("the terminal chunk lacks usage or activeMode: %s", data)
			}
			a.Usage = c.Usage
			a.Mode, err = mode(c.Mode)
		} else if c.Usage != nil || c.Mode != nil {
			return a, fmt.Errorf("event %d has what only the terminal chunk has: %s", i, data)
		}
	}
	if !terminal {
		return a, fmt.Errorf("no terminal chunk: %q", tail(b))
	}
	return a, err
}

func parseJSON(b []byte) (a answer, err error) {
	var c wireChunk
	if err := json.Unmarshal(b, &c); err != nil {
		return a, err
	}
	if c.Object != "chat.completion" || len(c.Choices) != 1 || c.Choices[0].Message == nil || c.Choices[0].Finish == nil || c.Usage == nil {
		return a, fmt.Errorf("no completion: %s", b)
	}
	for _, k := range []string{`"activeMode":`, `"refusal":null`, `"logprobs":null`} {
		if !bytes.Contains(b, []byte(k)) {
			return a, fmt.Errorf("%s is missing: %s", k, b)
		}
	}
	m := c.Choices[0].Message
	a = answer{ID: c.ID, Model: c.Model, Reasoning: m.Reasoning, Calls: m.Calls, Finish: *c.Choices[0].Finish, Usage: c.Usage}
	if m.Content != nil {
		a.Content = *m.Content
	} else if len(m.Calls) == 0 {
		return a, fmt.Errorf("content is null without tool calls: %s", b)
	}
	a.Mode, err = mode(c.Mode)
	return a, err
}

func mode(raw *json.RawMessage) (m *string, err error) {
	if raw != nil {
		err = json.Unmarshal(*raw, &m)
	}
	return m, err
}

func parserOf(stream bool) func([]byte) (answer, error) {
	if stream {
		return parseSSE
	}
	return parseJSON
}

func tail(b []byte) []byte { return b[max(0, len(b)-200):] }

// both asks over both transports and gives the answers to check.
func (s *server) both(t *testing.T, prompt string, check func(t *testing.T, a answer)) {
	t.Helper()
	for _, stream := range []bool{true, false} {
		t.Run(map[bool]string{true: "stream", false: "json"}[stream], func(t *testing.T) {
			check(t, s.answer(t, ask(stream, prompt), stream))
		})
	}
}

func (s *server) answer(t *testing.T, body string, stream bool) answer {
	t.Helper()
	resp, b := s.post(t, body)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", resp.StatusCode, b)
	}
	a, err := parserOf(stream)(b)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// eventually waits for a condition that others bring about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// lines reads a stream line by line.
func lines(r io.Reader) func() (string, error) {
	br := bufio.NewReader(r)
	return func() (string, error) {
		s, err := br.ReadString('\n')
		return strings.TrimSuffix(s, "\n"), err
	}
}
