package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/engine"
	"amplifier-agent/routes"
	"amplifier-agent/routes/chat"
	"amplifier-agent/stages"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/commandcode"
	"amplifier-agent/upstream/simulator"
)

const model = "deepseek/deepseek-v4-pro"

// gateway starts the simulator and the server in front of it, and returns the server's address.
func gateway(b *testing.B, answer *simulator.Answer) string {
	b.Helper()
	sim, err := simulator.Start(simulator.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sim.Close() })
	sim.Script(func(*simulator.Request) *simulator.Answer { return answer })
	p, err := commandcode.New(commandcode.Config{BaseURL: sim.URL(), Key: "k"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Close)
	models, err := upstream.Enumerate(b.Context(), wire.Log, p)
	if err != nil {
		b.Fatal(err)
	}
	srv := routes.New(routes.Config{Auth: stages.Auth("k"), Log: wire.Log})
	face := &chat.Handler{
		Stages:    []pipeline.Stage{stages.Decode(stages.DecodeOptions{}), stages.Model(models, nil), stages.History(), stages.Containment(false), stages.ToolMount()},
		Runner:    &engine.Runner{Round: []pipeline.Stage{stages.EventMap(wire.Log), stages.UsageFold(wire.Log)}},
		Label:     "amplifier",
		MaxBody:   routes.DefaultMaxBody,
		Preflight: chat.DefaultPreflight,
		Log:       wire.Log,
		Base:      srv.Base(),
	}
	srv.Handle(routes.Route{Method: fasthttp.MethodPost, Path: "/v1/chat/completions", Handle: face.Serve})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = srv.Serve(ln) }()
	b.Cleanup(func() { _ = srv.Shutdown(time.Second) })
	return ln.Addr().String()
}

// client is a keep-alive connection that does as little as possible, so that it weighs little in what is measured.
type client struct {
	conn net.Conn
	br   *bufio.Reader
	req  []byte
}

func dial(b *testing.B, addr string, stream bool) *client {
	b.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	body := fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[{"role":"user","content":"x"}]}`, model, stream)
	req := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer k\r\nContent-Length: %d\r\n\r\n%s", addr, len(body), body)
	return &client{c, bufio.NewReaderSize(c, 64<<10), []byte(req)}
}

// ask sends the request and reads the answer to its end. first is when its first byte came.
func (c *client) ask() (first time.Duration, err error) {
	start := time.Now()
	if _, err := c.conn.Write(c.req); err != nil {
		return 0, err
	}
	if _, err := c.br.Peek(1); err != nil {
		return 0, err
	}
	first = time.Since(start)
	length := 0
	for {
		line, err := c.br.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if n, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			_, _ = fmt.Sscan(string(n), &length)
		}
		if len(line) == 2 {
			break
		}
	}
	if length > 0 {
		_, err = c.br.Discard(length)
		return first, err
	}
	for {
		var size int
		line, err := c.br.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if _, err := fmt.Sscanf(string(line), "%x", &size); err != nil {
			return 0, fmt.Errorf("chunk size %q: %w", line, err)
		}
		if _, err := c.br.Discard(size + 2); err != nil {
			return 0, err
		}
		if size == 0 {
			return first, nil
		}
	}
}

// BenchmarkLoopback is the whole path over real sockets, simulator and client included: they share the machine.
func BenchmarkLoopback(b *testing.B) {
	const deltas = 200
	answer := &simulator.Answer{Body: body(deltas), WriteSize: simulator.Coalesce}
	for _, streams := range []int{1, 64, 1000} {
		for _, stream := range []bool{true, false} {
			b.Run(fmt.Sprintf("streams=%d/stream=%v", streams, stream), func(b *testing.B) {
				addr := gateway(b, answer)
				clients := make([]*client, streams)
				for i := range clients {
					clients[i] = dial(b, addr, stream)
				}
				b.SetBytes(int64(streams * len(answer.Body)))
				b.ReportAllocs()
				var firsts time.Duration
				var mu sync.Mutex
				for b.Loop() {
					var wg sync.WaitGroup
					for _, c := range clients {
						wg.Go(func() {
							first, err := c.ask()
							if err != nil && err != io.EOF {
								b.Error(err)
							}
							mu.Lock()
							firsts += first
							mu.Unlock()
						})
					}
					wg.Wait()
				}
				report(b, streams*deltas)
				b.ReportMetric(float64(firsts.Microseconds())/float64(b.N)/float64(streams), "us-to-first-byte")
			})
		}
	}
}

// BenchmarkRequest is what one small turn costs, whatever its length: the request's way in and the ends of the answer.
func BenchmarkRequest(b *testing.B) {
	addr := gateway(b, &simulator.Answer{Body: body(1), WriteSize: simulator.Coalesce})
	c := dial(b, addr, true)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.ask(); err != nil {
			b.Fatal(err)
		}
	}
}
