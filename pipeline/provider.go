package pipeline

import (
	"context"
	"time"
)

// Provider is an upstream: a gateway, a vendor's API, a file. Its methods may be called concurrently.
type Provider interface {
	Name() string
	// Models lists what it serves, in its own order.
	Models(ctx context.Context) ([]Model, error)
	// Stream is lazy: the exchange starts when it is ranged over, on the caller's goroutine. A refusal is its first item but
	// Flush and Idle, so that a face that pulls the first frame can still answer with a status. Retries happen inside, before
	// the first event. Errors are *Error. The end of ctx closes the exchange; its cause is then what the error wraps.
	Stream(ctx context.Context, r *Round) Stream
}

// Round is one request to a model. The provider does not change it and keeps nothing of it.
type Round struct {
	Model    string // the provider's own id
	System   string
	Messages []Message
	Tools    []ToolSpec
	Sampling Sampling // what to pass on of the client's settings; empty unless the host config says so
	// Conversation is stable over the turns of one conversation, "" if unknown. It must not reach the upstream as it is.
	Conversation string
	// Silence is when the first Idle is due; 0 leaves it to the provider.
	Silence time.Duration
	// Tries is how often to ask at most; 0 leaves it to the provider.
	Tries int
}

// Target is a model at its provider.
type Target struct {
	Provider Provider
	Model    string // the provider's own id
}

// Model is one entry of a provider's list. Zero values mean that the provider does not say.
type Model struct {
	ID            string
	Name          string // display name
	ContextTokens int64
	OutputTokens  int64
	Capabilities  []string // such as tools, vision, thinking
	Defaults      []byte   // a JSON object
}

// Served is a model as clients know it.
type Served struct {
	ID       string // unique; what a request names
	Provider Provider
	Model    Model
}
