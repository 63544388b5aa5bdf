package pipeline

import "slices"

// Mode is a way of working that a client can switch on for a turn.
type Mode struct {
	Name  string
	Body  string // instructions for the model
	Tools ToolPolicy
}

// ToolPolicy says which server tools a mode lets the model use. The client's own tools are the client's business (rulings 25).
type ToolPolicy struct {
	Safe, Warn, Confirm, Block []string
	DefaultAllow               bool // what becomes of the tools that no list names
}

// Verdict is what a ToolPolicy says of a tool.
type Verdict uint8

// The verdicts.
const (
	Allow   Verdict = iota
	Warn            // deny the first call of a turn with the reason, allow what follows
	Confirm         // ask the Approver
	Deny
)

// alwaysAllowed are the tools by which a model manages itself.
var alwaysAllowed = []string{"mode", "todo"}

// Verdict decides on a tool; the first list that names it counts. A nil policy allows everything.
func (p *ToolPolicy) Verdict(tool string) Verdict {
	switch {
	case p == nil, slices.Contains(alwaysAllowed, tool), slices.Contains(p.Safe, tool):
		return Allow
	case slices.Contains(p.Block, tool):
		return Deny
	case slices.Contains(p.Confirm, tool):
		return Confirm
	case slices.Contains(p.Warn, tool):
		return Warn
	case p.DefaultAllow:
		return Allow
	}
	return Deny
}
