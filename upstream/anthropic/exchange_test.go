package anthropic

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
)

// TestAnyHistoryIsTaken: whatever a conversation is made of, the API takes what becomes of it, and no text is lost but blanks and
// results that answer nothing.
func TestAnyHistoryIsTaken(t *testing.T) {
	p := connect(t, "http://127.0.0.1:1")
	rnd := rand.New(rand.NewPCG(4, 10))
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	for range 3000 {
		marks := 0
		parts := func() (list []pipeline.Part) {
			for range rnd.IntN(4) {
				switch rnd.IntN(4) {
				case 0:
					list = append(list, show())
				case 1:
					list = append(list, say(pick("", " ", "\n\t", "\u00a0")))
				default:
					marks++
					list = append(list, say(fmt.Sprintf("mark%d.%s", marks, pick("", " ", "\n"))))
				}
			}
			return list
		}
		r := &pipeline.Round{Model: testModel, System: pick("", " ", "system")}
		for range rnd.IntN(12) {
			before := marks
			m := pipeline.Message{Role: pipeline.Role(pick("system", "developer", "user", "user", "assistant", "assistant", "assistant", "tool", "tool", "tool")), Parts: parts()}
			switch m.Role {
			case pipeline.RoleAssistant:
				m.Reasoning = pick("", "thought")
				for range rnd.IntN(4) {
					m.ToolCalls = append(m.ToolCalls, call(pick("a", "b", "a.b", "a_b", "a_2", "", "é"), pick("f", "g.h"), pick(`{}`, `{"a": 1}`)))
				}
			case pipeline.RoleTool:
				m.ToolCallID, m.IsError = pick("a", "b", "a.b", "a_b", "a_2", "", "é"), rnd.IntN(2) == 0
				m.Parts, marks = append(m.Parts[:0:0], say(pick("", " ", "result"))), before
				if rnd.IntN(3) == 0 {
					m.Parts = append(m.Parts, show())
				}
			}
			r.Messages = append(r.Messages, m)
		}
		body := p.appendRequest(nil, r)
		err := validate(body)
		for i := 1; i <= marks && err == nil; i++ {
			if n := strings.Count(string(body), fmt.Sprintf("mark%d.", i)); n != 1 {
				err = fmt.Errorf("mark %d comes %d times", i, n)
			}
		}
		if err != nil {
			t.Fatalf("%v\n of %+v\nbody %s", err, r.Messages, body)
		}
	}
}

// TestIDsOfAPrefixStay so that the API can cache it: a longer conversation begins with the same bytes.
func TestIDsOfAPrefixStay(t *testing.T) {
	all := requests["foreign_ids"].Messages
	short, _ := arrange(all[:5])
	long, _ := arrange(all)
	a, b := string(appendMessages(nil, short)), string(appendMessages(nil, long))
	if !strings.HasPrefix(b, strings.TrimSuffix(a, "]")) {
		t.Errorf("%s\nis no beginning of\n%s", a, b)
	}
}

// TestRepeatedIDs: a history that uses one id for every call takes no time that grows with its square.
func TestRepeatedIDs(t *testing.T) {
	ids, seen := names{}, map[string]bool{}
	for i := range 200_000 {
		id := ids.give([]string{"a", "a.", "a_2"}[i%3])
		if seen[id] {
			t.Fatalf("%q twice", id)
		}
		seen[id] = true
	}
}

// TestDroppedResultsAreLogged: nothing is left out without a word.
func TestDroppedResultsAreLogged(t *testing.T) {
	var log bytes.Buffer
	p := connect(t, "http://127.0.0.1:1", func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	for name, want := range map[string]bool{"tools": false, "broken_history": true} {
		log.Reset()
		p.appendRequest(nil, requests[name])
		if got := strings.Contains(log.String(), "results=3"); got != want {
			t.Errorf("%s: logged %q", name, log.String())
		}
	}
}
