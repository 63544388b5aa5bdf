package pipeline

import (
	"time"

	"amplifier-agent/codec"
)

// Kind says what an Event is. Stages forward kinds that they do not know.
type Kind uint8

// The kinds of events, in the order in which a round usually brings them.
const (
	// Text is a delta of the answer: Text.
	Text Kind = iota + 1
	// Reasoning is a delta of the model's reasoning: Text.
	Reasoning
	// ToolStart opens a tool call: ID, Name.
	ToolStart
	// ToolDelta is a fragment of a call's arguments: ID, Text.
	ToolDelta
	// ToolEnd says that the arguments of call ID are complete; a ToolCall may still follow.
	ToolEnd
	// ToolCall is a whole call: ID, Name, and the arguments in Text, nil if the upstream sent none. After stages.EventMap each
	// id comes once, in the order in which the ids were first seen.
	ToolCall
	// ToolCancel says that the upstream runs call ID itself: it never concerns the client.
	ToolCancel
	// Step ends one model call inside an exchange: Step.
	Step
	// Cost is a cost that arrives apart from its Step: Step.Cost, Step.Generation.
	Cost
	// Finish ends the round, exactly once: Step. Nothing but Flush and Idle follows.
	Finish
	// Flush says that the source is about to block: what was gathered must go out now.
	Flush
	// Idle says that the source has been silent for a while. A consumer may shorten Wake.
	Idle
)

// Event is one upstream fact. Every slice in it is borrowed: valid only during the yield that it was passed to, and so is the
// event itself, which its source uses again.
type Event struct {
	Kind  Kind
	Clean bool          // Text can stand between quotes as it is
	Index int           // ToolCall behind stages.ToolMount: the call's index towards the client, from 0
	ID    []byte        // block or call id
	Name  []byte        // tool name
	Text  codec.Text    // delta or arguments: a JSON string body, still escaped
	Step  *StepInfo     // Step, Cost, Finish
	Wake  time.Duration // Idle: when the source will call again if it stays silent; a consumer may lower it
}

// Reason is why a model stopped, in the terms of the pipeline. Providers translate their own.
type Reason uint8

// The reasons. ReasonNone means that the upstream gave none that is known.
const (
	ReasonNone Reason = iota
	ReasonStop
	ReasonLength
	ReasonContentFilter
	ReasonToolCalls
	ReasonFault // the upstream reports that its own provider failed
)

// String returns the word for it on the chat-completions wire (rulings 20).
func (r Reason) String() string {
	switch r {
	case ReasonLength:
		return "length"
	case ReasonContentFilter:
		return "content_filter"
	case ReasonToolCalls:
		return "tool_calls"
	default:
		return "stop"
	}
}

// StepInfo is what is known at the end of a model call or a round.
type StepInfo struct {
	Reason     Reason
	Raw        string // the upstream's own words, for logs and errors
	Usage      Usage  // of this step; at Finish of the whole round, if the upstream says so
	Cost       Price
	Generation string // the upstream's id of the call that Cost belongs to, if it gives one
}

// Fault is the error that a round with ReasonFault ended in; nil if another reason stands there.
func (s *StepInfo) Fault() *Error {
	if s.Reason != ReasonFault {
		return nil
	}
	return &Error{Code: CodeUpstream, Origin: OriginUpstream, Message: "the upstream's provider failed (finish reason " + s.Raw + ")", Retry: true}
}
