// Package chatcompletions speaks to any upstream that serves the chat-completions API: POST {base URL}/chat/completions, answered
// by server-sent events (rulings 10). It imports codec, pipeline and upstream.
//
// # Files
//
//	chatcompletions.go  Provider: configuration, headers, the exchange
//	preset.go           Presets: what is special about the upstreams that we know
//	models.go           GET {base URL}/models
//	request.go          the body of a request
//	messages.go         Message → its messages
//	decode.go           one line → events
//	chunk.go            the members of a line that are of interest
//	calls.go            which call a fragment belongs to
//	usage.go            usage, cost and finish reasons
//	fault.go            errors, before and inside a stream
//
// # Not obvious
//
//   - codec.LineReader frames the lines, so that comments, event, id and retry lines and [DONE] never get here. An event whose
//     JSON is spread over several data lines is not understood: nobody sends one, as JSON without line breaks needs none.
//   - [DONE] ends nothing: the finish reason does, then usage may follow for a moment. Without a finish reason the stream was cut
//     off, with [DONE] or without.
//   - prompt_tokens includes the cached tokens. completion_tokens should include the reasoning, and total_tokens tells where it
//     does not.
//   - All choices are read as one: we ask for one, and some gateways spread its text and its calls over two.
package chatcompletions
