// Package upstreamtest is what every provider is held to: one suite that plays scripted answers to it over sockets and looks at the
// round that a turn would see, behind the stages that every round has. It also has the tables of what providers make of errors,
// usage and finish reasons: the tests run their rows, and docs/upstreams.md is written from them (go test ./upstream/upstreamtest
// -update). It is for tests only. It imports pipeline, pipeline/engine and stages, and no provider.
//
// A provider joins in with a Dialect in a conformance_test.go of its own, which hands it to Run. What its wire cannot say is named
// there, with the reason. Its other tests look at streams as the suite does: Ask, Collect, WantError.
//
// # Files
//
//	run.go       Run: the sections of the suite
//	dialect.go   Dialect, Options, what a dialect reads of a request
//	script.go    Script: an answer in neutral terms
//	wire_*.go    the wires that are known, as dialects without a provider
//	server.go    the upstream's end: raw bytes over loopback
//	round.go     one round as a turn has it, and what came of it
//	collect.go   what a stream means: Ask, Collect, Result, WantError
//	answer.go    text, reasoning, calls, usage, cost, ends
//	ask.go       what a request holds
//	leave.go     clients that go, silence
//	fault.go     answers that fail
//	again.go     what is asked again
//	network.go   encodings, framings, TLS, proxies, connections
//	errors.go    the table of errors
//	usages.go    the tables of usage and of finish reasons
//	quirks.go    the table of what is special about each provider
package upstreamtest
