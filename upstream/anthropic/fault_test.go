package anthropic

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"amplifier-agent/pipeline"
)

// TestErrorEvents holds every shape in which an error arrives inside a 200.
func TestErrorEvents(t *testing.T) {
	const (
		up   = pipeline.CodeUpstream
		auth = pipeline.CodeUpstreamAuth
		req  = pipeline.CodeUpstreamRequest
		plan = pipeline.CodePlan
		rate = pipeline.CodeRateLimit
	)
	for _, row := range []struct {
		line    string
		code    pipeline.Code
		status  int
		message string // the whole of it
		retry   bool
	}{
		{`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`, up, 529, "Overloaded", true},
		{`{"error":{"message":"Overloaded","type":"overloaded_error","details":null},"type":"error"}`, up, 529, "Overloaded", true},
		{`{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`, up, 500, "Internal server error", true},
		{`{"type":"error","error":{"type":"timeout_error","message":"slow"}}`, up, 504, "slow", true},
		{`{"type":"error","error":{"type":"rate_limit_error","message":"wait"}}`, rate, 429, "wait", true},
		{`{"type":"error","error":{"type":"invalid_request_error","message":"bad"}}`, req, 400, "bad", false},
		{`{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}`, plan, 402, "Your credit balance is too low to access the API.", false},
		{`{"type":"error","error":{"type":"billing_error","message":"pay"}}`, plan, 402, "pay", false},
		{`{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key ` + testKey + `"}}`, auth, 401, "invalid x-api-key ***", false},
		{`{"type":"error","error":{"type":"permission_error","message":"no"}}`, auth, 403, "no", false},
		{`{"type":"error","error":{"type":"not_found_error","message":"model: x"}}`, req, 404, "model: x", false},
		{`{"type":"error","error":{"type":"request_too_large","message":"large"}}`, req, 413, "large", false},
		{`{"type":"error","error":{"type":"from_the_future","message":"odd"}}`, up, 502, "odd", true},
		{`{"type":"error","error":{"type":"api_error","message":"x","status":429}}`, rate, 429, "x", true},
		{`{"type":"error","error":{"type":"api_error","message":"529 {\"error\":{\"message\":\"inner\"}}"}}`, up, 500, "inner", true},
		{`{"type":"error","error":"a string"}`, up, 502, "a string", true},
		{`{"type":"error","message":"a message"}`, up, 502, "a message", true},
		{`{"type":"error","error":{"message":"<!DOCTYPE html><html>"}}`, up, 502, "(an HTML page)", true},
		{`{"type":"error","error":{}}`, up, 502, "the upstream reports an error without a message", true},
		{`{"type":"error"}`, up, 502, "the upstream reports an error without a message", true},
		{`{"error":{"message":"no type","code":503}}`, up, 503, "no type", true},
		{`{"type":"error","error":{"message":"` + strings.Repeat("é", 2<<10) + `"}}`, up, 502, strings.Repeat("é", 1<<10) + "…", true},
	} {
		for _, before := range [][]string{{begun, hello}, {begun}, nil} {
			r := body(t, append(before[:len(before):len(before)], row.line, hello, why, stopped)...)
			e := wantError(t, r.Err, row.code, row.status, "")
			if e.Message != row.message || e.Retry != row.retry || (r.Text == "hello") != (len(before) == 2) || r.Finish != nil {
				t.Errorf("%.90s\n  is %q, retry %v, text %q", row.line, e.Message, e.Retry, r.Text)
			}
		}
	}
}

// TestRefusals holds the answers whose status is not 200.
func TestRefusals(t *testing.T) {
	for _, row := range []struct {
		status  int
		body    string
		code    pipeline.Code
		message string // behind "the upstream answered N: "
		retry   bool
	}{
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"messages: text content blocks must be non-empty"},"request_id":"r"}`, pipeline.CodeUpstreamRequest, "messages: text content blocks must be non-empty", false},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`, pipeline.CodePlan, "Your credit balance is too low", false},
		{401, `{"type":"error","error":{"type":"authentication_error","message":"invalid ` + testKey + `"}}`, pipeline.CodeUpstreamAuth, "invalid ***", false},
		{403, `{"type":"error","error":{"type":"permission_error","message":"no"}}`, pipeline.CodeUpstreamAuth, "no", false},
		{404, `{"type":"error","error":{"type":"not_found_error","message":"model: x"}}`, pipeline.CodeUpstreamRequest, "model: x", false},
		{413, `{"type":"error","error":{"type":"request_too_large","message":"large"}}`, pipeline.CodeUpstreamRequest, "large", false},
		{429, `{"type":"error","error":{"type":"rate_limit_error","message":"wait"}}`, pipeline.CodeRateLimit, "wait", true},
		{500, `{"type":"error","error":{"type":"api_error","message":"oh"}}`, pipeline.CodeUpstream, "oh", true},
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, pipeline.CodeUpstream, "Overloaded", true},
		{503, "<html>x</html>", pipeline.CodeUpstream, "(an HTML page)", true},
		{502, "", pipeline.CodeUpstream, "no message", true},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(row.status)
			_, _ = io.WriteString(w, row.body)
		}))
		e := wantError(t, run(t, connect(t, s.URL), ask("hi")).Err, row.code, row.status, "")
		want := "the upstream answered " + strconv.Itoa(row.status) + ": " + row.message
		if e.Message != want || e.Retry != row.retry || e.RetryAfter != 7*time.Second {
			t.Errorf("%d %.60q\n  is %.200q, retry %v after %s", row.status, row.body, e.Message, e.Retry, e.RetryAfter)
		}
		s.Close()
	}
}

// TestAskedAgain: an overload that is told inside the stream, before any of the answer, is as good as one that refuses it.
func TestAskedAgain(t *testing.T) {
	asked := 0
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			_, _ = io.WriteString(w, framed(begun, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`))
			return
		}
		_, _ = io.WriteString(w, framed(begun, hello, why, stopped))
	})
	r := run(t, connect(t, url, func(c *Config) { c.Tries = 2 }), ask("hi"))
	if r.Err != nil || r.Text != "hello" || asked != 2 || r.Turn.Usage.Prompt() != 128 {
		t.Errorf("%+v, asked %d times", r, asked)
	}
}
