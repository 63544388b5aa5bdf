// Package replay is a provider that answers from files: recordings of exchanges (package recording), each played through the
// provider that it was made by over a connection in memory, and bare streams of newline-delimited JSON as the Command Code gateway
// sends them. Its models are the files. It imports pipeline, codec, upstream, and the packages of the providers below that.
package replay
