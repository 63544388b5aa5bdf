package transcript

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"sync"

	"amplifier-agent/pipeline"
)

const (
	sessionPrefix  = "http-"
	maxHeaderBytes = 128 // of a session header that is used as it is
	hashBytes      = 16  // of the SHA-256 that stands for any other
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

// live is a session for as long as a turn that writes to it runs. All these turns have the same first user message.
type live struct {
	opening string
	turns   int // that run; under Sessions.mu, like opening and latest
	latest  int // number of the turn that started last

	writing sync.Mutex // held during a write, so that writes come one after the other
}

// Begin registers a turn and starts to store its messages, which must stay as they are until end returns. Resumed tells whether
// something was stored for k before. Saved waits until the write is over; end waits too and unregisters the turn. Both may be called
// more than once and from any goroutine; end must be called once at least.
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
	l, number := s.register(k, opening(messages))
	if l == nil {
		return resumed, func() {}, func() {}
	}
	t := pipeline.Transcript{Messages: messages, Mark: pipeline.MarkClient}
	if repaired {
		t.Mark = pipeline.MarkRepaired
	}
	ctx = context.WithoutCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.writing.Lock()
		defer l.writing.Unlock()
		if s.superseded(l, number) {
			return
		}
		if err := s.store.Replace(ctx, k, t); err != nil {
			s.log.Warn("the conversation was not stored; the turn goes on", "session", k.Session, "workspace", k.Workspace, "err", err)
		}
	}()
	saved = func() { <-done }
	return resumed, saved, sync.OnceFunc(func() {
		saved()
		s.unregister(k, l)
	})
}

// register returns nil for a turn that is not related to one that runs.
func (s *Sessions) register(k pipeline.SessionKey, opening string) (l *live, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l = s.live[k]
	if l == nil {
		l = &live{opening: opening}
		s.live[k] = l
	}
	if l.opening != opening {
		return nil, 0
	}
	l.turns++
	l.latest++
	return l, l.latest
}

func (s *Sessions) unregister(k pipeline.SessionKey, l *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.turns--; l.turns == 0 {
		delete(s.live, k)
	}
}

func (s *Sessions) superseded(l *live, number int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return number != l.latest
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
