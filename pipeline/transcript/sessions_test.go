package transcript_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/transcript"
)

func TestSessionID(t *testing.T) {
	hashed := func(s string) string { return fmt.Sprintf("http-%x", sha256.Sum256([]byte(s)))[:len("http-")+32] }
	for _, row := range []struct{ header, want string }{
		{"", ""},
		{"ses_0A.z-9", "http-ses_0A.z-9"},
		{strings.Repeat("a", 128), "http-" + strings.Repeat("a", 128)},
		{strings.Repeat("a", 129), hashed(strings.Repeat("a", 129))},
		{".", hashed(".")},
		{"..", hashed("..")},
		{".a.", "http-.a."},
		{"a/../../x", hashed("a/../../x")},
		{"a b", hashed("a b")},
		{"北京", hashed("北京")},
		{"a\x00", hashed("a\x00")},
		{"a\n", hashed("a\n")},
	} {
		if got := transcript.SessionID(row.header); got != row.want {
			t.Errorf("%q: %s, want %s", row.header, got, row.want)
		}
	}
}

func FuzzSessionID(f *testing.F) {
	for _, s := range []string{"", "a", "..", "a/b", "\xff", strings.Repeat("x", 200)} {
		f.Add(s)
	}
	plain, form := regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`), regexp.MustCompile(`^http-[A-Za-z0-9._-]{1,128}$`)
	f.Fuzz(func(t *testing.T, header string) {
		id := transcript.SessionID(header)
		if header == "" {
			return
		}
		kept := plain.MatchString(header) && strings.Trim(header, ".") != ""
		if !form.MatchString(id) || kept != (id == "http-"+header) && len(header) != 32 {
			t.Fatalf("%q became %q", header, id)
		}
	})
}

// slowStore holds each write until it is let go.
type slowStore struct {
	mu     sync.Mutex
	stored map[pipeline.SessionKey]pipeline.Transcript
	writes []string // texts of the last messages
	err    error
	gates  map[string]chan struct{} // by the text of the last message; none: does not wait
	began  chan string              // of writes with a gate
}

func newSlowStore(gated ...string) *slowStore {
	s := &slowStore{stored: map[pipeline.SessionKey]pipeline.Transcript{}, gates: map[string]chan struct{}{}, began: make(chan string, 100)}
	for _, g := range gated {
		s.gates[g] = make(chan struct{})
	}
	return s
}

func lastText(messages []pipeline.Message) string { return messages[len(messages)-1].Text() }

func (s *slowStore) Load(context.Context, pipeline.SessionKey) (pipeline.Transcript, error) {
	return pipeline.Transcript{}, errors.New("the store is not read")
}

func (s *slowStore) Replace(ctx context.Context, k pipeline.SessionKey, t pipeline.Transcript) error {
	text := lastText(t.Messages)
	if gate := s.gates[text]; gate != nil {
		s.began <- text
		<-gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.stored[k] = t
	s.writes = append(s.writes, text)
	return nil
}

func (s *slowStore) exists(k pipeline.SessionKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.stored[k]
	return ok
}

func (s *slowStore) last(k pipeline.SessionKey) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.stored[k]; ok {
		return lastText(t.Messages)
	}
	return ""
}

// talk is a conversation that opens with one text and ends with another.
func talk(opening, last string) []pipeline.Message {
	return []pipeline.Message{says(pipeline.RoleSystem, "be kind"), user("<system-reminder>now"), user(opening), assistant("yes?"), user(last)}
}

func TestBegin(t *testing.T) {
	store := newSlowStore()
	s := transcript.NewSessions(store, store.exists, quiet)
	for i, repaired := range []bool{false, true, false} {
		resumed, saved, end := s.Begin(t.Context(), key, talk("a", fmt.Sprint(i)), repaired)
		saved()
		saved()
		if resumed != (i > 0) || store.last(key) != fmt.Sprint(i) {
			t.Errorf("turn %d: resumed %v, stored %q", i, resumed, store.last(key))
		}
		if mark := store.stored[key].Mark; (mark == pipeline.MarkRepaired) != repaired || !repaired && mark != pipeline.MarkClient {
			t.Errorf("turn %d: mark %q", i, mark)
		}
		end()
		end()
	}
}

// TestBeginOnDisk is TestBegin with everything real.
func TestBeginOnDisk(t *testing.T) {
	d := transcript.NewDisk(t.TempDir(), quiet)
	s := transcript.NewSessions(d, d.Exists, quiet)
	for i := range 3 {
		resumed, _, end := s.Begin(t.Context(), key, talk("a", fmt.Sprint(i)), false)
		end()
		got, err := d.Load(t.Context(), key)
		if resumed != (i > 0) || err != nil || lastText(got.Messages) != fmt.Sprint(i) {
			t.Errorf("turn %d: resumed %v, %v", i, resumed, err)
		}
	}
}

// TestLateWrite: an earlier turn whose write comes late does not overwrite a later one.
func TestLateWrite(t *testing.T) {
	store := newSlowStore("1", "3")
	s := transcript.NewSessions(store, store.exists, quiet)
	_, _, end1 := s.Begin(t.Context(), key, talk("a", "1"), false)
	<-store.began // 1 is being written
	_, saved2, end2 := s.Begin(t.Context(), key, talk("a", "2"), false)
	_, saved3, end3 := s.Begin(t.Context(), key, talk("a", "3"), false)
	close(store.gates["1"])
	<-store.began // 3 is being written, whether or not 2 has had its turn
	close(store.gates["3"])
	saved2()
	saved3()
	if got := store.last(key); got != "3" {
		t.Errorf("%q is stored, after %q", got, store.writes)
	}
	if slices.Contains(store.writes, "2") {
		t.Errorf("superseded and written all the same: %q", store.writes)
	}
	end1()
	end2()
	end3()
}

// TestOtherSessionsDoNotWait: a write that hangs holds up its own session only.
func TestOtherSessionsDoNotWait(t *testing.T) {
	store := newSlowStore("1")
	s := transcript.NewSessions(store, store.exists, quiet)
	_, _, end1 := s.Begin(t.Context(), key, talk("a", "1"), false)
	<-store.began
	other := pipeline.SessionKey{Workspace: key.Workspace, Session: "http-other"}
	_, saved, end2 := s.Begin(t.Context(), other, talk("b", "2"), false)
	saved()
	end2()
	if got := store.last(other); got != "2" {
		t.Errorf("%q is stored", got)
	}
	close(store.gates["1"])
	end1()
}

// TestUnrelatedTurn: opencode sends its title request and its real turn at once under one session (rulings 52).
func TestUnrelatedTurn(t *testing.T) {
	store := newSlowStore()
	s := transcript.NewSessions(store, store.exists, quiet)
	_, saved1, end1 := s.Begin(t.Context(), key, talk("the question", "1"), false)
	saved1()
	_, saved2, end2 := s.Begin(t.Context(), key, talk("make a title", "2"), false)
	saved2()
	end2()
	if got := store.last(key); got != "1" {
		t.Errorf("%q is stored while its turn runs", got)
	}
	_, _, end3 := s.Begin(t.Context(), key, talk("the question", "3"), false)
	end1() // 3 still runs
	_, _, end4 := s.Begin(t.Context(), key, talk("make a title", "4"), false)
	end4()
	end3()
	if got := store.last(key); got != "3" {
		t.Errorf("%q is stored", got)
	}
	// Once none runs, the client has simply begun something new.
	resumed, _, end5 := s.Begin(t.Context(), key, talk("something new", "5"), false)
	end5()
	if got := store.last(key); got != "5" || !resumed {
		t.Errorf("%q is stored, resumed %v", got, resumed)
	}
	if want := []string{"1", "3", "5"}; !slices.Equal(store.writes, want) {
		t.Errorf("writes %q, want %q", store.writes, want)
	}
}

func TestNoSession(t *testing.T) {
	store := newSlowStore()
	s := transcript.NewSessions(store, store.exists, quiet)
	resumed, saved, end := s.Begin(t.Context(), pipeline.SessionKey{Workspace: "w"}, talk("a", "1"), false)
	saved()
	end()
	if resumed || len(store.writes) > 0 {
		t.Errorf("resumed %v, writes %q", resumed, store.writes)
	}
}

func TestNoUserMessage(t *testing.T) {
	store := newSlowStore()
	s := transcript.NewSessions(store, store.exists, quiet)
	_, _, end := s.Begin(t.Context(), key, []pipeline.Message{says(pipeline.RoleSystem, "x")}, false)
	_, _, end2 := s.Begin(t.Context(), key, []pipeline.Message{says(pipeline.RoleSystem, "y")}, false)
	end()
	end2()
	if got := store.last(key); got != "y" {
		t.Errorf("%q is stored", got)
	}
}

// TestClientLeaves: a write that was begun goes through.
func TestClientLeaves(t *testing.T) {
	store := newSlowStore("1")
	s := transcript.NewSessions(store, store.exists, quiet)
	ctx, cancel := context.WithCancel(t.Context())
	_, _, end := s.Begin(ctx, key, talk("a", "1"), false)
	<-store.began
	cancel()
	close(store.gates["1"])
	end()
	if got := store.last(key); got != "1" {
		t.Errorf("%q is stored", got)
	}
}

func TestWriteFails(t *testing.T) {
	var logged bytes.Buffer
	store := newSlowStore()
	store.err = errors.New("no space left")
	s := transcript.NewSessions(store, store.exists, slog.New(slog.NewTextHandler(&logged, nil)))
	_, saved, end := s.Begin(t.Context(), key, talk("a", "1"), false)
	saved()
	end()
	if out := logged.String(); strings.Count(out, "level=WARN") != 1 || !strings.Contains(out, "no space left") || !strings.Contains(out, key.Session) {
		t.Errorf("logged %s", out)
	}
}

// TestManyTurns: whatever the order of starts and ends, what is stored last is what the last related turn brought.
func TestManyTurns(t *testing.T) {
	const clients, turns = 8, 200
	store := newSlowStore()
	s := transcript.NewSessions(store, store.exists, quiet)
	var all sync.WaitGroup
	var order sync.Mutex
	latest := map[string]string{}
	for c := range clients {
		all.Go(func() {
			session := fmt.Sprint("http-", c%3)
			for n := range turns {
				text := fmt.Sprint(c, ".", n)
				order.Lock() // so that it is known which one started last
				_, saved, end := s.Begin(t.Context(), pipeline.SessionKey{Workspace: "w", Session: session}, talk("a", text), false)
				latest[session] = text
				order.Unlock()
				if n%2 == 0 {
					saved()
				}
				end()
			}
		})
	}
	all.Wait()
	for session, want := range latest {
		if got := store.last(pipeline.SessionKey{Workspace: "w", Session: session}); got != want {
			t.Errorf("%s: %q is stored, %q started last", session, got, want)
		}
	}
}

// TestStoreHangs: a write that does not come back holds up no turn for long; of those behind it one waits, the latest.
func TestStoreHangs(t *testing.T) {
	store := newSlowStore("first")
	s := transcript.NewSessions(store, store.exists, slog.New(slog.DiscardHandler))
	key := pipeline.SessionKey{Workspace: "w", Session: "http-s"}
	_, _, end := s.Begin(t.Context(), key, talk("hi", "first"), false)
	<-store.began
	var wg sync.WaitGroup
	for i := range 20 {
		_, saved, end := s.Begin(t.Context(), key, talk("hi", fmt.Sprint(i)), false)
		wg.Go(func() { saved(); end() })
	}
	wg.Go(end)
	wg.Wait() // although nothing is stored yet
	if got := store.last(key); got != "" {
		t.Errorf("stored %q", got)
	}
	close(store.gates["first"])
	_, saved, end := s.Begin(t.Context(), key, talk("hi", "last"), false)
	saved()
	end()
	store.mu.Lock()
	defer store.mu.Unlock()
	if got := store.stored[key].Messages; lastText(got) != "last" || len(store.writes) > 3 {
		t.Errorf("stored %q after the writes %q", lastText(got), store.writes)
	}
}

// panicking is a store with a fault.
type panicking struct{ *slowStore }

func (panicking) Replace(context.Context, pipeline.SessionKey, pipeline.Transcript) error {
	panic("broken")
}

// TestStorePanics: it costs the turn nothing, and the server neither.
func TestStorePanics(t *testing.T) {
	var log bytes.Buffer
	store := panicking{newSlowStore()}
	s := transcript.NewSessions(store, store.exists, slog.New(slog.NewTextHandler(&log, nil)))
	for range 2 {
		_, saved, end := s.Begin(t.Context(), pipeline.SessionKey{Workspace: "w", Session: "http-s"}, talk("hi", "x"), false)
		saved()
		end()
	}
	if !strings.Contains(log.String(), "panic: broken") {
		t.Errorf("the log says %s", log.String())
	}
}
