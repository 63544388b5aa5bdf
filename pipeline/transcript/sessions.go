package transcript

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"amplifier-agent/pipeline"
)

const (
	sessionPrefix  = "http-"
	maxHeaderBytes = 128 // of a session header that is used as it is
	hashBytes      = 16  // of the SHA-256 that stands for any other

	maxSaving = time.Second // that a turn waits for its conversation to be stored
)

// SessionID derives a session's id from the client's header, the same for the same header (rulings 32); "" for an empty one.
func SessionID(header string) string {
	if header == "" {
		return ""
	}
	if len(header) <= maxHeaderBytes && isName(header) {
		return sessionPrefix + header
	}
	sum := sha256.Sum256([]byte(header))
	return sessionPrefix + hex.EncodeToString(sum[:hashBytes])
}

// Sessions stores what clients send under their sessions, in the background, and decides which of several turns of one session
// may (rulings 33). It is safe for concurrent use.
type Sessions struct {
	store  pipeline.Store
	exists func(pipeline.SessionKey) bool
	log    *slog.Logger

	mu   sync.Mutex
	live map[pipeline.SessionKey]*live
}

// NewSessions returns the sessions in store. Exists tells whether something is stored for a key; it is called on the goroutine of
// the turn.
func NewSessions(store pipeline.Store, exists func(pipeline.SessionKey) bool, log *slog.Logger) *Sessions {
	return &Sessions{store: store, exists: exists, log: log, live: make(map[pipeline.SessionKey]*live)}
}

// live is a session for as long as a turn that writes to it runs, or a write. All these turns have the same first user message.
type live struct {
	opening string
	users   int    // turns that run, and the goroutine that writes
	writing bool   // there is such a goroutine
	next    *write // what it writes next
}

// write is a conversation to be stored, in place of those that came before it and were not stored yet.
type write struct {
	transcript pipeline.Transcript
	done       []chan struct{} // of its turn and of those whose writes it stands for
}

// Begin registers a turn and starts to store its messages, which must not change any more. Resumed tells whether something was stored
// for k before. Saved waits until they are stored, or what supersedes them; end waits too and unregisters the turn. Neither waits
// long: a disk that hangs costs a turn no more than maxSaving. Both may be called more than once and from any goroutine; end must be
// called once at least.
//
// Turns do not wait for each other. The last to start wins the store: the write of an earlier one that is late is left out. But a
// turn with another first user message than one that still runs writes nothing (rulings 52). A write that fails is logged and costs
// the turn nothing; one that has begun is not cancelled with ctx. Without a session nothing is stored.
func (s *Sessions) Begin(ctx context.Context, k pipeline.SessionKey, messages []pipeline.Message, repaired bool) (
	resumed bool, saved, end func(),
) {
	if k.Session == "" {
		return false, func() {}, func() {}
	}
	resumed = s.exists(k)
	w := &write{transcript: pipeline.Transcript{Messages: messages, Mark: pipeline.MarkClient}, done: []chan struct{}{make(chan struct{})}}
	if repaired {
		w.transcript.Mark = pipeline.MarkRepaired
	}
	done := w.done[0]
	l := s.register(context.WithoutCancel(ctx), k, opening(messages), w)
	if l == nil {
		return resumed, func() {}, func() {}
	}
	saved = sync.OnceFunc(func() {
		late := time.NewTimer(maxSaving)
		defer late.Stop()
		select {
		case <-done:
		case <-late.C:
		}
	})
	return resumed, saved, sync.OnceFunc(func() {
		saved()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.release(k, l)
	})
}

// register returns nil for a turn that is not related to one that runs.
func (s *Sessions) register(ctx context.Context, k pipeline.SessionKey, opening string, w *write) *live {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.live[k]
	if l == nil {
		l = &live{opening: opening}
		s.live[k] = l
	}
	if l.opening != opening {
		return nil
	}
	l.users++
	if l.next != nil {
		w.done = append(w.done, l.next.done...)
	}
	if l.next = w; !l.writing {
		l.writing = true
		l.users++
		go s.write(ctx, k, l)
	}
	return l
}

// release gives up what register took. The lock must be held.
func (s *Sessions) release(k pipeline.SessionKey, l *live) {
	if l.users--; l.users == 0 {
		delete(s.live, k)
	}
}

// write is the goroutine that stores what comes for a session, one after the other, until nothing more does.
func (s *Sessions) write(ctx context.Context, k pipeline.SessionKey, l *live) {
	for {
		s.mu.Lock()
		w := l.next
		if l.next = nil; w == nil {
			l.writing = false
			s.release(k, l)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if err := s.replace(ctx, k, w.transcript); err != nil {
			s.log.Warn("the conversation was not stored; the turn goes on", "session", k.Session, "workspace", k.Workspace, "err", err)
		}
		for _, done := range w.done {
			close(done)
		}
	}
}

// replace makes an error of a panic: what one client has sent must not end the server.
func (s *Sessions) replace(ctx context.Context, k pipeline.SessionKey, t pipeline.Transcript) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return s.store.Replace(ctx, k, t)
}

// opening is the text of the first message that is a user's own: what a conversation is recognised by.
func opening(messages []pipeline.Message) string {
	for i := range messages {
		if isReal(&messages[i]) {
			return messages[i].Text()
		}
	}
	return ""
}
