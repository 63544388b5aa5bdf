package pipeline

import "context"

// DisplayEvent is one event for whoever watches a turn. In JSON its Fields stand beside the other members.
type DisplayEvent struct {
	Type      string
	SessionID string
	TurnID    string
	Fields    map[string]any
}

// Display receives the events of a turn (engine-api.md, "Protocol points").
type Display interface {
	Emit(ctx context.Context, e DisplayEvent) error
}

// ApprovalAction is the answer to an ApprovalRequest.
type ApprovalAction string

// The three answers.
const (
	Accept  ApprovalAction = "accept"
	Decline ApprovalAction = "decline"
	Cancel  ApprovalAction = "cancel"
)

// ApprovalRequest asks whether something may happen.
type ApprovalRequest struct {
	SessionID  string
	TurnID     string
	ApprovalID string
	Kind       string
	Payload    map[string]any
	TimeoutMs  int
}

// ApprovalResponse is the decision.
type ApprovalResponse struct {
	Action  ApprovalAction
	Payload map[string]any
}

// Approver decides. It honours TimeoutMs and answers Cancel when it runs out (engine-api.md, "Protocol points").
type Approver interface {
	Request(ctx context.Context, r ApprovalRequest) (ApprovalResponse, error)
}
