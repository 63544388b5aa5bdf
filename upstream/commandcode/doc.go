// Package commandcode speaks to the Command Code gateway: POST /alpha/generate, answered by newline-delimited JSON
// (upstream-wire-protocol.md). It imports codec, pipeline and upstream.
//
// # Files
//
//	commandcode.go  Provider: configuration, headers, models
//	request.go      the schema-strict envelope
//	messages.go     Message → ModelMessage
//	decode.go       one line → events
//	line.go         the members of a line that are of interest
//	usage.go        usage, cost and finish reasons
//	fault.go        errors, in each shape in which the gateway reports them
//	account.go      whose key it is, what is left to spend and what was spent
//	fixtures/       whole bodies and what they mean, for tests
//
// # Not obvious
//
//   - The answer's content type is text/event-stream although it is NDJSON: the parser is not chosen by it.
//   - tool-call has the id in toolCallId, the fragments before it in id; tool-call is the authoritative one.
//   - inputTokens includes the cached ones.
//   - params.system is never left out: the gateway would put about 7,500 tokens of its own in its place.
//   - finish does not end the stream: the cost may come after it.
package commandcode
