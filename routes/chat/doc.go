// Package chat is the chat-completions face (http-face.md): it copies a request into a Turn, lets the stages decide, and writes
// the turn's stream as server-sent events or as one JSON body. It imports codec, pipeline, pipeline/engine and fasthttp.
//
// # Files
//
//	handler.go  Handler: from a request to a turn to a response
//	body.go     the streamed response: frames to writes
//	encode.go   what both encodings share: heads, usage, the reading of a stream
//	sse.go      Stream → Frames of chunks
//	json.go     Stream → one frame
//	errors.go   Code → status and body
//	quirks.go   clients that need the wire a little different
//
// # Not obvious
//
//   - Nothing is committed before the upstream has answered or the preflight window is over; until then an error is a status.
//   - One upstream read is at most one frame and one write, and one HTTP chunk.
//   - A client that half-closes its connection after the request counts as gone: nobody who speaks HTTP/1.1 to an API does that
//     and then waits for an answer.
//   - The JSON body is a pure buffering of the stream: after the preflight window it reports an error inside the content too.
package chat
