package commandcode

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
)

const (
	maxFaultBytes   = 64 << 10 // of an error body that are read
	maxMessageBytes = 2 << 10  // of an error message that are shown
	maxRetryAfter   = 1 << 30  // seconds
	unknownFault    = 502      // status of an error that brings none

	// faultWait is how long the body of an error is waited for: its status is known already.
	faultWait = time.Second
)

// fault is an error as the gateway reports it, in any of its shapes.
type fault struct {
	status  int
	message string
	kind    string // type
	code    string
	retry   bool // isRetryable
	marked  bool // isRetryable was said
	window  bool // a limit of the plan's: waiting a little does not help
}

// read takes an error value: a string, or an object that may hold another one.
func (f *fault) read(s *codec.Scanner) {
	switch s.Kind() {
	case codec.String:
		if t, ok := s.Text(); ok && len(t) > 0 {
			f.message = t.String()
		}
		return
	case codec.Object:
	default:
		s.Skip()
		return
	}
	for s.Object(); s.Key(); {
		switch string(s.Name()) {
		case "error":
			f.read(s)
		case "message":
			if t, ok := s.Text(); ok && len(t) > 0 {
				f.message = t.String()
			}
		case "type":
			t, _ := s.Text()
			f.kind = t.String()
		case "code":
			if s.Kind() == codec.Number {
				f.setStatus(s.Int())
				continue
			}
			t, _ := s.Text()
			f.code = t.String()
		case "status", "statusCode":
			f.setStatus(s.Int())
		case "isRetryable":
			f.retry, f.marked = s.Bool()
		case "rateLimit":
			f.window = s.Kind() == codec.Object
			s.Skip()
		default:
			s.Skip()
		}
	}
}

func (f *fault) setStatus(n int64, ok bool) {
	if ok && n >= 400 && n <= 599 {
		f.status = int(n)
	}
}

// unwrap reads what some messages carry inside: "529 {…}", "<400> …", or JSON.
func (f *fault) unwrap() {
	m := strings.TrimSpace(f.message)
	if digits, rest, ok := strings.Cut(strings.TrimPrefix(m, "<"), " "); ok {
		n, err := strconv.Atoi(strings.TrimSuffix(digits, ">"))
		if err == nil && (strings.HasPrefix(m, "<") || strings.HasPrefix(rest, "{")) {
			f.setStatus(int64(n), f.status == 0)
			m = rest
		}
	}
	if strings.HasPrefix(m, "{") {
		inner := fault{status: f.status}
		var s codec.Scanner
		s.Reset([]byte(m))
		if inner.read(&s); s.End() == nil && inner.message != "" {
			f.message, f.status = inner.message, inner.status
			f.kind, f.code = f.kind+" "+inner.kind, f.code+" "+inner.code
		}
	}
}

// says reports whether the fault holds one of words, in whatever spelling.
func (f *fault) says(words ...string) bool {
	lower := strings.ReplaceAll(strings.ToLower(f.message+" "+f.code+" "+f.kind), "_", " ")
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(lower, w) })
}

// err classifies the fault. What mask knows never shows in it.
func (f *fault) err(mask *secret.Mask) *pipeline.Error {
	f.unwrap()
	f.message = mask.String(f.message)
	if isPage(f.message) {
		f.message = "(an HTML page)"
	}
	e := &pipeline.Error{Origin: pipeline.OriginUpstream, Status: f.status, Message: shorten(f.message)}
	if e.Message == "" {
		e.Message = "the upstream reports an error without a message"
	}
	if e.Status == 0 {
		e.Status = unknownFault
		if f.says("insufficient balance", "insufficient credits") {
			e.Status = 402
		}
	}
	switch {
	case f.says("model not in plan", "premium credits exhausted", "upgrade required", "insufficient balance", "insufficient credits", "usage exceeded"), e.Status == 402:
		e.Code = pipeline.CodePlan
		return e // waiting does not mend it, whatever the status says
	case f.says("proxy use detected", "tool result is missing"):
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
	if f.marked {
		e.Retry = f.retry
	}
	e.Retry = e.Retry && !f.window
	return e
}

// streamFault makes an error of an error event, which holds it in "error", in "message", or in both.
func streamFault(raw []byte, message codec.Text, mask *secret.Mask) *pipeline.Error {
	f := fault{message: message.String()}
	if raw != nil {
		var s codec.Scanner
		s.Reset(raw)
		f.read(&s)
	}
	return f.err(mask)
}

func aborted(reason codec.Text, mask *secret.Mask) *pipeline.Error {
	e := &pipeline.Error{Code: pipeline.CodeAborted, Origin: pipeline.OriginUpstream, Status: 499, Message: "the upstream aborted the stream"}
	if len(reason) > 0 {
		e.Message += ": " + shorten(mask.String(reason.String()))
	}
	return e
}

// refusal makes an error of an answer whose status is not 200. The body may be anything: JSON in several shapes, text, a page.
func (p *Provider) refusal(r *upstream.Reply) error {
	r.Limit(faultWait)
	body, _ := io.ReadAll(io.LimitReader(r.Body, maxFaultBytes)) // what could not be read is not needed
	f := fault{}
	var s codec.Scanner
	s.Reset(body)
	if f.read(&s); s.End() != nil {
		f = fault{message: strings.ToValidUTF8(string(body), "\uFFFD")}
	}
	f.status = r.Status
	e := f.err(p.mask)
	if f.message == "" {
		e.Message = "no message"
	}
	e.Message = "the upstream answered " + strconv.Itoa(r.Status) + ": " + e.Message
	if f.says("proxy use detected") {
		p.banned.Store(e)
	}
	if after, err := strconv.Atoi(r.Header("Retry-After")); err == nil && after > 0 {
		e.RetryAfter = time.Duration(min(after, maxRetryAfter)) * time.Second
	}
	return e
}

// isPage tells a page for browsers from text for people, which may begin with "<400>".
func isPage(message string) bool {
	rest, ok := strings.CutPrefix(strings.TrimSpace(message), "<")
	return ok && rest != "" && (rest[0] == '!' || rest[0] == '?' || unicode.IsLetter(rune(rest[0])))
}

// shorten cuts a message to what is worth showing, between two characters.
func shorten(s string) string {
	s = strings.TrimSpace(s)
	if len(s) <= maxMessageBytes {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessageBytes], "") + "…"
}
