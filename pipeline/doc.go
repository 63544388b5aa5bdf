// Package pipeline holds the types and contracts of a turn: a request that passes the Request halves of the stages, a stream of
// upstream events that comes back through their Events halves, and the frames that a face writes. It does no I/O and knows
// neither HTTP nor any provider. It imports codec.
//
//	client ─► routes/<face>  copies the request into a *Turn ─► Request halves, outermost first:
//	          auth · account · ready · decode · model · mode · images · reconcile · history · containment · skill · tool mount ─┐
//	                                                                  any error = an HTTP status                                ▼
//	          engine.Runner.Run(ctx, turn)  one round, wrapped in event map · usage fold ─► upstream/<provider>.Stream
//	                                                                                     │ lines → scan → Event (borrowed)
//	client ◄─ write ◄─ Frames ◄─ Events halves: account ◄ reconcile ◄ tool mount ◄ event map ◄ usage fold ◄────┘
//	          silence is an event (Idle): preflight, keepalive, client still there? · a false yield ends the upstream exchange
//
// Reconcile stands before the history is split and contained, as what is stored is what the client said.
//
// # Round stages and turn stages
//
// A turn is one or more rounds. What gives a single answer of a model its meaning — which calls it made, how it ended, what it
// used — wraps each round (stages.UsageFold, stages.EventMap; the runner applies them). What concerns the client wraps the turn.
//
// # Ownership
//
// Borrow down the stream, copy at the boundary. An *Event and every slice in it are valid only during the yield that they were
// passed to. A Turn owns its memory; its messages and tools may borrow from its Body. A frame is valid until the next.
//
// # Not obvious
//
//   - Nothing is yielded after a false yield, whatever error a library makes of it.
//   - An error is the last thing a stream yields, and comes with a nil event.
//   - Flush comes right before a read of the upstream's socket, not after each event: many events in one read are one write, and
//     a lone event is never held back.
//   - Zero is not unknown: Usage and Price say which they are.
//
// # Files
//
//	event.go      Kind, Event, Reason, StepInfo
//	stream.go     Stream, Frames, Stage, Prepare, Chain
//	turn.go       Turn, Sampling, Header, Message, Part, Call, ToolSpec
//	mode.go       Mode, ToolPolicy
//	usage.go      Usage in disjoint buckets, Price as an exact decimal
//	provider.go   Provider, Round, Model, Served
//	store.go      Store, Transcript, SessionKey
//	point.go      Display, Approver
//	errors.go     Error, Code, Origin, Outcome
package pipeline
