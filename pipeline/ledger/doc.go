// Package ledger keeps the accounts: one JSON line for each turn, with what it used and what it cost, in
// H/state/workspaces/<workspace>/ledger.jsonl. It imports codec, pipeline and atomicfile.
//
// # Durability
//
// A row is handed to the system before Record returns, so that it outlives the process, also one that is killed; a disk that takes
// longer than a quarter of a second gets it later, and costs the turn no more than that. It is not synced:
// a crash of the machine may cost the rows of the last seconds. Syncing each would cost every turn a round trip to the disk.
//
// # Not obvious
//
//   - A row is one append, so that servers that share a home do not tear each other's rows. A row that was torn all the same, by a
//     kill or a full disk, is closed with a line feed ahead of the next: readers pass over lines that are blank or no JSON. A row that came right behind
//     one that was torn in that moment is written again.
//   - Null is unknown, 0 is zero. Neither is estimated.
//   - At 64 MiB the file becomes ledger.1.jsonl, in place of the one before. Another process notices at its next row; what it
//     appends in that moment lands in ledger.1.jsonl.
//   - ledger.jsonl.lock is held for that only, and nobody waits for it.
package ledger
