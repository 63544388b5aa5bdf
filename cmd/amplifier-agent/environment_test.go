package main

import (
	"bytes"
	"log/slog"
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

// TestVariablesWithPasswords: an address with a password is not written down, as no key is.
func TestVariablesWithPasswords(t *testing.T) {
	env := map[string]string{"HTTPS_PROXY": "http://u:geheim@proxy:1", "OLLAMA_HOST": "http://h/?key=x", "COMMANDCODE_BASE_URL": "http://127.0.0.1:1", "HOME": "/home/a@b"}
	settings, credentials := serveOptions{}.variables(func(name string) string { return env[name] })
	for name, secret := range map[string]bool{"HTTPS_PROXY": true, "OLLAMA_HOST": true, "COMMANDCODE_BASE_URL": false, "HOME": false, "HTTP_PROXY": false} {
		if slices.Contains(settings, name) == secret || slices.Contains(credentials, name) != secret {
			t.Errorf("%s: among settings %v, among credentials %v", name, slices.Contains(settings, name), slices.Contains(credentials, name))
		}
	}
}

// TestSharedKeyIsTold: a key of the environment that goes to an address of the host config is warned of, and nothing that the address
// may hold is shown.
func TestSharedKeyIsTold(t *testing.T) {
	var log bytes.Buffer
	s := &sources{host: config.Default(), env: func(n string) string { return map[string]string{"OPENAI_API_KEY": "the-key"}[n] }, home: t.TempDir(), log: slog.New(slog.NewTextHandler(&log, nil))}
	if _, err := s.credential("mine", "openai", []byte(`{"base_url":"http://user:geheim@gateway.example/v1?api-key=geheim"}`)); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); !strings.Contains(got, "goes to the base_url of the host config, http://gateway.example/v1:") || strings.Contains(got, "geheim") || strings.Contains(got, "the-key") {
		t.Errorf("the log says %s", got)
	}
}

// TestOverlay: a provider block that names no module is for the only provider there is. Among several it would draw keys to, or from, all of
// them.
func TestOverlay(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	block := config.Override{Set: true, Config: []byte(`{"base_url":"http://127.0.0.1:1"}`)}
	for name, row := range map[string]struct {
		env  map[string]string
		want string
	}{
		"one":     {map[string]string{"ANTHROPIC_API_KEY": "a"}, `{"base_url":"http://127.0.0.1:1"}`},
		"several": {map[string]string{"ANTHROPIC_API_KEY": "a", "GITHUB_TOKEN": "b"}, ""},
	} {
		s := &sources{host: &config.Host{Provider: block}, env: func(n string) string { return row.env[n] }, home: t.TempDir(), log: quiet}
		if got, err := overlay(s, "anthropic", nil); err != nil || string(got) != row.want {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
	named := &sources{host: &config.Host{Provider: config.Override{Set: true, Module: "anthropic", Config: []byte(`{"api_key":"k"}`)}}, env: func(string) string { return "" }, home: t.TempDir(), log: quiet}
	if got := named.resolvable(); !slices.Equal(got, []string{"anthropic"}) {
		t.Errorf("a block that brings a key enables %q", got)
	}
}
