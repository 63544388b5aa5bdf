package upstreamtest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	brotli "github.com/molecule-man/go-brrr"

	"amplifier-agent/pipeline"
)

// full is a script with something of everything.
func (s *suite) full() *Script {
	return &Script{
		Parts:  []Part{{Reasoning: "hm"}, {Text: "Grüße, "}, {Text: strings.Repeat("世界", 99)}, {Calls: []Call{{"call_1", "f", arguments[1]}}}},
		Usage:  Tokens{Input: 100, CacheRead: 40, Output: 30},
		Finish: pipeline.ReasonToolCalls,
	}
}

// testFramings: an answer means the same in whatever way its end is marked.
func (s *suite) testFramings(t *testing.T) {
	said, end := s.d.Write(s.full())
	pieces := append(said[:len(said):len(said)], end...)
	body := strings.Join(pieces, "")
	plain := s.play(t, body).String()
	for name, answer := range map[string]func(p *peer) bool{
		"chunked": func(p *peer) bool {
			p.begin()
			for _, piece := range pieces {
				p.chunk(piece)
			}
			return p.end()
		},
		"chunked, with extensions and a trailer": func(p *peer) bool {
			p.begin()
			for _, piece := range pieces {
				p.send("%X;name=\"value\"\r\n%s\r\n", len(piece), piece)
			}
			p.send("000\r\nX-Trailer: yes\r\n\r\n")
			return true
		},
		"until it closes": func(p *peer) bool {
			p.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%s", body)
			return false
		},
		"HTTP/1.0": func(p *peer) bool {
			p.send("HTTP/1.0 200 OK\r\n\r\n%s", body)
			return false
		},
		"behind interim answers": func(p *peer) bool {
			p.send("HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
			return p.plain(200, body)
		},
	} {
		up := serve(t, answer)
		if got := s.ask(t, s.make(t, up.url)).String(); got != plain {
			t.Errorf("%s:\n%s\nwant %s", name, got, plain)
		}
	}
}

// testEncodings: a body is decoded though nobody asked for it encoded.
func (s *suite) testEncodings(t *testing.T) {
	body := s.d.body(s.full())
	plain := s.play(t, body).String()
	for name, encode := range map[string]func(w io.Writer) (io.WriteCloser, error){
		"gzip":    func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"deflate": func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil },
		"zstd":    func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) },
		"br":      func(w io.Writer) (io.WriteCloser, error) { return brotli.NewWriter(w, 5) },
	} {
		var b bytes.Buffer
		w, err := encode(&b)
		if err == nil {
			_, err = io.WriteString(w, body)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, status := range []int{200, 400} {
			up := serve(t, func(p *peer) bool {
				if accepts := p.last.Header.Get("Accept-Encoding"); accepts != "identity" {
					t.Errorf("encodings were asked for: %q", accepts)
				}
				return p.plain(status, b.String(), "Content-Encoding: "+name)
			})
			o := s.ask(t, s.make(t, up.url))
			if got := o.String(); status == 200 && got != plain || status == 400 && (o.err == nil || o.err.Status != 400) {
				t.Errorf("%s, %d:\n%s\nwant %s", name, status, got, plain)
			}
		}
	}
}

// testReuse: rounds that end well one after the other share a connection.
func (s *suite) testReuse(t *testing.T) {
	hello := s.d.hello()
	up := serve(t, func(p *peer) bool {
		if p.n%2 == 0 {
			p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(hello), hello)
			return true
		}
		return p.plain(200, hello)
	})
	p := s.make(t, up.url)
	for range 4 {
		if o := s.ask(t, p); o.Text != "hello" {
			t.Error(o)
		}
	}
	if c, r := up.conns.Load(), up.requests.Load(); c != 1 || r != 4 {
		t.Errorf("%d connections for %d requests", c, r)
	}
}

// authority is a certificate authority of the test's own: the file that holds it, and what a server needs that it vouches for.
func authority(t *testing.T, hosts ...string) (file string, config *tls.Config) {
	t.Helper()
	sign := func(c, by *x509.Certificate, with *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if with == nil {
			by, with = c, key
		}
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, with)
		if err != nil {
			t.Fatal(err)
		}
		return der, key
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "upstreamtest"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	root, key := sign(ca, nil, nil)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: hosts, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, leafKey := sign(leaf, ca, key)
	file = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: leafKey}}}
}

// testTLS: certificates are checked, against those of one's own too.
func (s *suite) testTLS(t *testing.T) {
	file, config := authority(t)
	hello := s.d.hello()
	up := serveOn(t, config, func(p *peer) bool { return p.plain(200, hello) })
	trust := func(o *Options) { o.CAFile = file }
	if o := s.ask(t, s.make(t, up.url, trust)); o.Text != "hello" {
		t.Error(o)
	}
	want{code: pipeline.CodeUpstream, retry: true, says: "certificate"}.check(t, s.ask(t, s.make(t, up.url)))
	if _, err := s.provider(t, up.url, func(o *Options) { o.CAFile = file + ".none" }); err == nil {
		t.Error("a CA file that is not there was taken")
	}
	plain := serve(t, func(p *peer) bool { return p.plain(200, hello) })
	want{code: pipeline.CodeUpstream, retry: true, says: "connect to the upstream"}.check(t, s.ask(t, s.make(t, "https"+strings.TrimPrefix(plain.url, "http"), trust)))
}

// outside is a name that no resolver knows, so that only the proxy can lead there; anywhere is an address of this machine that does
// not count as one.
const (
	outside  = "upstream.invalid"
	anywhere = "0.0.0.0"
)

// testProxies: the proxy that the environment names is used, for whatever it does not except.
func (s *suite) testProxies(t *testing.T) {
	hello := s.d.hello()
	file, config := authority(t, outside)
	secure := serveOn(t, config, func(p *peer) bool { return p.plain(200, hello) })
	open := serve(t, func(p *peer) bool { return p.plain(200, hello) })
	var mu sync.Mutex
	var asked []string // of the proxy
	proxy := &server{}
	proxy.listen(t, nil, func(p *peer) {
		r, err := http.ReadRequest(p.r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		asked = append(asked, r.Method+" "+strings.SplitN(r.RequestURI, "/v1", 2)[0]+" "+r.Header.Get("Proxy-Authorization"))
		mu.Unlock()
		if r.Method != http.MethodConnect {
			p.plain(200, hello)
			return
		}
		to, err := net.Dial("tcp", secure.ln.Addr().String())
		if err != nil {
			return
		}
		defer to.Close()
		p.send("HTTP/1.1 200 Connected\r\n\r\n")
		go func() {
			_, _ = io.Copy(to, p.r)
			to.Close()
		}()
		_, _ = io.Copy(p, bufio.NewReader(to))
	})
	_, port, _ := net.SplitHostPort(open.ln.Addr().String())
	const auth = " Basic dTpw"
	for _, row := range []struct {
		name, base, except string
		asked              string
	}{
		{"a tunnel", "https://" + outside, "", "CONNECT " + outside + ":443" + auth},
		{"a plain proxy", "http://" + outside + ":81/v1", "", "POST http://" + outside + ":81" + auth},
		{"not loopback", "http://" + anywhere + ":" + port + "/v1", "", "POST http://" + anywhere + ":" + port + auth},
		{"excepted", "http://" + anywhere + ":" + port + "/v1", anywhere, ""},
		{"loopback", open.url + "/v1", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			via := "http://u:p@" + proxy.ln.Addr().String()
			for name, value := range map[string]string{"HTTPS_PROXY": via, "HTTP_PROXY": via, "NO_PROXY": row.except} {
				t.Setenv(name, value)
				t.Setenv(strings.ToLower(name), value)
			}
			asked = nil
			o := s.ask(t, s.make(t, row.base, func(o *Options) { o.CAFile = file }))
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(asked, ", "); o.Text != "hello" || got != row.asked {
				t.Errorf("%s; the proxy was asked %q, want %q", o, got, row.asked)
			}
		})
	}
}
