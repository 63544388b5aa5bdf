package upstream

import (
	"bufio"
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// throughProxy is a transport to base whose proxy is at the address of p, whatever the environment says: that is read once a
// process, and spares loopback addresses.
func throughProxy(t *testing.T, base, ca string, p *proxy) *Transport {
	t.Helper()
	tr, err := NewTransport(TransportConfig{BaseURL: base, CAFile: ca, Tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Close)
	tr.proxy = p
	tr.path = p.prefix + tr.path
	return tr
}

func fetchText(t *testing.T, ctx context.Context, tr *Transport) (text string, err error) {
	t.Helper()
	out := NewEmitter(func(ev *pipeline.Event, e error) bool {
		if e != nil {
			err = e
		} else if ev.Kind == pipeline.Text {
			text += string(ev.Text)
		}
		return true
	})
	tr.Stream(ctx, &Call{Method: "GET", Path: "/x"}, codec.LineOptions{MaxBytes: 1 << 20}, func() Decoder { return new(words) }, out, func(r *Reply) error {
		e, _ := Refusal(r, nil)
		return e
	})
	return text, err
}

// TestTunnel: TLS goes through the proxy untouched, and is checked against the certificates that are trusted.
func TestTunnel(t *testing.T) {
	gateway := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "secure\n.\n") }))
	defer gateway.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: gateway.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	var asked, status atomic.Value
	status.Store("200 OK")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			req, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				c.Close()
				continue
			}
			asked.Store(req.Method + " " + req.RequestURI + " " + req.Header.Get("Proxy-Authorization") + req.UserAgent())
			_, _ = io.WriteString(c, "HTTP/1.1 "+status.Load().(string)+"\r\n\r\n")
			up, err := net.Dial("tcp", req.RequestURI)
			if err != nil {
				c.Close()
				continue
			}
			go func() { _, _ = io.Copy(up, c); up.Close() }()
			go func() { _, _ = io.Copy(c, up); c.Close() }()
		}
	}()
	at := strings.TrimPrefix(gateway.URL, "https://")
	p := &proxy{addr: ln.Addr().String(), auth: "Basic dTpw", tunnel: at}
	text, err := fetchText(t, t.Context(), throughProxy(t, gateway.URL, ca, p))
	if err != nil || text != "secure" {
		t.Errorf("got %q, %v", text, err)
	}
	if got, want := asked.Load(), "CONNECT "+at+" Basic dTpw"; got != want {
		t.Errorf("the proxy was asked %q, want %q", got, want)
	}
	if _, err := fetchText(t, t.Context(), throughProxy(t, gateway.URL, "", p)); err == nil || !strings.Contains(err.Error(), "unknown authority (certificates of your own are trusted if ca_file names them)") {
		t.Errorf("an unknown certificate: %v", err)
	}
	for s, says := range map[string]string{"407 No": "user and a password", "403 No": "status 403"} {
		status.Store(s)
		if _, err := fetchText(t, t.Context(), throughProxy(t, gateway.URL, ca, p)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// TestPlainProxy: without TLS the proxy gets the whole URL.
func TestPlainProxy(t *testing.T) {
	var got atomic.Value
	via := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.RequestURI + " " + r.Host + " " + r.Header.Get("Proxy-Authorization"))
		if r.Header.Get("Proxy-Authorization") == "" {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		_, _ = io.WriteString(w, "proxied\n.\n")
	}))
	defer via.Close()
	p := &proxy{addr: strings.TrimPrefix(via.URL, "http://"), auth: "Basic dTpw", prefix: "http://gateway.invalid"}
	text, err := fetchText(t, t.Context(), throughProxy(t, "http://gateway.invalid/base", "", p))
	if err != nil || text != "proxied" {
		t.Errorf("got %q, %v", text, err)
	}
	if want := "http://gateway.invalid/base/x gateway.invalid Basic dTpw"; got.Load() != want {
		t.Errorf("the proxy was asked for %q, want %q", got.Load(), want)
	}
	p.auth = ""
	if _, err := fetchText(t, t.Context(), throughProxy(t, "http://gateway.invalid", "", p)); err == nil || !strings.Contains(err.Error(), "user and a password") {
		t.Errorf("without who asks: %v", err)
	}
}

func TestProxyFor(t *testing.T) {
	for _, row := range []struct{ env, base, want string }{
		{"", "https://gateway.example", "none"},
		{"http://proxy.example:3128", "https://gateway.example", "proxy.example:3128 tunnel=gateway.example:443"},
		{"http://proxy.example", "http://gateway.example:8080", "proxy.example:80 prefix=http://gateway.example:8080"},
		{"http://u:p@proxy.example:1", "https://gateway.example", "proxy.example:1 tunnel=gateway.example:443 Basic dTpw"},
		{"http://proxy.example:3128", "http://127.0.0.1:1", "none"},
		{"https://u:p@proxy.example", "https://gateway.example", "proxy.example:443 tunnel=gateway.example:443 Basic dTpw TLS"},
		{"https://proxy.example:8443", "http://gateway.example", "proxy.example:8443 prefix=http://gateway.example TLS"},
		{"socks5://proxy.example", "https://gateway.example", "proxy.example:1080 tunnel=gateway.example:443 SOCKS"},
		{"socks5h://u:p@[2001:db8::1]:9", "http://gateway.example:8080", "[2001:db8::1]:9 tunnel=gateway.example:8080 SOCKS u p"},
		{"socks5://proxy.example:1080", "http://127.0.0.1:1", "none"},
		{"socks4://u:geheim@proxy.example", "https://gateway.example", "error: proxy of the environment: socks4://u:xxxxx@proxy.example is not supported: " +
			"name one with http://, https://, socks5:// or socks5h://"},
		{"http://u:geheim@proxy.example:port", "https://gateway.example", "error: proxy of the environment: a URL such as http://host:port is needed"},
	} {
		for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"} {
			t.Setenv(name, row.env)
		}
		u, err := url.Parse(row.base)
		if err != nil {
			t.Fatal(err)
		}
		addr := u.Host
		if u.Port() == "" {
			addr += ":443"
		}
		got := "none"
		switch p, err := proxyFor(u, addr, ""); {
		case err != nil:
			got = "error: " + err.Error()
		case p != nil:
			got = p.addr
			if p.tunnel != "" {
				got += " tunnel=" + p.tunnel
			}
			if p.prefix != "" {
				got += " prefix=" + p.prefix
			}
			if p.auth != "" {
				got += " " + p.auth
			}
			if p.tls != nil {
				got += " TLS"
			}
			if p.socks {
				got += " SOCKS"
			}
			if p.identity != nil {
				got += " " + p.identity.User + " " + p.identity.Password
			}
		}
		if got != row.want {
			t.Errorf("%s to %s: got %s, want %s", row.env, row.base, got, row.want)
		}
	}
}

func TestCAFile(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{empty, filepath.Join(t.TempDir(), "none.pem")} {
		if _, err := NewTransport(TransportConfig{BaseURL: "https://gateway.example", CAFile: file}); err == nil || !strings.Contains(err.Error(), "CA file") {
			t.Errorf("%s: %v", file, err)
		}
	}
}
