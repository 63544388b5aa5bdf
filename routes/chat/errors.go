package chat

import (
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// kind is how the face reports a code: the status, the error's type, its code, and the name that stands in an inline error.
type kind struct {
	status int
	typ    string
	code   string
	inline string
}

const (
	invalidRequest = "invalid_request_error"
	serverError    = "server_error"
	upstreamError  = "upstream_error"
)

// kinds is the one table of the face's errors (rulings 17, 27). Codes that are not in it are faults of ours.
var kinds = map[pipeline.Code]kind{
	pipeline.CodeInvalidRequest:    {400, invalidRequest, "invalid_request", "InvalidRequest"},
	pipeline.CodeMissingAuth:       {401, invalidRequest, "", "Unauthorized"},
	pipeline.CodeInvalidKey:        {401, invalidRequest, "", "Unauthorized"},
	pipeline.CodeForbidden:         {403, invalidRequest, "forbidden", "Forbidden"},
	pipeline.CodeNotFound:          {404, invalidRequest, "not_found", "NotFound"},
	pipeline.CodeModelNotFound:     {404, invalidRequest, "model_not_found", "NotFound"},
	pipeline.CodeMethodNotAllowed:  {405, invalidRequest, "method_not_allowed", "MethodNotAllowed"},
	pipeline.CodeRequestTimeout:    {408, invalidRequest, "request_timeout", "RequestTimeout"},
	pipeline.CodeTooLarge:          {413, invalidRequest, "payload_too_large", "PayloadTooLarge"},
	pipeline.CodeUnsupportedCoding: {415, invalidRequest, "unsupported_encoding", "UnsupportedEncoding"},
	pipeline.CodeHeaderTooLarge:    {431, invalidRequest, "header_too_large", "HeaderTooLarge"},
	pipeline.CodeUnknownModel:      {400, invalidRequest, "unknown_model", "UnknownModel"},
	pipeline.CodeUnknownMode:       {400, invalidRequest, "unknown_mode", "UnknownMode"},
	pipeline.CodeModesUnavailable:  {503, serverError, "modes_unavailable", "ModesUnavailable"},
	pipeline.CodeUnavailable:       {503, serverError, "unavailable", "Unavailable"},
	pipeline.CodeSkillUnavailable:  {503, serverError, "skill_unavailable", "SkillUnavailable"},
	pipeline.CodeUpstream:          {502, upstreamError, upstreamError, "UpstreamError"},
	pipeline.CodeUpstreamAuth:      {502, upstreamError, upstreamError, "UpstreamAuthError"},
	pipeline.CodeUpstreamRequest:   {502, upstreamError, upstreamError, "UpstreamRequestError"},
	pipeline.CodePlan:              {502, upstreamError, upstreamError, "PlanError"},
	pipeline.CodeRateLimit:         {502, upstreamError, upstreamError, "RateLimitError"},
	pipeline.CodeTruncated:         {502, upstreamError, upstreamError, "TruncatedError"},
	pipeline.CodeEmpty:             {502, upstreamError, upstreamError, "EmptyAnswerError"},
	pipeline.CodeInvalidToolCall:   {502, upstreamError, upstreamError, "InvalidToolCallError"},
	pipeline.CodeAborted:           {502, upstreamError, upstreamError, "AbortedError"},
	pipeline.CodeStalled:           {502, upstreamError, upstreamError, "StalledError"},
}

var internalKind = kind{500, serverError, "internal_error", "InternalError"}

func kindOf(e *pipeline.Error) kind {
	if k, ok := kinds[e.Code]; ok {
		return k
	}
	return internalKind
}

// WriteError answers with err in the one error form of the OpenAI API, which the other faces' lists share: bare, with null where
// there is nothing to say. The two 401 bodies have two keys, as the contract shows them.
func WriteError(ctx *fasthttp.RequestCtx, err error) { writeError(ctx, err, nil) }

func writeError(ctx *fasthttp.RequestCtx, err error, mask Mask) {
	e := pipeline.AsError(err)
	k := kindOf(e)
	if k.status == fasthttp.StatusUnauthorized {
		ctx.Response.Header.Set("WWW-Authenticate", "Bearer")
	}
	if e.RetryAfter > 0 {
		ctx.Response.Header.Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	ctx.Response.SetStatusCode(k.status)
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBody(append(appendError(nil, e, mask), '\n'))
}

// appendError appends the error object.
func appendError(dst []byte, e *pipeline.Error, mask Mask) []byte {
	k := kindOf(e)
	dst = codec.AppendString(append(dst, `{"error":{"message":`...), mask.text(e))
	dst = append(append(append(dst, `,"type":"`...), k.typ...), '"')
	if k.status != fasthttp.StatusUnauthorized {
		dst = appendOrNull(append(dst, `,"param":`...), e.Param)
		dst = appendOrNull(append(dst, `,"code":`...), k.code)
	}
	return append(dst, "}}"...)
}

// text is what a user is told: the message, and the cause where it is the upstream's or the client's. Our own faults stay in
// the log. The upstream's status is told if it says more than the face's own (rulings 27).
func text(e *pipeline.Error) string {
	if e.Origin == pipeline.OriginInternal && kindOf(e) == internalKind {
		return e.Message
	}
	s := e.Error()
	if status := strconv.Itoa(e.Status); e.Status >= 400 && e.Status != fasthttp.StatusBadGateway && !strings.Contains(s, status) {
		s += " (upstream status " + status + ")"
	}
	return s
}

func appendOrNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return codec.AppendString(dst, s)
}
