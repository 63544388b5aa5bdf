package chat_test

import (
	"bufio"
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
	"amplifier-agent/pipeline/catalog"
	"amplifier-agent/pipeline/engine"
	"amplifier-agent/routes"
	"amplifier-agent/routes/chat"
	"amplifier-agent/routes/chat/chattest"
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
	waits bool
	tries int // of the upstream; 0 means 1
	// rejected is the handler's.
	rejected func(pipeline.Code)
}

func start(t *testing.T, s setup) *server {
	t.Helper()
	sim, err := simulator.Start(s.sim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	p, err := commandcode.New(commandcode.Config{BaseURL: sim.URL(), Key: "upstream-key", Idle: s.idle, Tries: max(s.tries, 1)})
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
	modes := catalog.DiscoverModes(catalog.ModeOptions{}) // what is built in
	srv := routes.New(routes.Config{Auth: stages.Auth(key), Log: quietLog})
	face := &chat.Handler{
		Stages: append(s.extra, stages.Ready(srv.Ready), stages.Decode(stages.DecodeOptions{}), stages.Model(models, nil), stages.Mode(modes),
			stages.History(), stages.Containment(false), stages.ToolMount()),
		Runner:    &engine.Runner{Round: round(quietLog)},
		Label:     s.label,
		MaxBody:   routes.DefaultMaxBody,
		Preflight: chat.DefaultPreflight,
		Default:   chat.StreamAuto,
		Waits:     s.waits,
		Rejected:  s.rejected,
		Log:       quietLog,
		Base:      srv.Base(),
	}
	srv.Handle(routes.Route{Method: fasthttp.MethodPost, Path: "/v1/chat/completions", Handle: face.Serve})
	srv.Handle(lists.Routes(lists.Deps{Models: models, Skills: catalog.DiscoverSkills(catalog.SkillOptions{}), Modes: modes, Started: time.Now()})...)
	srv.Handle(ops.Routes(ops.Deps{Ready: srv.Ready})...)
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

// answer is a whole answer as a client puts it together.
type answer = chattest.Answer

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
	a, err := chattest.Parser(stream)(b)
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
