package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"amplifier-agent/pipeline"
)

// Defaults of Options.
const (
	DefaultMaxBytes     = 10 << 20
	DefaultTimeout      = 30 * time.Second
	DefaultMaxRedirects = 5
)

const maxHeaderBytes = 64 << 10 // of an answer

// Options configure a Client. Zero values mean the defaults.
type Options struct {
	MaxBytes     int64         // of a body, once it is decompressed
	Timeout      time.Duration // for everything, redirects and body included
	MaxRedirects int           // negative: none
	UserAgent    string

	// Permit admits addresses that are not public, with any port. Resolver looks names up instead of the system. Both are for
	// tests: nothing that is configured sets them.
	Permit   func(netip.AddrPort) bool
	Resolver *net.Resolver
}

// Client fetches. Its methods may be called concurrently.
type Client struct {
	o     Options
	http  *http.Client
	ports func(uint16) bool // that are fetched from
}

// Page is what was fetched.
type Page struct {
	URL       string // behind all redirects
	MediaType string // as the host says, with parameters; guessed from the body if it does not
	Body      []byte
}

// refusal is an error whose words are for the client.
type refusal string

func (r refusal) Error() string { return string(r) }

const (
	errScheme    refusal = "only http and https URLs are fetched"
	errUser      refusal = "URLs with a user name or a password are not fetched"
	errPort      refusal = "only the ports 80 and 443 are fetched from"
	errRedirects refusal = "there are too many redirects"
	errURL       refusal = "that is not a URL"
	errAway      refusal = "the host cannot be reached, or it or a redirect leads to an address that is not a public one"
)

// New returns a client.
func New(o Options) *Client {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxRedirects == 0 {
		o.MaxRedirects = DefaultMaxRedirects
	}
	c := &Client{o: o, ports: func(port uint16) bool { return port == 80 || port == 443 }}
	dialer := &net.Dialer{Resolver: o.Resolver, Control: c.control}
	c.http = &http.Client{
		CheckRedirect: c.redirect,
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			DisableKeepAlives:      true, // no connection outlives its check
			MaxResponseHeaderBytes: maxHeaderBytes,
		},
	}
	return c
}

// Get fetches url. Its errors are *pipeline.Error, with words for whoever gave the URL.
func (c *Client) Get(ctx context.Context, url string) (*Page, error) {
	u, err := c.check(url)
	if err != nil {
		return nil, refuse(u.Host, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.o.Timeout, refusal(fmt.Sprintf("it did not come within %s", c.o.Timeout)))
	defer cancel()
	page, err := c.get(ctx, u)
	switch words := refusal(""); {
	case err == nil:
		return page, nil
	case ctx.Err() != nil:
		return nil, refuse(u.Host, context.Cause(ctx))
	case errors.As(err, &words):
		return nil, refuse(u.Host, words)
	default:
		return nil, refuse(u.Host, errAway)
	}
}

func (c *Client) get(ctx context.Context, u *url.URL) (*Page, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, errURL
	}
	req.Header.Set("User-Agent", c.o.UserAgent) // none if it is empty
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	tooLarge := refusal(fmt.Sprintf("it is larger than the limit of %d bytes", c.o.MaxBytes))
	switch coding := resp.Header.Get("Content-Encoding"); {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return nil, refusal(fmt.Sprintf("the host answers with status %d", resp.StatusCode))
	case coding != "" && !strings.EqualFold(coding, "identity"): // gzip, which was offered, has been taken off
		return nil, refusal("the host sends it in a coding that it was not asked for")
	case resp.ContentLength > c.o.MaxBytes:
		return nil, tooLarge
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.o.MaxBytes+1))
	if int64(len(body)) > c.o.MaxBytes {
		return nil, tooLarge
	}
	if err != nil {
		return nil, refusal("the host's answer breaks off")
	}
	return &Page{URL: resp.Request.URL.String(), MediaType: mediaType(resp.Header.Get("Content-Type"), body), Body: body}, nil
}

// check parses a URL and refuses those that need no connection to be refused. The result is not nil.
func (c *Client) check(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return new(url.URL), errURL
	}
	return u, c.admit(u)
}

func (c *Client) admit(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return errScheme
	case u.User != nil:
		return errUser
	case u.Hostname() == "" || u.Opaque != "":
		return errURL
	case c.o.Permit == nil && u.Port() != "":
		if port, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || !c.ports(uint16(port)) {
			return errPort
		}
	}
	return nil
}

// redirect decides on each hop; where it leads is decided when it is dialled.
func (c *Client) redirect(req *http.Request, via []*http.Request) error {
	if len(via) > max(c.o.MaxRedirects, 0) {
		return errRedirects
	}
	req.Header.Del("Referer") // the next host need not know
	return c.admit(req.URL)
}

// control sees each address right before it is connected to.
func (c *Client) control(network, address string, _ syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil || !strings.HasPrefix(network, "tcp") {
		return errAway
	}
	if c.o.Permit != nil && c.o.Permit(addr) {
		return nil
	}
	if !public(addr.Addr()) || !c.ports(addr.Port()) {
		return errAway
	}
	return nil
}

// mediaType is what a host says about its answer, if that can be read.
func mediaType(field string, body []byte) string {
	if t, params, err := mime.ParseMediaType(field); err == nil {
		if s := mime.FormatMediaType(t, params); s != "" {
			return s
		}
	}
	return http.DetectContentType(body)
}

const maxNamed = 100 // bytes of a host that an error repeats

// refuse makes an error of what went wrong. It names the host alone: the rest of a URL may hold secrets.
func refuse(host string, err error) error {
	e := &pipeline.Error{Code: pipeline.CodeInvalidRequest, Origin: pipeline.OriginClient, Message: "fetch"}
	if host != "" {
		e.Message += fmt.Sprintf(" from %q", host[:min(len(host), maxNamed)])
	}
	if words := refusal(""); errors.As(err, &words) {
		e.Message += ": " + string(words)
	} else {
		e.Err = err // why the turn is over
	}
	return e
}
