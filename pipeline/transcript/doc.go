// Package transcript keeps conversations: it repairs what a client sends before an upstream refuses it, and stores it under the
// client's session (http-face.md, "Client-wins reconciliation"; rulings 32, 33). It imports codec, pipeline and atomicfile.
//
// The client sends the whole conversation with every turn, and its view wins: what is stored is what it sent last, repaired. The
// store is never read to answer such a turn.
//
// # Files
//
//	repair.go    Repair: every call gets its result, right behind it
//	sessions.go  SessionID, Sessions: which turn of a session may write, and when
//	disk.go      Disk, the pipeline.Store below H/state
//	line.go      a message as a line of transcript.jsonl, and back
//
// # Ownership
//
// Repair and Replace borrow messages and change none; Repair's result shares what it did not have to change. What Load returns
// borrows from the file's bytes, which nobody else holds.
//
// # Not obvious
//
//   - Ids of calls repeat over turns, and within one with some upstreams: a result belongs to the nearest call, not to the first.
//   - A transcript is not deleted here, however old: only turns whose client names a session are stored, but those pile up.
//   - Transcript and metadata are two files. A crash between them leaves the marker of the turn before.
package transcript
