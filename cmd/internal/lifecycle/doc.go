// Package lifecycle is how a server that runs is known to the commands that look after it: the state file with its launch file
// (http-face.md, "Serve state file"; rulings 5 and 6), and `serve status`, `stop` and `restart`. It imports codec, and
// atomicfile and secret of the pipeline, and knows neither faces nor providers.
//
// # Files of a home
//
//	state/serve.json         the server, or the one of several that came first
//	state/serve-<port>.json  each further one that started while serve.json was taken
//	state/launch.json        how serve.json's server was started: what a restart needs and the contract's keys have no room for
//	state/launch-<port>.json the same for serve-<port>.json
//	state/serve.lock         held for the moment in which any of these is decided on and written or removed; never removed
//	state/serve.log          what restarted servers print
//
// All are 0600 in a folder of 0700. A state file is written after its launch file and removed before it, so that whoever sees the
// one can count on the other.
//
// # Not obvious
//
//   - A PID alone is no proof: it is given away again. On Linux and macOS the launch file says which process had it (by its
//     start), and without one the process must not be younger than the file. Elsewhere an existing PID counts as the server.
//   - A zombie counts as ended, or a server whose parent does not wait for it could not be stopped. One whose threads are still
//     ending does not: a new server would find its port taken.
//   - Windows has no SIGTERM for other processes: stopping is killing there, and the stopped server's files are removed for it.
//   - The API key is in the state file, in the environment of a restarted server, and in serve.log, because a server's banner has
//     it: not in the launch file, not on a command line, not in what the commands print. The values of a provider's credentials are in
//     none of these files; what a server prints of them is the server's to mask.
//   - serve.log grows for as long as a restarted server runs. Only a restart begins it anew, once it is longer than 1 MiB.
//   - A restart keeps the old server's files until the new one has published its own, although no server is behind them: if it does
//     not come up, they are how the next restart knows what to start. A status or stop in between cleans them up as any stale file.
//
// # Files
//
//	state.go     State, Launch, reading them
//	publish.go   Publish, Published, the lock
//	instance.go  the servers that a home knows of, and the choice of one
//	process.go   is it alive? with inspect_*.go and process_*.go for what each system knows
//	report.go    Options, reports, where output goes
//	status.go, stop.go, restart.go
//	log.go       what restarted servers print
package lifecycle
