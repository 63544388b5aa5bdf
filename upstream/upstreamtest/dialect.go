package upstreamtest

import (
	"net/http"
	"testing"
	"time"

	"amplifier-agent/pipeline"
)

// Key is the key that providers are made with. It must never show in an error.
const Key = "user_suite-secret-0123456789"

// Dialect is what the suite has to know of a provider. All functions may be called concurrently.
type Dialect struct {
	// Provider is whose rows of the tables are run.
	Provider string
	// Gateway is whose refusals come over this wire, if they are not the Provider's.
	Gateway string
	// Model is what rounds ask for.
	Model string
	// New makes a provider. One that has a Close is closed with the test.
	New func(t *testing.T, o Options) (pipeline.Provider, error)
	// Write puts a script into the wire's form: one string for each event, with all that frames it. Said is what the model says,
	// end is that it has ended, and what it has used. A Script without a finish has no end.
	Write func(s *Script) (said, end []string)
	// Event frames a payload, which may be anything on one line.
	Event func(payload string) string
	// Fault is the payload of an error inside an answer.
	Fault func(status int, message string) string
	// Refusal is the body of an answer with a status that is an error, in the shape in which the upstream usually has it.
	Refusal func(status int, message string) string
	// Read understands a request.
	Read func(r *Request) (*Asked, error)
	// Stride is how many bytes lie between the places where an answer is cut in two; 0 means one, which is what it should be where a
	// round costs nothing.
	Stride int
	// Lacks are the features that the wire does not have, each with the reason. Their parts of the suite are skipped, aloud.
	Lacks map[Feature]string
}

// Feature is something that a wire may lack.
type Feature string

// The features.
const (
	Cost            Feature = "cost"                // what a round costs, in US dollars
	ReasoningTokens Feature = "reasoning tokens"    // how many of the tokens are reasoning
	Interleaved     Feature = "interleaved calls"   // fragments of several calls mixed
	FailedResults   Feature = "failed tool results" // a mark on results that report a failure
	Keys            Feature = "keys"                // there is a key, which must not show
	Requests        Feature = "requests"            // somebody is asked
	Refusals        Feature = "refusals"            // an answer has a status
	Cuts            Feature = "cuts"                // an answer that was cut off is told from one that ends
	Connections     Feature = "connections"         // the provider connects to an upstream
)

// Options are how a provider is made. Zero values leave it to the provider.
type Options struct {
	BaseURL string
	Key     string
	Tries   int
	Idle    time.Duration
	CAFile  string
	MaxLine int // bytes
}

// Request is a request as it came over the wire.
type Request struct {
	Method string
	Target string // as it stands in the first line
	Host   string
	Header http.Header
	Body   []byte
}

// Asked is a request in neutral terms. Tool results are messages of their own, in their order; Parameters and arguments are the
// bytes of the wire.
type Asked struct {
	Key      string
	Model    string
	System   string
	Messages []pipeline.Message
	Tools    []pipeline.ToolSpec
}
