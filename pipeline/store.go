package pipeline

import (
	"context"
	"errors"
)

// ErrNoSession is returned by Store.Load when nothing is stored for a key.
var ErrNoSession = errors.New("no such session")

// SessionKey names a stored conversation.
type SessionKey struct {
	Workspace string // slug
	Session   string
}

// Mark says what wrote a transcript last. Stores hand it out to other programs, so the words do not change.
type Mark string

// The marks.
const (
	MarkClient   Mark = "client_reconciled" // the client's history as it came
	MarkRepaired Mark = "repaired"          // the client's history, repaired
	MarkComplete Mark = "complete"          // a turn that ended
)

// Transcript is a stored conversation.
type Transcript struct {
	Messages []Message
	Mark     Mark // "" if unknown; Replace then leaves the stored one alone
}

// Store keeps transcripts. Its methods may be called concurrently.
type Store interface {
	// Load returns the transcript, or ErrNoSession.
	Load(ctx context.Context, k SessionKey) (Transcript, error)
	// Replace stores t in place of what was there: after it returns nil, t survives a crash; before, the old one does.
	Replace(ctx context.Context, k SessionKey, t Transcript) error
}
