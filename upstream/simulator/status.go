package simulator

import (
	"net/http"
	"time"
)

const (
	windowLength   = time.Hour // until the rate limit window of status-429 resets
	statusOverload = 529       // not in net/http
	proxyUse       = "Proxy use detected. This endpoint only serves CLI. Use Command Code provider API instead, or your account may face a ban."
	edgePage       = "<!DOCTYPE html>\n<html lang=\"en-US\">\n<head><title>api.commandcode.ai | 503: Service temporarily unavailable</title></head>\n" +
		"<body><div id=\"cf-wrapper\"><h1>Error 503</h1><p>Service temporarily unavailable</p>" +
		"<p>Cloudflare Ray ID: <strong>8f2a4c6e8d0b1a3c</strong></p></div></body>\n</html>\n"
)

// status returns the plain HTTP errors, in all the forms in which the gateway and what stands around it have answered; nil for
// any other fault.
func (t *turn) status(f Fault) *Answer {
	type object = map[string]any
	switch f {
	case FaultStatus400:
		return refuseInvalid(`Validation error: expected string, received undefined at "config.workingDir"`)
	case FaultStatus401:
		return refuseUnauthorized()
	case FaultStatus403:
		return refusePlan(t.req.model)
	case FaultStatus404:
		return refuseNoRoute(http.MethodPost, "/alpha/generate")
	case FaultStatus413:
		return refuseTooLarge()
	case FaultStatus422:
		return refusal{http.StatusUnprocessableEntity, "CMD_ZDR_NO_PROVIDERS", "No provider with zero data retention serves this model"}.answer()
	case FaultStatus429:
		return retryAfter("3600", jsonAnswer(http.StatusTooManyRequests, object{"success": false, "error": object{
			"code": "RATE_LIMITED", "status": http.StatusTooManyRequests, "message": "You have reached the five hour limit of your plan", "docs": docsURL,
			"rateLimit": object{"window": "fiveHour", "reset": t.req.At.Add(windowLength).Unix(), "model": t.req.Model},
		}}))
	case FaultStatus429Plain:
		return retryAfter("1", jsonAnswer(http.StatusTooManyRequests, object{"error": object{
			"message": "Rate limit exceeded, please try again", "type": "rate_limit_error", "code": "rate_limit_exceeded",
		}}))
	case FaultStatus500:
		return retryAfter("1", jsonAnswer(http.StatusInternalServerError, object{"message": "Internal Server Error", "type": "server_error"}))
	case FaultStatus503:
		return retryAfter("1", &Answer{Status: http.StatusServiceUnavailable, ContentType: "text/html; charset=UTF-8", Body: []byte(edgePage), WriteSize: Coalesce})
	case FaultStatus529:
		return jsonAnswer(statusOverload, object{"type": "error", "error": object{"type": "overloaded_error", "message": "Overloaded"}})
	case FaultProxyUse:
		return refuseInvalid(proxyUse)
	case FaultCredits:
		return refuseInvalid("Insufficient credits. Please add credits to your account to continue.")
	case FaultAuthFlaky:
		return jsonAnswer(http.StatusForbidden, object{"error": object{
			"message": "Authentication failed. Please try again.", "type": "permission_error", "code": "permission_error",
		}})
	default:
		return nil
	}
}

func retryAfter(seconds string, a *Answer) *Answer {
	a.Header = http.Header{"Retry-After": {seconds}}
	return a
}
