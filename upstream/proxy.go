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
	"time"

	"golang.org/x/net/http/httpproxy"
)

// maxProxyHeader is how long the header of a proxy's answer may be.
const maxProxyHeader = 16 << 10

// proxy is a way to the gateway through an HTTP proxy, as HTTPS_PROXY, HTTP_PROXY and NO_PROXY name it. Loopback addresses are
// always reached directly.
type proxy struct {
	addr   string // host:port
	auth   string // value of Proxy-Authorization, "" for none
	tunnel string // host:port to ask for, "" if requests name the whole URL instead
	prefix string // of request targets if there is no tunnel
}

// proxyFor returns the proxy for the gateway at base, nil for none.
func proxyFor(base *url.URL, addr string) (*proxy, error) {
	u, err := httpproxy.FromEnvironment().ProxyFunc()(base)
	if err != nil {
		return nil, fmt.Errorf("proxy of the environment: %w", err)
	}
	if u == nil {
		return nil, nil
	}
	if u.Scheme != "http" {
		return nil, fmt.Errorf("proxy of the environment: %s proxies are not supported: name one with http://", u.Scheme)
	}
	p := &proxy{addr: u.Host}
	if u.Port() == "" {
		p.addr = net.JoinHostPort(u.Hostname(), "80")
	}
	if u.User != nil {
		password, _ := u.User.Password()
		p.auth = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
	}
	if base.Scheme == "https" {
		p.tunnel = addr
	} else {
		p.prefix = "http://" + base.Host
	}
	return p, nil
}

// dialer connects to the gateway, or to the proxy on the way to it.
func (t *Transport) dialer(ctx context.Context) (net.Conn, error) {
	if t.proxy == nil {
		return t.dial(ctx, "tcp", t.addr)
	}
	c, err := t.dial(ctx, "tcp", t.proxy.addr)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	if t.proxy.tunnel == "" {
		return c, nil
	}
	unbind := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	err = t.proxy.open(c)
	if !unbind() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("proxy: %w", err)
	}
	return c, nil
}

// open asks the proxy at the other end of c for a tunnel. Nothing of what comes through it is read: TLS has not begun.
func (p *proxy) open(c net.Conn) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: p.tunnel}, Host: p.tunnel, Header: http.Header{}}
	if p.auth != "" {
		req.Header.Set("Proxy-Authorization", p.auth)
	}
	if err := req.Write(c); err != nil {
		return err
	}
	br := bufio.NewReaderSize(&bounded{c, maxProxyHeader}, 1) // byte by byte, nearly: what follows is not ours to buffer
	resp, err := http.ReadResponse(br, req)
	if err != nil {
		return errors.New("its answer is not HTTP")
	}
	_ = resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusProxyAuthRequired:
		return errors.New("it wants a user and a password (http://user:password@host:port)")
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("it refuses the connection to %s: status %d", p.tunnel, resp.StatusCode)
	case br.Buffered() > 0:
		return errors.New("the gateway spoke before TLS began")
	}
	return nil
}

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
