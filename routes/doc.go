// Package routes is the HTTP server: it lets a request in or refuses it by its header alone, matches it to a route once, reads its
// body, and answers everything that is no route in the one error form. Each wire face is a folder below it. It imports pipeline,
// routes/chat (for that form) and fasthttp.
//
// The order for each request: guard (Host, Origin) · framing · preflight · route and key · length · body · handler.
//
// # Files
//
//	server.go     Server, Config, Route: the way of a request
//	guard.go      Guard: which names and pages it is open to, CORS
//	framing.go    headers that two servers could read in two ways
//	body.go       the body, in memory that grows with what has come
//	deadlines.go  how long a client may take
//	listener.go   accepting, the limit of connections, draining
//	conn.go       one connection: busy or not, its deadlines, its end
//
// # Not obvious
//
//   - Nobody without a key makes the server keep a byte of a body, whatever length it claims.
//   - A refused client may still be sending. A connection that is closed on it would be reset, and the answer lost on the way: so
//     only the server's side is closed at first.
//   - What cannot be parsed has no Origin that could be trusted: its answer has no CORS headers.
package routes
