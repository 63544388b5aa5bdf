package transcript_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/transcript"
)

func says(role pipeline.Role, text string) pipeline.Message {
	return pipeline.Message{Role: role, Parts: []pipeline.Part{{Text: text}}}
}

func user(text string) pipeline.Message      { return says(pipeline.RoleUser, text) }
func assistant(text string) pipeline.Message { return says(pipeline.RoleAssistant, text) }

func asks(ids ...string) pipeline.Message {
	m := pipeline.Message{Role: pipeline.RoleAssistant, Raw: []byte("{}")}
	for i, id := range ids {
		m.ToolCalls = append(m.ToolCalls, pipeline.Call{ID: id, Name: "tool" + strconv.Itoa(i), Arguments: []byte("{}")})
	}
	return m
}

func result(id, text string) pipeline.Message {
	m := says(pipeline.RoleTool, text)
	m.ToolCallID, m.Raw = id, []byte("{}")
	return m
}

// sketch writes a history in short: users u, systems s, developers d, assistants a with their ids, results r with their id.
func sketch(messages []pipeline.Message) string {
	var words []string
	for _, m := range messages {
		w := m.Text()
		if strings.HasPrefix(w, "[") {
			w = "!"
		}
		switch {
		case m.Role == pipeline.RoleTool:
			w = "r(" + m.ToolCallID + ")" + w
		case len(m.ToolCalls) > 0:
			var ids []string
			for _, c := range m.ToolCalls {
				ids = append(ids, c.ID)
			}
			w = "a(" + strings.Join(ids, ",") + ")" + w
		default:
			w = string(m.Role[0]) + ":" + w
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

func TestRepair(t *testing.T) {
	contained := user("contained")
	contained.Contained = true
	answer := user("answer")
	answer.ToolCallID = "x"
	reminder := user("<system-reminder>x")
	for _, row := range []struct {
		name  string
		in    []pipeline.Message
		want  string
		fixes []string // how many of what
	}{
		{"nothing", nil, "", nil},
		{"no tools", []pipeline.Message{user("1"), assistant("2"), user("3")}, "u:1 a:2 u:3", nil},
		{"a whole round", []pipeline.Message{user("1"), asks("x"), result("x", "2"), assistant("3"), user("4")},
			"u:1 a(x) r(x)2 a:3 u:4", nil},
		{"a trailing result is the continuation", []pipeline.Message{user("1"), asks("x"), result("x", "2")}, "u:1 a(x) r(x)2", nil},
		{"results in any order", []pipeline.Message{asks("x", "y"), result("y", "1"), result("x", "2")}, "a(x,y) r(y)1 r(x)2", nil},
		{"rounds in a row", []pipeline.Message{asks("x"), result("x", "1"), asks("y"), result("y", "2")}, "a(x) r(x)1 a(y) r(y)2", nil},
		{"an id in two turns (B005)", []pipeline.Message{user("1"), asks("c"), result("c", "2"), user("<system-reminder>"), asks("c"), result("c", "3"), assistant("4")},
			"u:1 a(c) r(c)2 u:<system-reminder> a(c) r(c)3 a:4", nil},
		{"contained text behind a result", []pipeline.Message{asks("x"), result("x", "1"), contained}, "a(x) r(x)1 u:contained", nil},
		{"a reminder behind a result", []pipeline.Message{asks("x"), result("x", "1"), reminder}, "a(x) r(x)1 u:<system-reminder>x", nil},
		{"a user with a call's id behind a result", []pipeline.Message{asks("x"), result("x", "1"), answer}, "a(x) r(x)1 u:answer", nil},

		{"two calls, one result, then a user (B080)", []pipeline.Message{user("1"), asks("x", "y"), result("x", "2"), user("3")},
			"u:1 a(x,y) r(x)2 r(y)! a:! u:3", []string{"1 calls without a result", "1 turns without an answer"}},
		{"the other result", []pipeline.Message{asks("x", "y"), result("y", "1"), assistant("2")},
			"a(x,y) r(x)! r(y)1 a:2", []string{"1 calls without a result"}},
		{"no result between two", []pipeline.Message{asks("x", "y", "z"), result("z", "1"), result("x", "2")},
			"a(x,y,z) r(z)1 r(x)2 r(y)!", []string{"1 calls without a result"}},
		{"a trailing call", []pipeline.Message{user("1"), asks("x")}, "u:1 a(x) r(x)!", []string{"1 calls without a result"}},
		{"a result of no call", []pipeline.Message{user("1"), result("x", "2"), asks("y"), result("y", "3"), result("z", "4")},
			"u:1 a(y) r(y)3", []string{"2 results without a call"}},
		{"a second result of one call", []pipeline.Message{asks("x"), result("x", "1"), result("x", "2")},
			"a(x) r(x)1", []string{"1 results without a call"}},
		{"only results", []pipeline.Message{result("x", "1")}, "", []string{"1 results without a call"}},
		{"a result before its call", []pipeline.Message{result("x", "1"), user("2"), asks("x")},
			"u:2 a(x) r(x)1", []string{"1 results that did not stand behind their call"}},
		{"a stray before its call does not take its place", []pipeline.Message{result("x", "1"), asks("x"), result("x", "2")},
			"a(x) r(x)2", []string{"1 results without a call"}},
		{"early results in order", []pipeline.Message{result("x", "1"), result("x", "2"), asks("x"), assistant("3"), asks("x")},
			"a(x) r(x)1 a:3 a(x) r(x)2", []string{"2 results that did not"}},
		{"a result behind a user", []pipeline.Message{asks("x"), user("1"), result("x", "2")},
			"a(x) r(x)2 a:! u:1", []string{"1 results that did not", "1 turns without an answer"}},
		{"a result behind an assistant", []pipeline.Message{asks("x"), assistant("1"), result("x", "2"), user("3")},
			"a(x) r(x)2 a:1 u:3", []string{"1 results that did not"}},
		{"a system message among results", []pipeline.Message{asks("x", "y"), result("x", "1"), says(pipeline.RoleSystem, "2"), says(pipeline.RoleDeveloper, "3"), result("y", "4")},
			"a(x,y) r(x)1 r(y)4 s:2 d:3", []string{"1 results that did not"}},
		{"results of two assistants behind both", []pipeline.Message{asks("x"), asks("y"), result("x", "1"), result("y", "2")},
			"a(x) r(x)1 a(y) r(y)2", []string{"1 results that did not"}},
		{"one id, two assistants, results behind both", []pipeline.Message{asks("x"), asks("x"), result("x", "1"), result("x", "2")},
			"a(x) r(x)2 a(x) r(x)1", []string{"1 results that did not"}},
		{"a user behind results", []pipeline.Message{user("1"), asks("x"), result("x", "2"), user("3")},
			"u:1 a(x) r(x)2 a:! u:3", []string{"1 turns without an answer"}},
		{"an id twice in a message", []pipeline.Message{asks("x", "x", "x"), result("x", "1"), result("x", "2"), result("x", "3")},
			"a(x,x-2,x-3) r(x)1 r(x-2)2 r(x-3)3", []string{"2 calls with an id"}},
		{"an id twice, the unique one taken", []pipeline.Message{asks("x", "x", "x-2", "x"), result("x", "1"), result("x-2", "2"), result("x", "3")},
			"a(x,x-3,x-2,x-4) r(x)1 r(x-2)2 r(x-3)3 r(x-4)!", []string{"1 calls without a result", "2 calls with an id"}},
		{"an id twice, its results early", []pipeline.Message{result("x", "1"), result("x", "2"), asks("x", "x")},
			"a(x,x-2) r(x)1 r(x-2)2", []string{"2 results that did not", "1 calls with an id"}},
		{"empty ids", []pipeline.Message{asks("", ""), result("", "1"), result("", "2"), result("", "3")},
			"a(,-2) r()1 r(-2)2", []string{"1 results without a call", "1 calls with an id"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, fixes := transcript.Repair(row.in)
			if sketch(got) != row.want {
				t.Errorf("got  %s\nwant %s", sketch(got), row.want)
			}
			if len(fixes) != len(row.fixes) {
				t.Fatalf("fixes %q, want %q", fixes, row.fixes)
			}
			for i := range fixes {
				if n, what, _ := strings.Cut(row.fixes[i], " "); !strings.HasPrefix(fixes[i], what) || !strings.Contains(fixes[i], ": "+n+" (first at messages[") {
					t.Errorf("fix %q, want %q", fixes[i], row.fixes[i])
				}
			}
			checkRepair(t, row.in)
		})
	}
}

func TestRepairMakesUp(t *testing.T) {
	got, fixes := transcript.Repair([]pipeline.Message{asks("x", "y"), result("x", "1"), user("2")})
	if want := []string{"calls without a result, which got one that says so: 1 (first at messages[0])",
		"turns without an answer, which got one that says so: 1 (first at messages[2])"}; !slices.Equal(fixes, want) {
		t.Errorf("fixes %q, want %q", fixes, want)
	}
	if m := got[2]; m.Role != pipeline.RoleTool || m.ToolCallID != "y" || m.Name != "tool1" || !m.IsError || !strings.Contains(m.Text(), "interrupted before it returned") || m.Raw != nil {
		t.Errorf("the result is %+v", m)
	}
	if m := got[3]; m.Role != pipeline.RoleAssistant || len(m.ToolCalls) > 0 || !strings.Contains(m.Text(), "interrupted before an answer") {
		t.Errorf("the answer is %+v", m)
	}
	got, _ = transcript.Repair([]pipeline.Message{asks("x", "x"), result("x", "1"), result("x", "2")})
	if got[0].Raw != nil || got[1].Raw == nil || got[2].Raw != nil {
		t.Error("Raw of what was renamed, and of that only, must go")
	}
}

// complaint is what a strict upstream says of a history, "" if it accepts it.
func complaint(messages []pipeline.Message) string {
	waiting := map[string]bool{}
	for i, m := range messages {
		if m.Role == pipeline.RoleTool {
			if !waiting[m.ToolCallID] {
				return fmt.Sprintf("messages[%d]: a result without a call right before it", i)
			}
			delete(waiting, m.ToolCallID)
			continue
		}
		if len(waiting) > 0 {
			return fmt.Sprintf("messages[%d]: results are missing before it", i)
		}
		if m.Role == pipeline.RoleAssistant {
			for _, c := range m.ToolCalls {
				if waiting[c.ID] {
					return fmt.Sprintf("messages[%d]: an id twice", i)
				}
				waiting[c.ID] = true
			}
		}
		own := m.Role == pipeline.RoleUser && m.ToolCallID == "" && !m.Contained && !strings.HasPrefix(m.Text(), "<system-reminder>")
		if own && i > 0 && messages[i-1].Role == pipeline.RoleTool {
			return fmt.Sprintf("messages[%d]: a user behind a result", i)
		}
	}
	if len(waiting) > 0 {
		return "results are missing at the end"
	}
	return ""
}

func clone(messages []pipeline.Message) []pipeline.Message {
	c := slices.Clone(messages)
	for i := range c {
		c[i].ToolCalls = slices.Clone(c[i].ToolCalls)
		c[i].Parts = slices.Clone(c[i].Parts)
		c[i].Raw = slices.Clone(c[i].Raw)
	}
	return c
}

// checkRepair holds the repair of any history against what is promised of it.
func checkRepair(t testing.TB, in []pipeline.Message) {
	t.Helper()
	before := clone(in)
	got, fixes := transcript.Repair(in)
	if !reflect.DeepEqual(in, before) {
		t.Fatalf("%s was changed to %s", sketch(before), sketch(in))
	}
	if c := complaint(got); c != "" {
		t.Fatalf("%s\nbecame %s: %s", sketch(in), sketch(got), c)
	}
	same := len(got) == len(in) && (len(in) == 0 || &got[0] == &in[0])
	if healthy := complaint(in) == ""; healthy != (fixes == nil) || healthy && !same {
		t.Fatalf("%s: healthy %v, the same slice %v, fixes %q", sketch(in), healthy, same, fixes)
	}
	if again, fixes := transcript.Repair(got); fixes != nil || len(again) != len(got) || len(got) > 0 && &again[0] != &got[0] {
		t.Fatalf("%s\nbecame %s,\nthen   %s: %q", sketch(in), sketch(got), sketch(again), fixes)
	}
	// Texts stay in order; what was made up lies between them.
	var spoken, results, kept []string
	for _, m := range in {
		if m.Role == pipeline.RoleTool {
			results = append(results, m.Text())
		} else {
			spoken = append(spoken, m.Text())
		}
	}
	madeUp := 0
	for _, m := range got {
		switch {
		case strings.HasPrefix(m.Text(), "[This "):
			madeUp++
		case m.Role == pipeline.RoleTool:
			kept = append(kept, m.Text())
		case len(spoken) == 0 || spoken[0] != m.Text():
			t.Fatalf("%s\nbecame %s: texts were lost or reordered", sketch(in), sketch(got))
		default:
			spoken = spoken[1:]
		}
	}
	if len(spoken) > 0 {
		t.Fatalf("%s\nbecame %s: texts were lost", sketch(in), sketch(got))
	}
	// Of each id, as many results survive as there are calls for.
	calls, came := map[string]int{}, map[string]int{}
	for _, m := range in {
		if m.Role == pipeline.RoleTool {
			came[m.ToolCallID]++
		}
		if m.Role == pipeline.RoleAssistant {
			for _, c := range m.ToolCalls {
				calls[c.ID]++
			}
		}
	}
	want := 0
	for id, n := range came {
		want += min(n, calls[id])
	}
	if len(kept) != want {
		t.Fatalf("%s\nbecame %s: %d results survive, %d have a call", sketch(in), sketch(got), len(kept), want)
	}
	slices.Sort(kept)
	slices.Sort(results)
	for _, k := range kept { // none twice, none made up; all texts differ
		i, found := slices.BinarySearch(results, k)
		if !found {
			t.Fatalf("%s\nbecame %s: %q came from nowhere or twice", sketch(in), sketch(got), k)
		}
		results = slices.Delete(results, i, i+1)
	}
}

// history makes one from bytes, two for a message. Few ids make for many collisions.
func history(script []byte) (messages []pipeline.Message) {
	ids := []string{"x", "x", "y", "z", "x-2", "y-2", "x-2-2", ""}
	for i := 0; i+1 < len(script); i += 2 {
		kind, arg := script[i], script[i+1]
		text := strconv.Itoa(i)
		var m pipeline.Message
		switch kind % 16 {
		case 0, 1, 2:
			m = user(text)
		case 3:
			m = assistant(text)
		case 4:
			m = says(pipeline.RoleSystem, text)
		case 5:
			m = user("<system-reminder>" + text)
		case 6:
			m = user(text)
			m.Contained = arg%2 == 0
			if arg%3 == 0 {
				m.ToolCallID = "x"
			}
		case 7, 8, 9, 10:
			m = asks(ids[arg%8])
			m.Parts = []pipeline.Part{{Text: text}}
			for n := arg / 8 % 5; n > 0; n-- {
				id := ids[(arg/4+n*n)%8]
				m.ToolCalls = append(m.ToolCalls, pipeline.Call{ID: id, Name: "t", Arguments: []byte("{}")})
			}
		default:
			m = result(ids[arg%8], text)
		}
		messages = append(messages, m)
	}
	return messages
}

func TestRepairProperties(t *testing.T) {
	for seed := range uint64(8_000) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		script := make([]byte, 2*rnd.IntN(30))
		for i := range script {
			script[i] = byte(rnd.Uint32())
		}
		checkRepair(t, history(script))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestRepairDamage starts from a healthy history with many ids and takes away, doubles, and moves some of it.
func TestRepairDamage(t *testing.T) {
	for seed := range uint64(2_000) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		var h []pipeline.Message
		for turn := range 1 + rnd.IntN(5) {
			h = append(h, user(fmt.Sprint("u", turn)))
			for round := range rnd.IntN(3) {
				m := asks()
				m.Parts = []pipeline.Part{{Text: fmt.Sprint("a", turn, round)}}
				var results []pipeline.Message
				for c := range 1 + rnd.IntN(4) {
					id := fmt.Sprint("call_", c)
					m.ToolCalls = append(m.ToolCalls, asks(id).ToolCalls...)
					results = append(results, result(id, fmt.Sprint("r", turn, round, c)))
				}
				rnd.Shuffle(len(results), func(i, j int) { results[i], results[j] = results[j], results[i] })
				h = append(append(h, m), results...)
			}
			h = append(h, assistant(fmt.Sprint("end", turn)))
		}
		checkRepair(t, h)
		if c := complaint(h); c != "" {
			t.Fatalf("seed %d: the history was to be healthy: %s", seed, c)
		}
		for range 1 + rnd.IntN(4) {
			i, j := rnd.IntN(len(h)), rnd.IntN(len(h))
			switch rnd.IntN(3) {
			case 0:
				if h = slices.Delete(h, i, i+1); len(h) == 0 {
					h = append(h, user("left"))
				}
			case 1:
				m := h[i]
				m.Parts = []pipeline.Part{{Text: m.Text() + "'"}}
				h = slices.Insert(h, j, m)
			default:
				m := h[i]
				h = slices.Insert(slices.Delete(h, i, i+1), j, m)
			}
		}
		checkRepair(t, h)
	}
}

func FuzzRepair(f *testing.F) {
	f.Add([]byte{0, 0, 7, 0, 11, 0, 0, 0})
	f.Add([]byte{7, 17, 11, 0, 0, 0, 11, 1, 11, 2})
	f.Add([]byte{11, 0, 11, 1, 7, 8, 7, 0, 3, 0})
	f.Fuzz(func(t *testing.T, script []byte) { checkRepair(t, history(script)) })
}

// TestRepairIsLinear repairs the worst histories that there are. A quadratic repair of them takes minutes, and so is noticed.
func TestRepairIsLinear(t *testing.T) {
	const n = 25_000
	shapes := map[string]func() []pipeline.Message{
		"one id, all results early": func() (h []pipeline.Message) {
			for range n {
				h = append(h, result("x", "r"))
			}
			for range n {
				h = append(h, asks("x"))
			}
			return h
		},
		"one id, all results late": func() (h []pipeline.Message) {
			for range n {
				h = append(h, asks("x"))
			}
			for range n {
				h = append(h, result("x", "r"))
			}
			return h
		},
		"one message with one id": func() []pipeline.Message {
			h := []pipeline.Message{asks(slices.Repeat([]string{"x"}, n)...)}
			for range n {
				h = append(h, result("x", "r"))
			}
			return h
		},
		"one message whose unique ids are taken": func() []pipeline.Message {
			ids := slices.Repeat([]string{"x"}, n)
			for i := range n {
				ids = append(ids, "x-"+strconv.Itoa(i))
			}
			return []pipeline.Message{asks(ids...)}
		},
		"healthy": func() (h []pipeline.Message) {
			for i := range n {
				id := strconv.Itoa(i)
				h = append(h, user("u"), asks(id), result(id, "r"), assistant("a"))
			}
			return h
		},
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			h := shape()
			got, fixes := transcript.Repair(h)
			if c := complaint(got); c != "" || (name == "healthy") != (fixes == nil) {
				t.Errorf("%s; fixes %q", c, fixes)
			}
		})
	}
}

func BenchmarkRepairHealthy(b *testing.B) {
	var h []pipeline.Message
	for i := range 250 {
		id := "call_" + strconv.Itoa(i)
		h = append(h, user("u"), asks(id), result(id, "r"), assistant("a"))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, fixes := transcript.Repair(h); fixes != nil {
			b.Fatal(fixes)
		}
	}
}
