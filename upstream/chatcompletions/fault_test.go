package chatcompletions

import (
	"io"
	"net/http"
	"testing"
	"time"

	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
)

// TestStreamFaults gives each error that comes with status 200 to the decoder, first and between deltas.
func TestStreamFaults(t *testing.T) {
	for line, want := range map[string]struct {
		code    pipeline.Code
		status  int
		message string
		retry   bool
	}{
		`{"error":{"message":"boom","type":"server_error","param":null,"code":null}}`: {pipeline.CodeUpstream, 502, "boom", true},
		`{"error":{"message":"s","status":503,"code":"429"}}`:                         {pipeline.CodeUpstream, 503, "s", true},
		`{"error":"boom"}`: {pipeline.CodeUpstream, 502, "boom", true},
		`{"error":{"message":"slow down","code":429}}`:                                                                  {pipeline.CodeRateLimit, 429, "slow down", true},
		`{"error":{"message":"slow down","code":"429"}}`:                                                                {pipeline.CodeRateLimit, 429, "slow down", true},
		`{"error":{"message":"slow down","code":"rate_limit_exceeded","type":"tokens"}}`:                                {pipeline.CodeRateLimit, 429, "slow down", true},
		`{"error":{"message":"pay","type":"insufficient_quota","code":"insufficient_quota"}}`:                           {pipeline.CodePlan, 429, "pay", false},
		`{"error":{"message":"bad","type":"invalid_request_error","code":null}}`:                                        {pipeline.CodeUpstreamRequest, 400, "bad", false},
		`{"error":{"message":"too long","type":"x","code":"context_length_exceeded"}}`:                                  {pipeline.CodeUpstreamRequest, 400, "too long", false},
		`{"error":{"message":"key ` + testKey + `","type":"authentication_error"}}`:                                     {pipeline.CodeUpstreamAuth, 401, "key ***", false},
		`{"error":{"message":"busy","type":"overloaded_error"}}`:                                                        {pipeline.CodeUpstream, 529, "busy", true},
		`{"error":{"message":"none","code":999}}`:                                                                       {pipeline.CodeUpstream, 502, "none", true},
		`{"error":{}, "object":"error", "message":"beside"}`:                                                            {pipeline.CodeUpstream, 502, "beside", true},
		`{"object":"error","message":"older"}`:                                                                          {pipeline.CodeUpstream, 502, "older", true},
		`{"error":true,"message":"beside"}`:                                                                             {pipeline.CodeUpstream, 502, "beside", true},
		`{"id":"x","choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"code":400,"message":"both"}}`: {pipeline.CodeUpstreamRequest, 400, "both", false},
		`{"choices":[{"delta":{},"error":{"code":503,"message":"inside"}}]}`:                                            {pipeline.CodeUpstream, 503, "inside", true},
		`{"error":{"message":"<html><body>Ray</body></html>"}}`:                                                         {pipeline.CodeUpstream, 502, "(an HTML page)", true},
		`{"error":{"code":500}}`:                                                                                        {pipeline.CodeUpstream, 500, "without a message", true},
	} {
		for _, first := range []bool{true, false} {
			lines := []string{line, stop}
			if !first {
				lines = []string{hello, line, stop}
			}
			r := body(t, script(lines...))
			if e := wantError(t, r.Err, want.code, want.status, want.message); e.Retry != want.retry {
				t.Errorf("%s: retry %v", line, e.Retry)
			}
			if (r.Text == "") != first {
				t.Errorf("%s: text %q", line, r.Text)
			}
		}
	}
	r := body(t, script(hello, `{"choices":[{"delta":{},"finish_reason":"error"}]}`))
	wantError(t, r.Err, pipeline.CodeUpstream, 0, "finish reason error")
	r = body(t, script(hello))
	wantError(t, r.Err, pipeline.CodeTruncated, 0, "no finish reason")
	r = body(t, script("<html>"))
	wantError(t, r.Err, pipeline.CodeTruncated, 0, "is its base URL right?")
	r = body(t, script(stop))
	wantError(t, r.Err, pipeline.CodeEmpty, 0, "without any output")
}

// TestRefusals are errors that come with a status, over a socket.
func TestRefusals(t *testing.T) {
	for _, row := range []struct {
		status    int
		body      string
		code      pipeline.Code
		message   string
		retry     bool
		after     string
		wantAfter time.Duration
	}{
		{status: 400, body: `{"error":{"message":"bad","type":"invalid_request_error","param":"x","code":null}}`, code: pipeline.CodeUpstreamRequest, message: "answered 400: bad"},
		{status: 401, body: `{"error":{"message":"Incorrect API key: ` + testKey + `"}}`, code: pipeline.CodeUpstreamAuth, message: "Incorrect API key: ***"},
		{status: 402, body: `{"error":{"message":"pay"}}`, code: pipeline.CodePlan, message: "pay"},
		{status: 404, body: `{"error":"model \"x\" not found"}`, code: pipeline.CodeUpstreamRequest, message: `model "x" not found`},
		{status: 400, body: `{"object":"error","message":"top","type":"BadRequestError","code":400}`, code: pipeline.CodeUpstreamRequest, message: "top"},
		{status: 429, body: `{"error":{"message":"wait","code":"rate_limit_exceeded"}}`, code: pipeline.CodeRateLimit, message: "wait", retry: true, after: "7", wantAfter: 7 * time.Second},
		{status: 429, body: `{"error":{"message":"pay","type":"insufficient_quota","code":"insufficient_quota"}}`, code: pipeline.CodePlan, message: "pay"},
		{status: 500, body: ``, code: pipeline.CodeUpstream, message: "answered 500: no message", retry: true},
		{status: 502, body: `<html><body>Bad gateway</body></html>`, code: pipeline.CodeUpstream, message: "(an HTML page)", retry: true},
		{status: 503, body: `upstream connect error`, code: pipeline.CodeUpstream, message: "upstream connect error", retry: true},
		{status: 301, body: ``, code: pipeline.CodeUpstreamRequest, message: "answered 301"},
	} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if row.after != "" {
				w.Header().Set("Retry-After", row.after)
			}
			w.WriteHeader(row.status)
			_, _ = io.WriteString(w, row.body)
		})
		r := run(t, connect(t, s.URL), ask("hi"))
		if e := wantError(t, r.Err, row.code, row.status, row.message); e.Retry != row.retry || e.RetryAfter != row.wantAfter {
			t.Errorf("%d %s: retry %v after %s", row.status, row.body, e.Retry, e.RetryAfter)
		}
	}
}

// TestJudge: who made the provider hears of each error that the upstream reports, and has the last word. Other failures are none of
// the upstream's words.
func TestJudge(t *testing.T) {
	for _, row := range []struct {
		status int
		body   string
		heard  string // code and message
		want   string
	}{
		{400, `{"error":{"message":"bad","code":"c"}}`, "c bad", "the upstream answered 400: bad (judged)"},
		{200, stream(`{"error":{"message":"bad","code":"c"}}`), "c bad", "bad (judged)"},
		{200, stream(`{"choices":[{"delta":{},"error":{"message":"bad"}}]}`), " bad", "bad (judged)"},
		{429, `{"error":{"message":"pay","code":"insufficient_quota"}}`, "insufficient_quota pay", "the upstream answered 429: pay (judged)"},
		{200, stream(`{"choices":[]}`), "", "the upstream's stream was cut off: no finish reason arrived"},
	} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(row.status)
			_, _ = io.WriteString(w, row.body)
		})
		heard := ""
		p := connect(t, s.URL, func(c *Config) {
			c.ID, c.Own = "mine", &Preset{MaxTokens: "max_tokens", KeyVariables: []string{"MY_KEY"}}
			c.Judge = func(e *pipeline.Error, f *upstream.Fault) {
				heard = f.Code + " " + f.Message
				e.Message, e.Code, e.Retry = e.Message+" (judged)", pipeline.CodePlan, false
			}
		})
		e := pipeline.AsError(run(t, p, ask("hi")).Err)
		if heard != row.heard || e.Message != row.want || (e.Code == pipeline.CodePlan) != (row.heard != "") {
			t.Errorf("%s: heard %q, error %s %q", row.body, heard, e.Code, e.Message)
		}
	}
}
