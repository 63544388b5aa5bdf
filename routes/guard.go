package routes

import (
	"bytes"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"amplifier-agent/pipeline"
)

// Guard keeps other people's web pages away from the server, before its key is looked at (rulings 34).
//
// Host names: a server that is bound to a loopback address answers only under loopback names (localhost, 127.0.0.0/8, ::1), the
// name it is bound to, and Hosts, so that no page can reach it under a name of its own that resolves to this machine. A server
// that is bound elsewhere answers under any name, unless Hosts names some: then it answers only under those, its own and
// loopback names. Ports do not matter, nor do case and a final dot.
//
// Origins: a request that says which page it comes from is refused unless that page is the server's own, or listed. Listed
// origins get the headers that let the page read the answer; no other answer has any. A server behind a proxy that speaks TLS
// does not know its own origin: list it.
type Guard struct {
	Bind    string   // the address that the server is bound to; "" is every one
	Hosts   []string // AMPLIFIER_AGENT_HTTP_ALLOW_HOSTS
	Origins []string // AMPLIFIER_AGENT_HTTP_ALLOW_ORIGINS, such as https://app.example; * is any
}

const (
	// exposed are the headers of an answer that pages of listed origins may read.
	exposed = "Retry-After, X-Amplifier-Session-Id, X-Amplifier-Resumed, X-Amplifier-Upstream"
	// preflightMethods and preflightAge, in seconds, are what a preflight is told.
	preflightMethods = "GET, HEAD, POST, PUT, DELETE, OPTIONS"
	preflightAge     = "600"

	anyOrigin    = "*"
	maxQuoted    = 100 // bytes of a refused name that the refusal repeats
	maxPreflight = 64  // names of headers that a preflight may ask for
)

// Check reports the first entry of Hosts or Origins that can never match.
func (g Guard) Check() error {
	for _, h := range g.Hosts {
		if _, ok := hostName(h); !ok {
			return fmt.Errorf("allowed host %q: write a host name or an address", h)
		}
	}
	for _, o := range g.Origins {
		if o == anyOrigin {
			continue
		}
		u, err := url.Parse(o)
		if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("allowed origin %q: write it as a browser does, such as https://app.example:8443, or *", o)
		}
	}
	return nil
}

// guard is a Guard made ready.
type guard struct {
	hosts   map[string]bool        // nil: any
	last    atomic.Pointer[string] // Host field that was known
	origins []string
	any     bool
}

func newGuard(g Guard) *guard {
	c := new(guard)
	bound, ok := hostName(bracketed(g.Bind))
	if loopback(bound) || len(g.Hosts) > 0 {
		c.hosts = map[string]bool{}
		if addr, err := netip.ParseAddr(bound); ok && (err != nil || !addr.IsUnspecified()) {
			c.hosts[bound] = true
		}
		for _, h := range g.Hosts {
			if name, ok := hostName(h); ok {
				c.hosts[name] = true
			}
		}
	}
	for _, o := range g.Origins {
		c.any = c.any || o == anyOrigin
		c.origins = append(c.origins, strings.ToLower(strings.TrimSuffix(o, "/")))
	}
	return c
}

// admit refuses a request, or sets the headers that its page needs to read the answer.
func (g *guard) admit(ctx *fasthttp.RequestCtx) error {
	r := &ctx.Request.Header
	host := r.Host()
	if len(host) == 0 && string(r.Protocol()) != "HTTP/1.0" || len(host) > 0 && !g.knows(host) {
		return unknownHost(host)
	}
	// A target in absolute form has a host of its own, which counts instead.
	if target := ctx.Host(); len(target) > 0 && !bytes.EqualFold(target, host) && !g.knows(target) {
		return unknownHost(target)
	}
	origins := r.PeekAll(fasthttp.HeaderOrigin)
	switch {
	case len(origins) == 0:
		return nil
	case len(origins) == 1 && g.allows(string(origins[0])):
	case len(origins) == 1 && sameOrigin(string(origins[0]), string(host)):
		return nil
	default:
		return forbidden("requests from the origin %s are not allowed: AMPLIFIER_AGENT_HTTP_ALLOW_ORIGINS lists those that are", origins[0])
	}
	h := &ctx.Response.Header
	if g.any {
		h.Set(fasthttp.HeaderAccessControlAllowOrigin, anyOrigin)
	} else {
		h.SetBytesV(fasthttp.HeaderAccessControlAllowOrigin, origins[0])
	}
	h.Set(fasthttp.HeaderVary, fasthttp.HeaderOrigin)
	h.Set(fasthttp.HeaderAccessControlExposeHeaders, exposed)
	return nil
}

// knows reports whether the server answers under the name of a Host field.
func (g *guard) knows(host []byte) bool {
	if g.hosts == nil {
		return true
	}
	if last := g.last.Load(); last != nil && string(host) == *last {
		return true
	}
	field := string(host)
	name, ok := hostName(field)
	if ok = ok && (loopback(name) || g.hosts[name]); ok {
		g.last.Store(&field)
	}
	return ok
}

func (g *guard) allows(origin string) bool {
	return g.any || slices.Contains(g.origins, strings.ToLower(origin))
}

// preflight reports whether a request, which admit has let in, asks on behalf of a page whether it may send another.
func (g *guard) preflight(ctx *fasthttp.RequestCtx) bool {
	return ctx.IsOptions() && len(ctx.Request.Header.Peek(fasthttp.HeaderAccessControlRequestMethod)) > 0 &&
		len(ctx.Response.Header.Peek(fasthttp.HeaderAccessControlAllowOrigin)) > 0
}

// allowPreflight answers one.
func allowPreflight(ctx *fasthttp.RequestCtx) {
	r, h := &ctx.Request.Header, &ctx.Response.Header
	ctx.Response.SetStatusCode(fasthttp.StatusNoContent)
	h.Set(fasthttp.HeaderAccessControlAllowMethods, preflightMethods)
	if names := tokens(string(r.Peek(fasthttp.HeaderAccessControlRequestHeaders))); names != "" {
		h.Set(fasthttp.HeaderAccessControlAllowHeaders, names)
	}
	h.Set(fasthttp.HeaderAccessControlMaxAge, preflightAge)
	if string(r.Peek("Access-Control-Request-Private-Network")) == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
}

// tokens is what of a list are names of header fields.
func tokens(list string) string {
	var names []string
	for _, name := range strings.SplitN(list, ",", maxPreflight+1) {
		name = strings.Trim(name, " \t")
		if name != "" && len(names) < maxPreflight && !strings.ContainsFunc(name, notToken) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

func notToken(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// hostName is the name or address in a Host field, in lower case, without port, brackets and final dot.
func hostName(field string) (name string, ok bool) {
	name, port := strings.ToLower(field), ""
	if rest, v6 := strings.CutPrefix(name, "["); v6 {
		name, port, ok = strings.Cut(rest, "]")
		addr, err := netip.ParseAddr(name)
		if !ok || err != nil || addr.Zone() != "" || port != "" && port[0] != ':' {
			return "", false
		}
		port = strings.TrimPrefix(port, ":")
		name = addr.Unmap().String()
	} else {
		name, port, _ = strings.Cut(name, ":")
		name = strings.TrimSuffix(name, ".")
	}
	if strings.ContainsFunc(port, func(r rune) bool { return r < '0' || r > '9' }) {
		return "", false
	}
	return name, name != "" && !strings.HasSuffix(name, ".") && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune(".-_:", r)
	})
}

// bracketed writes an address to bind to as a Host field has it.
func bracketed(bind string) string {
	if addr, err := netip.ParseAddr(bind); err == nil && addr.Is6() {
		return "[" + bind + "]"
	}
	return bind
}

// Loopback reports whether only this machine can reach an address to bind to.
func Loopback(bind string) bool {
	name, ok := hostName(bracketed(bind))
	return ok && loopback(name)
}

// loopback reports whether a name always means this machine. Names below localhost do not count: not every resolver agrees.
func loopback(name string) bool {
	addr, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && addr.IsLoopback()
}

// sameOrigin reports whether origin is a page of the server itself, reached under host.
func sameOrigin(origin, host string) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(origin), "http://")
	return ok && rest != "" && strings.TrimSuffix(rest, ":80") == strings.TrimSuffix(strings.ToLower(host), ":80")
}

func unknownHost(host []byte) error {
	return forbidden("this server does not answer under the Host %s: set AMPLIFIER_AGENT_HTTP_ALLOW_HOSTS to the names that it is reached under", host)
}

func forbidden(format string, what []byte) error {
	return &pipeline.Error{Code: pipeline.CodeForbidden, Origin: pipeline.OriginClient,
		Message: fmt.Sprintf(format, fmt.Sprintf("%q", what[:min(len(what), maxQuoted)]))}
}
