// Package codec is bytes only: framing of newline-delimited JSON, a scanner that borrows from the line it reads, JSON string
// bodies that stay escaped from the upstream's line to the client's frame, server-sent event framing and decompression.
// It imports nothing of this project and knows no protocol.
//
// # Ownership
//
// Everything here borrows. A line is lent until the next call on its LineReader; a Text, a key or a raw value is lent as
// long as the bytes it was scanned from. Builds with -race overwrite a line once it is consumed, so that a slice that was
// kept breaks a test instead of a user.
//
// # Files
//
//	text.go      Text, escaping, unescaping, and Joiner, which repairs what must not be passed on
//	scan.go      Scanner: one pass over one JSON value, members in any order, no allocation
//	skip.go      strict validation of values that are passed over or passed on, without recursion
//	lines.go     LineReader: framing of NDJSON over any io.Reader
//	sse.go       framing of server-sent events, appended to one buffer
//	compress.go  decoders for compressed bodies
//	json.go      goccy/go-json for everything off the hot path; the only file that imports it
//
// # Not obvious
//
//   - Raw control characters inside strings are repaired in text (a sloppy gateway must not cost a user the delta) but
//     refused in raw values, which are passed on byte for byte.
//   - U+0085, U+2028 and U+2029 are always written as escapes: common clients split lines on them.
//   - A surrogate pair may arrive split over two deltas: Joiner holds the first half back.
package codec
