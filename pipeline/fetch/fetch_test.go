package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"amplifier-agent/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names is a resolver that knows what it is told, and answers a different address each time where it is told several.
func names(t *testing.T, known map[string][]string) *net.Resolver {
	t.Helper()
	var asked atomic.Int64
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe() // no datagrams: messages come with their length
		go func() {
			defer server.Close()
			var size [2]byte
			for {
				if _, err := io.ReadFull(server, size[:]); err != nil {
					return
				}
				query := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(server, query); err != nil {
					return
				}
				answer := reply(query, known, &asked)
				if _, err := server.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
					return
				}
			}
		}()
		return client, nil
	}}
}

// reply answers a DNS query for one name.
func reply(query []byte, known map[string][]string, asked *atomic.Int64) []byte {
	var name []string
	i := 12
	for query[i] != 0 {
		n := int(query[i])
		name = append(name, string(query[i+1:i+1+n]))
		i += 1 + n
	}
	question := query[12 : i+5]
	kind := binary.BigEndian.Uint16(query[i+1:])
	all, ok := known[strings.ToLower(strings.Join(name, "."))]
	if len(all) > 1 && kind == 1 {
		all = all[int(asked.Add(1)-1)%len(all):][:1]
	}
	var records []byte
	count := 0
	for _, s := range all {
		addr := netip.MustParseAddr(s)
		if addr.Is4() != (kind == 1) {
			continue
		}
		raw := addr.AsSlice()
		records = append(records, 0xc0, 12, byte(kind>>8), byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(raw)))
		records = append(records, raw...)
		count++
	}
	head := []byte{query[0], query[1], 0x85, 0x80, 0, 1, 0, byte(count), 0, 0, 0, 0}
	if !ok {
		head[3] |= 3 // no such name
	}
	return append(append(head, question...), records...)
}

// site is a server on loopback, which the client that comes with it may reach, and no other address.
func site(t *testing.T, o Options, h http.HandlerFunc) (*Client, *httptest.Server) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	o.Permit = func(a netip.AddrPort) bool { return a == at }
	return New(o), s
}

func message(t *testing.T, err error) string {
	t.Helper()
	e, ok := errors.AsType[*pipeline.Error](err)
	if !ok || e.Code != pipeline.CodeInvalidRequest || e.Origin != pipeline.OriginClient {
		t.Fatalf("error %#v", err)
	}
	return e.Error()
}

func TestGet(t *testing.T) {
	c, s := site(t, Options{UserAgent: "agent/1"}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a":
			http.Redirect(w, r, "/b?x=1#part", http.StatusFound)
		case "/b":
			if r.Header.Get("User-Agent") != "agent/1" || r.Header.Get("Referer") != "" || r.Header.Get("Authorization") != "" {
				t.Errorf("header %v", r.Header)
			}
			w.Header().Set("Content-Type", "Image/PNG; Charset=x")
			_, _ = w.Write([]byte("picture"))
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "text/plain")
			z := gzip.NewWriter(w)
			_, _ = z.Write([]byte("squeezed"))
			_ = z.Close()
		case "/untyped":
			w.Header()["Content-Type"] = nil
			_, _ = w.Write([]byte("\x89PNG\x0D\x0A\x1A\x0A"))
		}
	})
	for path, want := range map[string]Page{
		"/a":       {s.URL + "/b?x=1#part", "image/png; charset=x", []byte("picture")},
		"/gzip":    {s.URL + "/gzip", "text/plain", []byte("squeezed")},
		"/untyped": {s.URL + "/untyped", "image/png", []byte("\x89PNG\x0D\x0A\x1A\x0A")},
	} {
		p, err := c.Get(t.Context(), s.URL+path)
		if err != nil || p.URL != want.URL || p.MediaType != want.MediaType || !bytes.Equal(p.Body, want.Body) {
			t.Errorf("%s: %+v, error %v", path, p, err)
		}
	}
}

// TestRefusedURLs: what needs no connection to be refused, and that the refusal repeats no secret.
func TestRefusedURLs(t *testing.T) {
	c := New(Options{})
	for url, says := range map[string]string{
		"file:///etc/passwd": "only http and https", "ftp://example.com/x": "only http and https", "gopher://127.0.0.1:70/x": "only http and https",
		"data:text/plain,x": "only http and https", "//example.com/x": "only http and https", "/etc/passwd": "only http and https", "": "only http and https", "javascript:alert(1)": "only http and https",
		"http://user:geheim@example.com/": "user name or a password", "http://geheim@example.com/": "user name or a password", "http://@example.com/": "user name or a password",
		"http:///x": "not a URL", "http:example.com": "not a URL", "http://exa mple.com/": "not a URL", "http://[::1/": "not a URL", "http://example.com:geheim/": "not a URL", "http://a\x00b/": "not a URL", "http://%31%32%37.0.0.1/": "not a URL",
		"http://example.com:22/": "ports 80 and 443", "https://example.com:8443/?geheim": "ports 80 and 443", "http://example.com:0/": "ports 80 and 443", "http://example.com:65616/": "ports 80 and 443",
		"http://" + strings.Repeat("a", 10_000) + ":1/": "ports 80 and 443",
	} {
		_, err := c.Get(t.Context(), url)
		if s := message(t, err); !strings.Contains(s, says) || strings.Contains(s, "geheim") || len(s) > 300 {
			t.Errorf("%.60q: %s", url, s)
		}
	}
}

// TestRefusedAddresses: whatever way an address that is not public is spelled, and whatever name leads to it, nothing connects,
// and the answer is the same as for a name that does not exist (B098, T-SSRF).
func TestRefusedAddresses(t *testing.T) {
	var hits atomic.Int32
	_, s := site(t, Options{}, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	resolver := names(t, map[string][]string{
		"127.0.0.1.nip.io": {"127.0.0.1"}, "intern.example": {"10.0.0.7"}, "metadata.example": {"169.254.169.254"}, "six.example": {"::1"}, "ula.example": {"fd00::1"},
		"both.example": {"127.0.0.1", "::1"}, "mapped.example": {"::ffff:127.0.0.1"}, "nat.example": {"64:ff9b::7f00:1"}, "any.example": {"0.0.0.0"}, "carrier.example": {"100.100.100.200"},
		// What a system's resolver may make of numbers:
		"2130706433": {"127.0.0.1"}, "0x7f000001": {"127.0.0.1"}, "017700000001": {"127.0.0.1"}, "127.1": {"127.0.0.1"}, "0177.0.0.1": {"127.0.0.1"}, "0x7f.0.0.1": {"127.0.0.1"}, "127.0.1": {"127.0.0.1"},
		"localhost": {"127.0.0.1"},
	})
	c := New(Options{Resolver: resolver})
	c.ports = func(uint16) bool { return true } // the address alone is in the way
	missing := message(t, func() error { _, err := c.Get(t.Context(), "http://no.such.example/"); return err }())
	for _, host := range []string{
		"127.0.0.1", "127.8.8.8", "0.0.0.0", "0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "198.18.0.1", "192.0.2.1", "203.0.113.1", "224.0.0.1", "255.255.255.255",
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fd00:ec2::254]", "[fe80::1]", "[fe80::1%25lo]", "[::7f00:1]",
		"2130706433", "0x7f000001", "017700000001", "127.1", "0177.0.0.1", "0x7f.0.0.1", "127.0.1", "127.0.0.1.", "\u2460\u2461\u2466.0.0.1", "127\u30020\u30020\u30021",
		"localhost", "LOCALHOST.", "127.0.0.1.nip.io", "intern.example", "metadata.example", "six.example", "ula.example", "both.example", "mapped.example", "nat.example", "any.example", "carrier.example",
	} {
		for _, scheme := range []string{"http", "https"} {
			address := scheme + "://" + host + ":" + port + "/"
			_, err := c.Get(t.Context(), address)
			if err == nil {
				t.Errorf("%s is fetched", address)
				continue
			}
			u, _ := url.Parse(address)
			if got, want := message(t, err), strings.Replace(missing, `"no.such.example"`, fmt.Sprintf("%q", u.Host), 1); got != want {
				t.Errorf("%s: %s, want %s", address, got, want)
			}
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

// TestRedirects: each hop is checked as the first.
func TestRedirects(t *testing.T) {
	var inside atomic.Int32
	private := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside.Add(1) }))
	defer private.Close()
	var self string
	c, s := site(t, Options{MaxRedirects: 3}, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if n := q.Get("n"); n != "" && n != "0" {
			w.Header().Set("Location", fmt.Sprintf("%s/?n=%c", self, n[0]-1))
			w.WriteHeader(http.StatusFound)
		} else if to := q.Get("to"); to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	})
	self = s.URL
	for to, says := range map[string]string{
		private.URL: string(errAway), "http://localhost/": string(errAway), "//127.0.0.1/": string(errAway), "http://[::1]:80/": string(errAway),
		"file:///etc/passwd": string(errScheme), "http://user:geheim@example.com/": string(errUser), "gopher://x/": string(errScheme), "http://%zz/": string(errAway),
	} {
		_, err := c.Get(t.Context(), s.URL+"/?to="+url.QueryEscape(to))
		if got := message(t, err); !strings.Contains(got, says) || strings.Contains(got, "geheim") {
			t.Errorf("to %s: %s", to, got)
		}
	}
	if n := inside.Load(); n != 0 {
		t.Errorf("%d requests arrived inside", n)
	}
	if _, err := c.Get(t.Context(), s.URL+"/?n=3"); err != nil {
		t.Errorf("three redirects: %v", err)
	}
	if _, err := c.Get(t.Context(), s.URL+"/?n=4"); !strings.Contains(message(t, err), string(errRedirects)) {
		t.Errorf("four redirects: %v", err)
	}
	none := New(Options{MaxRedirects: -1, Permit: c.o.Permit})
	if _, err := none.Get(t.Context(), s.URL+"/?n=1"); !strings.Contains(message(t, err), string(errRedirects)) {
		t.Errorf("one redirect where there may be none: %v", err)
	}
}

// TestNoProxy: a proxy in the environment would look names up out of sight.
func TestNoProxy(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	if New(Options{}).http.Transport.(*http.Transport).Proxy != nil {
		t.Error("a proxy may be asked")
	}
}

// TestLimits: what is too much, in each way, is refused, and the host learns of it by a closed connection.
func TestLimits(t *testing.T) {
	const limit = 1000
	c, s := site(t, Options{MaxBytes: limit, Timeout: 30 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fits":
			_, _ = w.Write(make([]byte, limit))
		case "/announced":
			w.Header().Set("Content-Length", "1001")
			_, _ = w.Write(make([]byte, limit+1))
		case "/endless":
			for {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					return
				}
			}
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 1<<20))
			_ = z.Close()
		case "/coding":
			w.Header().Set("Content-Encoding", "br")
			_, _ = w.Write([]byte("x"))
		case "/broken":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("x"))
		case "/header":
			w.Header().Set("X", strings.Repeat("x", maxHeaderBytes))
		case "/missing":
			http.Error(w, "geheim", http.StatusNotFound)
		case "/error":
			http.Error(w, "geheim", http.StatusInternalServerError)
		}
	})
	if p, err := c.Get(t.Context(), s.URL+"/fits"); err != nil || len(p.Body) != limit {
		t.Errorf("what fits: error %v", err)
	}
	for path, says := range map[string]string{
		"/announced": "limit of 1000 bytes", "/endless": "limit of 1000 bytes", "/bomb": "limit of 1000 bytes", "/coding": "coding", "/broken": "breaks off",
		"/header": string(errAway), "/missing": "status 404", "/error": "status 500",
	} {
		_, err := c.Get(t.Context(), s.URL+path)
		if got := message(t, err); !strings.Contains(got, says) || strings.Contains(got, "geheim") {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// TestSlow: the time-out covers connection, header, body and all redirects; the end of the caller's context says why.
func TestSlow(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirects":
			time.Sleep(20 * time.Millisecond)
			http.Redirect(w, r, "/redirects", http.StatusFound)
		case "/body":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			<-r.Context().Done()
		}
	}
	c, s := site(t, Options{Timeout: 100 * time.Millisecond, MaxRedirects: 1 << 20}, handler)
	for _, path := range []string{"/header", "/body", "/redirects"} {
		if _, err := c.Get(t.Context(), s.URL+path); !strings.Contains(message(t, err), "within 100ms") {
			t.Errorf("%s: %v", path, err)
		}
	}
	c, s = site(t, Options{}, handler)
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(pipeline.ErrClientGone) })
	if _, err := c.Get(ctx, s.URL+"/body"); !errors.Is(err, pipeline.ErrClientGone) {
		t.Errorf("error %v", err)
	}
}
