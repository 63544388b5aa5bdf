// Package anthropic speaks the Anthropic Messages API: POST /v1/messages, answered by server-sent events (rulings 10). It imports
// codec, pipeline and upstream.
//
// # Files
//
//	anthropic.go  Provider: configuration, headers
//	models.go     the list of models, and what is told of each
//	request.go    the body but for its messages
//	exchange.go   the conversation, sorted into exchanges that the API takes
//	messages.go   exchanges, written down
//	decode.go     one line → events
//	line.go       the members of a line that are of interest
//	usage.go      usage and stop reasons
//	fault.go      errors inside a stream and instead of one
//
// # Not obvious
//
//   - Roles alternate, the user's first: what comes twice in a row becomes one message.
//   - The results of an assistant's calls are the first blocks of the very next message, one for each call; ids of calls are
//     unique over the whole conversation and hold letters, digits, "_" and "-" only.
//   - Text of white space only is refused as empty text is; so is white space at the end of a final assistant message, which the
//     model continues.
//   - Reasoning of earlier turns is not replayed: the API takes it only with a signature that is valid for it, and those are not
//     kept.
//   - input_tokens does not include the cached ones.
//   - The usage of message_delta is that of the whole message so far: it is never added to that of message_start.
package anthropic
