package pipeline

import (
	"errors"
	"strings"
	"time"
)

// Code says what went wrong. Each face maps codes to its own statuses and bodies, in one table.
type Code string

// The codes. Faces may hand them out, so they do not change.
const (
	CodeInvalidRequest    Code = "invalid_request"
	CodeMissingAuth       Code = "missing_authorization"
	CodeInvalidKey        Code = "invalid_api_key"
	CodeForbidden         Code = "forbidden"
	CodeNotFound          Code = "not_found"
	CodeModelNotFound     Code = "model_not_found"
	CodeMethodNotAllowed  Code = "method_not_allowed"
	CodeTooLarge          Code = "payload_too_large"
	CodeHeaderTooLarge    Code = "header_too_large"
	CodeUnsupportedCoding Code = "unsupported_encoding"
	CodeRequestTimeout    Code = "request_timeout"
	CodeUnknownModel      Code = "unknown_model"
	CodeUnknownMode       Code = "unknown_mode"
	CodeModesUnavailable  Code = "modes_unavailable"
	CodeUnavailable       Code = "unavailable" // starting or shutting down
	CodeInternal          Code = "internal_error"
	CodeSkillUnavailable  Code = "skill_unavailable" // a skill that is there but cannot run

	CodeUpstream        Code = "upstream_error"    // it failed, or answered what nobody understands
	CodeUpstreamAuth    Code = "upstream_auth"     // it refuses our credentials
	CodeUpstreamRequest Code = "upstream_request"  // it refuses the request
	CodePlan            Code = "plan"              // its plan does not cover the request
	CodeRateLimit       Code = "rate_limit"        // it asks to wait
	CodeTruncated       Code = "truncated"         // its stream ended early
	CodeEmpty           Code = "empty"             // its stream ended well and brought nothing
	CodeInvalidToolCall Code = "invalid_tool_call" // a tool call whose arguments never became whole
	CodeAborted         Code = "aborted"           // it stopped by itself
	CodeStalled         Code = "stalled"           // it stayed silent for too long
)

// Origin is whose fault it is.
type Origin uint8

// The origins.
const (
	OriginInternal Origin = iota
	OriginClient
	OriginUpstream
)

// Error is the one error type that crosses package borders. Message is for the user: it says what to do where that is known,
// and holds no secret.
type Error struct {
	Code       Code
	Origin     Origin
	Message    string
	Param      string        // request path, such as messages[2].role
	Status     int           // the upstream's HTTP status, 0 if it gave none
	Retry      bool          // the failure is of a passing kind
	RetryAfter time.Duration // how long the upstream asks to wait
	Err        error
}

// Error returns the message, followed by the cause if it adds something.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// AsError finds the *Error in err. An error of another type is a fault of ours and becomes CodeInternal.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeInternal, Message: "internal error", Err: err}
}

// Outcome is how a turn ended, for accounts.
type Outcome struct {
	Status Status        // "" while it runs
	Code   Code          // of a rejected or failed turn
	Reason Reason        // of one that is done
	First  time.Duration // from its request to the first thing that the client sees; 0 if there was none
	Took   time.Duration
}

// Status says in one word how a turn ended.
type Status string

// The words.
const (
	StatusDone     Status = "ok"
	StatusRejected Status = "rejected" // nothing was asked of the upstream
	StatusFailed   Status = "error"
	StatusAborted  Status = "aborted" // its client left, or the server was shut down
)

// Invalid is an error for a request that breaks the schema at param (rulings 19).
func Invalid(param, message string) *Error {
	return &Error{Code: CodeInvalidRequest, Origin: OriginClient, Param: param, Message: message}
}

// maxQuotedBytes is how much of a client's words an error or a log line repeats.
const maxQuotedBytes = 200

// Short is s as far as it is worth repeating to people.
func Short(s string) string {
	if len(s) <= maxQuotedBytes {
		return s
	}
	return strings.ToValidUTF8(s[:maxQuotedBytes], "") + "…"
}

// Causes for which a turn's context ends.
var (
	ErrClientGone = errors.New("client gone")
	ErrShutdown   = errors.New("server is shutting down")
)
