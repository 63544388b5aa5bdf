package main

import (
	"log/slog"
	"testing"

	"amplifier-agent/pipeline/secret"
	"amplifier-agent/routes/ops"
)

// assembled is a server as the program puts it together, in front of the simulator. It listens nowhere.
func assembled(t testing.TB) *parts {
	t.Helper()
	dir := t.TempDir()
	p, err := assemble(t.Context(), serveOptions{bind: defaultBind, key: "k", modelID: "m", workspace: "w", demo: true, home: dir, cwd: dir},
		slog.New(slog.DiscardHandler), new(secret.Mask))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

// TestRoutesAreDescribed: GET /openapi.json describes the routes that there are, and no others.
func TestRoutesAreDescribed(t *testing.T) {
	if err := ops.Check(newServer(assembled(t)).Routes()); err != nil {
		t.Error(err)
	}
}
