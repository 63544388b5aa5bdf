package stages

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"amplifier-agent/pipeline"
)

// Auth admits requests that carry key as a bearer token (http-face.md, "Auth"; rulings 18). The scheme is case-insensitive, one
// space or more may follow it, and the token is trimmed. More than one Authorization field is malformed.
func Auth(key string) pipeline.Stage {
	want := sha256.Sum256([]byte(key))
	return pipeline.Stage{Name: "auth", Request: func(_ context.Context, t *pipeline.Turn) error {
		token, ok := bearer(t.Header.Authorization)
		if !ok {
			return &pipeline.Error{Code: pipeline.CodeMissingAuth, Origin: pipeline.OriginClient, Message: "Missing or malformed Authorization header"}
		}
		// Hashes are compared, so that neither the key's length nor its first bytes show in the time it takes.
		if got := sha256.Sum256([]byte(token)); subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			return &pipeline.Error{Code: pipeline.CodeInvalidKey, Origin: pipeline.OriginClient, Message: "Invalid API key"}
		}
		return nil
	}}
}

func bearer(fields []string) (token string, ok bool) {
	if len(fields) != 1 {
		return "", false
	}
	scheme, token, found := strings.Cut(strings.TrimSpace(fields[0]), " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}
