package pipeline_test

import (
	"testing"

	"amplifier-agent/pipeline"
)

// TestToolPolicy: the first list that names a tool decides, and the default on the rest; what a model needs to manage itself always
// passes, and without a mode everything does.
func TestToolPolicy(t *testing.T) {
	p := &pipeline.ToolPolicy{Safe: []string{"read", "both"}, Warn: []string{"bash", "twice"}, Confirm: []string{"fetch", "twice"}, Block: []string{"rm", "both", "fetch", "todo"}}
	for tool, want := range map[string]pipeline.Verdict{
		"read": pipeline.Allow, "both": pipeline.Allow, "rm": pipeline.Deny, "fetch": pipeline.Deny, "twice": pipeline.Confirm,
		"bash": pipeline.Warn, "other": pipeline.Deny, "mode": pipeline.Allow, "todo": pipeline.Allow, "": pipeline.Deny,
	} {
		if got := p.Verdict(tool); got != want {
			t.Errorf("%q: got %d, want %d", tool, got, want)
		}
	}
	p.DefaultAllow = true
	if p.Verdict("other") != pipeline.Allow || p.Verdict("rm") != pipeline.Deny {
		t.Error("the default is not to allow, or allows what is blocked")
	}
	if none := (*pipeline.ToolPolicy)(nil); none.Verdict("rm") != pipeline.Allow {
		t.Error("without a policy a tool is denied")
	}
}

// TestTurnEnd: everything that was registered is called once, the latest first.
func TestTurnEnd(t *testing.T) {
	var turn pipeline.Turn
	got := ""
	turn.AtEnd(func() { got += "a" })
	turn.AtEnd(func() { got += "b" })
	turn.End()
	turn.End()
	if got != "ba" {
		t.Errorf("got %q", got)
	}
}
