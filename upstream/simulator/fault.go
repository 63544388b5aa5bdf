package simulator

import "slices"

// Fault is a named way for a generate exchange to go wrong. It is chosen by Options.Fault, by Answer.Fault or by the words
// [fault:NAME] in the last user message, and applied to the default answer for the request. "Some text" below is the first half
// of that answer's text; where the default would be a tool call only, it is the demo text.
type Fault string

// Error events inside a 200.
const (
	FaultErrorString  Fault = "error-string"  // some text, then {"type":"error","error":"…"}
	FaultErrorObject  Fault = "error-object"  // some text, then an error object with statusCode 529 and isRetryable
	FaultErrorMessage Fault = "error-message" // some text, then an error event with a top-level message and no error
	FaultErrorFirst   Fault = "error-first"   // the first decisive event is an error object, 403 MODEL_NOT_IN_PLAN
	FaultErrorEarly   Fault = "error-early"   // reasoning only, then a retryable error object with statusCode 429
	FaultErrorLate    Fault = "error-late"    // 200 ms of silence after start-step, then a 502 error object; nothing else
)

// Streams and connections that break.
const (
	FaultEOF            Fault = "eof"              // some text, then a clean end without finish
	FaultEOFTool        Fault = "eof-tool"         // a clean end in the middle of a tool input
	FaultFinishStepOnly Fault = "finish-step-only" // the whole answer and finish-step, then a clean end: a success
	FaultStall          Fault = "stall"            // some text, then silence until the client leaves
	FaultStallHeaders   Fault = "stall-headers"    // no headers, until the client leaves
	FaultReset          Fault = "reset"            // TCP reset instead of headers
	FaultResetMid       Fault = "reset-mid"        // some text, then TCP reset in the middle of a line
	FaultCut            Fault = "cut"              // some text, then the connection is closed without the end of the chunked body
)

// Bodies that are not what they should be.
const (
	FaultGarbage        Fault = "garbage"         // lines that are no events between the good ones; the answer is complete
	FaultSSEFraming     Fault = "sse-framing"     // the whole answer as data: lines with CR, comments, blank lines and [DONE]
	FaultHTML           Fault = "html"            // 200 with an HTML page
	FaultHugeLine       Fault = "huge-line"       // a start-step echo of 20 MiB, then the whole answer
	FaultHugeDelta      Fault = "huge-delta"      // one text-delta line above 17 MiB, then the proper end
	FaultNoNewline      Fault = "no-newline"      // a text-delta of 64 MiB that never ends
	FaultInvalidUTF8    Fault = "invalid-utf8"    // raw invalid bytes inside a text delta
	FaultLoneSurrogate  Fault = "lone-surrogate"  // a text delta with one half of a surrogate pair
	FaultSplitSurrogate Fault = "split-surrogate" // an emoji's surrogate pair over two text deltas
	FaultSplitLines     Fault = "split-lines"     // the whole answer, one byte a write
	FaultGzip           Fault = "gzip"            // the whole answer, compressed though nobody asked
	FaultDeflate        Fault = "deflate"
	FaultZstd           Fault = "zstd"
	FaultBrotli         Fault = "br"
)

// Plain HTTP errors.
const (
	FaultStatus400      Fault = "status-400"       // validation error
	FaultStatus401      Fault = "status-401"       // UNAUTHORIZED
	FaultStatus403      Fault = "status-403"       // MODEL_NOT_IN_PLAN
	FaultStatus404      Fault = "status-404"       // no such route
	FaultStatus413      Fault = "status-413"       // too large
	FaultStatus422      Fault = "status-422"       // CMD_ZDR_NO_PROVIDERS
	FaultStatus429      Fault = "status-429"       // RATE_LIMITED with a rateLimit window and Retry-After: 3600
	FaultStatus429Plain Fault = "status-429-plain" // a provider's 429 in its own form, no window; Retry-After: 1
	FaultStatus500      Fault = "status-500"       // with Retry-After: 1
	FaultStatus503      Fault = "status-503"       // an edge's HTML page, with Retry-After: 1
	FaultStatus529      Fault = "status-529"       // overloaded_error
	FaultProxyUse       Fault = "proxy-use"        // 400 "Proxy use detected…": never to be retried
	FaultCredits        Fault = "credits"          // 400 for insufficient credits: terminal
	FaultAuthFlaky      Fault = "auth-flaky"       // 403 permission_error "Authentication failed…": no proof of a bad key
)

// Unusual ends of a complete stream.
const (
	FaultNetworkError  Fault = "network-error"  // reasoning only, finish with no finishReason and rawFinishReason network-error
	FaultEmpty         Fault = "empty"          // stop with no output at all
	FaultOther         Fault = "other"          // finishReason other, no raw one, no output
	FaultLength        Fault = "length"         // some text, then length
	FaultContentFilter Fault = "content-filter" // some text, then content-filter
	FaultAbort         Fault = "abort"          // some text, then an abort event
	FaultLateCost      Fault = "late-cost"      // the only cost comes 100 ms after finish
	FaultCostTooLate   Fault = "cost-too-late"  // the only cost comes 2 s after finish
	FaultNoCost        Fault = "no-cost"        // the whole answer without any cost
	FaultNoUsage       Fault = "no-usage"       // the whole answer without any usage
)

// Faults lists every fault.
func Faults() []Fault {
	return []Fault{
		FaultErrorString, FaultErrorObject, FaultErrorMessage, FaultErrorFirst, FaultErrorEarly, FaultErrorLate,
		FaultEOF, FaultEOFTool, FaultFinishStepOnly, FaultStall, FaultStallHeaders, FaultReset, FaultResetMid, FaultCut,
		FaultGarbage, FaultSSEFraming, FaultHTML, FaultHugeLine, FaultHugeDelta, FaultNoNewline, FaultInvalidUTF8,
		FaultLoneSurrogate, FaultSplitSurrogate, FaultSplitLines, FaultGzip, FaultDeflate, FaultZstd, FaultBrotli,
		FaultStatus400, FaultStatus401, FaultStatus403, FaultStatus404, FaultStatus413, FaultStatus422, FaultStatus429,
		FaultStatus429Plain, FaultStatus500, FaultStatus503, FaultStatus529, FaultProxyUse, FaultCredits, FaultAuthFlaky,
		FaultNetworkError, FaultEmpty, FaultOther, FaultLength, FaultContentFilter, FaultAbort, FaultLateCost,
		FaultCostTooLate, FaultNoCost, FaultNoUsage,
	}
}

// Known reports whether f is one of Faults.
func (f Fault) Known() bool { return slices.Contains(Faults(), f) }
