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
// # Why connections of our own
//
// Measured on 30 November 2026 beside the clients that were at hand: two shared cores, Go 1.26.8, fasthttp 1.78.0, medians of seven
// runs, the others as multiples of ours. Read what is within 20 % as equal. The benchmarks are bench's BenchmarkTransport….
//
//	                                          ours    net/http  with silence  fasthttp
//	processor time a line, one line a read    12.5 µs   1.0       1.25          1.1
//	the same, lines that come in a burst      0.21 µs   0.9       1.4           1.0
//	heap and stack of a silent stream         19.3 kB   1.7       2.4           1.15
//	goroutines of a stream                    1         3         4             1
//	processor time of a short exchange        39 µs     2.3       2.6           1.2
//	cancelled, until the gateway sees it:
//	  before the header of the answer         0.11 ms   1.0       1.1           not before a timeout
//	  in the middle of the body               0.13 ms   0.9       1.0           1.0
//
// Reading is not what decides: the kernel's share is most of it. Silence is. "With silence" is net/http once the reader of its body
// hears of silence too: its connections belong to a goroutine of its own, and a deadline that passes is their end, so another
// goroutine has to read and hand over; in the other phases (dial, send, header) it still hears nothing. fasthttp reads on the
// caller's goroutine, but does not say on which connection, takes no context (its issue 2198), and its deadlines cut streams.
// Either sends some requests again on its own, where rulings 14 says when. Limits of what is read are ours with each of
// them: MaxResponseBodySize does not count a streamed body, and net/http has no such limit. Each has proxies, and so have we. What
// is asked of fasthttp is what it is good at: writing a request, parsing a header.
//
// What we give up is HTTP/2. Over TLS, net/http with it needs the same time a line (1.05, 1.15 with silence) and half the memory a
// silent stream (0.55 of our 29 kB; 1.1 with silence), and a hundred streams that begin at once begin three times sooner (47 ms for
// our 140), as they share a handshake; a thousand do not. We pay a handshake for each stream beyond those that were open lately;
// the pool keeps the rest warm. In exchange no stream waits behind the lost packet of another, or falls with its connection.
// That is right for a local server, whose streams are few and last. It would have to be thought over for a gateway that speaks
// nothing but HTTP/2, or counts connections.
//
// # Files
//
//	registry.go   models of all providers, in one namespace
//	transport.go  Transport, Call
//	reply.go      Reply: the request out, the header in, the end of an exchange
//	framing.go    bodies of known length and chunked ones
//	pool.go       idle connections of one gateway, so many at most
//	quiet_*.go    whether an idle connection still is
//	conn.go       a connection that reports silence
//	get.go        an exchange whose answer is one document
//	retry.go      when to ask again
//	proxy.go      proxies of the environment (HTTP, HTTPS, SOCKS5), certificates
//	fault.go      errors as gateways report them
//	window.go     limits of a plan that were reached
//	record.go     exchanges taken down as they run
//	sampling.go   what the bodies of requests share: the client's settings, its choice of a tool
//	drive.go      a body's lines through a provider's Decoder into a pipeline.Stream
package upstream
