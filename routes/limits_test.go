package routes

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"amplifier-agent/pipeline"
)

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// TestSlowClients: a thousand of them are all cut off, while healthy clients are served, and nothing of them stays behind (T-SLOW).
func TestSlowClients(t *testing.T) {
	h := serve(t, Config{Deadlines: Deadlines{Header: time.Second, Body: 2 * time.Second, Stall: time.Second, Write: time.Second}})
	const authed = "Host: x\r\nAuthorization: Bearer k\r\n"
	modes := []struct{ at, then string }{
		{"GET /open HTTP/1.1\r\nHost: x\r\nX: ", "y"},
		{"POST /echo HTTP/1.1\r\n" + authed + "Content-Length: 30000000\r\n\r\n", "y"},
		{"POST /echo HTTP/1.1\r\n" + authed + "Transfer-Encoding: chunked\r\n\r\n", "1\r\ny\r\n"},
		{"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n", "y"}, // without a key, not too large to be skipped
		{"GET /big HTTP/1.1\r\nHost: x\r\n\r\n", "y"},                             // never reads
		{"", ""}, // says nothing
	}
	healthy := func() {
		for range 10 {
			if r := h.send(t, "GET /open HTTP/1.1", "Host: x"); r.status != 200 {
				t.Errorf("a healthy client: status %d", r.status)
			}
		}
	}
	healthy()
	eventually(t, "all is quiet", func() bool { return h.http.GetOpenConnectionsCount() == 0 })
	before := runtime.NumGoroutine()

	var slow, fit sync.WaitGroup
	for i := range 1000 {
		mode := modes[i%len(modes)]
		c := h.dial(t)
		_ = c.SetDeadline(time.Now().Add(4 * patience)) // a busy machine is slow itself
		slow.Go(func() {
			defer c.Close()
			_, err := io.WriteString(c, mode.at)
			for part := mode.then; err == nil && part != ""; {
				n := 1
				if len(part) > 1 {
					n = len(part) / 2
				}
				if _, err = io.WriteString(c, part[:n]); n == len(part) {
					part = mode.then
				} else {
					part = part[n:]
				}
				time.Sleep(50 * time.Millisecond) // what makes it slow
			}
			if mode.then == "" {
				_, _ = io.Copy(io.Discard, c)
			}
			if err, ok := err.(net.Error); ok && err.Timeout() {
				t.Errorf("%q: never cut off", mode.at)
			}
		})
	}
	for range 50 {
		fit.Go(healthy)
	}
	fit.Wait()
	slow.Wait()
	eventually(t, "all goroutines are gone", func() bool { return runtime.NumGoroutine() <= before })
}

// TestEachDeadline: which of them ends what, and how the client hears of it.
func TestEachDeadline(t *testing.T) {
	const (
		soon = 100 * time.Millisecond
		far  = time.Hour
		post = "POST /echo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n"
		good = "GET /open HTTP/1.1\r\nHost: x\r\n\r\n"
	)
	unless := func(d Deadlines) Deadlines {
		for _, p := range []*time.Duration{&d.Header, &d.Body, &d.Stall, &d.Write, &d.Idle} {
			if *p == 0 {
				*p = far
			}
		}
		return d
	}
	for _, row := range []struct {
		name    string
		d       Deadlines
		sent    string
		trickle string // sent again and again
		want    []int
	}{
		{"nothing on a new connection", Deadlines{Header: soon}, "", "", nil},
		{"half a first line", Deadlines{Header: soon}, "GET /op", "", []int{408}},
		{"half a header", Deadlines{Header: soon}, "GET /open HTTP/1.1\r\nHost:", "", []int{408}},
		{"half a header, bit by bit", Deadlines{Header: soon}, "GET /open HTTP/1.1\r\nX: ", "y", []int{408}},
		{"half a second header", Deadlines{Header: soon}, good + "GET /op", "", []int{200, 408}},
		{"no byte of a body", Deadlines{Stall: soon}, post + "Content-Length: 9\r\n\r\n", "", []int{408}},
		{"half a body", Deadlines{Stall: soon}, post + "Content-Length: 9\r\n\r\nabcd", "", []int{408}},
		{"half a large body", Deadlines{Stall: soon}, post + "Content-Length: 30000000\r\n\r\n" + strings.Repeat("a", 100_000), "", []int{408}},
		{"half a chunked body", Deadlines{Stall: soon}, post + "Transfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n", "", []int{408}},
		{"half a chunk", Deadlines{Stall: soon}, post + "Transfer-Encoding: chunked\r\n\r\n4\r\nab", "", []int{408}},
		{"half a trailer", Deadlines{Stall: soon}, post + "Transfer-Encoding: chunked\r\n\r\n0\r\nX", "", []int{408}},
		{"half a second body", Deadlines{Stall: soon}, good + post + "Content-Length: 9\r\n\r\nabcd", "", []int{200, 408}},
		{"a body bit by bit", Deadlines{Body: 5 * soon}, post + "Content-Length: 30000000\r\n\r\n", "y", []int{408}},
		{"chunks bit by bit", Deadlines{Body: 5 * soon}, post + "Transfer-Encoding: chunked\r\n\r\n", "1\r\ny\r\n", []int{408}},
		{"nothing behind an answer", Deadlines{Idle: soon}, good, "", []int{200}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h := serve(t, Config{Deadlines: unless(row.d)})
			c := h.dial(t)
			fmt.Fprint(c, row.sent)
			stop := make(chan struct{})
			var writer sync.WaitGroup
			writer.Go(func() {
				for row.trickle != "" {
					select {
					case <-stop:
						return
					case <-time.After(10 * time.Millisecond):
						_, _ = io.WriteString(c, row.trickle)
					}
				}
			})
			br := bufio.NewReader(c)
			for _, want := range row.want {
				r, err := readReply(br, &http.Request{Method: "GET"})
				if err != nil || r.status != want || want == 408 && (r.code() != "request_timeout" || !r.close) {
					t.Errorf("%+v, error %v", r, err)
				}
			}
			close(stop)
			writer.Wait()
			if _, err := br.ReadByte(); err == nil {
				t.Error("the connection goes on")
			} else if err, ok := err.(net.Error); ok && err.Timeout() {
				t.Error("the connection stays open")
			}
		})
	}
}

// TestIdleIsNotStalled: between two requests only the idle deadline counts, and what is left of the last answer's deadline
// does not reach the next.
func TestIdleIsNotStalled(t *testing.T) {
	const short = 50 * time.Millisecond
	h := serve(t, Config{Deadlines: Deadlines{Stall: short, Write: short}})
	for _, second := range []string{
		"GET /open HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\nx",
		"nonsense\r\n\r\n",
	} {
		c := h.dial(t)
		br := bufio.NewReader(c)
		fmt.Fprint(c, "GET /open HTTP/1.1\r\nHost: x\r\n\r\n")
		if r, err := readReply(br, &http.Request{Method: "GET"}); err != nil || r.status != 200 {
			t.Fatalf("%+v, error %v", r, err)
		}
		time.Sleep(4 * short) // both deadlines pass
		fmt.Fprint(c, second)
		if r, err := readReply(br, &http.Request{Method: "GET"}); err != nil {
			t.Errorf("%q: %+v, error %v", second, r, err)
		}
	}
}

// TestTooLargeIsHeard: a client that sends all of a body which is too large before it reads gets the answer (B044, B045).
func TestTooLargeIsHeard(t *testing.T) {
	const limit = 1 << 20
	h := serve(t, Config{MaxBody: limit})
	body := strings.Repeat("x", 10*limit) // more than the sockets' buffers hold
	chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	for i := range 50 {
		key, framing, sent, want := "k", fmt.Sprintf("Content-Length: %d", len(body)), body, 413
		if i%2 == 1 {
			framing, sent = "Transfer-Encoding: chunked", chunk
		}
		if i%5 == 4 {
			key, want = "bad", 401
		}
		c := h.dial(t)
		fmt.Fprintf(c, "POST /echo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n%s", key, framing, sent)
		if list := replies(t, c); len(list) != 1 || list[0].status != want {
			t.Fatalf("%d, %s: %+v", i, framing, list)
		}
		_ = c.Close()
	}
	// The limit itself is allowed, one byte more is not.
	for extra, want := range map[int]int{0: 200, 1: 413} {
		for _, framing := range []string{fmt.Sprintf("Content-Length: %d", limit+extra), "Transfer-Encoding: chunked"} {
			b := body[:limit+extra]
			if strings.HasPrefix(framing, "T") {
				b = fmt.Sprintf("%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", limit-1, b[:limit-1], 1+extra, b[limit-1:])
			}
			c := h.dial(t)
			go fmt.Fprintf(c, "POST /echo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\nConnection: close\r\n%s\r\n\r\n%s", framing, b)
			if list := replies(t, c); len(list) != 1 || list[0].status != want || want == 200 && len(list[0].body) != limit {
				t.Errorf("%s, %d more: %d answers", framing, extra, len(list))
			}
		}
	}
}

// TestNoKeyNoBody: who has no key is told so before the body has come.
func TestNoKeyNoBody(t *testing.T) {
	h := serve(t, Config{})
	for line, want := range map[string]int{"POST /echo": 401, "POST /nothing": 401, "GET /closed": 401} {
		c := h.dial(t)
		fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n\r\nx", line)
		r, err := readReply(bufio.NewReader(c), &http.Request{Method: "GET"})
		if err != nil || r.status != want {
			t.Errorf("%s: %+v, error %v", line, r, err)
		}
	}
}

// TestMaxConns: a connection that is one too many is told so and closed, whatever it sends; room that is free again is used.
func TestMaxConns(t *testing.T) {
	var refused atomic.Int32
	h := serve(t, Config{MaxConns: 2, Rejected: func(c pipeline.Code) {
		if c == pipeline.CodeUnavailable {
			refused.Add(1)
		}
	}})
	open := func() (net.Conn, *bufio.Reader, reply, error) {
		c := h.dial(t)
		go fmt.Fprint(c, "POST /open HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\nAuthorization: Bearer k\r\n\r\n", strings.Repeat("x", 100_000))
		br := bufio.NewReader(c)
		r, err := readReply(br, &http.Request{Method: "POST"})
		return c, br, r, err
	}
	first, _, r, err := open()
	if err != nil || r.status != 405 {
		t.Fatalf("%+v, error %v", r, err)
	}
	if _, _, r, err := open(); err != nil || r.status != 405 {
		t.Fatalf("%+v, error %v", r, err)
	}
	for range 10 {
		c, br, r, err := open()
		if err != nil || r.status != 503 || r.code() != "unavailable" || r.header.Get("Retry-After") != "1" || !r.close {
			t.Errorf("%+v, error %v", r, err)
		}
		if _, err := br.ReadByte(); err != io.EOF {
			t.Errorf("behind the answer: %v", err)
		}
		_ = c.Close()
	}
	if refused.Load() != 10 {
		t.Errorf("%d refused", refused.Load())
	}
	_ = first.Close()
	eventually(t, "there is room again", func() bool {
		c, _, r, err := open()
		_ = c.Close()
		return err == nil && r.status == 405
	})
}

// TestManyAreTurnedAway: a flood of connections beyond the limit holds nothing up and leaves nothing behind.
func TestManyAreTurnedAway(t *testing.T) {
	h := serve(t, Config{MaxConns: 1})
	c := h.dial(t)
	eventually(t, "the first is in", func() bool { return h.http.GetOpenConnectionsCount() == 1 })
	for range 4 * maxAway {
		h.dial(t)
	}
	fmt.Fprint(c, "GET /open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if list := replies(t, c); len(list) != 1 || list[0].status != 200 {
		t.Errorf("%+v", list)
	}
	_ = c.Close()
	eventually(t, "nobody is waited for", func() bool { return len(h.ln.away) == 0 })
}

// TestRejectedHearsOfAll: what got to no handler is counted by its code, what did is not.
func TestRejectedHearsOfAll(t *testing.T) {
	var mu sync.Mutex
	got := map[pipeline.Code]int{}
	h := serve(t, Config{Guard: Guard{Bind: "127.0.0.1"}, Deadlines: Deadlines{Stall: 50 * time.Millisecond}, Rejected: func(c pipeline.Code) {
		mu.Lock()
		got[c]++
		mu.Unlock()
	}})
	for _, raw := range []string{
		"GET /open HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"GET /closed HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"GET /nothing HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\nConnection: close\r\n\r\n",
		"GET /open HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
		"nonsense\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\nContent-Length: 2\r\n\r\nx",
		"GET /panic HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
	} {
		c := h.dial(t)
		fmt.Fprint(c, raw)
		if list := replies(t, c); len(list) != 1 {
			t.Errorf("%q: %d answers", raw, len(list))
		}
	}
	mu.Lock()
	defer mu.Unlock()
	want := map[pipeline.Code]int{pipeline.CodeMissingAuth: 1, pipeline.CodeNotFound: 1, pipeline.CodeForbidden: 1, pipeline.CodeInvalidRequest: 1,
		pipeline.CodeRequestTimeout: 1, pipeline.CodeInternal: 1}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// greedy notes when it is offered a buffer that is much larger than what had been read.
type greedy struct {
	r    io.Reader
	read int
	bad  int
}

func (g *greedy) Read(p []byte) (int, error) {
	if len(p) > max(g.read, firstBody)*3/2 { // sizes of memory are rounded up
		g.bad = len(p)
	}
	n, err := g.r.Read(p)
	g.read += n
	return n, err
}

// TestReadBody: any length arrives whole, in memory that grows with what has come and not with what was claimed.
func TestReadBody(t *testing.T) {
	const limit = 1 << 20
	for _, size := range []int{0, 1, minBody - 1, minBody, minBody + 1, firstBody, firstBody + 1, 500_000, limit - 1, limit, limit + 1} {
		body := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		for _, length := range []int{size, -1} {
			g := &greedy{r: bytes.NewReader(body)}
			b, err := readBody(g, length, limit)
			switch {
			case g.bad != 0:
				t.Errorf("%d bytes, length %d: asked for %d at once", size, length, g.bad)
			case size > limit:
				if pipeline.AsError(err).Code != pipeline.CodeTooLarge {
					t.Errorf("%d bytes, length %d: error %v", size, length, err)
				}
			case err != nil || b == nil || !bytes.Equal(b, body):
				t.Errorf("%d bytes, length %d: %d bytes, error %v", size, length, len(b), err)
			}
		}
		if size == 0 || size > limit {
			continue
		}
		g := &greedy{r: bytes.NewReader(body[:size-1])}
		if _, err := readBody(g, size, limit); pipeline.AsError(err).Code != pipeline.CodeInvalidRequest || g.bad != 0 {
			t.Errorf("a byte short of %d: error %v, asked for %d at once", size, err, g.bad)
		}
	}
}
