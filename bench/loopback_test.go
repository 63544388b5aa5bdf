package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"amplifier-agent/bench/metric"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/engine"
	"amplifier-agent/routes"
	"amplifier-agent/routes/chat"
	"amplifier-agent/stages"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/commandcode"
	"amplifier-agent/upstream/simulator"
)

const (
	model    = "deepseek/deepseek-v4-pro"
	chatPath = "/v1/chat/completions"
	// directPath is where the simulator takes the same request itself.
	directPath = "/provider/v1/chat/completions"
)

// gateway starts the simulator and the server in front of it, and returns the addresses of both.
func gateway(b *testing.B, answer *simulator.Answer) (server, direct string) {
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
	srv.Handle(routes.Route{Method: fasthttp.MethodPost, Path: chatPath, Handle: face.Serve})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = srv.Serve(ln) }()
	b.Cleanup(func() { _ = srv.Shutdown(time.Second) })
	return ln.Addr().String(), strings.TrimPrefix(sim.URL(), "http://")
}

// client is a keep-alive connection that does as little as possible, so that it weighs little in what is measured.
type client struct {
	conn net.Conn
	br   *bufio.Reader
	req  []byte
}

func dial(b *testing.B, addr, path string, stream bool) *client {
	b.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	body := fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[{"role":"user","content":"x"}]}`, model, stream)
	req := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer k\r\nContent-Length: %d\r\n\r\n%s", path, addr, len(body), body)
	return &client{c, bufio.NewReaderSize(c, 64<<10), []byte(req)}
}

// reply is what a client saw of an answer.
type reply struct {
	first  time.Duration // until its first byte
	chunks int           // each of which was one write; 1 of an answer in one piece
}

// ask sends the request and reads the answer to its end.
func (c *client) ask() (r reply, err error) {
	start := time.Now()
	if _, err := c.conn.Write(c.req); err != nil {
		return r, err
	}
	if _, err := c.br.Peek(1); err != nil {
		return r, err
	}
	r.first = time.Since(start)
	length := 0
	for {
		line, err := c.br.ReadSlice('\n')
		if err != nil {
			return r, err
		}
		if n, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			_, _ = fmt.Sscan(string(n), &length)
		}
		if len(line) == 2 {
			break
		}
	}
	if length > 0 {
		r.chunks = 1
		_, err = c.br.Discard(length)
		return r, err
	}
	for {
		line, err := c.br.ReadSlice('\n')
		if err != nil {
			return r, err
		}
		size, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 31)
		if err != nil {
			return r, fmt.Errorf("chunk size: %w", err)
		}
		if _, err := c.br.Discard(int(size) + 2); err != nil {
			return r, err
		}
		if size == 0 {
			return r, nil
		}
		r.chunks++
	}
}

// BenchmarkLoopback is the whole path over real sockets, simulator and client included: they share the machine.
func BenchmarkLoopback(b *testing.B) {
	const deltas = 200
	answer := &simulator.Answer{Body: body(deltas), WriteSize: simulator.Coalesce}
	for _, streams := range []int{1, 64, 1000} {
		for _, stream := range []bool{true, false} {
			b.Run(fmt.Sprintf("streams=%d/stream=%v", streams, stream), func(b *testing.B) {
				addr, _ := gateway(b, answer)
				clients := make([]*client, streams)
				for i := range clients {
					clients[i] = dial(b, addr, chatPath, stream)
				}
				b.SetBytes(int64(streams * len(answer.Body)))
				b.ReportAllocs()
				var firsts time.Duration
				chunks := 0
				var mu sync.Mutex
				for b.Loop() {
					var wg sync.WaitGroup
					for _, c := range clients {
						wg.Go(func() {
							r, err := c.ask()
							if err != nil {
								b.Error(err)
							}
							mu.Lock()
							firsts, chunks = firsts+r.first, chunks+r.chunks
							mu.Unlock()
						})
					}
					wg.Wait()
				}
				metric.Events(b, streams*deltas)
				metric.Writes(b, chunks, b.N*streams*deltas)
				metric.FirstChunk(b, firsts, b.N*streams)
			})
		}
	}
}

// BenchmarkRequest is what one small turn costs, whatever its length, and how long its client waits for the first chunk: through the
// server and, to subtract, from the simulator itself.
func BenchmarkRequest(b *testing.B) {
	answer := &simulator.Answer{Body: body(1), WriteSize: simulator.Coalesce}
	server, direct := gateway(b, answer)
	for _, row := range []struct{ name, addr, path string }{{"server", server, chatPath}, {"direct", direct, directPath}} {
		b.Run(row.name, func(b *testing.B) {
			c := dial(b, row.addr, row.path, true)
			b.SetBytes(int64(len(answer.Body)))
			b.ReportAllocs()
			var sum time.Duration
			for b.Loop() {
				r, err := c.ask()
				if err != nil {
					b.Fatal(err)
				}
				sum += r.first
			}
			metric.FirstChunk(b, sum, b.N)
		})
	}
}
