package upstreamtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"amplifier-agent/pipeline"
)

// picture is a small image, and another one.
var picture, photo = pipeline.Part{Image: "data:image/png;base64,iVBORw0KGgo=", MediaType: "image/png"}, pipeline.Part{Image: "data:image/jpeg;base64,/9j/4AAQ", MediaType: "image/jpeg"}

// asked has one question asked, and returns how the upstream understood it.
func (s *suite) asked(t *testing.T, turn *pipeline.Turn) *Asked {
	t.Helper()
	got := make(chan *Request, 1)
	hello := s.d.hello()
	up := serve(t, func(p *peer) bool {
		got <- p.last
		return p.plain(200, hello)
	})
	if o := run(t.Context(), t, s.make(t, up.url), turn, nil); o.Text != "hello" {
		t.Fatal(o)
	}
	a, err := s.d.Read(<-got)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func says(role pipeline.Role, parts ...pipeline.Part) pipeline.Message {
	return pipeline.Message{Role: role, Parts: parts}
}

func text(s string) pipeline.Part { return pipeline.Part{Text: s} }

func result(id, s string) pipeline.Message {
	return pipeline.Message{Role: pipeline.RoleTool, ToolCallID: id, Parts: []pipeline.Part{text(s)}}
}

// told is a conversation, a line for each thing in it.
func told(messages []pipeline.Message) string {
	var b strings.Builder
	for _, m := range messages {
		for _, p := range m.Parts {
			switch {
			case p.Image != "":
				fmt.Fprintf(&b, "%s shows %s %s\n", m.Role, p.MediaType, p.Image)
			case m.Role == pipeline.RoleTool:
				fmt.Fprintf(&b, "tool %s returns %q\n", m.ToolCallID, p.Text)
			default:
				fmt.Fprintf(&b, "%s says %q\n", m.Role, p.Text)
			}
		}
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, "%s calls %s %s %s\n", m.Role, c.ID, c.Name, c.Arguments)
		}
	}
	return b.String()
}

// testRequest: what a turn asks arrives, whatever the wire calls it.
func (s *suite) testRequest(t *testing.T) {
	turn := s.turn()
	turn.System = "Answer in German. 世界 \"quoted\" 🌍"
	odd := `{"q" : "Köln\u0020🎉", "n":12345678901234567890, "x":1.0}`
	turn.History = []pipeline.Message{
		says(pipeline.RoleUser, text("What is on these?\n\u2028"), picture, text("And on this?"), photo),
		{Role: pipeline.RoleAssistant, Parts: []pipeline.Part{text("Let me see.")}, Reasoning: "hm", ToolCalls: []pipeline.Call{
			{ID: "call_1", Name: "look_up", Arguments: []byte(odd)},
			{ID: "call_2", Name: "list", Arguments: []byte(`{}`)},
		}},
		result("call_1", "a <b>cat</b>"),
		result("call_2", `{"dogs":["Ä"]}`),
	}
	turn.HostTools = []pipeline.ToolSpec{
		{Name: "look_up", Description: "Looks \"things\" up.", Parameters: []byte(`{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}`)},
		{Name: "list", Parameters: []byte(`{"type":"object","properties":{}}`)},
	}
	turn.Prompt = nil
	a := s.asked(t, turn)
	if want := told(turn.History); told(a.Messages) != want {
		t.Errorf("the conversation is\n%swant\n%s", told(a.Messages), want)
	}
	if a.Key != Key || a.Model != s.d.Model || a.System != turn.System {
		t.Errorf("key %q, model %q, system %q", a.Key, a.Model, a.System)
	}
	if len(a.Tools) != len(turn.HostTools) {
		t.Fatalf("%d tools", len(a.Tools))
	}
	for i, want := range turn.HostTools {
		if got := a.Tools[i]; got.Name != want.Name || got.Description != want.Description || string(got.Parameters) != string(want.Parameters) {
			t.Errorf("tool %s %q %s\nwant %s %q %s", got.Name, got.Description, got.Parameters, want.Name, want.Description, want.Parameters)
		}
	}

	// Without tools, system prompt and history, there is nothing but the question.
	turn = s.turn()
	if a := s.asked(t, turn); told(a.Messages) != "user says \"hi\"\n" || strings.TrimSpace(a.System) != "" || len(a.Tools) != 0 {
		t.Errorf("%+v", a)
	}
}

// testFailedResults: a result that reports a failure is marked as one.
func (s *suite) testFailedResults(t *testing.T) {
	turn := s.turn()
	failed := result("call_2", "no such file")
	failed.IsError = true
	turn.History = []pipeline.Message{
		says(pipeline.RoleUser, text("go")),
		{Role: pipeline.RoleAssistant, ToolCalls: []pipeline.Call{{ID: "call_1", Name: "f", Arguments: []byte(`{}`)}, {ID: "call_2", Name: "f", Arguments: []byte(`{}`)}}},
		result("call_1", "fine"), failed,
	}
	turn.Prompt = nil
	marks := ""
	for _, m := range s.asked(t, turn).Messages {
		if m.Role == pipeline.RoleTool {
			marks += fmt.Sprintf("%s %v, ", m.ToolCallID, m.IsError)
		}
	}
	if marks != "call_1 false, call_2 true, " {
		t.Error(marks)
	}
}

// testSideBySide runs rounds at once, each with a marker of its own, over one provider.
func (s *suite) testSideBySide(t *testing.T) {
	up := serve(t, func(p *peer) bool {
		a, err := s.d.Read(p.last)
		if err != nil || len(a.Messages) != 1 {
			t.Errorf("%+v, %v", a, err)
			return false
		}
		marker := a.Messages[0].Parts[0].Text
		script := &Script{Finish: pipeline.ReasonToolCalls}
		for range 20 {
			script.Parts = append(script.Parts, Part{Text: marker})
		}
		script.Parts = append(script.Parts, Part{Calls: []Call{{marker, "f", []string{`{"m":"`, marker, `"}`}}}})
		said, end := s.d.Write(script)
		p.begin()
		for _, piece := range append(said, end...) {
			p.chunk(piece)
		}
		return p.end()
	})
	p := s.make(t, up.url)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			marker := fmt.Sprintf("m%d", 1000+i)
			turn := s.turn()
			turn.Prompt.Parts[0].Text = marker
			o := run(context.WithoutCancel(t.Context()), t, p, turn, nil)
			if o.err != nil || o.Text != strings.Repeat(marker, 20) || len(o.Calls) != 1 || string(o.Calls[0].Arguments) != `{"m":"`+marker+`"}` {
				t.Errorf("%s: %s", marker, o)
			}
		})
	}
	wg.Wait()
}
