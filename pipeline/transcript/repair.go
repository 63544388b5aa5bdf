package transcript

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"amplifier-agent/pipeline"
)

// What Repair puts where something is missing. The first is a tool's result, the second an assistant's answer.
const (
	missingResult = "[This call was interrupted before it returned a result.]"
	missingAnswer = "[This turn was interrupted before an answer was given.]"
)

const reminderTag = "<system-reminder>"

// Repair makes a history one that upstreams accept (rulings 33): each call has exactly one result, all results stand right behind
// their assistant message, no result stands elsewhere, ids are unique within a message, and no user speaks right behind a result.
// A trailing result is healthy: it is the turn's continuation.
//
// A result belongs to the nearest call of its id before it that has none yet, else to the nearest behind it, else it is dropped.
// What is missing is made up and says so. Texts are never lost or reordered, and no result that has a call is lost.
//
// Repair is pure: messages and what they refer to stay as they are. A healthy history is returned as the slice that came, with nil
// fixes; otherwise fixes has one line for each kind of repair. It takes time linear in the number of messages and calls.
func Repair(messages []pipeline.Message) (repaired []pipeline.Message, fixes []string) {
	calls, results := 0, 0
	for i := range messages {
		calls += len(callsOf(&messages[i]))
		if messages[i].Role == pipeline.RoleTool {
			results++
		}
	}
	if calls+results == 0 {
		return messages, nil
	}
	r := repair{in: messages, calls: make([]pairing, 0, calls), states: make([]idState, 0, calls), ids: make(map[string]int, calls)}
	r.pair()
	r.survey()
	if r.healthy() {
		return messages, nil
	}
	return r.rebuild(), r.report()
}

// repair is one history under repair.
type repair struct {
	in     []pipeline.Message
	calls  []pairing
	first  []int // by message: its first call in calls
	answer []int // by message: which of calls it answers, -1 for none
	states []idState
	ids    map[string]int // into states

	unanswered, dropped, moved, renamed, unfinished tally
}

// pairing is a call and what answers it.
type pairing struct {
	message int
	id      string // unique within its message
	state   int    // of the id as it came
	result  int    // the message that answers it, -1 for none
	below   int    // the next unanswered call of the same id, downwards; -1 for none
}

// idState is what is known of one call id. Of several unanswered calls the one on top is the nearest: the first of the latest message.
type idState struct {
	top     int   // unanswered call, -1 for none
	early   []int // results that came before any call of theirs
	message int   // the last message that uses the id
	uses    int   // by it so far; later the number that makes the next one unique
}

// tally counts one kind of fix and remembers where it was needed first.
type tally struct{ n, first int }

func (t *tally) add(message int) {
	if t.n == 0 {
		t.first = message
	}
	t.n++
}

func callsOf(m *pipeline.Message) []pipeline.Call {
	if m.Role != pipeline.RoleAssistant {
		return nil
	}
	return m.ToolCalls
}

// isReal reports whether m is a user's own message: neither a result nor host text in user clothing.
func isReal(m *pipeline.Message) bool {
	return m.Role == pipeline.RoleUser && m.ToolCallID == "" && !m.Contained && !strings.HasPrefix(m.Text(), reminderTag)
}

func (r *repair) state(id string) int {
	i, ok := r.ids[id]
	if !ok {
		i = len(r.states)
		r.ids[id] = i
		r.states = append(r.states, idState{top: -1, message: -1})
	}
	return i
}

// pair finds the call of each result. Preceding calls come first, so that a stray result cannot take the place of one that stands
// where it belongs.
func (r *repair) pair() {
	r.first, r.answer = make([]int, len(r.in)), make([]int, len(r.in))
	for i := range r.in {
		m := &r.in[i]
		r.first[i], r.answer[i] = len(r.calls), -1
		if m.Role == pipeline.RoleTool {
			s := &r.states[r.state(m.ToolCallID)]
			if c := s.top; c >= 0 {
				s.top = r.calls[c].below
				r.join(c, i)
			} else {
				s.early = append(s.early, i)
			}
			continue
		}
		r.open(i, callsOf(m))
	}
	for c := range r.calls {
		if r.calls[c].result >= 0 {
			continue
		}
		// Whatever came early was there before every call of its id that is still unanswered.
		if s := &r.states[r.calls[c].state]; len(s.early) > 0 {
			r.join(c, s.early[0])
			s.early = s.early[1:]
		}
	}
}

func (r *repair) join(call, result int) {
	r.calls[call].result = result
	r.answer[result] = call
}

// open adds the calls of one message, the first of an id on top.
func (r *repair) open(message int, calls []pipeline.Call) {
	repeats := false
	for _, c := range calls {
		state := r.state(c.ID)
		r.calls = append(r.calls, pairing{message: message, id: c.ID, state: state, result: -1})
		s := &r.states[state]
		repeats = repeats || s.message == message
		s.message, s.uses = message, 0
	}
	if repeats {
		r.rename(message)
	}
	for c := len(r.calls) - 1; c >= r.first[message]; c-- {
		s := &r.states[r.calls[c].state]
		r.calls[c].below, s.top = s.top, c
	}
}

// rename makes the ids of the message that was opened last unique.
func (r *repair) rename(message int) {
	for c := r.first[message]; c < len(r.calls); c++ {
		p := &r.calls[c]
		n := r.states[p.state].uses + 1
		for n > 1 {
			id := p.id + "-" + strconv.Itoa(n)
			if s := r.state(id); r.states[s].message != message {
				r.states[s].message = message
				p.id = id
				r.renamed.add(message)
				break
			}
			n++
		}
		r.states[p.state].uses = n
	}
}

// survey counts what is not as it should be, but for what only shows when the history is put together again.
func (r *repair) survey() {
	for c := range r.calls {
		if r.calls[c].result < 0 {
			r.unanswered.add(r.calls[c].message)
		}
	}
	speaker := -1 // the last message that is no result
	for i := range r.in {
		switch {
		case r.in[i].Role != pipeline.RoleTool:
			speaker = i
		case r.answer[i] < 0:
			r.dropped.add(i)
		case r.calls[r.answer[i]].message != speaker:
			r.moved.add(i)
		}
	}
}

func (r *repair) healthy() bool {
	if r.unanswered.n+r.dropped.n+r.moved.n+r.renamed.n > 0 {
		return false
	}
	for i := 1; i < len(r.in); i++ {
		if r.in[i-1].Role == pipeline.RoleTool && isReal(&r.in[i]) {
			return false
		}
	}
	return true
}

func (r *repair) rebuild() []pipeline.Message {
	out := make([]pipeline.Message, 0, len(r.in)+r.unanswered.n)
	for i := range r.in {
		m := &r.in[i]
		if m.Role == pipeline.RoleTool {
			continue // comes with its call
		}
		if n := len(out); n > 0 && out[n-1].Role == pipeline.RoleTool && isReal(m) {
			r.unfinished.add(i)
			out = append(out, pipeline.Message{Role: pipeline.RoleAssistant, Parts: []pipeline.Part{{Text: missingAnswer}}})
		}
		if calls := callsOf(m); len(calls) > 0 {
			out = r.appendBlock(out, m, r.calls[r.first[i]:][:len(calls)])
		} else {
			out = append(out, *m)
		}
	}
	return out
}

// appendBlock appends an assistant message and the results of its calls. Those that came keep their order; the others stand where
// the order of the calls puts them.
func (r *repair) appendBlock(out []pipeline.Message, m *pipeline.Message, calls []pairing) []pipeline.Message {
	out = append(out, withIDs(m, calls))
	var results []int
	for _, c := range calls {
		if c.result >= 0 {
			results = append(results, c.result)
		}
	}
	slices.Sort(results)
	for k, c := range calls {
		if c.result < 0 {
			out = append(out, pipeline.Message{Role: pipeline.RoleTool, Name: m.ToolCalls[k].Name, ToolCallID: c.id, IsError: true,
				Parts: []pipeline.Part{{Text: missingResult}}})
			continue
		}
		for len(results) > 0 && results[0] <= c.result {
			result := r.in[results[0]]
			if id := r.calls[r.answer[results[0]]].id; id != result.ToolCallID {
				result.ToolCallID, result.Raw = id, nil
			}
			out = append(out, result)
			results = results[1:]
		}
	}
	return out
}

// withIDs returns m with its calls under the ids of calls.
func withIDs(m *pipeline.Message, calls []pairing) pipeline.Message {
	changed := *m
	for k, c := range calls {
		if m.ToolCalls[k].ID == c.id {
			continue
		}
		if changed.Raw = nil; &changed.ToolCalls[0] == &m.ToolCalls[0] {
			changed.ToolCalls = slices.Clone(m.ToolCalls)
		}
		changed.ToolCalls[k].ID = c.id
	}
	return changed
}

func (r *repair) report() (fixes []string) {
	for _, f := range []struct {
		tally
		what string
	}{
		{r.unanswered, "calls without a result, which got one that says so"},
		{r.dropped, "results without a call, dropped"},
		{r.moved, "results that did not stand behind their call, moved there"},
		{r.renamed, "calls with an id that their message uses twice, renamed"},
		{r.unfinished, "turns without an answer, which got one that says so"},
	} {
		if f.n > 0 {
			fixes = append(fixes, fmt.Sprintf("%s: %d (first at messages[%d])", f.what, f.n, f.first))
		}
	}
	return fixes
}
