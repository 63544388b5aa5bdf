package upstreamtest

import (
	"strconv"
	"testing"

	"amplifier-agent/pipeline"
)

// Error is a row of the table of errors: what a provider makes of one that its upstream reports.
type Error struct {
	Provider string // whose upstream reports it so; "" for all
	Status   int    // of the answer; 0 for an error inside an answer with status 200
	Body     string // of the answer, or the payload of the event
	// What becomes of it.
	Code    pipeline.Code
	As      int    // the status that it counts as
	Message string // the whole of it, but for "the upstream answered N: " in front of that of a refusal
	Retry   Retry
}

// Retry says whether it is asked again, as long as nothing was said.
type Retry string

const (
	no    Retry = "no"
	again Retry = "yes"
	later Retry = "no: the client is told when it may" // as the upstream has told
)

const (
	failed = pipeline.CodeUpstream
	auth   = pipeline.CodeUpstreamAuth
	bad    = pipeline.CodeUpstreamRequest
	plan   = pipeline.CodePlan
	rate   = pipeline.CodeRateLimit
)

// Errors are those whose treatment the words of an upstream decide, or their lack. The table is read only.
var Errors = []Error{
	{"", 302, "moved", bad, 302, "moved (is its base URL right?)", no},
	{"", 400, "anything", bad, 400, "anything", no},
	{"", 401, "anything", auth, 401, "anything", no},
	{"", 402, "anything", plan, 402, "anything", no},
	{"", 403, "anything", auth, 403, "anything", no},
	{"", 404, "anything", bad, 404, "anything", no},
	{"", 408, "anything", failed, 408, "anything", again},
	{"", 413, "anything", bad, 413, "anything", no},
	{"", 422, "anything", bad, 422, "anything", no},
	{"", 429, "anything", rate, 429, "anything", again},
	{"", 500, "anything", failed, 500, "anything", again},
	{"", 502, "", failed, 502, "no message", again},
	{"", 503, "<html>Bad gateway</html>", failed, 503, "(an HTML page)", again},
	{"", 503, `<?xml version="1.0"?>`, failed, 503, "(an HTML page)", again},
	{"", 504, `{"message":"too slow","type":"server_error"}`, failed, 504, "too slow", again},
	{"", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, failed, 529, "Overloaded", again},
	{"", 500, `{"error":"a string"}`, failed, 500, "a string", again},
	{"", 500, `[{"error":{"message":"in a list"}}]`, failed, 500, "in a list", again},
	{"", 500, `{"detail":"elsewhere"}`, failed, 500, "elsewhere", again},
	{"", 500, `{"error":{"message":"cut o`, failed, 500, `{"error":{"message":"cut o`, again},
	{"", 500, `{"error":{"message":"red \u001b[31malert"}}`, failed, 500, "red [31malert", again},
	{"", 502, "bad gateway <html>m</html>", failed, 502, "bad gateway (an HTML page)", again},
	{"", 401, `{"error":{"message":"bad key ` + Key + `"}}`, auth, 401, "bad key ***", no},
	{"", 429, `{"error":{"message":"m","rateLimit":{"window":"weekly"}}}`, rate, 429, "m (weekly limit)", no},
	{"", 429, `{"error":{"message":"m","rateLimit":{"window":"fiveHour","reset":4102444800,"model":"x"}}}`, rate, 429, "m (five-hour limit, of model x, resets at 2100-01-01 00:00:00 UTC)", later},
	{"", 429, `{"error":{"message":"m","rateLimit":{"window":"daily","reset":4102444800000}}}`, rate, 429, "m (daily limit, resets at 2100-01-01 00:00:00 UTC)", later},
	{"", 429, "m, resets at 2100-01-01T01:00:00+01:00", rate, 429, "m, resets at 2100-01-01 00:00:00 UTC", later},
	{"", 429, `{"error":{"message":"m","code":"USAGE_EXCEEDED"}}`, plan, 429, "m", no},
	{"", 400, `{"error":{"message":"Insufficient credits"}}`, plan, 400, "Insufficient credits", no},
	{"", 500, `{"error":{"message":"m","isRetryable":false}}`, failed, 500, "m", no},
	{"", 400, `{"error":{"message":"m","isRetryable":true}}`, bad, 400, "m", again},

	{"commandcode", 400, `{"success":false,"error":{"code":"BAD_REQUEST","status":400,"message":"expected true at \"params.stream\""}}`, bad, 400, `expected true at "params.stream"`, no},
	{"commandcode", 400, `{"success":false,"error":{"code":"BAD_REQUEST","status":400,"message":"Proxy use detected. m"}}`, bad, 400, "Proxy use detected. m", no},
	{"commandcode", 401, `{"success":false,"error":{"code":"UNAUTHORIZED","status":401,"message":"m"}}`, auth, 401, "m", no},
	{"commandcode", 403, `{"success":false,"error":{"code":"FORBIDDEN","status":403,"message":"MODEL_NOT_IN_PLAN: m"}}`, plan, 403, "MODEL_NOT_IN_PLAN: m", no},
	{"commandcode", 403, `{"success":false,"error":{"code":"FORBIDDEN","status":403,"message":"PREMIUM_CREDITS_EXHAUSTED: m"}}`, plan, 403, "PREMIUM_CREDITS_EXHAUSTED: m", no},
	{"commandcode", 403, `{"success":false,"error":{"code":"upgrade_required","status":403,"message":"m"}}`, plan, 403, "m (set COMMANDCODE_VERSION, or version in the provider's config, to that of a current command line program of the gateway's)", no},
	{"commandcode", 403, `{"success":false,"error":{"code":"FORBIDDEN","status":403,"message":"Model/provider not recognized: m"}}`, bad, 404, "Model/provider not recognized: m (404: the gateway serves no model of that id; it tells upper from lower case)", no},
	{"commandcode", 403, `{"success":false,"error":{"code":"FORBIDDEN","status":403,"message":"Model/provider not recognized: zai-org:glm-5.3"}}`, bad, 404, "Model/provider not recognized: zai-org:glm-5.3 (404: the gateway serves no model of that id; it tells upper from lower case). Did you mean 'zai-org/GLM-5.3'?", no},
	{"commandcode", 403, `{"error":{"message":"Authentication failed. m","type":"permission_error","code":"permission_error"}}`, failed, 403, "Authentication failed. m (the gateway says so at times of keys that are good: ask again)", again},
	{"commandcode", 413, "anything", bad, 413, "anything (the request is larger than the gateway takes: shorten the conversation, or send fewer or smaller images)", no},
	{"commandcode", 400, `{"error":{"message":"Insufficient credits"}}`, plan, 402, "Insufficient credits (402: add credits to the account at the gateway, or use a model that its plan includes)", no},
	{"commandcode", 400, `{"error":{"message":"Invalid prompt: the messages do not match ModelMessage[]"}}`, bad, 400, "Invalid prompt: the messages do not match ModelMessage[]", no},
	{"commandcode", 422, `{"success":false,"error":{"code":"CMD_ZDR_NO_PROVIDERS","status":422,"message":"m"}}`, bad, 422, "m (nobody serves this model with zero data retention: use another model, or switch zdr off (CMD_ZDR=0, or zdr in the provider's config))", no},
	{"commandcode", 429, `{"success":false,"error":{"code":"RATE_LIMITED","status":429,"message":"m"}}`, rate, 429, "m", again},
	{"commandcode", 0, `{"type":"error","error":"Network connection lost."}`, failed, 502, "Network connection lost.", again},
	{"commandcode", 0, `{"type":"error","error":{"message":"Gateway request failed","statusCode":400}}`, failed, 400, "Gateway request failed", again},
	{"commandcode", 0, `{"type":"error","error":{"message":"Invalid prompt: m","statusCode":500}}`, bad, 400, "Invalid prompt: m", no},
	{"commandcode", 0, `{"type":"error","message":"m"}`, failed, 502, "m", again},
	{"commandcode", 0, `{"type":"error"}`, failed, 502, "the upstream reports an error without a message", again},
	{"commandcode", 0, `{"type":"error","error":{"message":"m","statusCode":429}}`, rate, 429, "m", again},
	{"commandcode", 0, `{"type":"error","error":{"message":"m","statusCode":500,"isRetryable":false}}`, failed, 500, "m", no},
	{"commandcode", 0, `{"type":"error","error":"529 {\"type\":\"error\",\"error\":{\"message\":\"Overloaded\"}}"}`, failed, 529, "Overloaded", again},
	{"commandcode", 0, `{"type":"error","error":"<400> DataInspectionFailed"}`, bad, 400, "<400> DataInspectionFailed (the content filter of the model's maker refused the request)", no},
	{"commandcode", 0, `{"type":"error","error":{"message":"Insufficient Balance"}}`, plan, 402, "Insufficient Balance (402: add credits to the account at the gateway, or use a model that its plan includes)", no},
	{"commandcode", 0, `{"type":"error","error":{"message":"Tool result is missing for tool call X"}}`, bad, 502, "Tool result is missing for tool call X", no},
	{"commandcode", 0, `{"type":"error","error":"<html>m</html>"}`, failed, 502, "(an HTML page)", again},
	{"commandcode", 0, `{"success":false,"error":{"code":"UNAVAILABLE","status":503,"message":"m"}}`, failed, 503, "m", again},
	{"commandcode", 0, `{"type":"abort","reason":"m"}`, pipeline.CodeAborted, 499, "the upstream aborted the stream: m", no},

	{"chat-completions", 429, `{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}`, plan, 429, "m", no},
	{"chat-completions", 404, `{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, bad, 404, "m", no},
	{"chat-completions", 0, `{"error":{"message":"m"}}`, failed, 502, "m", again},
	{"chat-completions", 0, `{"error":"m"}`, failed, 502, "m", again},
	{"chat-completions", 0, `{"object":"error","message":"m","type":"BadRequestError","code":400}`, bad, 400, "m", no},
	{"chat-completions", 0, `{"error":{"message":"m","code":429}}`, rate, 429, "m", again},
	{"chat-completions", 0, `{"error":{"message":"m","code":"503"}}`, failed, 503, "m", again},
	{"chat-completions", 0, `{"error":{"message":"m","type":"rate_limit_exceeded"}}`, rate, 429, "m", again},
	{"chat-completions", 0, `{"error":{"message":"m","code":"insufficient_quota"}}`, plan, 429, "m", no},
	{"chat-completions", 0, `{"error":{"message":"m","code":"invalid_api_key"}}`, auth, 401, "m", no},
	{"chat-completions", 0, `{"error":{"message":"m","type":"permission_error"}}`, auth, 403, "m", no},
	{"chat-completions", 0, `{"error":{"message":"m","type":"overloaded_error"}}`, failed, 529, "m", again},
	{"chat-completions", 0, `{"error":{"message":"m","code":"context_length_exceeded"}}`, bad, 400, "m", no},
	{"chat-completions", 0, `{"error":{"message":"m","code":"content_filter"}}`, bad, 400, "m", no},
	{"chat-completions", 0, `{"choices":[{"delta":{},"error":{"message":"m","code":502}}]}`, failed, 502, "m", again},

	{"anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"m"}}`, bad, 400, "m", no},
	{"anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`, plan, 400, "Your credit balance is too low", no},
	{"anthropic", 403, `{"type":"error","error":{"type":"permission_error","message":"m"}}`, auth, 403, "m", no},
	{"anthropic", 429, `{"type":"error","error":{"type":"rate_limit_error","message":"m"}}`, rate, 429, "m", again},
	{"anthropic", 0, `{"type":"error","error":{"type":"invalid_request_error","message":"m"}}`, bad, 400, "m", no},
	{"anthropic", 0, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`, plan, 402, "Your credit balance is too low", no},
	{"anthropic", 0, `{"type":"error","error":{"type":"authentication_error","message":"m"}}`, auth, 401, "m", no},
	{"anthropic", 0, `{"type":"error","error":{"type":"billing_error","message":"m"}}`, plan, 402, "m", no},
	{"anthropic", 0, `{"type":"error","error":{"type":"permission_error","message":"m"}}`, auth, 403, "m", no},
	{"anthropic", 0, `{"type":"error","error":{"type":"not_found_error","message":"m"}}`, bad, 404, "m", no},
	{"anthropic", 0, `{"type":"error","error":{"type":"request_too_large","message":"m"}}`, bad, 413, "m", no},
	{"anthropic", 0, `{"type":"error","error":{"type":"rate_limit_error","message":"m"}}`, rate, 429, "m", again},
	{"anthropic", 0, `{"type":"error","error":{"type":"api_error","message":"m"}}`, failed, 500, "m", again},
	{"anthropic", 0, `{"type":"error","error":{"type":"timeout_error","message":"m"}}`, failed, 504, "m", again},
	{"anthropic", 0, `{"type":"error","error":{"type":"overloaded_error","message":"m"}}`, failed, 529, "m", again},
	{"anthropic", 0, `{"type":"error","error":{"type":"from_the_future","message":"m"}}`, failed, 502, "m", again},
	{"anthropic", 0, `{"error":{"message":"m","code":503}}`, failed, 503, "m", again},
}

// testErrorTable runs the rows of the table.
func (s *suite) testErrorTable(t *testing.T) {
	for _, row := range s.d.errors(t) {
		status, body, prefix := row.Status, row.Body, ""
		if status == 0 {
			status, body = 200, s.d.said("hello")+s.d.Event(row.Body)
		} else {
			prefix = "the upstream answered " + strconv.Itoa(status) + ": "
		}
		up := serve(t, func(p *peer) bool { return p.plain(status, body) })
		o := s.ask(t, s.make(t, up.url))
		if e := o.err; e == nil || e.Code != row.Code || e.Status != row.As || e.Message != prefix+row.Message || e.Retry != (row.Retry == again) || e.RetryAfter > 0 != (row.Retry == later) {
			t.Errorf("%d %s\nis %+v\nwant %+v", row.Status, row.Body, e, row)
		}
		if (row.Status == 0) != (o.Text == "hello") {
			t.Errorf("%d %s: %s", row.Status, row.Body, o)
		}
	}
}

// errors are the rows that hold for a dialect. What a provider has a row of its own for, it does not share with all.
func (d *Dialect) errors(t *testing.T) (rows []Error) {
	t.Helper()
	type key struct {
		status int
		body   string
	}
	own := map[key]bool{}
	for _, e := range Errors {
		if e.Provider == d.Provider || e.Provider == d.Gateway && e.Status != 0 && d.Gateway != "" {
			rows = append(rows, e)
			own[key{e.Status, e.Body}] = true
		}
	}
	if len(rows) == 0 {
		t.Errorf("no row is of %s", d.Provider)
	}
	for _, e := range Errors {
		if e.Provider == "" && !own[key{e.Status, e.Body}] {
			rows = append(rows, e)
		}
	}
	return rows
}
