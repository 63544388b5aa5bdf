// Package upstream is what providers share: the registry of the models that are served, and the exchange with a gateway over
// HTTP/1.1. A provider is a folder below it. The package imports codec and pipeline; fasthttp writes the request and reads the
// response, the connections are ours.
//
// # Silence is an event
//
// A connection lets its reader know, on the reader's own goroutine, right before it reads the socket (Flush) and after each tick
// without a byte (Idle). So preflight, keepalive, the look whether the client is still there and the limit of silence need no
// timer, lock or goroutine of their own, in any phase of the exchange: dialling, TLS, sending, waiting for headers, reading.
//
// # Files
//
//	registry.go   models of all providers, in one namespace
//	transport.go  Transport, Call
//	reply.go      Reply: the request out, the header in, the end of an exchange
//	framing.go    bodies of known length and chunked ones
//	pool.go       idle connections of one gateway
//	quiet_*.go    whether an idle connection still is
//	conn.go       a connection that reports silence
//	get.go        an exchange whose answer is one document
//	retry.go      when to ask again
//	proxy.go      proxies of the environment, certificates
//	fault.go      errors as gateways report them
//	window.go     limits of a plan that were reached
//	drive.go      a body's lines through a provider's Decoder into a pipeline.Stream
package upstream
