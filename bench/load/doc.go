// Command load measures a running server: how much processor time a delta costs, what it adds to a delta's way, what an open stream
// takes of memory, and what slow readers do to the others.
//
//	go run ./bench/load                    # builds the program, runs all workloads on it, beside a relay of bytes and the gateway alone
//	go run ./bench/load -only paced1k,open5k -svg bench/load.svg
//	go run ./bench/load -guard             # half a minute: fails if a figure is beyond its limit
//
// It starts three kinds of processes of its own, all on loopback, and ends them: a gateway that plays streams on demand, the server, and
// a relay that copies bytes between two sockets. This process is the client: a goroutine a stream. Processor time and memory are those of the server's
// process alone, so that they carry over; throughput and latencies are of all on one machine. The table says how much of
// the machine others used meanwhile.
//
// # Files
//
//	main.go      flags and the order of things
//	workload.go  what is measured
//	gateway.go   the gateway that plays
//	relay.go     the relay
//	client.go    streams as clients see them
//	process.go   the processes, their time and memory
//	histogram.go latencies
//	report.go    the table
//	guard.go     limits that CI holds
//	plot.go      the picture
package main
