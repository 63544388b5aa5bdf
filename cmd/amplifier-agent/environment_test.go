package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"amplifier-agent/pipeline/config"
)

// TestVariables: what this program reads from its environment is in one of the lists, and nothing else is.
func TestVariables(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	variable := regexp.MustCompile(`env(?:\(|, )"([A-Z0-9_]+)"`)
	var read []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "environment.go" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range variable.FindAllSubmatch(text, -1) {
			if name := string(m[1]); !strings.HasPrefix(name, "AMPLIFIER_AGENT_") {
				read = append(read, name)
			}
		}
	}
	listed := slices.Concat(settingVariables, credentialVariables)
	keys, addresses := config.CredentialVariables()
	elsewhere := slices.Concat(keys, addresses, []string{"HOME", "USERPROFILE"}) // read by config.Resolve and os.UserHomeDir
	listed = slices.DeleteFunc(listed, func(name string) bool {
		return slices.Contains(elsewhere, name) || strings.HasSuffix(strings.ToUpper(name), "_PROXY") // and by the proxy library
	})
	slices.Sort(read)
	slices.Sort(listed)
	if read = slices.Compact(read); !slices.Equal(read, listed) {
		t.Errorf("read are\n%q\nand listed\n%q", read, listed)
	}
}

// TestCredentials: the simulator needs no one's.
func TestCredentials(t *testing.T) {
	if got := (serveOptions{}).credentials(); len(got) == 0 {
		t.Error("a gateway needs none")
	}
	if got := (serveOptions{demo: true}).credentials(); len(got) > 0 {
		t.Errorf("the simulator needs %q", got)
	}
}
