package config

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"amplifier-agent/pipeline/secret"
)

// childHome makes the test binary a program that sets keys below that home.
const childHome = "CREDENTIALS_TEST_HOME"

func TestMain(m *testing.M) {
	if home := os.Getenv(childHome); home != "" {
		for i := range childWrites {
			if err := SetCredential(home, os.Getenv("CREDENTIALS_TEST_MODULE"), os.Getenv("CREDENTIALS_TEST_MODULE"), fmt.Sprintf("key-%d", i), ""); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const childWrites = 20

func stored(t *testing.T, home string) string {
	t.Helper()
	b, err := os.ReadFile(CredentialFile(home))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSetCredential(t *testing.T) {
	for _, r := range []struct {
		name, before         string
		module, key, address string
		after                string
	}{
		{"nothing there", "", "openai", " k\n", "", "{\n  \"version\": 1,\n  \"providers\": {\n    \"openai\": {\n      \"api_key\": \"k\"\n    }\n  }\n}\n"},
		{"address only", "{}", "ollama", "", "box:1", "{\n  \"version\": 1,\n  \"providers\": {\n    \"ollama\": {\n      \"host\": \"box:1\"\n    }\n  }\n}\n"},
		{"both", "", "azure-openai", "k\"", "https://e", "{\n  \"version\": 1,\n  \"providers\": {\n    \"azure-openai\": {\n      \"api_key\": \"k\\\"\",\n      \"endpoint\": \"https://e\"\n    }\n  }\n}\n"},
		{"the rest stays", "\uFEFF{ \"x\" : [1.0, 2e0 ],\"providers\":{\"mine\":{\"a\" :\"\\u00e9\"},\"openai\":{\"note\":[ ],\"api_key\":\"old\",\"n\":1.50},\"z\":null},\"version\":1}", "openai", "k", "",
			"{\n  \"x\": [1.0, 2e0 ],\n  \"providers\": {\n    \"mine\": {\"a\" :\"\\u00e9\"},\n    \"openai\": {\n      \"note\": [ ],\n      \"api_key\": \"k\",\n      \"n\": 1.50\n    },\n    \"z\": null\n  },\n  \"version\": 1\n}\n"},
		{"flat", `{"anthropic":"a","n":1,"openai":"o"}`, "openai", "k", "",
			"{\n  \"version\": 1,\n  \"n\": 1,\n  \"providers\": {\n    \"anthropic\": \"a\",\n    \"openai\": {\n      \"api_key\": \"k\"\n    }\n  }\n}\n"},
		{"an entry of another kind", `{"providers":{"openai":7}}`, "openai", "k", "", "{\n  \"version\": 1,\n  \"providers\": {\n    \"openai\": {\n      \"api_key\": \"k\"\n    }\n  }\n}\n"},
		{"no providers", `{"version":1,"providers":null}`, "openai", "k", "", "{\n  \"version\": 1,\n  \"providers\": {\n    \"openai\": {\n      \"api_key\": \"k\"\n    }\n  }\n}\n"},
	} {
		t.Run(r.name, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "a", "home")
			if r.before != "" {
				if err := os.MkdirAll(home, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(CredentialFile(home), []byte(r.before), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // the second time changes nothing
				if err := SetCredential(home, r.module, r.module, r.key, r.address); err != nil {
					t.Fatal(err)
				}
				if got := stored(t, home); got != r.after {
					t.Errorf("got %s\nwant %s", got, r.after)
				}
			}
			for path, want := range map[string]os.FileMode{home: 0o700, CredentialFile(home): 0o600} {
				info, err := os.Stat(path)
				if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != want {
					t.Errorf("%s: %v, %v", path, info.Mode(), err)
				}
			}
			c, err := Resolve(Provider{ID: r.module, Module: r.module}, envOf(nil), home, "")
			if err != nil || len(c.Warnings) != 0 || c.Source != SourceFile || c.Key != secret.CleanKey(r.key) || (c.Endpoint != "") != (r.address != "") {
				t.Errorf("read again: %+v with key %q, %v, %q", c, c.Key, err, c.Warnings)
			}
		})
	}
}

// TestSetCredentialOfAProvider: one that the host config names has an entry of its own, also where the module has none; it is not
// called like another module.
func TestSetCredentialOfAProvider(t *testing.T) {
	home := t.TempDir()
	providers := []Provider{{ID: "work", Module: "commandcode"}, {ID: "mine", Module: "vllm"}, {ID: "tapes", Module: "replay"}, {ID: "openai", Module: "gemini"}}
	for _, r := range []struct {
		id, module string // "" is none
		needsKey   bool
		says       string
	}{
		{"work", "commandcode", true, ""},
		{"mine", "vllm", true, ""},
		{"openai", "openai", true, ""},
		{"ollama", "ollama", false, ""},
		{"vllm", "", false, "export VLLM_BASE_URL"},
		{"wort", "", false, "did you mean work?"},
		{"tapes", "", false, "unknown provider"},
		{"somebody-else", "", false, "or a provider of the host config"},
	} {
		module, needsKey, err := CredentialModule(r.id, providers)
		if module != r.module || needsKey != r.needsKey || (err == nil) != (r.says == "") || err != nil && !strings.Contains(err.Error(), r.says) {
			t.Errorf("%s is of %q, needs a key %v, %v", r.id, module, needsKey, err)
		}
		if err != nil {
			continue
		}
		if err := SetCredential(home, r.id, module, "key-of-"+r.id, ""); err != nil {
			t.Error(err)
		}
		if c, err := Resolve(Provider{ID: r.id, Module: module}, envOf(nil), home, ""); c.Key != "key-of-"+r.id || c.Entry != r.id && c.Source != SourceDefault {
			t.Errorf("%s: %v, %v", r.id, c, err)
		}
	}
	if err := SetCredential(home, "openai", "gemini", "k", ""); err == nil || !strings.Contains(err.Error(), "name of a module") {
		t.Errorf("an id that is another module's name: %v", err)
	}
	if err := SetCredential(home, "work", "commandcode", "k", "http://h"); err == nil || !strings.Contains(err.Error(), "no address") {
		t.Errorf("an address that nobody reads: %v", err)
	}
}

func TestRemoveCredential(t *testing.T) {
	home := t.TempDir()
	write(t, home, "credentials.json", `{"openai":"o","mine":"m"}`)
	for _, r := range []struct {
		name    string
		removed bool
	}{{"gemini", false}, {"openai", true}, {"openai", false}, {"mine", true}} {
		if removed, err := RemoveCredential(home, r.name); err != nil || removed != r.removed {
			t.Errorf("%s: %v, %v", r.name, removed, err)
		}
	}
	if got := stored(t, home); got != "{\n  \"version\": 1,\n  \"providers\": {}\n}\n" {
		t.Error(got)
	}
	empty := filepath.Join(t.TempDir(), "none")
	if removed, err := RemoveCredential(empty, "openai"); removed || err != nil {
		t.Errorf("from nothing: %v, %v", removed, err)
	}
	if _, err := os.Stat(empty); err == nil {
		t.Error("a home was made for nothing")
	}
}

// TestSetRefuses: what is refused leaves the file alone, and no message has a key in it.
func TestSetRefuses(t *testing.T) {
	for _, r := range []struct{ before, module, key, address, says string }{
		{"", "opnai", "secret", "", "did you mean openai?"},
		{"", "zzzzzzzz", "secret", "", "use one of commandcode, anthropic"},
		{"", "vllm", "secret", "", "export VLLM_BASE_URL and VLLM_API_KEY"},
		{"", "openai", "secret\nsecret", "", "white space"},
		{"", "openai", "secret secret", "", "white space"},
		{"", "openai", "secret\xff", "", "white space"},
		{"", "openai", " \n", "", "give a key"},
		{"", "openai", "secret", "http://h", "no address"},
		{"", "azure-openai", "secret", "ftp://h", "no http:// or https:// URL"},
		{"", "azure-openai", "secret", "https://u:secret@", "no http:// or https:// URL"},
		{`{"openai":"secret"`, "openai", "k", "", "ends too early"},
		{`{"openai":"secret","openai":"secret"}`, "openai", "k", "", "twice"},
		{`{"openai":"secret` + "\xff" + `"}`, "openai", "k", "", "UTF-8"},
		{`["secret"]`, "openai", "k", "", "no JSON object"},
		{`{"providers":["secret"]}`, "openai", "k", "", "no JSON object"},
		{`{"version":2,"providers":{"openai":"secret"}}`, "openai", "k", "", "its version is 2"},
		{strings.Repeat(" ", maxFileBytes+1), "openai", "k", "", "larger than"},
	} {
		home := t.TempDir()
		if r.before != "" {
			write(t, home, "credentials.json", r.before)
		}
		err := SetCredential(home, r.module, r.module, r.key, r.address)
		if err == nil || !strings.Contains(err.Error(), r.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.40q: %v, want %q", r.before+r.key, err, r.says)
		}
		if r.before == "" {
			if _, err := os.Stat(CredentialFile(home)); err == nil {
				t.Errorf("%q was written", r.says)
			}
		} else {
			if got := stored(t, home); got != r.before {
				t.Errorf("%.40q was touched", r.before)
			}
			if _, err := RemoveCredential(home, "openai"); err == nil {
				t.Errorf("%.40q: removed from", r.before)
			}
		}
	}
	shared := t.TempDir()
	if err := os.Chmod(shared, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := SetCredential(shared, "openai", "openai", "k", ""); runtime.GOOS != "windows" && (err == nil || !strings.Contains(err.Error(), "AMPLIFIER_AGENT_HOME")) {
		t.Errorf("a folder for everybody: %v", err)
	}
}

// TestProcessesAtOnce: two processes that write at once lose nothing.
func TestProcessesAtOnce(t *testing.T) {
	home := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	modules := []string{"openai", "anthropic", "gemini"}
	var children []*exec.Cmd
	for _, m := range modules {
		c := exec.CommandContext(t.Context(), exe)
		c.Env = append(os.Environ(), childHome+"="+home, "CREDENTIALS_TEST_MODULE="+m)
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, c)
	}
	for _, c := range children {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	for _, m := range modules {
		if c, err := Resolve(Provider{ID: m, Module: m}, envOf(nil), home, ""); err != nil || c.Key != fmt.Sprintf("key-%d", childWrites-1) {
			t.Errorf("%s: %q, %v", m, c.Key, err)
		}
	}
}

func FuzzSetCredential(f *testing.F) {
	for _, s := range []string{"", "{}", `{"openai":"k"}`, `{"version":1,"providers":{"x":{"api_key":"k"}},"y":[1]}`, "\uFEFF{}", `{"providers":null}`, `{"version":"1"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, before string) {
		home := t.TempDir()
		write(t, home, "credentials.json", before)
		if err := SetCredential(home, "openai", "openai", "new-key", ""); err != nil {
			if stored(t, home) != before {
				t.Error("an error changed the file")
			}
			return
		}
		c, err := Resolve(Provider{ID: "openai", Module: "openai"}, envOf(nil), home, "")
		if err != nil || c.Key != "new-key" || len(c.Warnings) > 0 {
			t.Errorf("read again: %q, %v, %q", c.Key, err, c.Warnings)
		}
		after := stored(t, home)
		if !json.Valid([]byte(after)) {
			t.Errorf("not JSON: %q", after)
		}
		if err := SetCredential(home, "openai", "openai", "new-key", ""); err != nil || stored(t, home) != after {
			t.Errorf("not stable: %v", err)
		}
	})
}
