package upstreamtest

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// server is the upstream's end: a test says, byte by byte, what it answers.
type server struct {
	url      string
	ln       net.Listener
	conns    atomic.Int64 // accepted
	requests atomic.Int64 // read to their end

	wg   sync.WaitGroup
	mu   sync.Mutex
	open map[net.Conn]bool // nil once the server is closed
}

// peer is one connection of a server, on a goroutine of its own.
type peer struct {
	net.Conn
	r    *bufio.Reader
	n    int64 // of the request, over all connections, from 1
	last *Request
}

// serve starts a server that has each request answered by f, and keeps the connection for another one if f says so. It ends with the
// test.
func serve(t *testing.T, f func(p *peer) (keep bool)) *server {
	t.Helper()
	return serveOn(t, nil, f)
}

// serveOn is serve over TLS, unless config is nil.
func serveOn(t *testing.T, config *tls.Config, f func(p *peer) (keep bool)) *server {
	t.Helper()
	s := &server{}
	handle := func(p *peer) {
		for p.read() {
			if p.n = s.requests.Add(1); !f(p) {
				return
			}
		}
	}
	scheme := "http"
	if config != nil {
		scheme = "https"
	}
	s.listen(t, config, handle)
	s.url = scheme + "://" + s.ln.Addr().String()
	return s
}

// listen has each connection handled by f, and closes it behind f.
func (s *server) listen(t *testing.T, config *tls.Config, f func(p *peer)) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.ln, s.open = ln, map[net.Conn]bool{}
	s.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			s.mu.Lock()
			if s.open == nil {
				c.Close()
			} else {
				s.open[c] = true
			}
			s.mu.Unlock()
			s.wg.Go(func() {
				defer c.Close()
				p := &peer{Conn: c}
				if config != nil {
					p.Conn = tls.Server(c, config)
				}
				p.r = bufio.NewReader(p.Conn)
				f(p)
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		s.mu.Lock()
		for c := range s.open {
			c.Close()
		}
		s.open = nil
		s.mu.Unlock()
		s.wg.Wait()
	})
}

// read reads the next request; false once the client has closed.
func (p *peer) read() bool {
	r, err := http.ReadRequest(p.r)
	if err != nil {
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	p.last = &Request{Method: r.Method, Target: r.RequestURI, Host: r.Host, Header: r.Header, Body: body}
	return true
}

// send writes; an error shows at the other end.
func (p *peer) send(format string, args ...any) { _, _ = fmt.Fprintf(p, format, args...) }

// plain answers with a body of known length.
func (p *peer) plain(status int, body string, header ...string) bool {
	p.send("HTTP/1.1 %d Whatever\r\n%sContent-Length: %d\r\n\r\n%s", status, fields(header), len(body), body)
	return true
}

// begin answers with the header of a chunked body.
func (p *peer) begin(header ...string) {
	p.send("HTTP/1.1 200 OK\r\n%sTransfer-Encoding: chunked\r\n\r\n", fields(header))
}

// chunk sends a part of a chunked body. A reader gets the bytes of one chunk at a time.
func (p *peer) chunk(s string) {
	if s != "" {
		p.send("%x\r\n%s\r\n", len(s), s)
	}
}

// end ends a chunked body.
func (p *peer) end() bool {
	p.send("0\r\n\r\n")
	return true
}

// wait returns when the client has closed the connection.
func (p *peer) wait() { _, _ = io.Copy(io.Discard, p.r) }

// reset closes the connection so that the client finds it broken.
func (p *peer) reset() {
	if c, ok := p.Conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	p.Close()
}

func fields(header []string) string {
	if len(header) == 0 {
		return ""
	}
	return strings.Join(header, "\r\n") + "\r\n"
}
