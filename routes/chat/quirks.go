package chat

import (
	"strconv"
	"strings"
)

// quirk is one client that needs the wire a little different (rulings 49). Nothing else looks at User-Agent.
type quirk struct {
	name  string
	match func(userAgent string) bool
	// keepaliveLine: keepalives come without a blank line of their own.
	keepaliveLine bool
	// jsonDefault: a request that leaves "stream" out expects JSON.
	jsonDefault bool
}

// quirks are tried in order; the first that matches counts.
var quirks = []quirk{
	{
		// Dies on a comment followed by a blank line with "unexpected end of JSON input": openai-go issue 556, good since 3.43.0.
		name:          "openai-go before 3.43",
		match:         func(ua string) bool { v, ok := version(ua, "OpenAI/Go "); return ok && less(v, [2]int{3, 43}) },
		keepaliveLine: true,
	},
	{
		// generateText leaves "stream" out, accepts */* and parses JSON; seen as "ai/7.0.173 ai-sdk-provider-utils/5.0.81 …" and,
		// in older releases, "ai-sdk/…".
		name:        "AI SDK",
		match:       func(ua string) bool { return strings.HasPrefix(ua, "ai/") || strings.Contains(ua, "ai-sdk") },
		jsonDefault: true,
	},
}

func quirkOf(userAgent string) quirk {
	for _, q := range quirks {
		if q.match(userAgent) {
			return q
		}
	}
	return quirk{}
}

// version reads the major and minor version behind prefix.
func version(ua, prefix string) (v [2]int, ok bool) {
	rest, ok := strings.CutPrefix(ua, prefix)
	if !ok {
		return v, false
	}
	rest, _, _ = strings.Cut(rest, " ")
	for i, s := range strings.SplitN(strings.TrimPrefix(rest, "v"), ".", 3) {
		if i < 2 {
			n, err := strconv.Atoi(s)
			if err != nil {
				return v, false
			}
			v[i] = n
		}
	}
	return v, true
}

func less(a, b [2]int) bool { return a[0] < b[0] || a[0] == b[0] && a[1] < b[1] }

// StreamDefault says what a request gets that leaves "stream" out (rulings 50).
type StreamDefault string

// The defaults.
const (
	StreamAuto StreamDefault = "auto" // what the client seems to expect
	StreamSSE  StreamDefault = "sse"
	StreamJSON StreamDefault = "json"
)

// wantsStream decides between the transports. An explicit flag always wins.
func wantsStream(explicit *bool, d StreamDefault, accept string, q quirk) bool {
	switch {
	case explicit != nil:
		return *explicit
	case d == StreamSSE:
		return true
	case d == StreamJSON:
		return false
	case strings.Contains(accept, "text/event-stream"):
		return true
	case strings.Contains(accept, "application/json"), q.jsonDefault:
		return false
	}
	return true
}
