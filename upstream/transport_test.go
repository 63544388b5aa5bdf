package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/molecule-man/go-brrr"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
)

func TestBaseURL(t *testing.T) {
	for url, want := range map[string]string{
		"http://h":           "h:80",
		"https://h/":         "h:443",
		"http://h:81/a/":     "h:81 /a",
		"http://[::1]:5/a":   "[::1]:5 /a",
		"http://h/a%20b/c/":  "h:80 /a%20b/c",
		"ftp://h":            "error",
		"h:80":               "error",
		"":                   "error",
		"http://":            "error",
		"http://h\x7f":       "error",
		"https://user:pw@h/": "h:443",
	} {
		tr, err := NewTransport(TransportConfig{BaseURL: url})
		got := "error"
		if err == nil {
			got = strings.TrimSpace(tr.addr + " " + tr.path)
		}
		if got != want {
			t.Errorf("%q: %s, want %s (%v)", url, got, want, err)
		}
	}
}

func TestRequestOnTheWire(t *testing.T) {
	seen := make(chan string, 1)
	g := serve(t, func(p *peer) {
		for p.request() {
			seen <- fmt.Sprintf("%s %s %s %v %q", p.last.Method, p.last.RequestURI, p.last.Host, p.last.Header["X-A"], p.body)
			p.plain("ok")
		}
	})
	tr := transport(t, g.url+"/base%20path/", 0)
	call := &Call{Method: "POST", Path: "/x?y=1", Header: [][2]string{{"x-a", "1\r\nx-b: 2"}}, Body: []byte("body")}
	if got := exchange(t, tr, call); got != "ok" {
		t.Error(got)
	}
	got := <-seen
	host := strings.TrimPrefix(g.url, "http://")
	if !strings.HasPrefix(got, "POST /base%20path/x?y=1 "+host+" [1") || !strings.HasSuffix(got, ` "body"`) || strings.Contains(got, "X-B") {
		t.Error(got)
	}
}

// TestUserOfBaseURL: a user is sent unless the call says itself who asks, and the password is known to the mask in each form.
func TestUserOfBaseURL(t *testing.T) {
	seen := make(chan string, 1)
	g := serve(t, func(p *peer) {
		for p.request() {
			seen <- p.last.Header.Get("Authorization")
			p.plain("ok")
		}
	})
	mask := new(secret.Mask)
	tr, err := NewTransport(TransportConfig{BaseURL: strings.Replace(g.url, "://", "://ann:open%20sesame@", 1), Mask: mask})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	for want, header := range map[string][][2]string{
		"Basic YW5uOm9wZW4gc2VzYW1l": nil, // ann:open sesame
		"Bearer key":                 {{"authorization", "Bearer key"}},
	} {
		exchange(t, tr, &Call{Method: "GET", Path: "/", Header: header})
		if got := <-seen; got != want {
			t.Errorf("sent %q, want %q", got, want)
		}
	}
	if got := mask.String("open sesame YW5uOm9wZW4gc2VzYW1l"); strings.Contains(got, "sesame") || strings.Contains(got, "c2VzYW1l") {
		t.Error(got)
	}
}

// TestReuse counts the connections of two exchanges.
func TestReuse(t *testing.T) {
	zipped := compressed(t, "gzip", "hello")
	read := func(t *testing.T, r *Reply) bool {
		b, err := io.ReadAll(r.Body)
		if err != nil || string(b) != "hello" {
			t.Errorf("%q, %v", b, err)
		}
		return true
	}
	rows := []struct {
		name   string
		answer func(p *peer)
		read   func(t *testing.T, r *Reply) bool
		conns  int64
	}{
		{"length", func(p *peer) { p.plain("hello") }, read, 1},
		{"chunked", func(p *peer) { p.begin(); p.chunk("hel"); p.chunk("lo"); p.end() }, read, 1},
		{"chunked with trailer", func(p *peer) {
			p.begin("Trailer: X-T")
			p.chunk("hello")
			p.send("0\r\nX-T: 1\r\n\r\n")
		}, read, 1},
		{"identity named", func(p *peer) { p.plain("hello", "Content-Encoding: identity") }, read, 2},
		{"compressed", func(p *peer) { p.plain(zipped, "Content-Encoding: gzip") }, read, 2},
		{"asked to close", func(p *peer) { p.plain("hello", "Connection: close") }, read, 2},
		{"HTTP/1.0", func(p *peer) { p.send("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello") }, read, 2},
		{"ends with the connection", func(p *peer) { p.send("HTTP/1.1 200 OK\r\n\r\nhello"); p.Close() }, read, 2},
		{"more than was announced", func(p *peer) { p.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\n") }, read, 2},
		{"not read", func(p *peer) { p.plain("hello") }, func(*testing.T, *Reply) bool { return false }, 2},
		{"not read to its end", func(p *peer) { p.plain("hello") }, func(t *testing.T, r *Reply) bool {
			_, err := io.ReadFull(r.Body, make([]byte, 3))
			return err != nil
		}, 2},
		{"broken off", func(p *peer) { p.begin(); p.chunk("hel"); p.Close() }, func(t *testing.T, r *Reply) bool {
			if _, err := io.ReadAll(r.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Error(err)
			}
			return false
		}, 2},
		{"limited", func(p *peer) { p.begin(); p.chunk("hel") }, func(t *testing.T, r *Reply) bool {
			r.Limit(20 * time.Millisecond)
			if _, err := io.ReadAll(r.Body); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			return false
		}, 2},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := serve(t, func(p *peer) {
				for p.request() {
					row.answer(p)
				}
			})
			tr := transport(t, g.url, 0)
			for range 2 {
				r, err := tr.Open(t.Context(), get(), &watch{})
				if err != nil {
					t.Fatal(err)
				}
				r.Close(row.read(t, r))
			}
			if n := g.conns.Load(); n != row.conns {
				t.Errorf("%d connections, want %d", n, row.conns)
			}
			if n := g.requests.Load(); n != 2 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// TestStaleConnection: the gateway has closed the idle connection. The next call goes out once, on another one.
func TestStaleConnection(t *testing.T) {
	g := serve(t, func(p *peer) {
		if p.request() {
			p.plain("hello")
		}
	})
	tr := transport(t, g.url, 0)
	for range 3 {
		if got := exchange(t, tr, &Call{Method: "POST", Path: "/", Body: []byte("{}"), Silence: never}); got != "hello" {
			t.Fatal(got)
		}
		until(t, "the idle connection closed", never, func() bool {
			tr.pool.mu.Lock()
			defer tr.pool.mu.Unlock()
			return !tr.pool.conns[0].quiet()
		})
	}
	if c, r := g.conns.Load(), g.requests.Load(); c != 3 || r != 3 {
		t.Errorf("%d connections and %d requests for 3 calls", c, r)
	}
}

// TestStaleRace: the gateway closes the idle connection just when a request is on its way, so the request is sent again.
func TestStaleRace(t *testing.T) {
	g := serve(t, func(p *peer) {
		if p.request() {
			p.plain("hello")
		}
		if p.n == 1 {
			p.request() // and close without an answer
			return
		}
		p.wait()
	})
	tr := transport(t, g.url, 0)
	for range 2 {
		call := get()
		call.Silence = never // behind a tick it would not be sent again
		if got := exchange(t, tr, call); got != "hello" {
			t.Fatal(got)
		}
	}
	if c, r := g.conns.Load(), g.requests.Load(); c != 2 || r != 3 {
		t.Errorf("%d connections, %d requests", c, r)
	}
}

// TestFreshIsNotRetried: only a connection that was idle before can be stale.
func TestFreshIsNotRetried(t *testing.T) {
	g := serve(t, func(p *peer) { p.request() })
	_, err := transport(t, g.url, 0).Open(t.Context(), get(), &watch{})
	if e := wantError(t, err, pipeline.CodeUpstream, "ask the upstream: it closed the connection"); !e.Retry {
		t.Error("not a passing kind")
	}
	if n := g.requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestStoppedIsNotStale: a consumer that stops while headers are awaited on a reused connection must not have its request sent
// again, although the library that reads headers reports any error there as the end of the connection.
func TestStoppedIsNotStale(t *testing.T) {
	for _, how := range []string{"reading", "silent", "stalled"} {
		t.Run(how, func(t *testing.T) {
			g := serve(t, func(p *peer) {
				if p.request() {
					p.plain("hello")
				}
				p.request()
				p.wait()
			})
			tr := transport(t, g.url, 0)
			exchange(t, tr, get())
			w := &watch{}
			switch how {
			case "reading":
				w.onReading = func() bool { return false }
			case "silent":
				w.onSilent = func(next *time.Duration) bool { // once the request is out
					*next = 10 * time.Millisecond
					return g.requests.Load() < 2
				}
			}
			call := get()
			call.Silence = 10 * time.Millisecond
			if how == "stalled" {
				tr.idle = 30 * time.Millisecond
				w.onSilent = func(next *time.Duration) bool { *next = 10 * time.Millisecond; return true }
			}
			_, err := tr.Open(t.Context(), call, w)
			if how == "stalled" {
				wantError(t, err, pipeline.CodeStalled, "silent for 30ms")
			} else if !errors.Is(err, errStopped) {
				t.Error(err)
			}
			until(t, "the request read", never, func() bool { return g.requests.Load() == 2 })
			if n := g.conns.Load(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// TestUnaskedAnswer: what comes on an idle connection is never the answer to the next request.
func TestUnaskedAnswer(t *testing.T) {
	more := make(chan bool)
	g := serve(t, func(p *peer) {
		for p.request() {
			p.plain(fmt.Sprintf("mine %d", p.n))
			if p.n == 1 {
				<-more
				p.plain("foreign")
			}
		}
	})
	tr := transport(t, g.url, 0)
	if got := exchange(t, tr, get()); got != "mine 1" {
		t.Fatal(got)
	}
	close(more)
	until(t, "the unasked answer arrived", never, func() bool {
		tr.pool.mu.Lock()
		defer tr.pool.mu.Unlock()
		return !tr.pool.conns[0].quiet()
	})
	if got := exchange(t, tr, get()); got != "mine 2" {
		t.Fatal(got)
	}
}

func TestPool(t *testing.T) {
	g := serve(t, func(p *peer) {
		for p.request() {
			p.plain("hello")
		}
	})
	tr := transport(t, g.url, 0)
	// Three connections at once.
	var replies []*Reply
	for range 3 {
		r, err := tr.Open(t.Context(), get(), &watch{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Fatal(err)
		}
		replies = append(replies, r)
	}
	idle := func() int {
		tr.pool.mu.Lock()
		defer tr.pool.mu.Unlock()
		return len(tr.pool.conns)
	}
	for _, r := range replies {
		r.Close(true)
	}
	if idle() != 3 {
		t.Fatalf("%d idle", idle())
	}
	// The two oldest have been idle for too long.
	tr.pool.mu.Lock()
	old := slices.Clone(tr.pool.conns[:2])
	for _, c := range old {
		c.parked = c.parked.Add(-idleKeep)
	}
	tr.pool.mu.Unlock()
	tr.pool.evict()
	if idle() != 1 {
		t.Fatalf("%d idle after the sweep", idle())
	}
	for _, c := range old {
		if _, err := c.Conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("an evicted connection is open: %v", err)
		}
	}
	r, err := tr.Open(t.Context(), get(), &watch{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r.Body); err != nil {
		t.Fatal(err)
	}
	// An exchange that is under way when the transport is closed goes on; its connection is not kept.
	tr.Close()
	tr.Close()
	r.Close(true)
	if idle() != 0 {
		t.Error("a connection was kept behind Close")
	}
	if _, err := r.c.Conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Error("a connection is open behind Close")
	}
	if n := g.conns.Load(); n != 3 {
		t.Errorf("%d connections", n)
	}
}

func compressed(t *testing.T, encoding, s string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw":
		w, err = flate.NewWriter(&b, 5)
	case "zstd":
		w, err = zstd.NewWriter(&b)
	case "br":
		w, err = brrr.NewWriter(&b, 5)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCompressedBodies(t *testing.T) {
	text := strings.Repeat("line after line\n", 500) + "finish\n"
	for _, enc := range []string{"gzip", "deflate", "raw", "zstd", "br"} {
		name := enc
		if enc == "raw" {
			name = "deflate"
		}
		whole := compressed(t, enc, text)
		t.Run(enc, func(t *testing.T) {
			g := serve(t, func(p *peer) {
				if !p.request() {
					return
				}
				p.begin("Content-Encoding: " + strings.ToUpper(name))
				for i := 0; i < len(whole); i += 7 {
					p.chunk(whole[i:min(i+7, len(whole))])
				}
				p.end()
				p.wait()
			})
			o := stream(t.Context(), transport(t, g.url, 0), get(), &texts{}, nil)
			if o.err != nil || !o.finished || len(o.lines) != 500 {
				t.Errorf("%d lines, %v", len(o.lines), o.err)
			}
		})
		t.Run(enc+" cut", func(t *testing.T) {
			g := serve(t, func(p *peer) {
				if p.request() {
					p.begin("Content-Encoding: " + name)
					p.chunk(whole[:len(whole)/2])
				}
			})
			o := stream(t.Context(), transport(t, g.url, 0), get(), &texts{}, nil)
			if o.err != errNotFinished && wantError(t, o.err, pipeline.CodeUpstream, "closed the connection") == nil {
				t.Error(o.err)
			}
		})
		t.Run(enc+" stopped", func(t *testing.T) {
			var sent atomic.Bool
			gone := make(chan bool, 1)
			g := serve(t, func(p *peer) {
				defer func() { gone <- true }()
				if p.request() {
					p.begin("Content-Encoding: " + name)
					p.chunk(whole[:len(whole)/2])
					sent.Store(true)
					p.wait()
				}
			})
			call := get()
			call.Silence = 10 * time.Millisecond
			idles := 0 // once all is sent; at the second one all was read too
			o := stream(t.Context(), transport(t, g.url, 0), call, &texts{}, func(ev *pipeline.Event) bool {
				if ev.Kind == pipeline.Idle {
					ev.Wake = 10 * time.Millisecond
					if sent.Load() {
						idles++
					}
				}
				return idles < 2
			})
			if o.err != nil || o.after != 0 {
				t.Errorf("%+v", o)
			}
			<-gone
		})
	}
	t.Run("unknown", func(t *testing.T) {
		g := serve(t, func(p *peer) {
			if p.request() {
				p.plain("hello", "Content-Encoding: rot13")
				p.wait()
			}
		})
		_, err := transport(t, g.url, 0).Open(t.Context(), get(), &watch{})
		if e := wantError(t, err, pipeline.CodeUpstream, `content encoding "rot13"`); e.Retry {
			t.Error("may be tried again")
		}
	})
	t.Run("not what it says", func(t *testing.T) {
		for _, enc := range []string{"gzip", "zstd", "br", "deflate"} {
			g := serve(t, func(p *peer) {
				if p.request() {
					p.plain(strings.Repeat("plain text ", 9), "Content-Encoding: "+enc)
					p.wait()
				}
			})
			o := stream(t.Context(), transport(t, g.url, 0), get(), &texts{}, nil)
			if o.err == nil || o.finished {
				t.Errorf("%s: %+v", enc, o)
			}
		}
	})
	t.Run("empty", func(t *testing.T) {
		g := serve(t, func(p *peer) {
			if p.request() {
				p.plain("", "Content-Encoding: gzip")
				p.wait()
			}
		})
		if o := stream(t.Context(), transport(t, g.url, 0), get(), &texts{}, nil); o.err == nil {
			t.Errorf("%+v", o)
		}
	})
}

func TestOddAnswers(t *testing.T) {
	rows := []struct {
		name   string
		answer string // and then the connection is closed
		status int
		body   string
		err    string // of Open, or of the body
	}{
		{"interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", ""},
		{"interim without end", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 5000), 0, "", "not HTTP/1.1"},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", ""},
		{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", ""},
		{"empty chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, "", ""},
		{"ends with the connection", "HTTP/1.1 200 OK\r\n\r\nall", 200, "all", ""},
		{"refusal", "HTTP/1.1 529 Overloaded\r\nContent-Length: 2\r\n\r\nno", 529, "no", ""},
		{"short", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", 200, "ok", "unexpected EOF"},
		{"cut chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok", 200, "ok", "unexpected EOF"},
		{"cut behind a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok", 200, "ok", "unexpected EOF"},
		{"cut in a chunk's size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n1", 200, "ok", "unexpected EOF"},
		{"no size of a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok", 200, "", "chunked body is malformed"},
		{"header too large", "HTTP/1.1 200 OK\r\nX-Large: " + strings.Repeat("x", maxHeaderBytes) + "\r\nContent-Length: 0\r\n\r\n", 0, "", "header is longer than 64 KiB"},
		{"header without end", strings.Repeat("x", 1<<20), 0, "", "not HTTP/1.1"},
		{"garbage", "SSH-2.0-OpenSSH_9.9 Bearer user_secret\r\n", 0, "", "not HTTP/1.1"},
		{"binary", "\x15\x03\x01\x00\x02\x02\x50\r\n\r\n", 0, "", "not HTTP/1.1"},
		{"cut header", "HTTP/1.1 200 OK\r\nContent-Le", 0, "", "closed the connection"},
		{"nothing", "", 0, "", "closed the connection"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := serve(t, func(p *peer) {
				if p.request() {
					p.send("%s", row.answer)
				}
			})
			r, err := transport(t, g.url, 0).Open(t.Context(), get(), &watch{})
			if row.status == 0 {
				e := wantError(t, err, pipeline.CodeUpstream, row.err)
				if strings.Contains(e.Error(), "user_secret") || len(e.Error()) > 200 {
					t.Errorf("the answer shows in %q", e.Error())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close(false)
			b, err := io.ReadAll(r.Body)
			if r.Status != row.status || string(b) != row.body {
				t.Errorf("%d %q", r.Status, b)
			}
			if (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
				t.Errorf("error %v, want %q", err, row.err)
			}
		})
	}
}

func TestReplyHeader(t *testing.T) {
	g := serve(t, func(p *peer) {
		if p.request() {
			p.plain("ok", "Retry-After: 7", "Content-Encoding: ")
			p.wait()
		}
	})
	r, err := transport(t, g.url, 0).Open(t.Context(), get(), &watch{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(false)
	if got := r.Header("retry-after"); got != "7" {
		t.Errorf("%q", got)
	}
}

func TestNobodyListens(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	ln.Close()
	_, err = transport(t, url, 0).Open(t.Context(), get(), &watch{})
	if e := wantError(t, err, pipeline.CodeUpstream, "connect to the upstream"); !e.Retry || e.Origin != pipeline.OriginUpstream {
		t.Errorf("%+v", e)
	}
	_, err = transport(t, "http://name.invalid", 0).Open(t.Context(), get(), &watch{})
	wantError(t, err, pipeline.CodeUpstream, "connect to the upstream")
}

// TestReset: a reset in place of headers and in the middle of a line.
func TestReset(t *testing.T) {
	for _, sent := range []string{"", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nlin"} {
		g := serve(t, func(p *peer) {
			if p.request() {
				p.send("%s", sent)
				_ = p.Conn.(*net.TCPConn).SetLinger(0)
			}
		})
		o := stream(t.Context(), transport(t, g.url, 0), get(), &texts{}, nil)
		if o.finished || len(o.lines) != 0 || o.err == nil {
			t.Errorf("%q: %+v", sent, o)
		}
		if e := wantError(t, o.err, pipeline.CodeUpstream, ""); !e.Retry {
			t.Errorf("%q: %+v", sent, e)
		}
	}
}

// TestCauseComesFirst: what ended the context is what the user hears, whatever the socket made of it.
func TestCauseComesFirst(t *testing.T) {
	cause := errors.New("the cause")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	g := serve(t, func(p *peer) { p.wait() })
	_, err := transport(t, g.url, 0).Open(ctx, get(), &watch{})
	if e := wantError(t, err, pipeline.CodeAborted, "cancelled"); !errors.Is(e, cause) || e.Retry {
		t.Errorf("%+v", e)
	}
}
