package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHome resolves H from environments of the test's own (rulings 6).
func TestHome(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	for given, want := range map[string]string{
		"":                filepath.Join(home, ".amplifier-agent"),
		"  ":              filepath.Join(home, ".amplifier-agent"),
		"~":               home,
		"~/":              home,
		"~/agent/x":       filepath.Join(home, "agent", "x"),
		"~nobody":         filepath.Join(dir, "~nobody"),
		"agent":           filepath.Join(dir, "agent"),
		"./a/../b":        filepath.Join(dir, "b"),
		home + "/a//b/./": filepath.Join(home, "a", "b"),
	} {
		got, err := Home(envOf(map[string]string{"AMPLIFIER_AGENT_HOME": given, "HOME": home}))
		if err != nil || got != want {
			t.Errorf("%q: got %s, %v, want %s", given, got, err, want)
		}
	}
}

// TestHomeOfProcess checks that an environment without HOME falls back on what the system says.
func TestHomeOfProcess(t *testing.T) {
	want, err := os.UserHomeDir()
	if err != nil {
		t.Skip(err)
	}
	if got, err := Home(envOf(nil)); err != nil || got != filepath.Join(want, ".amplifier-agent") {
		t.Errorf("got %s, %v", got, err)
	}
}

func envOf(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}
