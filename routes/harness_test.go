package routes

import (
	"bufio"
	"bytes"
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

	"amplifier-agent/stages"
)

// patience bounds what a test waits for; nothing takes that long unless it hangs.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),    // one a process, for ever
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"), // ends up to 10 s after its server
	)
}

// host is a server over real sockets.
type host struct {
	*Server
	addr string
}

// serve starts a server with the key k and a route of each kind.
func serve(t *testing.T, c Config) *host {
	t.Helper()
	if c.Auth.Request == nil {
		c.Auth = stages.Auth("k")
	}
	return serveAs(t, c)
}

func serveAs(t *testing.T, c Config) *host {
	t.Helper()
	c.Log = slog.New(slog.DiscardHandler)
	s := New(c)
	s.http.MaxIdleWorkerDuration = 100 * time.Millisecond // so that goroutines can be counted
	big := bytes.Repeat([]byte("b"), 16<<20)
	s.Handle(
		Route{Method: "GET", Path: "/open", Open: true, Handle: func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("open") }},
		Route{Method: "GET", Path: "/closed", Handle: func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("closed") }},
		Route{Method: "POST", Path: "/echo", Handle: func(ctx *fasthttp.RequestCtx) { ctx.SetBody(ctx.Request.Body()) }},
		Route{Method: "GET", Path: "/big", Open: true, Handle: func(ctx *fasthttp.RequestCtx) { ctx.Response.SetBodyRaw(big) }},
		Route{Method: "GET", Path: "/panic", Open: true, Handle: func(*fasthttp.RequestCtx) { panic("at the route") }},
	)
	ln := listen(t)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		if err := s.Shutdown(patience); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return &host{s, ln.Addr().String()}
}

func (h *host) dial(t testing.TB) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", h.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

// reply is an answer as a client sees it.
type reply struct {
	status int
	header http.Header
	body   string
	close  bool // the server says that it is the last
}

func (r reply) code() string {
	var e struct{ Error struct{ Code string } }
	_ = json.Unmarshal([]byte(r.body), &e)
	return e.Error.Code
}

func (r reply) message() string {
	var e struct{ Error struct{ Message string } }
	_ = json.Unmarshal([]byte(r.body), &e)
	return e.Error.Message
}

// replies reads answers until the connection ends. methods are those of the requests, GET where there is none.
func replies(t testing.TB, c net.Conn, methods ...string) []reply {
	t.Helper()
	var list []reply
	for br := bufio.NewReader(c); ; {
		if _, err := br.Peek(1); err != nil {
			if err != io.EOF {
				t.Errorf("behind %d answers: %v", len(list), err)
			}
			return list
		}
		req := &http.Request{Method: "GET"}
		if len(list) < len(methods) {
			req.Method = methods[len(list)]
		}
		r, err := readReply(br, req)
		if err != nil {
			t.Errorf("answer %d: %v", len(list), err)
			return list
		}
		list = append(list, r)
	}
}

func readReply(br *bufio.Reader, req *http.Request) (reply, error) {
	resp, err := http.ReadResponse(br, req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b), resp.Close}, err
}

// send writes a request of lines, which end up with CR LF, and a blank line, and reads what comes until the connection ends.
func (h *host) send(t testing.TB, lines ...string) reply {
	t.Helper()
	c := h.dial(t)
	fmt.Fprint(c, strings.Join(append(lines, "Connection: close", "", ""), "\r\n"))
	method, _, _ := strings.Cut(lines[0], " ")
	list := replies(t, c, method)
	if len(list) != 1 {
		t.Fatalf("%q: %d answers", lines, len(list))
	}
	return list[0]
}
