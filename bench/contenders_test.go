//go:build unix

package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"amplifier-agent/upstream"
)

// exchange is an answer whose header has come.
type exchange struct {
	body io.Reader
	end  func(done bool) // done says that the body was read to its end
}

// contender is a client that could be the transport of the upstream side, for one gateway. open sends a GET and returns once the
// header of the answer is there; the end of ctx ends the exchange.
type contender struct {
	name string
	open func(ctx context.Context, path string) (*exchange, error)
}

// contenders are as fast as their settings make them.
func contenders(tb testing.TB, url string) []contender {
	return []contender{ours(tb, url, ""), netHTTP(tb, "net-http", url, nil, false), withSilence(netHTTP(tb, "net-http-silence", url, nil, false)), fastHTTP(tb, url)}
}

// secureContenders speak TLS, one of them HTTP/2.
func secureContenders(tb testing.TB, s *source) []contender {
	return []contender{ours(tb, s.tlsURL, s.caFile), netHTTP(tb, "net-http", s.tlsURL, s.roots, false), netHTTP(tb, "net-http-2", s.tlsURL, s.roots, true),
		withSilence(netHTTP(tb, "net-http-2-silence", s.tlsURL, s.roots, true))}
}

// silence is after how long a stream is to hear of it.
const silence = 500 * time.Millisecond

// patient is a Watcher that goes on.
type patient struct{}

func (patient) Reading() bool              { return true }
func (patient) Silent(*time.Duration) bool { return true }

func ours(tb testing.TB, url, caFile string) contender {
	t, err := upstream.NewTransport(upstream.TransportConfig{BaseURL: url, CAFile: caFile})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(t.Close)
	return contender{"ours", func(ctx context.Context, path string) (*exchange, error) {
		r, err := t.Open(ctx, &upstream.Call{Method: http.MethodGet, Path: path}, patient{})
		if err != nil {
			return nil, err
		}
		return &exchange{r.Body, r.Close}, nil
	}}
}

// netHTTP is net/http without what this use has no need of.
func netHTTP(tb testing.TB, name, url string, roots *x509.CertPool, http2 bool) contender {
	t := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1000, ReadBufferSize: 8 << 10, ForceAttemptHTTP2: http2,
		TLSClientConfig: &tls.Config{RootCAs: roots}}
	tb.Cleanup(t.CloseIdleConnections)
	return contender{name, func(ctx context.Context, path string) (*exchange, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
		if err != nil {
			return nil, err
		}
		resp, err := t.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		return &exchange{resp.Body, func(bool) { _ = resp.Body.Close() }}, nil
	}}
}

// withSilence lets the reader of a body hear of silence, which net/http cannot: its connections are read by a goroutine of its own,
// and a deadline on them is the end of them. So one more goroutine reads, and hands over what it got.
func withSilence(c contender) contender {
	open := c.open
	c.open = func(ctx context.Context, path string) (*exchange, error) {
		x, err := open(ctx, path)
		if err != nil {
			return nil, err
		}
		p := startPump(x.body, silence, func() bool { return (patient{}).Silent(nil) })
		return &exchange{p, func(done bool) {
			close(p.gone)
			x.end(done)
		}}, nil
	}
	return c
}

// pump hands over what another goroutine reads. Two buffers go round.
type pump struct {
	got, free chan []byte
	gone      chan struct{}
	err       error // once got is closed
	every     time.Duration
	silent    func() bool
	tick      *time.Timer
	arrived   bool
	whole     []byte // the buffer of rest
	rest      []byte
}

func startPump(body io.Reader, every time.Duration, silent func() bool) *pump {
	p := &pump{got: make(chan []byte), free: make(chan []byte, 2), gone: make(chan struct{}), every: every, silent: silent, tick: time.NewTimer(every)}
	p.free <- make([]byte, 4<<10)
	p.free <- make([]byte, 4<<10)
	go p.run(body)
	return p
}

func (p *pump) run(body io.Reader) {
	defer close(p.got)
	for {
		var b []byte
		select {
		case b = <-p.free:
		case <-p.gone:
			return
		}
		n, err := body.Read(b[:cap(b)])
		if p.err = err; n > 0 {
			select {
			case p.got <- b[:n]:
			case <-p.gone:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *pump) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if p.whole != nil {
			p.free <- p.whole
			p.whole = nil
		}
		select {
		case got, ok := <-p.got:
			if !ok {
				if p.err == nil {
					p.err = io.ErrClosedPipe
				}
				return 0, p.err
			}
			p.whole, p.rest, p.arrived = got, got, true
		case <-p.tick.C: // reset when it fires and not at each read, which would cost more
			if !p.arrived && !p.silent() {
				return 0, io.ErrClosedPipe
			}
			p.arrived = false
			p.tick.Reset(p.every)
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// fastHTTP is fasthttp's client. It takes no context: what is bound to one here is the body, and nothing is before that.
func fastHTTP(tb testing.TB, url string) contender {
	c := &fasthttp.Client{StreamResponseBody: true, MaxConnsPerHost: 1 << 20, ReadBufferSize: 8 << 10, NoDefaultUserAgentHeader: true,
		DisablePathNormalizing: true, DisableHeaderNamesNormalizing: true}
	tb.Cleanup(c.CloseIdleConnections)
	return contender{"fasthttp", func(ctx context.Context, path string) (*exchange, error) {
		req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		defer fasthttp.ReleaseRequest(req)
		req.SetRequestURI(url + path)
		if err := c.Do(req, resp); err != nil {
			fasthttp.ReleaseResponse(resp)
			return nil, err
		}
		body, ok := resp.BodyStream().(fasthttp.ReadCloserWithError)
		if !ok {
			return nil, errors.New("the body is no stream")
		}
		unbind := context.AfterFunc(ctx, func() { _ = body.CloseWithError(ctx.Err()) })
		return &exchange{body, func(done bool) {
			if unbind(); !done {
				_ = body.CloseWithError(context.Canceled)
			}
			_ = resp.CloseBodyStream()
			fasthttp.ReleaseResponse(resp)
		}}, nil
	}}
}
