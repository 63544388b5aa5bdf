package commandcode

import (
	"io"
	"strconv"
	"strings"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
)

const (
	maxFaultBytes   = 64 << 10 // of an error body that are read
	maxMessageBytes = 2 << 10  // of an error message that are shown
	unknownFault    = 502      // status of an error that brings none
)

// fault is an error as the gateway reports it, in any of its shapes.
type fault struct {
	status  int
	message string
	kind    string // type
	code    string
	retry   bool // isRetryable
	marked  bool // isRetryable was said
}

// read takes an error value: a string, or an object that may hold another one.
func (f *fault) read(s *codec.Scanner) {
	switch s.Kind() {
	case codec.String:
		t, _ := s.Text()
		f.message = t.String()
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
		if err == nil && f.status == 0 && (strings.HasPrefix(m, "<") || strings.HasPrefix(rest, "{")) {
			f.setStatus(int64(n), true)
			m = rest
		}
	}
	if strings.HasPrefix(m, "{") {
		inner := fault{status: f.status}
		var s codec.Scanner
		s.Reset([]byte(m))
		if inner.read(&s); s.End() == nil && inner.message != "" {
			f.message, f.status = inner.message, inner.status
		}
	}
}

// err classifies the fault.
func (f *fault) err() *pipeline.Error {
	f.unwrap()
	e := &pipeline.Error{Origin: pipeline.OriginUpstream, Status: f.status, Message: shorten(f.message)}
	if e.Message == "" {
		e.Message = "the upstream reports an error without a message"
	}
	lower := strings.ToLower(f.message + " " + f.code + " " + f.kind)
	says := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(lower, w) {
				return true
			}
		}
		return false
	}
	if e.Status == 0 {
		e.Status = unknownFault
		if says("insufficient balance", "insufficient credits") {
			e.Status = 402
		}
	}
	switch {
	case says("model_not_in_plan", "premium_credits_exhausted", "upgrade_required", "insufficient balance", "insufficient credits", "usage_exceeded"), e.Status == 402:
		e.Code = pipeline.CodePlan
		return e // waiting does not mend it, whatever the status says
	case says("proxy use detected"):
		e.Code = pipeline.CodeUpstreamRequest
		return e
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
	return e
}

// streamFault makes an error of an error event, which holds it in "error", in "message", or in both.
func streamFault(raw []byte, message codec.Text) *pipeline.Error {
	f := fault{message: message.String()}
	if raw != nil {
		var s codec.Scanner
		s.Reset(raw)
		f.read(&s)
	}
	return f.err()
}

func aborted(reason codec.Text) *pipeline.Error {
	e := &pipeline.Error{Code: pipeline.CodeAborted, Origin: pipeline.OriginUpstream, Status: 499, Message: "the upstream aborted the stream"}
	if len(reason) > 0 {
		e.Message += ": " + shorten(reason.String())
	}
	return e
}

// refusal makes an error of an answer whose status is not 200. The body may be anything: JSON in several shapes, text, a page.
func (p *Provider) refusal(r *upstream.Reply) error {
	body, _ := io.ReadAll(io.LimitReader(r.Body, maxFaultBytes)) // what could not be read is not needed
	f := fault{}
	var s codec.Scanner
	s.Reset(body)
	if f.read(&s); s.End() != nil {
		f = fault{message: plainText(body)}
	}
	f.status = r.Status
	e := f.err()
	if f.message == "" {
		e.Message = "no message"
	}
	e.Message = "the upstream answered " + strconv.Itoa(r.Status) + ": " + e.Message
	if after, err := strconv.Atoi(r.Header("Retry-After")); err == nil && after > 0 {
		e.RetryAfter = time.Duration(after) * time.Second
	}
	return masked(e, p.cfg.Key)
}

// masked takes secret out of the message.
func masked(e *pipeline.Error, secret string) *pipeline.Error {
	if secret != "" {
		e.Message = strings.ReplaceAll(e.Message, secret, "***")
	}
	return e
}

// plainText is a body that is not JSON, if it is text for people and not a page for browsers.
func plainText(body []byte) string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(body), "\uFFFD"))
	if strings.HasPrefix(text, "<") {
		return "(an HTML page)"
	}
	return text
}

// shorten cuts a message to what is worth showing, between two characters.
func shorten(s string) string {
	s = strings.TrimSpace(s)
	if len(s) <= maxMessageBytes {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessageBytes], "") + "…"
}
