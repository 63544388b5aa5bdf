package upstream

import (
	"cmp"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
)

const (
	maxFaultBytes   = 64 << 10 // of an error body that are read
	maxMessageBytes = 2 << 10  // of an error message that are shown
	maxRetryAfter   = 1 << 30  // seconds
	unknownFault    = 502      // status of an error that brings none

	noMessage = "the upstream reports an error without a message"
	anyPage   = "(an HTML page)"

	// faultWait is how long the body of an error is waited for: its status is known already.
	faultWait = time.Second
)

// Fault is an error as a gateway reports it, in any of its shapes.
type Fault struct {
	Status  int
	Message string
	Kind    string // type
	Code    string
	Retry   bool    // isRetryable
	Marked  bool    // isRetryable was said
	Window  *Window // nil if no limit of the plan's was reached
	Request string  // what the gateway's own logs call the exchange, for its support; "" if it does not say
}

// Read takes an error value: a string, or an object that may hold another one.
func (f *Fault) Read(s *codec.Scanner) {
	switch s.Kind() {
	case codec.String:
		if t, ok := s.Text(); ok && len(t) > 0 {
			f.Message = t.String()
		}
		return
	case codec.Array: // some wrap it into a list
		for s.Array(); s.Elem(); {
			f.Read(s)
		}
		return
	case codec.Object:
	default:
		s.Skip()
		return
	}
	for s.Object(); s.Key(); {
		switch string(s.Name()) {
		case "error", "detail":
			f.Read(s)
		case "message":
			if t, ok := s.Text(); ok && len(t) > 0 {
				f.Message = t.String()
			}
		case "type":
			t, _ := s.Text()
			f.Kind = t.String()
		case "code":
			if s.Kind() == codec.Number {
				f.setStatus(s.Int())
				continue
			}
			t, _ := s.Text()
			f.Code = t.String()
		case "status", "statusCode":
			f.setStatus(s.Int())
		case "isRetryable":
			f.Retry, f.Marked = s.Bool()
		case "rateLimit":
			f.Window = readWindow(s)
		default:
			s.Skip()
		}
	}
}

func (f *Fault) setStatus(n int64, ok bool) {
	if ok && n >= 400 && n <= 599 {
		f.Status = int(n)
	}
}

// unwrap reads what some messages carry inside: "529 {…}", "<400> …", or JSON.
func (f *Fault) unwrap() {
	m := strings.TrimSpace(f.Message)
	if digits, rest, ok := strings.Cut(strings.TrimPrefix(m, "<"), " "); ok {
		n, err := strconv.Atoi(strings.TrimSuffix(digits, ">"))
		if err == nil && (strings.HasPrefix(m, "<") || strings.HasPrefix(rest, "{")) {
			f.setStatus(int64(n), f.Status == 0)
			m = rest
		}
	}
	if strings.HasPrefix(m, "{") {
		inner := Fault{Status: f.Status}
		var s codec.Scanner
		s.Reset([]byte(m))
		if inner.Read(&s); s.End() == nil && inner.Message != "" {
			f.Message, f.Status = inner.Message, inner.Status
			f.Kind, f.Code = f.Kind+" "+inner.Kind, f.Code+" "+inner.Code
			if f.Window == nil {
				f.Window = inner.Window
			}
		}
	}
}

// Says reports whether the fault holds one of words, in whatever spelling.
func (f *Fault) Says(words ...string) bool {
	lower := strings.ReplaceAll(strings.ToLower(f.Message+" "+f.Code+" "+f.Kind), "_", " ")
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(lower, w) })
}

// Err classifies the fault. What mask knows never shows in it.
func (f *Fault) Err(mask *secret.Mask) *pipeline.Error {
	f.unwrap()
	switch limit := f.Status == http.StatusTooManyRequests || f.Status == 0; {
	case !limit:
		f.Window = nil // it is told of, and not what this is about
	case f.Window == nil && (f.Status != 0 || f.Says("rate limited")):
		f.Message, f.Window = proseWindow(f.Message)
	}
	f.Message = withoutPage(mask.String(f.Message))
	e := &pipeline.Error{Origin: pipeline.OriginUpstream, Status: f.Status, Message: Shorten(f.Message)}
	if e.Message == "" {
		e.Message = noMessage
	}
	if w := f.Window; w != nil {
		e.Message += mask.String(w.beside(e.Message))
		e.RetryAfter = w.wait(time.Now())
	}
	if e.Status == 0 {
		switch {
		case f.Says("insufficient balance", "insufficient credits"):
			e.Status = http.StatusPaymentRequired
		case f.Window != nil:
			e.Status = http.StatusTooManyRequests
		default:
			e.Status = unknownFault
		}
	}
	switch {
	case f.Says("model not in plan", "premium credits exhausted", "upgrade required", "insufficient balance", "insufficient credits", "usage exceeded"), e.Status == 402:
		e.Code = pipeline.CodePlan
		return e // waiting does not mend it, whatever the status says
	case f.Says("proxy use detected", "tool result is missing"):
		e.Code = pipeline.CodeUpstreamRequest
		return e // asking again would be refused again
	case e.Status == 429:
		e.Code, e.Retry = pipeline.CodeRateLimit, true
	case e.Status == 401, e.Status == 403:
		e.Code = pipeline.CodeUpstreamAuth
	case e.Status == 408, e.Status >= 500:
		e.Code, e.Retry = pipeline.CodeUpstream, true
	default:
		e.Code = pipeline.CodeUpstreamRequest
	}
	if f.Marked {
		e.Retry = f.Retry
	}
	e.Retry = e.Retry && f.Window == nil
	return e
}

// Refusal makes an error of an answer whose status is not 200, and returns what it was made of. The body may be anything: JSON in
// several shapes, text, a page. What mask knows never shows in the error.
func Refusal(r *Reply, mask *secret.Mask) (*pipeline.Error, *Fault) {
	r.Limit(faultWait)
	body, _ := io.ReadAll(io.LimitReader(r.Body, maxFaultBytes)) // what could not be read is not needed
	f := new(Fault)
	var s codec.Scanner
	s.Reset(body)
	if f.Read(&s); s.End() != nil {
		f = &Fault{Message: strings.ToValidUTF8(string(body), "\uFFFD")}
	}
	f.Status, f.Request = r.Status, mask.String(requestID(r))
	e := f.Err(mask)
	if rest, none := strings.CutPrefix(e.Message, noMessage); none {
		e.Message = "no message" + rest
	}
	e.Message = "the upstream answered " + strconv.Itoa(r.Status) + ": " + e.Message
	switch {
	case r.Status/100 == 3:
		e.Message += mask.String(redirection(r.Header("Location")))
	case r.Status == http.StatusProxyAuthRequired:
		e.Message += " (" + proxyWants + ")"
	}
	if after := retryAfter(r.Header("Retry-After"), time.Now()); after > 0 {
		e.RetryAfter = after
	}
	return e, f
}

// redirection tells where a redirect leads, which is not followed: it may be anywhere, and the request holds a key.
func redirection(location string) string {
	to, err := url.Parse(location)
	if location == "" || err != nil {
		return " (is its base URL right?)"
	}
	to.User, to.RawQuery, to.Fragment = nil, "", ""
	return " (it redirects to " + pipeline.Short(to.String()) + ", which is not followed: is its base URL right?)"
}

// requestID is what the gateway and the load balancer before it call an exchange.
func requestID(r *Reply) string {
	id, edge := pipeline.Short(r.Header("X-Request-Id")), pipeline.Short(r.Header("Lb-Request-Id"))
	if id == "" || edge == "" || id == edge {
		return cmp.Or(id, edge)
	}
	return id + ", " + edge
}

// retryAfter reads a Retry-After field, in either of its forms: seconds, or a date.
func retryAfter(field string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(strings.TrimSpace(field)); err == nil && n > 0 {
		return time.Duration(min(n, maxRetryAfter)) * time.Second
	}
	if at, err := http.ParseTime(field); err == nil && at.After(now) {
		return min(at.Sub(now), maxRetryAfter*time.Second)
	}
	return 0
}

// page finds the beginning of a page for browsers inside a text.
var page = regexp.MustCompile(`(?i)<!doctype|<html\b`)

// withoutPage tells a page for browsers from text for people, which may begin with "<400>" or go before the page.
func withoutPage(message string) string {
	rest, ok := strings.CutPrefix(strings.TrimSpace(message), "<")
	if ok && rest != "" && (rest[0] == '!' || rest[0] == '?' || unicode.IsLetter(rune(rest[0]))) {
		return anyPage
	}
	if at := page.FindStringIndex(message); at != nil {
		return message[:at[0]] + anyPage
	}
	return message
}

// Shorten cuts a message to what is worth showing, between two characters. What would steer a terminal is left out.
func Shorten(s string) string {
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s))
	if len(s) <= maxMessageBytes {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessageBytes], "") + "…"
}
