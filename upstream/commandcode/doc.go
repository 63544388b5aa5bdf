// Package commandcode speaks to the Command Code gateway on either of its surfaces (rulings 11): POST /alpha/generate, answered by
// newline-delimited JSON (upstream-wire-protocol.md), or POST /provider/v1/chat/completions. It imports codec, pipeline, upstream and,
// for the second, upstream/chatcompletions.
//
// # Files
//
//	commandcode.go  Provider: configuration, headers, models
//	catalogue.go    what is known of the models beyond the gateway's own list
//	resolve.go      names that stand for ids
//	fit.go          a round as its model takes it
//	nullable.go     schemas of tools for Google's models
//	chat.go         the provider surface
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
//   - The gateway tells ids by upper and lower case, and answers a wrong one with 403.
//   - A 403 "Authentication failed" passes: only a 401 says that the key is bad.
//   - finish does not end the stream: the cost may come after it.
package commandcode
