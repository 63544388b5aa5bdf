package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
)

const (
	// connectTimeout is how long TCP may take to connect, and TLS to shake hands after it.
	connectTimeout = 4 * time.Second
	// DefaultIdle is the longest silence of an upstream in the middle of an exchange (rulings 14). Thinking models are silent
	// for minutes.
	DefaultIdle = 15 * time.Minute
)

var errNoHTTP = fmt.Errorf("its answer is not HTTP/1.1, or its header is longer than %d KiB", maxHeaderBytes>>10)

// Transport exchanges requests with one gateway over HTTP/1.1. Safe for concurrent use.
type Transport struct {
	base  *url.URL
	path  string // of base, escaped, without a slash at its end
	addr  string // host:port
	tls   *tls.Config
	proxy *proxy // nil for none
	basic string // value of Authorization for the user of base, "" for none
	idle  time.Duration
	tries int
	pool  pool
	dial  Dialer

	recorder Recorder // nil records nothing
}

// Dialer connects to a gateway, whose address is its host and port.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// TransportConfig configures a Transport.
type TransportConfig struct {
	BaseURL string
	Idle    time.Duration // longest silence; 0 means DefaultIdle, negative none
	Tries   int           // of a turn; 0 means DefaultTries
	CAFile  string        // certificates, in PEM form, to trust beside those of the system
	Dial    Dialer        // connects, also where the environment names a proxy; nil means TCP
	// Recorder sees each exchange of Stream; nil records nothing.
	Recorder Recorder
	Mask     *secret.Mask // learns the password of the base URL; may be nil
}

// NewTransport returns a Transport for the gateway at c.BaseURL, an http or https URL whose path is put before that of each
// call. A user in it is sent, as basic authentication, with calls that bring no Authorization. It goes through the proxy that the
// environment names, if any.
func NewTransport(c TransportConfig) (*Transport, error) {
	u, err := url.Parse(c.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("base URL: %w", errors.Unwrap(err)) // the error itself shows what may hold a password
	}
	if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("base URL %q: an http:// or https:// URL is needed", u.Redacted())
	}
	t := &Transport{base: u, idle: max(c.Idle, 0), dial: c.Dial, recorder: c.Recorder}
	if c.Idle == 0 {
		t.idle = DefaultIdle
	}
	if u.User != nil {
		password, _ := u.User.Password()
		c.Mask.Add(password)
		t.basic = basic(u.User.Username(), password)
	}
	if t.tries = c.Tries; t.tries == 0 {
		t.tries = DefaultTries
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	t.addr = net.JoinHostPort(u.Hostname(), port)
	if u.Scheme == "https" {
		if t.tls, err = clientTLS(u.Hostname(), c.CAFile); err != nil {
			return nil, err
		}
	}
	if t.dial == nil {
		t.dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
		if t.proxy, err = proxyFor(u, t.addr, c.CAFile); err != nil {
			return nil, err
		}
	}
	t.path = strings.TrimSuffix(u.EscapedPath(), "/")
	if t.proxy != nil {
		t.path = t.proxy.prefix + t.path
	}
	return t, nil
}

// Host is the name of the gateway's host, without port.
func (t *Transport) Host() string { return t.base.Hostname() }

// Close closes the idle connections. Exchanges under way go on.
func (t *Transport) Close() { t.pool.close() }

// Call is one request.
type Call struct {
	Method string
	Path   string
	Header [][2]string
	Body   []byte
	// Silence is when the watcher first hears of silence; 0 means a default.
	Silence time.Duration
	Tries   int    // of Stream; 0 means the Transport's
	Model   string // that is asked, for recordings
}

// Open sends call and returns as soon as the header of the answer is there. All waiting is reported to w. The end of ctx closes
// the connection. Errors are *pipeline.Error, except errStopped when w has said no, which is for nobody's eyes.
func (t *Transport) Open(ctx context.Context, call *Call, w Watcher) (*Reply, error) {
	due := time.Now().Add(tick)
	if call.Silence > 0 {
		due = time.Now().Add(call.Silence)
	}
	c := t.pool.get()
	for {
		if c == nil {
			var err error
			if c, err = t.connect(ctx, &due, w); err != nil {
				return nil, t.explain(ctx, "connect to the upstream", err)
			}
		}
		c.bind(w, due, t.idle)
		r := &Reply{t: t, c: c, unbind: context.AfterFunc(ctx, c.shut)}
		err := r.exchange(call)
		if err == nil {
			return r, nil
		}
		r.Close(false)
		if c.reused && c.lost() && ctx.Err() == nil && !errors.Is(err, errStopped) {
			c = nil
			continue
		}
		return nil, t.explain(ctx, "ask the upstream", err)
	}
}

// connect opens a connection. A goroutine dials while this one reports the silence, from due on; it is waited for.
func (t *Transport) connect(ctx context.Context, due *time.Time, w Watcher) (*conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, fmt.Errorf("no connection within %s", connectTimeout))
	defer cancel()
	type result struct {
		conn *conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		c, err := t.dialer(ctx)
		done <- result{c, err}
	}()
	timer := time.NewTimer(time.Until(*due))
	defer timer.Stop()
	var r result
	for stopped := false; ; {
		select {
		case r = <-done:
		case <-timer.C:
			next := tick
			if !stopped && !w.Silent(&next) {
				stopped = true
				cancel()
			}
			next = max(next, time.Millisecond)
			*due = time.Now().Add(next)
			timer.Reset(next)
			continue
		}
		if stopped && r.err == nil {
			_ = r.conn.Conn.Close()
			r.err = errStopped
		} else if stopped {
			r.err = errStopped
		}
		break
	}
	if r.err != nil {
		return nil, r.err
	}
	c := r.conn
	if t.tls != nil {
		tc := tls.Client(c.stream, t.tls)
		c.bind(w, *due, 0) // ctx ends before any silence is too long
		unbind := context.AfterFunc(ctx, c.shut)
		err := tc.Handshake()
		switch {
		case !unbind():
			err = context.Cause(ctx)
		case err != nil:
			err = c.reason(err)
		case !c.first:
			*due = time.Now().Add(tick)
		}
		c.unbind()
		if err != nil {
			_ = c.Conn.Close()
			return nil, err
		}
		c.stream = tc
	}
	return c, nil
}

// explain turns an error of the connection into one for the user. What ended ctx comes before what the socket made of it.
func (t *Transport) explain(ctx context.Context, doing string, err error) error {
	e := &pipeline.Error{Code: pipeline.CodeUpstream, Origin: pipeline.OriginUpstream, Retry: true, Err: err}
	silent, isStalled := errors.AsType[stalled](err)
	switch {
	case ctx.Err() != nil:
		e.Code, e.Message, e.Err = pipeline.CodeAborted, "the turn was cancelled", context.Cause(ctx)
		e.Origin, e.Retry = pipeline.OriginInternal, false
	case errors.Is(err, errStopped):
		return err
	case isStalled:
		e.Code, e.Err = pipeline.CodeStalled, nil
		e.Message = "the upstream has been " + silent.Error()
	case errors.Is(err, codec.ErrEncoding):
		e.Message, e.Retry = "the upstream's answer cannot be read", false
	case errors.Is(err, codec.ErrLineTooLong):
		e.Message, e.Retry = "the upstream sent a line that is too long", false
	case closed(err):
		e.Message, e.Err = doing+": it closed the connection", nil
	default:
		e.Message = doing
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			e.Err = fmt.Errorf("%w (certificates of your own are trusted if ca_file names them)", err)
		}
	}
	return e
}
