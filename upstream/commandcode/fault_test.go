package commandcode

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"amplifier-agent/pipeline"
	"amplifier-agent/upstream/simulator"
)

// TestErrorEvents holds every shape in which an error arrives inside a 200 (facts/commandcode.md §2).
func TestErrorEvents(t *testing.T) {
	const (
		up   = pipeline.CodeUpstream
		auth = pipeline.CodeUpstreamAuth
		req  = pipeline.CodeUpstreamRequest
		plan = pipeline.CodePlan
		rate = pipeline.CodeRateLimit
		any_ = pipeline.CodeAborted
		pay  = " (402: add credits to the account at the gateway, or use a model that its plan includes)"
		odd  = " (the content filter of the model's maker refused the request)"
	)
	rows := []struct {
		line    string // the members behind the type
		code    pipeline.Code
		status  int
		message string // the whole of it
		retry   bool
	}{
		{`"error":"Network connection lost."`, up, 502, "Network connection lost.", true},
		{`"error":"Upstream stream ended before terminal chunk"`, up, 502, "Upstream stream ended before terminal chunk", true},
		{`"error":{"message":"Overloaded","type":"overloaded_error","code":"overloaded","statusCode":529,"isRetryable":true}`, up, 529, "Overloaded", true},
		{`"error":{"message":"Gateway request failed","statusCode":500}`, up, 500, "Gateway request failed", true},
		{`"error":{"message":"no","statusCode":500,"isRetryable":false}`, up, 500, "no", false},
		{`"error":{"message":"odd","statusCode":400,"isRetryable":true}`, req, 400, "odd", true},
		{`"error":{"message":"slow","status":408}`, up, 408, "slow", true},
		{`"error":{"message":"wait","code":429}`, rate, 429, "wait", true},
		{`"error":{"message":"wait","statusCode":429,"rateLimit":{"window":"fiveHour","reset":1}}`, rate, 429, "wait (five-hour limit, resets at 1970-01-01 00:00:01 UTC)", false},
		{`"error":{"message":"wait","rateLimit":{"window":"daily","model":"m"}}`, rate, 429, "wait (daily limit, of model m)", false},
		{`"error":{"message":"wait","statusCode":429,"rateLimit":null}`, rate, 429, "wait", true},
		{`"error":{"message":"bad","statusCode":400}`, req, 400, "bad", false},
		{`"error":{"message":"who","statusCode":401}`, auth, 401, "who", false},
		{`"error":{"message":"MODEL_NOT_IN_PLAN: Big","statusCode":403}`, plan, 403, "MODEL_NOT_IN_PLAN: Big", false},
		{`"error":{"message":"PREMIUM_CREDITS_EXHAUSTED: x","statusCode":403,"isRetryable":true}`, plan, 403, "PREMIUM_CREDITS_EXHAUSTED: x", false},
		{`"error":{"message":"Insufficient Balance"}`, plan, 402, "Insufficient Balance" + pay, false},
		{`"error":{"message":"Insufficient Balance","statusCode":402}`, plan, 402, "Insufficient Balance" + pay, false},
		{`"error":{"message":"x","code":"insufficient_credits"}`, plan, 402, "x" + pay, false},
		{`"error":{"message":"spent","code":"USAGE_EXCEEDED","statusCode":429}`, plan, 429, "spent", false},
		{`"error":{"message":"Proxy use detected. This","statusCode":400,"isRetryable":true}`, req, 400, "Proxy use detected. This", false},
		{`"message":"upstream exploded"`, up, 502, "upstream exploded", true},
		{`"message":"outer","error":null`, up, 502, "outer", true},
		{`"message":"outer","error":{}`, up, 502, "outer", true},
		{`"message":"outer","error":""`, up, 502, "outer", true},
		{`"message":"outer","error":7`, up, 502, "outer", true},
		{`"message":"outer","error":{"message":"inner"}`, up, 502, "inner", true},
		{`"error":{"message":"inner"},"message":"outer"`, up, 502, "inner", true},
		{`"error":{"error":{"message":"deep","type":"overloaded_error","statusCode":529}}`, up, 529, "deep", true},
		{`"error":{"message":""}`, up, 502, "the upstream reports an error without a message", true},
		{`"error":{"message":7}`, up, 502, "the upstream reports an error without a message", true},
		{``, up, 502, "the upstream reports an error without a message", true},
		{`"error":"529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}"`, up, 529, "Overloaded", true},
		{`"error":{"message":"429 {\"error\":{\"message\":\"too fast\"}}"}`, rate, 429, "too fast", true},
		{`"error":{"message":"529 {\"error\":{\"message\":\"Overloaded\"}}","statusCode":529}`, up, 529, "Overloaded", true},
		{`"error":{"message":"{\"error\":{\"message\":\"nested\",\"status\":503}}"}`, up, 503, "nested", true},
		{`"error":{"message":"{\"error\":{\"message\":\"no money\",\"code\":\"usage_exceeded\"}}"}`, plan, 502, "no money", false},
		{`"error":"{\"half"`, up, 502, `{"half`, true},
		{`"error":"<400> InternalError.Algo.DataInspectionFailed: no"`, req, 400, "<400> InternalError.Algo.DataInspectionFailed: no" + odd, false},
		{`"error":{"message":"DataInspectionFailed","statusCode":500,"isRetryable":true}`, req, 400, "DataInspectionFailed" + odd, false},
		{`"error":"Invalid prompt: The messages do not match the ModelMessage[] schema."`, req, 400, "Invalid prompt: The messages do not match the ModelMessage[] schema.", false},
		{`"error":{"message":"Network connection lost.","statusCode":400}`, up, 400, "Network connection lost.", true},
		{`"error":{"message":"Network connection lost.","isRetryable":false}`, up, 502, "Network connection lost.", false},
		{`"error":{"message":"Gateway request failed","statusCode":401}`, auth, 401, "Gateway request failed", false},
		{`"error":{"message":"Gateway request failed","statusCode":429,"rateLimit":{"window":"daily"}}`, rate, 429, "Gateway request failed (daily limit)", false},
		{`"error":{"message":"bad gateway <!DOCTYPE html><html>secret page</html>","statusCode":502}`, up, 502, "bad gateway (an HTML page)", true},
		{`"error":"429 reasons"`, up, 502, "429 reasons", true},
		{`"error":"<999> odd"`, up, 502, "<999> odd", true},
		{`"error":{"message":"x","statusCode":200}`, up, 502, "x", true},
		{`"error":{"message":"x","statusCode":"429"}`, up, 502, "x", true},
		{`"error":{"message":"x","statusCode":429.5}`, up, 502, "x", true},
		{`"error":{"name":"AI_MissingToolResultsError","message":"Tool result is missing for tool call X"}`, req, 502, "Tool result is missing for tool call X", false},
		{`"error":{"message":"<!DOCTYPE html><html>secret page</html>","statusCode":502}`, up, 502, "(an HTML page)", true},
		{`"error":" <html>x</html>"`, up, 502, "(an HTML page)", true},
		{`"error":"the key ` + testKey + ` is bad"`, up, 502, "the key *** is bad", true},
		{`"error":{"message":"{\"message\":\"` + testKey + `\"}"}`, up, 502, "***", true},
		{`"error":"` + strings.Repeat("x", 2<<10-5) + testKey + `"`, up, 502, strings.Repeat("x", 2<<10-5) + "***", true},
		{`"error":"` + strings.Repeat("é", 2<<10) + `"`, up, 502, strings.Repeat("é", 2<<10/2) + "…", true},
		{`"data":{"message":"legacy"}`, up, 502, "legacy", true},
		{`"error":"lone \ud83d"`, up, 502, "lone \uFFFD", true},
	}
	for _, row := range rows {
		line := `{"type":"error"`
		if row.line != "" {
			line += "," + row.line
		}
		r := body(t, strings.NewReader(`{"type":"text-delta","text":"half"}`+"\n"+line+"}\n"+`{"type":"text-delta","text":"behind"}`+"\n"))
		e := wantError(t, r.Err, row.code, row.status, "")
		if e.Message != row.message || e.Retry != row.retry || r.Text != "half" || r.Finish != nil {
			t.Errorf("%.90s\n  is %q, retry %v, text %q", row.line, e.Message, e.Retry, r.Text)
		}
	}
	for reason, want := range map[string]string{``: "the upstream aborted the stream", `,"reason":"tired of ` + testKey + `"`: "the upstream aborted the stream: tired of ***", `,"reason":7`: "the upstream aborted the stream"} {
		r := body(t, strings.NewReader(`{"type":"abort"`+reason+"}\n"))
		if e := wantError(t, r.Err, any_, 499, ""); e.Message != want || e.Retry {
			t.Errorf("%+v", e)
		}
	}
}

// TestRefusals holds the answers whose status is not 200 (facts/commandcode.md §3).
func TestRefusals(t *testing.T) {
	const alpha = `{"success":false,"error":{"code":"CODE","status":400,"message":"MESSAGE","docs":"https://x"}}`
	fill := func(code, message string) string {
		return strings.NewReplacer("CODE", code, "MESSAGE", message).Replace(alpha)
	}
	const (
		up   = pipeline.CodeUpstream
		auth = pipeline.CodeUpstreamAuth
		req  = pipeline.CodeUpstreamRequest
		plan = pipeline.CodePlan
		rate = pipeline.CodeRateLimit
	)
	rows := []struct {
		status  int
		body    string
		code    pipeline.Code
		message string // behind "the upstream answered N: "; what follows " +" is advice, of which this is a part
		retry   bool
	}{
		{400, fill("BAD_REQUEST", `Validation error: expected string, received undefined at \"config.workingDir\"`), req, `Validation error: expected string, received undefined at "config.workingDir"`, false},
		{400, fill("BAD_REQUEST", "Insufficient credits. Please add credits"), plan, "Insufficient credits. Please add credits +402: add credits", false},
		{400, fill("BAD_REQUEST", "Proxy use detected. This endpoint only serves CLI."), req, "Proxy use detected. This endpoint only serves CLI.", false},
		{401, fill("UNAUTHORIZED", "Invalid or missing API key"), auth, "Invalid or missing API key", false},
		{401, fill("UNAUTHORIZED", "bad key "+testKey), auth, "bad key ***", false},
		{403, fill("FORBIDDEN", "MODEL_NOT_IN_PLAN: Big available in Max plans"), plan, "MODEL_NOT_IN_PLAN: Big available in Max plans", false},
		{403, fill("upgrade_required", "Please upgrade"), plan, "Please upgrade +set COMMANDCODE_VERSION", false},
		{403, fill("FORBIDDEN", "Model/provider not recognized: x"), req, "Model/provider not recognized: x +404: the gateway serves no model of that id", false},
		{403, `{"error":{"message":"Authentication failed. Please try again.","type":"permission_error","code":"permission_error"}}`, up, "Authentication failed. Please try again. +ask again", true},
		{404, fill("NOT_FOUND", "Route not found"), req, "Route not found", false},
		{413, fill("PAYLOAD_TOO_LARGE", "too large"), req, "too large +shorten the conversation", false},
		{422, fill("CMD_ZDR_NO_PROVIDERS", "No provider"), req, "No provider +switch zdr off (CMD_ZDR=0", false},
		{429, fill("RATE_LIMITED", "slow down"), rate, "slow down", true},
		{429, `{"error":{"message":"limit of your plan","code":"RATE_LIMITED","rateLimit":{"window":"weekly","reset":1}}}`, rate, "limit of your plan +weekly limit, resets at 1970-01-01 00:00:01 UTC", false},
		{503, `{"error":{"message":"down","rateLimit":{"window":"weekly","reset":1}}}`, up, "down", true},
		{429, fill("USAGE_EXCEEDED", "spent"), plan, "spent", false},
		{500, `{"message":"Internal Server Error","type":"server_error"}`, up, "Internal Server Error", true},
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, up, "Overloaded", true},
		{503, "upstream connect error or disconnect/reset before headers\n", up, "upstream connect error or disconnect/reset before headers", true},
		{503, "<!DOCTYPE html>\n<html>Ray ID</html>", up, "(an HTML page)", true},
		{503, "  <html lang=en>", up, "(an HTML page)", true},
		{503, `<?xml version="1.0"?>`, up, "(an HTML page)", true},
		{400, "<400> DataInspectionFailed", req, "<400> DataInspectionFailed +content filter", false},
		{502, "", up, "no message", true},
		{502, "[]", up, "no message", true},
		{502, "7", up, "no message", true},
		{502, "null", up, "no message", true},
		{502, `"just a string"`, up, "just a string", true},
		{502, `{"error":"a string"}`, up, "a string", true},
		{502, `{"error":{"message":"cut o`, up, `{"error":{"message":"cut o`, true},
		{502, "bytes \xff\xfe", up, "bytes \uFFFD", true},
		{502, strings.Repeat("x", 1<<20), up, strings.Repeat("x", 2<<10) + "…", true},
		{502, `{"message":"` + strings.Repeat("x", 30<<10) + `"}`, up, strings.Repeat("x", 2<<10) + "…", true},
		{418, `{"message":"teapot"}`, req, "teapot", false},
		{302, `moved`, req, "moved (is its base URL right?)", false},
	}
	for _, row := range rows {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(row.status)
			_, _ = w.Write([]byte(row.body))
		}))
		p := connect(t, s.URL)
		r := run(t, p, ask("hi"))
		status := row.status
		switch {
		case strings.Contains(row.message, "+404"):
			status = 404
		case strings.Contains(row.message, "+402"):
			status = 402
		}
		message, advice, advised := strings.Cut(row.message, " +")
		e := wantError(t, r.Err, row.code, status, advice)
		want := "the upstream answered " + strconv.Itoa(row.status) + ": " + message
		if e.Message != want && !(advised && strings.HasPrefix(e.Message, want+" (")) || e.Retry != row.retry || e.RetryAfter != 0 {
			t.Errorf("%d %.60q\n  is %.200q, retry %v", row.status, row.body, e.Message, e.Retry)
		}
		p.Close()
		s.Close()
	}
}

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "1": time.Second, "3600": time.Hour, "0": 0, "-5": 0, "x": 0, "1.5": 0, "99999999999": 1 << 30 * time.Second,
		"99999999999999999999999": 0, "Wed, 21 Oct 2026 07:28:00 GMT": 0,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(429)
		}))
		p := connect(t, s.URL)
		if e := wantError(t, run(t, p, ask("hi")).Err, pipeline.CodeRateLimit, 429, "no message"); e.RetryAfter != want {
			t.Errorf("%q is %s, want %s", header, e.RetryAfter, want)
		}
		p.Close()
		s.Close()
	}
}

// TestRefusalWithoutEnd: the status is known, so the body is not waited for as long as a stream is.
func TestRefusalWithoutEnd(t *testing.T) {
	t.Parallel()
	s := simulate(t, simulator.Options{})
	s.Script(func(*simulator.Request) *simulator.Answer {
		return &simulator.Answer{Status: 429, Body: []byte("slow down"), End: simulator.EndHang}
	})
	start := time.Now()
	wantError(t, run(t, connect(t, s.URL()), ask("hi")).Err, pipeline.CodeRateLimit, 429, "the upstream answered 429: slow down")
	if d := time.Since(start); d < time.Second || d > time.Second+10*time.Second {
		t.Errorf("took %s", d)
	}
	until(t, "the connection closed", func() bool { return s.Active() == 0 })
}

// TestWindows: what is known of a limit of the plan reaches the client, and nothing is asked again before it is over.
func TestWindows(t *testing.T) {
	reset := time.Now().Add(2 * time.Hour).Truncate(time.Second)
	utc, unix := reset.UTC().Format("2006-01-02 15:04:05 UTC"), strconv.FormatInt(reset.Unix(), 10)
	zone := reset.In(time.FixedZone("", 2*60*60))
	for _, row := range []struct {
		body, header string
		message      string
		after        time.Duration // 0 for none
		retry        bool
	}{
		{body: `{"error":{"code":"RATE_LIMITED","message":"limit","rateLimit":{"window":"fiveHour","reset":` + unix + `,"model":"zai-org/GLM-5.3"}}}`, message: "limit (five-hour limit, of model zai-org/GLM-5.3, resets at " + utc + ")", after: 2 * time.Hour},
		{body: `{"error":{"code":"RATE_LIMITED","message":"limit"},"rateLimit":{"window":"weekly","reset":` + unix + `000}}`, message: "limit (weekly limit, resets at " + utc + ")", after: 2 * time.Hour},
		{body: `{"error":{"message":"limit","rateLimit":{"window":"daily","reset":"` + reset.UTC().Format(time.RFC3339) + `"}}}`, message: "limit (daily limit, resets at " + utc + ")", after: 2 * time.Hour},
		{body: `{"error":{"message":"limit","rateLimit":{"window":"daily","reset":` + unix + `}}}`, header: "7", message: "limit (daily limit, resets at " + utc + ")", after: 7 * time.Second},
		{body: `{"error":{"message":"limit","rateLimit":{"window":"daily"}}}`, message: "limit (daily limit)"},
		{body: `{"error":{"message":"limit","rateLimit":{}}}`, message: "limit"},
		{body: `{"error":{"rateLimit":{"window":"weekly"}}}`, message: "no message (weekly limit)"},
		{body: `{"error":{"message":"Your limit resets at ` + reset.UTC().Format("2006-01-02T15:04:05.000Z") + `."}}`, message: "Your limit resets at " + utc + ".", after: 2 * time.Hour},
		{body: `{"error":{"message":"Your limit resets at ` + zone.Format(time.RFC3339) + `"}}`, message: "Your limit resets at " + utc, after: 2 * time.Hour},
		{body: `Your limit resets at ` + reset.UTC().Format("2006-01-02T15:04:05") + `, ask then`, message: "Your limit resets at " + utc + ", ask then", after: 2 * time.Hour},
		{body: `Your limit resets on 2001-02-03`, message: "Your limit resets on 2001-02-03 00:00:00 UTC"},
		{body: `The counter resets at noon`, message: "The counter resets at noon", retry: true},
		{body: `It resets at 2001-99-99`, message: "It resets at 2001-99-99", retry: true},
		{body: `{"error":{"code":"USAGE_EXCEEDED","message":"spent, resets at ` + reset.UTC().Format(time.RFC3339) + `"}}`, message: "spent, resets at " + utc, after: 2 * time.Hour},
	} {
		var asked atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			if row.header != "" {
				w.Header().Set("Retry-After", row.header)
			}
			w.WriteHeader(429)
			_, _ = w.Write([]byte(row.body))
		}))
		p := connect(t, s.URL, func(c *Config) { c.Tries = 2 })
		code := pipeline.CodeRateLimit
		if strings.Contains(row.body, "USAGE_EXCEEDED") {
			code = pipeline.CodePlan
		}
		e := wantError(t, run(t, p, ask("hi")).Err, code, 429, "")
		if e.Message != "the upstream answered 429: "+row.message || e.Retry != row.retry || (asked.Load() == 2) != row.retry {
			t.Errorf("%s\n  is %q, retry %v, asked %d times", row.body, e.Message, e.Retry, asked.Load())
		}
		if early := row.after - e.RetryAfter; early < 0 || early > never || row.after == 0 && e.RetryAfter != 0 {
			t.Errorf("%s: wait for %s, want %s", row.body, e.RetryAfter, row.after)
		}
		p.Close()
		s.Close()
	}
}

// TestRefusalsAreLogged with what the gateway's support finds them by, and not told to clients, to whom the same failure is the same
// each time.
func TestRefusalsAreLogged(t *testing.T) {
	for _, row := range []struct{ request, edge, log string }{
		{request: "req_1", edge: "lb_1", log: `request="req_1, lb_1"`},
		{edge: "lb_1", log: "request=lb_1"},
		{request: "r", edge: "r", log: "request=r"},
		{log: `request=""`},
		{request: testKey, log: "request=***"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Request-Id", row.request)
			w.Header().Set("Lb-Request-Id", row.edge)
			w.WriteHeader(500)
			_, _ = w.Write([]byte(`{"error":{"message":"x","code":"SOME_CODE"}}`))
		}))
		var log bytes.Buffer
		p := connect(t, s.URL, func(c *Config) { c.Log = debugLog(&log) })
		e := pipeline.AsError(run(t, p, ask("hi")).Err)
		if e.Message != "the upstream answered 500: x" || !strings.Contains(log.String(), "status=500 type=\"\" code=SOME_CODE "+row.log) {
			t.Errorf("%+v: %q, logged %s", row, e.Message, log.String())
		}
		p.Close()
		s.Close()
	}
}
