// Package bench measures the translation from the upstream's bytes to the client's frames, in memory and over loopback, and the
// transport to the upstream. Each claim of speed stands beside something measured in the same run. README.md keeps the figures,
// dated; bench/metric names what all benchmarks report; bench/load measures the program itself.
//
// What is measured where:
//
//	framing                      codec BenchmarkFraming; chunks: upstream BenchmarkChunked
//	scan                         codec BenchmarkTextDelta, BenchmarkFinishStep; with events: BenchmarkDecoderLine of each provider
//	lines to events              BenchmarkDrive200 of each provider
//	each stage, all of them      cmd/amplifier-agent BenchmarkPrepare (a request), BenchmarkAnswer (a round); by kind: stages BenchmarkEvent
//	request decoding             stages BenchmarkDecode
//	usage and prices             cmd/amplifier-agent BenchmarkAnswer/usage_fold, pipeline BenchmarkPrice
//	SSE, whole bodies            routes/chat BenchmarkSSE, BenchmarkJSON; bytes: codec BenchmarkSSEText, BenchmarkAppendText
//	tool arguments               BenchmarkToolArguments
//	bytes in, frames out         BenchmarkTranslate, BenchmarkTranslateWhole, beside BenchmarkFloor, BenchmarkCopy and …ByStructs
//	the whole path over loopback BenchmarkLoopback: 1, 64 and 1,000 streams, streaming or not
//	time to the first chunk      BenchmarkRequest, a small turn, beside the simulator alone
//	transport                    BenchmarkTransport…, beside other clients; with the simulator: commandcode BenchmarkExchange200
//	how an answer is written     BenchmarkResponse…: ways to write one with fasthttp, and when
//	how silence is noticed       BenchmarkSilence…: ways to hear of it on many connections
//	books                        pipeline/ledger BenchmarkRecord
//	the running program          bench/load
//
// BenchmarkGuard… and bench/load -guard fail beyond their limits; README.md says which there are.
package bench
