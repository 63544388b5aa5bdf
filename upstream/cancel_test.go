package upstream

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"amplifier-agent/pipeline"
)

// phase is a moment at which an exchange waits.
type phase struct {
	name   string
	scheme string
	serve  func(p *peer) // up to the moment; nil for a dial that hangs
	big    bool          // the request is larger than what sockets buffer
	lines  int           // that have come by then
	whole  bool          // the round is complete by then
}

// pipes reports whether the phase can be reached over a pipe, which needs no connecting.
func (ph phase) pipes() bool { return ph.serve != nil && ph.scheme == "http" && !ph.big }

var phases = []phase{
	{name: "dial", scheme: "http"},
	{name: "handshake", scheme: "https", serve: func(*peer) {}},
	{name: "send", scheme: "http", big: true, serve: func(*peer) {}},
	{name: "headers", scheme: "http", serve: func(p *peer) { p.request() }},
	{name: "half a header", scheme: "http", serve: func(p *peer) { p.request(); p.send("HTTP/1.1 200 OK\r\nX-") }},
	{name: "first byte", scheme: "http", serve: func(p *peer) { p.request(); p.begin() }},
	{name: "first byte of gzip", scheme: "http", serve: func(p *peer) { p.request(); p.begin("Content-Encoding: gzip") }},
	{name: "between chunks", scheme: "http", lines: 2, serve: func(p *peer) { p.request(); p.begin(); p.chunk("one\ntwo\nthr") }},
	{name: "in a chunk", scheme: "http", lines: 1, serve: func(p *peer) { p.request(); p.begin(); p.send("ff\r\none\ntw") }},
	{name: "in the end of a chunk", scheme: "http", lines: 1, serve: func(p *peer) { p.request(); p.begin(); p.send("4\r\none\n\r") }},
	{name: "in the size of a chunk", scheme: "http", lines: 1, serve: func(p *peer) { p.request(); p.begin(); p.chunk("one\n"); p.send("1") }},
	{name: "in the trailer", scheme: "http", lines: 1, serve: func(p *peer) { p.request(); p.begin(); p.chunk("one\n"); p.send("0\r\n") }},
	{name: "tail", scheme: "http", lines: 1, whole: true, serve: func(p *peer) { p.request(); p.begin(); p.chunk("one\nfinish\n") }},
}

// run brings an exchange to the phase, then calls stop until the exchange has ended. It checks that it ends soon, that the
// gateway sees the close soon, and that nothing was yielded behind the end.
func (ph phase) run(t *testing.T, ctx context.Context, call *Call, on func(*pipeline.Event) bool, stop func()) outcome {
	t.Helper()
	reached, stopped, gone := make(chan bool, 1), make(chan bool), make(chan time.Time, 1)
	url := ""
	if ph.serve == nil {
		url = "http://" + fullBacklog(t)
		reached <- true
		gone <- time.Time{}
	} else {
		g := serve(t, func(p *peer) {
			ph.serve(p)
			reached <- true
			if ph.big {
				<-stopped // what is under way already hides the close until it is read
			}
			p.wait()
			gone <- time.Now()
		})
		url = ph.scheme + strings.TrimPrefix(g.url, "http")
	}
	tr := transport(t, url, 0)
	if ph.big {
		call.Method, call.Body = "POST", make([]byte, 32<<20)
	}
	d := &texts{tail: never}
	var lines atomic.Int64
	result := make(chan outcome, 1)
	go func() {
		result <- stream(ctx, tr, call, d, func(ev *pipeline.Event) bool {
			if ev.Kind == pipeline.Text {
				lines.Add(1)
			}
			return on == nil || on(ev)
		})
	}()
	<-reached
	until(t, "the lines before the phase", never, func() bool { return int(lines.Load()) == ph.lines })
	time.Sleep(20 * time.Millisecond) // so that it waits, as a rule
	start := time.Now()
	stop()
	close(stopped)
	var o outcome
	select {
	case o = <-result:
	case <-time.After(never):
		t.Fatal("the exchange goes on")
	}
	if d := time.Since(start); d > soon {
		t.Errorf("returned after %s", d)
	}
	select {
	case at := <-gone:
		if d := at.Sub(start); d > soon {
			t.Errorf("the gateway saw the close after %s", d)
		}
	case <-time.After(never):
		t.Fatal("the gateway never saw the close")
	}
	if o.after != 0 {
		t.Errorf("%d items behind the end", o.after)
	}
	if n := len(o.lines); n != ph.lines {
		t.Errorf("lines %q", o.lines)
	}
	return o
}

func TestCancel(t *testing.T) {
	for _, ph := range phases {
		t.Run(ph.name, func(t *testing.T) {
			cause := errors.New("the cause")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			o := ph.run(t, ctx, get(), nil, func() { cancel(cause) })
			if ph.whole { // nothing is lost: the round had ended
				if o.err != nil || !o.finished {
					t.Errorf("%+v", o)
				}
				return
			}
			if e := wantError(t, o.err, pipeline.CodeAborted, "the turn was cancelled"); !errors.Is(e, cause) || e.Retry || o.finished {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestCancelAtOnce: the end of the context is not heard of at the next tick, but when it comes, at both ends.
func TestCancelAtOnce(t *testing.T) {
	for _, ph := range phases {
		if !ph.pipes() {
			continue
		}
		t.Run(ph.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gone := make(chan time.Time, 1)
				tr := piped(t, 0, func(p *peer) { ph.serve(p); p.wait(); gone <- time.Now() })
				ctx, cancel := context.WithCancel(t.Context())
				var cancelled time.Time
				go func() {
					synctest.Wait()
					time.Sleep(time.Millisecond)
					cancelled = time.Now()
					cancel()
				}()
				o := stream(ctx, tr, get(), &texts{tail: never}, nil)
				if now := time.Now(); !now.Equal(cancelled) || ctx.Err() == nil {
					t.Errorf("it ends %s behind the cancel", now.Sub(cancelled))
				}
				if at := <-gone; !at.Equal(cancelled) {
					t.Errorf("the gateway sees it %s behind the cancel", at.Sub(cancelled))
				}
				if o.finished != ph.whole || (o.err == nil) != ph.whole || len(o.lines) != ph.lines {
					t.Errorf("%+v", o)
				}
			})
		})
	}
}

// TestConnectIsLeft when it is cancelled or the consumer stops, not when its own limit comes. A busy machine has three tries.
func TestConnectIsLeft(t *testing.T) {
	g := serve(t, func(p *peer) { p.wait() })
	urls := map[string]string{"handshake": "https" + strings.TrimPrefix(g.url, "http"), "dial": "http://" + fullBacklog(t)}
	for name, url := range urls {
		for _, how := range []string{"cancelled", "stopped"} {
			t.Run(name+" "+how, func(t *testing.T) {
				tr := transport(t, url, 0)
				for range 3 {
					ctx, cancel := context.WithCancel(t.Context())
					call := get()
					call.Silence = 10 * time.Millisecond
					start := time.Now()
					_, err := tr.Open(ctx, call, &watch{onSilent: func(*time.Duration) bool {
						if how == "cancelled" {
							cancel()
						}
						return how == "cancelled"
					}})
					d := time.Since(start)
					cancel()
					if err == nil {
						t.Fatal("it connects")
					}
					if d < connectTimeout {
						return
					}
				}
				t.Errorf("it goes on for %s", connectTimeout)
			})
		}
	}
}

// TestConsumerStops says no at the first silence behind the phase: a false yield ends the exchange.
func TestConsumerStops(t *testing.T) {
	for _, ph := range phases {
		if ph.whole {
			continue // the limit of the tail is shorter than a tick
		}
		t.Run(ph.name, func(t *testing.T) {
			var stop atomic.Bool
			call := get()
			call.Silence = 10 * time.Millisecond
			o := ph.run(t, t.Context(), call, func(ev *pipeline.Event) bool {
				if ev.Kind == pipeline.Idle {
					ev.Wake = 10 * time.Millisecond
					return !stop.Load()
				}
				return true
			}, func() { stop.Store(true) })
			if o.err != nil || o.finished {
				t.Errorf("%+v", o)
			}
		})
	}
}

// TestConsumerStopsAtRead says no where the source is about to read.
func TestConsumerStopsAtRead(t *testing.T) {
	for _, stopAt := range []int{1, 2, 3} {
		gone := make(chan bool, 1)
		read := make(chan bool, 8) // what is sent behind a Flush is not read before it
		g := serve(t, func(p *peer) {
			defer func() { gone <- true }()
			if !p.request() {
				return
			}
			<-read
			p.begin()
			p.chunk("one\n")
			<-read
			p.chunk("two\n")
			p.wait()
		})
		flushes := 0
		o := stream(t.Context(), transport(t, g.url, 0), get(), &texts{}, func(ev *pipeline.Event) bool {
			if ev.Kind == pipeline.Flush {
				flushes++
				read <- true
			}
			return flushes < stopAt
		})
		close(read)
		if o.err != nil || o.finished || o.after != 0 || flushes != stopAt {
			t.Errorf("at %d: %+v", stopAt, o)
		}
		select {
		case <-gone:
		case <-time.After(soon):
			t.Errorf("at %d: the gateway did not see the close", stopAt)
		}
	}
}

// TestConsumerStopsAtLine says no to an event while more lines are buffered.
func TestConsumerStopsAtLine(t *testing.T) {
	g := serve(t, func(p *peer) {
		if p.request() {
			p.begin()
			p.chunk("one\ntwo\nthree\nfinish\n")
			p.end()
			p.wait()
		}
	})
	o := stream(t.Context(), transport(t, g.url, 0), get(), &texts{}, func(ev *pipeline.Event) bool { return string(ev.Text) != "two" })
	if len(o.lines) != 2 || o.after != 0 || o.finished || o.err != nil {
		t.Errorf("%+v", o)
	}
}

// TestTail: once the round is complete the body is read for as long as the decoder says, and no longer.
func TestTail(t *testing.T) {
	for name, last := range map[string]func(p *peer){
		"silence":     func(p *peer) { p.wait() },
		"close":       func(*peer) {},
		"clean end":   func(p *peer) { p.end(); p.wait() },
		"endless":     func(p *peer) { trickle(p) },
		"half a line": func(p *peer) { p.chunk("lin"); p.wait() },
		"reset":       func(p *peer) { _ = p.Conn.(*net.TCPConn).SetLinger(0) },
	} {
		t.Run(name, func(t *testing.T) {
			answer := func(p *peer) {
				if p.request() {
					p.begin()
					p.chunk("one\nfinish\n")
					last(p)
				}
			}
			waits := name == "silence" || name == "endless" || name == "half a line"
			tail := time.Hour
			if waits {
				tail = 200 * time.Millisecond
			}
			read := func(t *testing.T, tr *Transport) time.Duration {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), never)
				defer cancel()
				start := time.Now()
				o := stream(ctx, tr, get(), &texts{tail: tail}, nil)
				d := time.Since(start)
				if o.err != nil || !o.finished || o.lines[0] != "one" || o.after != 0 || ctx.Err() != nil {
					t.Errorf("%+v behind %s", o, d)
				}
				return d
			}
			if d := read(t, transport(t, serve(t, answer).url, 0)); waits && d < tail {
				t.Errorf("took %s", d)
			}
			if name == "reset" {
				return // pipes have none
			}
			synctest.Test(t, func(t *testing.T) {
				if d := read(t, piped(t, 0, answer)); waits && d != tail || !waits && d != 0 {
					t.Errorf("took exactly %s", d)
				}
			})
		})
	}
}

// trickle sends a line every few milliseconds until the client has gone.
func trickle(p *peer) {
	for {
		if _, err := io.WriteString(p, "2\r\nx\n\r\n"); err != nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// certificate is one for 127.0.0.1 that is its own authority.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func serveTLS(t *testing.T, f func(p *peer)) (*gateway, *Transport) {
	t.Helper()
	cert, pool := certificate(t)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	g := serveOn(t, ln, "https", f)
	tr := transport(t, g.url, 0)
	tr.tls.RootCAs = pool
	return g, tr
}

// TestTLS: silence must not break what lies between the socket and the reader.
func TestTLS(t *testing.T) {
	ticks := make(chan bool) // one counts while the gateway waits for it
	g, tr := serveTLS(t, func(p *peer) {
		silent := func(n int) {
			for range n {
				select {
				case <-ticks:
				case <-time.After(never):
					t.Error("the watcher hears of no silence")
				}
			}
		}
		for p.request() {
			silent(4)
			p.begin()
			p.chunk("one\n")
			silent(2)
			p.chunk("two\nfinish\n")
			p.end()
		}
	})
	for range 2 {
		call := get()
		call.Silence = 100 * time.Millisecond // the handshake is over by then
		call.Body, call.Method = []byte(strings.Repeat("x", 200<<10)), "POST"
		o := stream(t.Context(), tr, call, &texts{}, func(ev *pipeline.Event) bool {
			if ev.Kind == pipeline.Idle {
				ev.Wake = 5 * time.Millisecond
				select {
				case ticks <- true:
				default:
				}
			}
			return true
		})
		if o.err != nil || !o.finished || len(o.lines) != 2 {
			t.Errorf("%+v", o)
		}
	}
	if n := g.conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestTLSCutWithoutNotice(t *testing.T) {
	_, tr := serveTLS(t, func(p *peer) {
		if p.request() {
			p.send("HTTP/1.1 200 OK\r\n\r\none\nfin") // ends with the connection
			p.Conn.(*tls.Conn).NetConn().Close()
		}
	})
	o := stream(t.Context(), tr, get(), &texts{}, nil)
	if !errors.Is(o.err, errNotFinished) {
		t.Errorf("a cut body passed for a whole one: %+v", o)
	}
}

func TestTLSUnknownAuthority(t *testing.T) {
	g, _ := serveTLS(t, func(p *peer) { p.request() })
	_, err := transport(t, g.url, 0).Open(t.Context(), get(), &watch{})
	wantError(t, err, pipeline.CodeUpstream, "certificate")
	if g.requests.Load() != 0 {
		t.Error("a request went out")
	}
}

func TestTLSToPlainServer(t *testing.T) {
	g := serve(t, func(p *peer) { p.send("HTTP/1.1 400 Bad Request\r\n\r\n"); p.wait() })
	_, err := transport(t, "https"+strings.TrimPrefix(g.url, "http"), 0).Open(t.Context(), get(), &watch{})
	wantError(t, err, pipeline.CodeUpstream, "connect to the upstream")
}

// TestConnectTimeout: neither a dial nor a handshake that hangs goes on behind connectTimeout, and both say why.
func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	g := serve(t, func(p *peer) { p.wait() })
	for name, url := range map[string]string{"handshake": "https" + strings.TrimPrefix(g.url, "http"), "dial": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if url == "" {
				url = "http://" + fullBacklog(t)
			}
			start := time.Now()
			w := &watch{}
			_, err := transport(t, url, 0).Open(t.Context(), get(), w)
			e := wantError(t, err, pipeline.CodeUpstream, "connect to the upstream")
			if d := time.Since(start); d < connectTimeout || d > connectTimeout+soon {
				t.Errorf("took %s", d)
			} else if w.silent == 0 || w.silent > int(d/tick) {
				t.Errorf("%d ticks in %s", w.silent, d)
			}
			if !e.Retry || !strings.Contains(e.Error(), "no connection within 4s") && !strings.Contains(e.Error(), "timeout") {
				t.Errorf("%+v: %s", e, e.Error())
			}
		})
	}
}
