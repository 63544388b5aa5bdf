package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/routes"
	"amplifier-agent/upstream/anthropic"
	"amplifier-agent/upstream/chatcompletions"
	"amplifier-agent/upstream/commandcode"
)

// reachPatience bounds how long an upstream may take to be connected to.
const reachPatience = 4 * time.Second

// sources are what a server here would make its providers from.
func (x *examination) sources() *sources {
	return &sources{host: x.host, env: x.env, home: x.home, own: cmp.Or(x.env(envPrefix+"API_KEY"), defaultKey), log: slog.New(slog.DiscardHandler), mask: &x.mask}
}

// uses are the providers of a server, with their config as it counts. None without a usable host config.
func (x *examination) uses() (list []use) {
	if x.host == nil {
		return nil
	}
	for _, u := range x.sources().uses() {
		if cfg, err := overlay(x.sources(), u.module, u.cfg); err == nil { // else its own config has been told of
			u.cfg = cfg
		}
		list = append(list, u)
	}
	return list
}

// checkProviders makes the providers, as a server does before it asks them for anything.
func checkProviders(_ context.Context, x *examination) {
	if x.host == nil {
		x.warn("correct the host config first", "not looked at")
		return
	}
	list := x.uses()
	if len(list) == 0 {
		x.fail("", "%v", errNoProvider)
	}
	var u upstreams
	defer u.close()
	for _, p := range list {
		base, _ := x.address(p)
		if base, err := url.Parse(base); err == nil && base.User != nil {
			password, _ := base.User.Password()
			x.mask.Add(password)
		}
		if _, err := construct(x.sources(), &u, p.id, p.module, p.cfg); err != nil {
			x.fail("", "%s: %v", p.id, err)
			continue
		}
		x.ok("%s can be asked", p.id)
	}
}

// address is the base URL of a provider, "" of one that has none, and the file of the certificates that it trusts besides the system's.
func (x *examination) address(p use) (base, caFile string) {
	var c struct {
		BaseURL string `json:"base_url"`
		CAFile  string `json:"ca_file"`
	}
	if len(p.cfg) > 0 {
		_ = codec.Unmarshal(p.cfg, &c) // a config that is wrong has been told of
	}
	base = c.BaseURL
	for _, a := range x.accounts.List {
		if a.ID == p.id && a.Module == p.module {
			base = cmp.Or(base, a.Endpoint)
		}
	}
	switch p.module {
	case commandcode.Name:
		base = cmp.Or(base, x.env("COMMANDCODE_BASE_URL"), commandcode.DefaultBaseURL)
	case anthropic.Name:
		base = cmp.Or(base, x.env("ANTHROPIC_BASE_URL"), anthropic.DefaultBaseURL)
	default:
		preset := chatcompletions.Presets[p.module]
		base = cmp.Or(base, preset.BaseURL)
		if preset.Scheme != "" && base != "" && !strings.Contains(base, "://") {
			base = preset.Scheme + "://" + base
		}
	}
	return base, x.sources().file(c.CAFile)
}

// checkUpstreams connects to each upstream, all at once.
func checkUpstreams(ctx context.Context, x *examination) {
	ctx, cancel := context.WithTimeout(ctx, reachPatience)
	defer cancel()
	type answer struct {
		p    use
		base string
		date time.Time
		skew time.Duration
		err  error
	}
	var answers []*answer
	var wait sync.WaitGroup
	for _, p := range x.uses() {
		base, caFile := x.address(p)
		if base == "" {
			continue
		}
		a := &answer{p: p, base: base}
		answers = append(answers, a)
		if x.itself(base) {
			a.err = errItself
			continue
		}
		wait.Go(func() {
			a.date, a.err = reach(ctx, base, caFile)
			a.skew = a.date.Sub(x.now())
		})
	}
	wait.Wait()
	for _, a := range answers {
		if a.err != nil {
			x.fail(reachRemedy(a.err), "%s at %s cannot be reached: %v", a.p.id, shownURL(a.base), a.err)
			continue
		}
		x.ok("%s at %s can be reached", a.p.id, shownURL(a.base))
		if x.dated == "" && !a.date.IsZero() {
			x.dated, x.skew = a.p.id, a.skew
		}
	}
}

var (
	errItself = errors.New("that is where the server itself would listen")
	errNoURL  = errors.New("no http:// or https:// URL")

	errProxyAuth = errors.New("the proxy wants a user and a password")
)

// itself reports whether base is the address of the server that would ask there: a shell in which OPENAI_BASE_URL is exported for
// its clients makes that easy.
func (x *examination) itself(base string) bool {
	u, err := url.Parse(base)
	return err == nil && x.listens.port != 0 && u.Port() == strconv.Itoa(x.listens.port) && routes.Loopback(u.Hostname())
}

// reach connects to a base URL, over the proxy of the environment if there is one, and returns the time that is told there, if any.
// Any answer will do, and even none once there is a connection: whether the upstream likes us, a server finds out.
func reach(ctx context.Context, base, caFile string) (date time.Time, err error) {
	u, err := url.Parse(base)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return time.Time{}, errNoURL
	}
	u.User = nil
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, u.Scheme+"://"+u.Host+"/", nil)
	if err != nil {
		return time.Time{}, errNoURL
	}
	req.Header.Set("User-Agent", "amplifier-agent/"+version())
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	if caFile != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return time.Time{}, fmt.Errorf("ca_file: %w", err)
		}
		pool.AppendCertsFromPEM(pem) // whether it holds any, the provider has told
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		if connected.Load() {
			return time.Time{}, nil
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return time.Time{}, fmt.Errorf("no connection within %s: %w", reachPatience, context.DeadlineExceeded)
		}
		if err.Error() == http.StatusText(http.StatusProxyAuthRequired) { // all that net/http says of a tunnel that is refused
			err = errProxyAuth
		}
		return time.Time{}, err
	}
	_ = resp.Body.Close()
	if resp.StatusCode == http.StatusProxyAuthRequired {
		return time.Time{}, errProxyAuth
	}
	if date, err = http.ParseTime(resp.Header.Get("Date")); err != nil {
		return time.Time{}, nil
	}
	return date, nil
}

// reachRemedy says what a user can do about an upstream that cannot be reached.
func reachRemedy(err error) string {
	switch {
	case errors.Is(err, errItself), errors.Is(err, errNoURL):
		return "correct its base_url or the variable that holds it"
	case errors.Is(err, errProxyAuth):
		return "put them into the proxy's variable: http://user:password@host:port"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "start it, or correct its base_url"
	case errors.Is(err, context.DeadlineExceeded):
		return "check the network, its firewall and the proxy"
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return "check the name and the network"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
			return "check this machine's clock"
		}
		return "check who answers there, and which certificates this machine trusts; the provider's ca_file names others"
	}
	return "check the network and the address"
}
