package upstream

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"amplifier-agent/pipeline"
)

// proxyWorld is a gateway by an invented name, which only the proxy of the environment can resolve.
type proxyWorld struct {
	*gateway        // the proxy
	to       string // address of the gateway
	base     string // its URL, by name
	caFile   string

	mu    sync.Mutex
	asked []string // of the proxy
}

// newProxyWorld has scheme://user@ of the proxy in the environment. pass is the proxy's part up to the tunnel; it returns false to
// end there.
func newProxyWorld(t *testing.T, scheme string, secure bool, pass func(w *proxyWorld, p *peer) bool) *proxyWorld {
	t.Helper()
	gw := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host+" says hello\n.\n")
	}))
	w := &proxyWorld{caFile: filepath.Join(t.TempDir(), "ca.pem"), to: gw.Listener.Addr().String(), base: "http://gateway.invalid"}
	gw.StartTLS() // for its certificate, which is one for example.com and 127.0.0.1
	t.Cleanup(gw.Close)
	if err := os.WriteFile(w.caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: gw.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if secure {
		w.base = "https://example.com"
	} else {
		plain := httptest.NewServer(gw.Config.Handler)
		t.Cleanup(plain.Close)
		w.to = plain.Listener.Addr().String()
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if strings.HasPrefix(scheme, "https") {
		ln = tls.NewListener(ln, &tls.Config{Certificates: gw.TLS.Certificates})
	}
	w.gateway = serveOn(t, ln, "", func(p *peer) {
		if !pass(w, p) {
			return
		}
		up, err := net.Dial("tcp", w.to)
		if err != nil {
			return
		}
		defer up.Close()
		go func() {
			_, _ = io.Copy(p, up)
			p.Close()
		}()
		_, _ = io.Copy(up, p.r)
	})
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"} {
		t.Setenv(name, scheme+addr)
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		t.Setenv(name, "")
	}
	return w
}

func (w *proxyWorld) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, what)
}

func (w *proxyWorld) transport(t *testing.T) *Transport {
	t.Helper()
	tr, err := NewTransport(TransportConfig{BaseURL: w.base, CAFile: w.caFile, Tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	return tr
}

// overHTTP lets CONNECT through, and passes other requests on as they are.
func overHTTP(w *proxyWorld, p *peer) bool {
	if strings.HasPrefix(w.base, "http:") {
		b, err := p.r.Peek(len("GET http://gateway.invalid/ "))
		w.note(string(b))
		return err == nil
	}
	if !p.request() {
		return false
	}
	w.note(p.last.Method + " " + p.last.RequestURI + " " + p.last.Header.Get("Proxy-Authorization"))
	p.send("HTTP/1.1 200 OK\r\n\r\n")
	return true
}

// overSOCKS lets everything through, and asks for a user if the client offers to name one.
func overSOCKS(w *proxyWorld, p *peer) bool {
	b := make([]byte, 512)
	get := func(n int) []byte {
		if _, err := io.ReadFull(p.r, b[:n]); err != nil {
			return make([]byte, n)
		}
		return b[:n]
	}
	if get(2)[0] != 5 {
		return false
	}
	methods := string(get(int(b[1])))
	if strings.ContainsRune(methods, 2) {
		p.send("\x05\x02")
		user := string(get(int(get(2)[1])))
		password := string(get(int(get(1)[0])))
		w.note("user " + user + ":" + password)
		p.send("\x01\x00")
	} else {
		p.send("\x05\x00")
	}
	if h := get(4); h[1] != 1 || h[3] != 3 { // CONNECT, a name
		w.note(fmt.Sprintf("header %v", h))
		return false
	}
	host := string(get(int(get(1)[0])))
	port := get(2)
	w.note(fmt.Sprintf("%s:%d", host, int(port[0])<<8|int(port[1])))
	p.send("\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
	return true
}

// TestProxies: each kind of proxy, to gateways with TLS and without. The proxy resolves the name, and is asked once for exchanges
// that follow each other.
func TestProxies(t *testing.T) {
	for _, row := range []struct {
		scheme string
		secure bool
		pass   func(*proxyWorld, *peer) bool
		asked  []string
	}{
		{"http://", false, overHTTP, []string{"GET http://gateway.invalid/ "}},
		{"http://u:p@", true, overHTTP, []string{"CONNECT example.com:443 Basic dTpw"}},
		{"https://", false, overHTTP, []string{"GET http://gateway.invalid/ "}},
		{"https://u:p@", true, overHTTP, []string{"CONNECT example.com:443 Basic dTpw"}},
		{"socks5://", false, overSOCKS, []string{"gateway.invalid:80"}},
		{"socks5://u:p@", true, overSOCKS, []string{"user u:p", "example.com:443"}},
		{"socks5h://u@", false, overSOCKS, []string{"user u:", "gateway.invalid:80"}},
		{"socks5h://", true, overSOCKS, []string{"example.com:443"}},
	} {
		t.Run(strings.TrimRight(row.scheme, ":/")+" "+fmt.Sprint(row.secure), func(t *testing.T) {
			w := newProxyWorld(t, row.scheme, row.secure, row.pass)
			tr := w.transport(t)
			for range 3 {
				if got, want := exchange(t, tr, get()), tr.Host()+" says hello\n.\n"; got != want {
					t.Errorf("%q, want %q", got, want)
				}
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if fmt.Sprint(w.asked) != fmt.Sprint(row.asked) {
				t.Errorf("the proxy was asked %q, want %q", w.asked, row.asked)
			}
		})
	}
}

// TestProxyRefuses: what the user hears of a proxy that lets nothing through.
func TestProxyRefuses(t *testing.T) {
	says := func(answers ...string) func(*proxyWorld, *peer) bool {
		return func(_ *proxyWorld, p *peer) bool {
			for _, a := range answers {
				if _, err := p.r.ReadByte(); err != nil {
					return false
				}
				_, _ = p.r.Discard(p.r.Buffered()) // the rest of the same write
				p.send("%s", a)
			}
			p.wait()
			return false
		}
	}
	for _, row := range []struct {
		name, scheme string
		pass         func(*proxyWorld, *peer) bool
		want         string
	}{
		{"refused", "socks5://", says("\x05\x00", "\x05\x05\x00\x01\x00\x00\x00\x00\x00\x00"), "no connection to example.com:443 by SOCKS5: connection refused"},
		{"forbidden", "socks5h://", says("\x05\x00", "\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00"), "connection not allowed by ruleset"},
		{"wants a user", "socks5://", says("\x05\xff"), "it wants another user and password (socks5://user:password@host:port)"},
		{"wants another user", "socks5://u:geheim@", says("\x05\x02", "\x01\x01"), "it wants another user and password"},
		{"no SOCKS", "socks5://", says("HTTP/1.1 400 Bad Request\r\n\r\n"), "unexpected protocol version 72"},
		{"no TLS", "https://", nil, "it closed the connection"},
		{"407", "https://u:geheim@", says("HTTP/1.1 407 No\r\n\r\n"), "it wants a user and a password"},
		{"407 and half a page", "http://", says("HTTP/1.1 407 No\r\nContent-Length: 99\r\n\r\nhalf"), "it wants a user and a password"},
		{"403", "https://", says("HTTP/1.1 403 No\r\n\r\n"), "it refuses the connection to example.com:443: status 403"},
		{"gone", "socks5://", func(*proxyWorld, *peer) bool { return false }, "it closed the connection"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var w *proxyWorld
			if row.pass == nil { // a proxy without TLS where TLS is said
				w = newProxyWorld(t, "http://", true, overHTTP)
				for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
					t.Setenv(name, row.scheme+w.ln.Addr().String())
				}
			} else {
				w = newProxyWorld(t, row.scheme, true, row.pass)
			}
			_, err := w.transport(t).Open(t.Context(), get(), &watch{})
			if err == nil || !strings.Contains(err.Error(), "proxy: ") || !strings.Contains(err.Error(), row.want) {
				t.Errorf("error %v, want %q", err, row.want)
			}
			if err != nil && strings.Contains(err.Error(), "geheim") {
				t.Errorf("the error shows a password: %v", err)
			}
		})
	}
}

// TestProxyIsLeft at once when the exchange is cancelled, whatever the proxy was waited for.
func TestProxyIsLeft(t *testing.T) {
	for _, scheme := range []string{"http://", "https://", "socks5://", "silent TLS"} {
		t.Run(scheme, func(t *testing.T) {
			there := make(chan bool)
			hang := func(_ *proxyWorld, p *peer) bool {
				if _, err := p.r.ReadByte(); err == nil { // of the request for the tunnel
					close(there)
				}
				p.wait()
				return false
			}
			listens := scheme
			if scheme == "silent TLS" {
				listens = "http://"
			}
			w := newProxyWorld(t, listens, true, hang)
			if scheme == "silent TLS" {
				t.Setenv("HTTPS_PROXY", "https://"+w.ln.Addr().String())
				t.Setenv("https_proxy", "https://"+w.ln.Addr().String())
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-there
				cancel(errors.New("enough"))
			}()
			_, err := w.transport(t).Open(ctx, get(), &watch{})
			wantError(t, err, pipeline.CodeAborted, "enough")
		})
	}
}

// TestSilenceBehindProxies is heard of, however many layers lie between: a tick must break none.
func TestSilenceBehindProxies(t *testing.T) {
	for scheme, pass := range map[string]func(*proxyWorld, *peer) bool{"https://": overHTTP, "socks5://": overSOCKS} {
		t.Run(scheme, func(t *testing.T) {
			w := newProxyWorld(t, scheme, true, pass)
			heard := make(chan bool)
			slow := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				<-heard
				_, _ = io.WriteString(w, "one\n")
				_ = http.NewResponseController(w).Flush()
				<-heard
				_, _ = io.WriteString(w, "finish\n")
			}))
			slow.StartTLS()
			defer slow.Close()
			w.to = slow.Listener.Addr().String()
			call := get()
			call.Silence = time.Millisecond
			told := 0
			o := stream(t.Context(), w.transport(t), call, &texts{}, func(ev *pipeline.Event) bool {
				ev.Wake = min(ev.Wake, 20*time.Millisecond)
				if ev.Kind == pipeline.Idle && told < 2 {
					select {
					case heard <- true:
						told++
					default: // the gateway is not there yet
					}
				}
				return true
			})
			if o.err != nil || !o.finished || len(o.lines) != 1 || told != 2 {
				t.Errorf("%+v, told %d times", o, told)
			}
		})
	}
}
