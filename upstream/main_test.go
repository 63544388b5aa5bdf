package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	soon  = 10 * time.Second // within which a busy machine does what is done at once; what is exact is tested in bubbles
	never = time.Minute      // after which a test gives up
)

// gateway is a server of raw bytes: a test says what each connection does.
type gateway struct {
	t        *testing.T
	ln       net.Listener
	url      string
	conns    atomic.Int64 // accepted
	requests atomic.Int64 // read to their end

	wg   sync.WaitGroup
	mu   sync.Mutex
	open map[net.Conn]bool
}

// peer is one connection of a gateway, on a goroutine of its own.
type peer struct {
	net.Conn
	g    *gateway
	n    int64 // from 1
	r    *bufio.Reader
	last *http.Request
	body string
}

// serve starts a gateway that handles each connection with f, and closes it after f.
func serve(t *testing.T, f func(p *peer)) *gateway {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, ln, "http", f)
}

// piped returns a Transport whose only connection is a pipe to f. In a bubble of synctest its clock is exact, however busy the
// machine is.
func piped(t *testing.T, idle time.Duration, f func(p *peer)) *Transport {
	t.Helper()
	client, server := net.Pipe()
	p := &peer{Conn: server, g: &gateway{t: t}, n: 1, r: bufio.NewReader(server)}
	done := make(chan bool)
	go func() {
		defer close(done)
		defer server.Close()
		f(p)
	}()
	t.Cleanup(func() { <-done }) // behind the transport's, which closes the other end
	tr := transport(t, "http://pipe.invalid", idle)
	c := newConn(client)
	tr.pool.put(c)
	c.reused = false // as one that was just dialled
	return tr
}

func serveOn(t *testing.T, ln net.Listener, scheme string, f func(p *peer)) *gateway {
	g := &gateway{t: t, ln: ln, url: scheme + "://" + ln.Addr().String(), open: map[net.Conn]bool{}}
	g.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p := &peer{Conn: c, g: g, n: g.conns.Add(1), r: bufio.NewReader(c)}
			g.mu.Lock()
			g.open[c] = true
			g.mu.Unlock()
			g.wg.Go(func() {
				defer c.Close()
				f(p)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		g.mu.Lock()
		for c := range g.open {
			c.Close()
		}
		g.mu.Unlock()
		g.wg.Wait()
	})
	return g
}

// request reads the next request; false once the client has closed.
func (p *peer) request() bool {
	r, err := http.ReadRequest(p.r)
	if err != nil {
		return false
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	p.last, p.body = r, string(b)
	p.g.requests.Add(1)
	return true
}

func (p *peer) send(format string, args ...any) {
	fmt.Fprintf(p, format, args...) // an error shows at the other end
}

// plain answers with a body of known length.
func (p *peer) plain(body string, header ...string) {
	p.send("HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s", lines(header), len(body), body)
}

// begin answers with the header of a chunked body.
func (p *peer) begin(header ...string) {
	p.send("HTTP/1.1 200 OK\r\n%sTransfer-Encoding: chunked\r\n\r\n", lines(header))
}

func (p *peer) chunk(s string) { p.send("%x\r\n%s\r\n", len(s), s) }
func (p *peer) end()           { p.send("0\r\n\r\n") }

// wait returns when the client has closed the connection.
func (p *peer) wait() { _, _ = io.Copy(io.Discard, p.r) }

func lines(header []string) string {
	var b strings.Builder
	for _, h := range header {
		b.WriteString(h + "\r\n")
	}
	return b.String()
}

// transport returns a Transport for url that is closed with the test.
func transport(t testing.TB, url string, idle time.Duration) *Transport {
	t.Helper()
	tr, err := NewTransport(TransportConfig{BaseURL: url, Idle: idle, Tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	return tr
}

func get() *Call { return &Call{Method: "GET", Path: "/"} }

// watch is a Watcher that notes what it hears.
type watch struct {
	reading, silent int
	ticks           []time.Time
	onReading       func() bool
	onSilent        func(next *time.Duration) bool
}

func (w *watch) Reading() bool {
	w.reading++
	return w.onReading == nil || w.onReading()
}

func (w *watch) Silent(next *time.Duration) bool {
	w.silent++
	w.ticks = append(w.ticks, time.Now())
	return w.onSilent == nil || w.onSilent(next)
}

// exchange runs a call to its end and returns the body.
func exchange(t *testing.T, tr *Transport, call *Call) string {
	t.Helper()
	r, err := tr.Open(t.Context(), call, &watch{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	r.Close(true)
	return string(b)
}

// until polls ok.
func until(t *testing.T, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(start) > limit {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// texts is a Decoder that makes a text of each line; "finish" is the end of the round.
type texts struct {
	finished bool
	tail     time.Duration // once finished
	onLine   func(line string)
}

func (d *texts) Line(line []byte, out *Emitter) {
	if d.onLine != nil {
		d.onLine(string(line))
	}
	if string(line) == "finish" {
		d.finished = true
		return
	}
	out.Delta(pipeline.Text, codec.Text(line), true)
}

func (d *texts) Tail() time.Duration {
	if d.finished {
		return d.tail
	}
	return 0
}

var errNotFinished = errors.New("not finished")

func (d *texts) End(out *Emitter) {
	if !d.finished {
		out.Fail(errNotFinished)
		return
	}
	out.Emit(pipeline.Event{Kind: pipeline.Finish, Step: &pipeline.StepInfo{}})
}

// outcome is what a stream brought.
type outcome struct {
	lines    []string
	finished bool
	err      error
	flushes  int
	idles    int
	after    int // items after the end
}

// stream runs call through Transport.Stream; on, which may be nil, sees each event and may stop.
func stream(ctx context.Context, tr *Transport, call *Call, d Decoder, on func(*pipeline.Event) bool) (o outcome) {
	ended := false
	out := NewEmitter(func(ev *pipeline.Event, err error) bool {
		if ended {
			o.after++
		}
		if err != nil {
			o.err, ended = err, true
			return true
		}
		switch ev.Kind {
		case pipeline.Text:
			o.lines = append(o.lines, string(ev.Text))
		case pipeline.Finish:
			o.finished = true
		case pipeline.Flush:
			o.flushes++
		case pipeline.Idle:
			o.idles++
		}
		if on != nil && !on(ev) {
			ended = true
			return false
		}
		return true
	})
	tr.Stream(ctx, call, codec.LineOptions{MaxBytes: DefaultMaxLine}, func() Decoder { return d }, out, func(r *Reply) error {
		return fmt.Errorf("status %d", r.Status)
	})
	return o
}

// wantError checks that err is a *pipeline.Error of code whose message holds text.
func wantError(t *testing.T, err error, code pipeline.Code, text string) *pipeline.Error {
	t.Helper()
	e, ok := errors.AsType[*pipeline.Error](err)
	if !ok {
		t.Fatalf("error %v is no *pipeline.Error", err)
	}
	if e.Code != code || !strings.Contains(e.Error(), text) {
		t.Fatalf("error %s %q, want %s %q", e.Code, e.Error(), code, text)
	}
	return e
}
