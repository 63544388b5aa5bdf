package anthropic

import (
	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/secret"
	"amplifier-agent/upstream"
)

// statuses are those under which the API answers an error when it has not begun to stream; inside a stream it tells the type only.
var statuses = map[string]int{
	"invalid_request_error": 400,
	"authentication_error":  401,
	"billing_error":         402,
	"permission_error":      403,
	"not_found_error":       404,
	"request_too_large":     413,
	"rate_limit_error":      429,
	"api_error":             500,
	"timeout_error":         504,
	"overloaded_error":      529,
}

// broke reports whether the fault is that the account has no credit, which the API calls an invalid request.
func broke(f *upstream.Fault) bool { return f.Says("credit balance is too low") }

// streamFault makes an error of an error event.
func streamFault(raw []byte, message codec.Text, mask *secret.Mask) *pipeline.Error {
	f := upstream.Fault{Message: message.String()}
	if raw != nil {
		var s codec.Scanner
		s.Reset(raw)
		f.Read(&s)
	}
	if f.Status == 0 {
		f.Status = statuses[f.Kind]
	}
	if broke(&f) {
		f.Status = 402
	}
	return f.Err(mask)
}

// refusal makes an error of an answer whose status is not 200.
func (p *Provider) refusal(r *upstream.Reply) error {
	e, f := upstream.Refusal(r, p.mask)
	if broke(f) {
		e.Code, e.Retry = pipeline.CodePlan, false
	}
	return e
}
