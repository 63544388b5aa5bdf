package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"golang.org/x/net/http/httpproxy"
	socks "golang.org/x/net/proxy"
)

// maxProxyHeader is how long the header of a proxy's answer may be, in bytes.
const maxProxyHeader = 16 << 10

// proxyWants is what a proxy's status 407 means.
const proxyWants = "it wants a user and a password, which the proxy's variable takes: http://user:password@host:port"

// proxy is a way to the gateway through a proxy, as HTTPS_PROXY, HTTP_PROXY and NO_PROXY name it. Loopback addresses are always
// reached directly.
type proxy struct {
	addr   string      // host:port
	tls    *tls.Config // nil if it is not spoken to over TLS
	auth   string      // value of Proxy-Authorization, "" for none
	tunnel string      // host:port to ask for, "" if requests name the whole URL instead
	prefix string      // of request targets if there is no tunnel

	socks    bool        // the tunnel is asked for by SOCKS5
	identity *socks.Auth // there, nil for none
}

// proxyFor returns the proxy for the gateway at base, nil for none. Over TLS it is trusted as the gateway is.
func proxyFor(base *url.URL, addr, caFile string) (*proxy, error) {
	u, err := httpproxy.FromEnvironment().ProxyFunc()(base)
	if err == nil && u == nil {
		return nil, nil
	}
	if err != nil || strings.Trim(u.Path, "/") != "" { // a port that is none makes a path of all
		return nil, errors.New("proxy of the environment: a URL such as http://host:port is needed") // it may hold a password
	}
	port, ok := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	if !ok || u.Hostname() == "" {
		return nil, fmt.Errorf("proxy of the environment: %s is not supported: name one with http://, https://, socks5:// or socks5h://", u.Redacted())
	}
	if u.Port() != "" {
		port = u.Port()
	}
	p := &proxy{addr: net.JoinHostPort(u.Hostname(), port), socks: strings.HasPrefix(u.Scheme, "socks5")}
	password, _ := u.User.Password()
	switch {
	case u.User == nil:
	case p.socks:
		p.identity = &socks.Auth{User: u.User.Username(), Password: password}
	default:
		p.auth = basic(u.User.Username(), password)
	}
	if u.Scheme == "https" {
		if p.tls, err = clientTLS(u.Hostname(), caFile); err != nil {
			return nil, err
		}
	}
	if base.Scheme == "https" || p.socks {
		p.tunnel = addr
	} else {
		p.prefix = "http://" + base.Host
	}
	return p, nil
}

// basic is what tells who asks, by basic authentication.
func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// dialer connects to the gateway, or to the proxy on the way to it. What is for the gateway goes through the stream of the conn.
func (t *Transport) dialer(ctx context.Context) (*conn, error) {
	if t.proxy == nil {
		tcp, err := t.dial(ctx, "tcp", t.addr)
		if err != nil {
			return nil, err
		}
		return newConn(tcp), nil
	}
	tcp, err := t.dial(ctx, "tcp", t.proxy.addr)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	c := newConn(tcp)
	unbind := context.AfterFunc(ctx, func() { _ = tcp.Close() })
	err = t.proxy.pass(ctx, c)
	switch {
	case !unbind():
		err = context.Cause(ctx)
	case closed(err):
		err = errors.New("it closed the connection")
	}
	if err != nil {
		_ = tcp.Close()
		return nil, fmt.Errorf("proxy: %w", err)
	}
	return c, nil
}

// pass has the proxy at the other end of c let through what follows. Silence is still heard of below what is put around c.
func (p *proxy) pass(ctx context.Context, c *conn) error {
	if p.tls != nil {
		tc := tls.Client(c, p.tls)
		if err := tc.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
		c.stream = tc
	}
	switch {
	case p.socks:
		return p.greet(ctx, c.stream)
	case p.tunnel != "":
		return p.connect(c.stream)
	}
	return nil
}

// connect asks for the tunnel by CONNECT. Nothing of what comes through it is read: TLS has not begun.
func (p *proxy) connect(c net.Conn) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: p.tunnel}, Host: p.tunnel, Header: http.Header{}}
	req.Header.Set("User-Agent", "") // none: not that of a library
	if p.auth != "" {
		req.Header.Set("Proxy-Authorization", p.auth)
	}
	if err := req.Write(c); err != nil {
		return err
	}
	header := &bounded{c, maxProxyHeader}
	br := bufio.NewReaderSize(header, 1) // byte by byte, nearly: what follows is not ours to buffer
	resp, err := http.ReadResponse(br, req)
	if err != nil {
		return errors.New("its answer is not HTTP")
	}
	header.n = 0 // nothing waits for the end of a body, as its closing would
	_ = resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusProxyAuthRequired:
		return errors.New(proxyWants)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("it refuses the connection to %s: status %d", p.tunnel, resp.StatusCode)
	case br.Buffered() > 0:
		return errors.New("the gateway spoke before TLS began")
	}
	return nil
}

// greet asks for the tunnel by SOCKS5. The proxy resolves the gateway's name, by socks5:// too: here it may mean nothing.
func (p *proxy) greet(ctx context.Context, c net.Conn) error {
	d, err := socks.SOCKS5("tcp", p.addr, p.identity, dialled{c})
	if err != nil {
		return err
	}
	_, err = d.(socks.ContextDialer).DialContext(ctx, "tcp", p.tunnel)
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err // what it was doing is said already
	}
	if err == nil || closed(err) {
		return err
	}
	reason := strings.TrimPrefix(err.Error(), "unknown error ")
	if strings.Contains(reason, "authentication") {
		return fmt.Errorf("it wants another user and password (socks5://user:password@host:port): %s", reason)
	}
	return fmt.Errorf("no connection to %s by SOCKS5: %s", p.tunnel, reason)
}

// dialled is a dialer that returns the connection that is there.
type dialled struct{ net.Conn }

func (d dialled) Dial(string, string) (net.Conn, error) { return d.Conn, nil }

func (d dialled) DialContext(context.Context, string, string) (net.Conn, error) { return d.Conn, nil }

// bounded reads no more than n bytes.
type bounded struct {
	net.Conn
	n int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.n <= 0 {
		return 0, errors.New("header too long")
	}
	n, err := b.Conn.Read(p[:min(len(p), b.n)])
	b.n -= n
	return n, err
}

// roots are the certificates of the system and those in file.
func roots(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("CA file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("CA file %s: it holds no certificate in PEM form", file)
	}
	return pool, nil
}

// clientTLS is how TLS to host is spoken.
func clientTLS(host, caFile string) (*tls.Config, error) {
	c := &tls.Config{ServerName: host, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	if caFile != "" {
		var err error
		if c.RootCAs, err = roots(caFile); err != nil {
			return nil, err
		}
	}
	return c, nil
}
