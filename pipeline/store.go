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

// Transcript is a stored conversation.
type Transcript struct {
	Messages []Message
}

// Store keeps transcripts. Its methods may be called concurrently.
type Store interface {
	// Load returns the transcript, or ErrNoSession.
	Load(ctx context.Context, k SessionKey) (Transcript, error)
	// Replace stores t in place of what was there: after it returns nil, t survives a crash; before, the old one does.
	Replace(ctx context.Context, k SessionKey, t Transcript) error
}
