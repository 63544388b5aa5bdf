// Package simulator is a faithful gateway in a box: an HTTP server on a loopback port that speaks the NDJSON protocol of
// POST /alpha/generate, refuses what the real gateway refuses, and breaks in every way the real one has been seen to break.
// It is what --demo talks to, what the tests script and what the bench loads.
//
// It imports codec for JSON and nothing else of ours. In particular it shares no line with the client it is there to check: a
// mistake in upstream/commandcode must not be able to hide behind the same mistake here.
//
// An exchange goes: receive (headers, size) → check (validate.go: the envelope, prompt.go: the messages) → plan (plan.go: what
// the prompt asks for) → turn (turn.go: the event lines) or fault (fault.go) → play (play.go: bytes, pauses and the end).
// A plan, a fault and a test's own script all end as one Answer, so every one of them can be slowed, cut or compressed alike.
//
// POST /provider/v1/chat/completions checks in its own words (chat.go) and then answers with the same plans, faults and scripts, whose
// lines are put into chunks (chunks.go).
//
// Not obvious:
//
//   - Answers are built whole before the first byte is sent. Pauses are offsets into those bytes, so a stream at full speed is a
//     few large writes and costs the bench next to nothing.
//   - The body is declared text/event-stream although it is NDJSON, as the real gateway does.
//   - Unlike the real gateway the simulator never answers differently twice: counts, texts and costs follow from the request. What an
//     account is told (account.go) is made up; its dates follow the clock, or it would be of a time long past.
//   - A refusal comes before a Script is asked, so a scripted test still fails when the client sends something wrong.
//   - Every goroutine belongs to the Server; Close waits for the last one.
package simulator
