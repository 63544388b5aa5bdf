//go:build linux && !race

package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"amplifier-agent/pipeline/secret"
)

// What a streamed request may allocate in the whole server, from its socket to the gateway's and back; the client and the gateway of
// these tests allocate nothing. The detector of races allocates too, and other systems may, so that they are not for those.
const (
	// maxRequestAllocs is of a request, its own JSON apart: what is left once each message has had its share taken away.
	maxRequestAllocs = 55
	// maxMessageAllocs is of each message of a request: what reading it and writing it for the gateway takes.
	maxMessageAllocs = 6
	// maxDeltaAllocs is of a delta: nothing. What is beyond comes from what runs beside the request.
	maxDeltaAllocs = 0.01
)

// canned is a gateway that plays one answer, with so many deltas, and allocates nothing while it does. It sends a delta each time
// that next says so, so that each is a read and a write of its own.
type canned struct {
	addr   string
	deltas int // of an answer; it changes between requests only
	next   chan struct{}
}

const (
	cannedBegin = `{"type":"start"}` + "\n" + `{"type":"text-start","id":"txt-0"}` + "\n"
	cannedMark  = "in every delta"
	cannedDelta = `{"type":"text-delta","id":"txt-0","text":"some \"words\" ` + cannedMark + `, "}` + "\n"
	cannedEnd   = `{"type":"finish-step","finishReason":"stop","usage":{"inputTokens":3,"outputTokens":4}}` + "\n" + `{"type":"finish","finishReason":"stop","totalUsage":{"inputTokens":3,"outputTokens":4}}` + "\n"
	cannedList  = `{"object":"list","data":[{"id":"` + contractModel + `","name":"canned","context_length":100000}]}`
)

func startCanned(t *testing.T) *canned {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	g := &canned{addr: ln.Addr().String(), next: make(chan struct{})}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				g.serve(c)
			}()
		}
	}()
	return g
}

// serve answers request after request. A failed write shows at the other end.
func (g *canned) serve(c net.Conn) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	list := fmt.Appendf(nil, "%sContent-Length: %d\r\n\r\n%s", ok, len(cannedList), cannedList)
	begin := append([]byte(ok+"Transfer-Encoding: chunked\r\n\r\n"), asChunk(cannedBegin)...)
	delta, end := asChunk(cannedDelta), append(asChunk(cannedEnd), "0\r\n\r\n"...)
	room := make([]byte, 1<<20)
	for {
		request := readRequest(c, room)
		if request == nil {
			return
		}
		if bytes.HasPrefix(request, []byte("GET ")) {
			_, _ = c.Write(list)
			continue
		}
		_, _ = c.Write(begin)
		for range g.deltas {
			<-g.next
			_, _ = c.Write(delta)
		}
		_, _ = c.Write(end)
	}
}

func asChunk(s string) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(s), s) }

// readRequest reads one request of known length into room. It is nil once there is none.
func readRequest(c net.Conn, room []byte) []byte {
	for n, whole := 0, 0; ; {
		m, err := c.Read(room[n:])
		if err != nil {
			return nil
		}
		n += m
		if header, _, ok := bytes.Cut(room[:n], []byte("\r\n\r\n")); ok && whole == 0 {
			whole = len(header) + 4
			if _, length, ok := bytes.Cut(header, []byte("Content-Length: ")); ok {
				length, _, _ = bytes.Cut(length, []byte("\r\n"))
				size, _ := strconv.Atoi(string(length))
				whole += size
			}
		}
		if whole > 0 && n >= whole {
			return room[:n]
		}
	}
}

// asker is a client with one connection. It allocates nothing while it asks.
type asker struct {
	net.Conn
	g    *canned
	room []byte
}

// ask reads an answer to its end, and lets the gateway go on whenever a delta has come.
func (a *asker) ask(t *testing.T, request []byte) {
	if _, err := a.Write(request); err != nil {
		t.Fatal(err)
	}
	asked, seen, n, looked := 0, 0, 0, 0
	for !bytes.HasSuffix(a.room[:n], []byte("\r\n0\r\n\r\n")) {
		if asked < a.g.deltas && asked == seen {
			a.g.next <- struct{}{}
			asked++
		}
		m, err := a.Read(a.room[n:])
		if err != nil {
			t.Fatalf("%v after %s", err, a.room[:n])
		}
		n += m
		for {
			i := bytes.Index(a.room[looked:n], []byte(cannedMark))
			if i < 0 {
				break
			}
			seen, looked = seen+1, looked+i+1
		}
	}
	if seen != a.g.deltas {
		t.Fatalf("%d deltas of %d: %s", seen, a.g.deltas, a.room[:n])
	}
}

// mallocs is what each of n answers to request costs.
func (a *asker) mallocs(t *testing.T, n, deltas int, request []byte) float64 {
	a.g.deltas = deltas
	for range 20 { // pools fill, buffers grow
		a.ask(t, request)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		a.ask(t, request)
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n)
}

// dialAsker is a client of g, or of the server in front of it.
func dialAsker(t *testing.T, addr string, g *canned) *asker {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(testPatience))
	return &asker{c, g, make([]byte, 4<<20)}
}

// serveCanned starts the server as the program puts it together in front of g, and returns its address.
func serveCanned(t *testing.T, g *canned) string {
	t.Helper()
	dir := t.TempDir()
	for name, value := range map[string]string{"HOME": dir, "COMMANDCODE_API_KEY": "upstream-key", "COMMANDCODE_BASE_URL": "http://" + g.addr} {
		t.Setenv(name, value)
	}
	p, err := assemble(t.Context(), serveOptions{bind: defaultBind, key: contractKey, modelID: "m", workspace: "w", home: dir, cwd: dir}, slog.New(slog.DiscardHandler), new(secret.Mask))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	ln, err := listen(defaultBind, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(p)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		if err := s.Shutdown(testPatience); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// asking is a request with so many messages.
func asking(messages int) []byte {
	list := strings.Repeat(`{"role":"user","content":"some words"},`, messages)
	body := fmt.Sprintf(`{"model":%q,"stream":true,"messages":[%s]}`, contractModel, strings.TrimSuffix(list, ","))
	return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", contractKey, len(body), body)
}

// TestRequestAllocations holds a streamed request, its messages and its deltas to their limits.
func TestRequestAllocations(t *testing.T) {
	const requests, more, moreDeltas = 200, 20, 1000
	g := startCanned(t)
	a, direct := dialAsker(t, serveCanned(t, g), g), dialAsker(t, g.addr, g)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))           // the collector empties pools, which then are filled again
	if n := direct.mallocs(t, requests, 2, asking(1)); n > 1 { // what the runtime does for itself is less
		t.Fatalf("client and gateway allocate %.2f times themselves", n)
	}
	one := a.mallocs(t, requests, 2, asking(1))
	many := a.mallocs(t, requests, 2, asking(1+more))
	message := (many - one) / more
	long := a.mallocs(t, requests/20, 2+moreDeltas, asking(1))
	delta := (long - one) / moreDeltas
	t.Logf("%.1f allocations a request, %.1f more for each of its messages, %.4f for each delta", one-message, message, delta)
	if one-message > maxRequestAllocs {
		t.Errorf("a request allocates %.1f times, its JSON apart; the limit is %d", one-message, maxRequestAllocs)
	}
	if message > maxMessageAllocs {
		t.Errorf("a message allocates %.1f times; the limit is %d", message, maxMessageAllocs)
	}
	if delta > maxDeltaAllocs {
		t.Errorf("a delta allocates %.4f times; the limit is %.2f", delta, maxDeltaAllocs)
	}
}
