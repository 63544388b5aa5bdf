package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const longKey = "sk-0123456789abcdef-last"

func TestResolve(t *testing.T) {
	file := `{"version":1,"providers":{"commandcode":{"api_key":"from-file"},"anthropic":"entry","azure-openai":{"api_key":"az","endpoint":"https://az.test"},
		"ollama":{"host":"box:1"},"vllm":{"api_key":"no"},"openai":{"api_key":7},"gemini":null,"github-copilot":{"api_key":" \u001b[200~gh\u001b[201~\n"}}}`
	for _, r := range []struct {
		module     string
		env        string // NAME=value, space between
		file, auth string
		want       string // source variable key endpoint
		missing    string // in the error
	}{
		{"commandcode", "COMMANDCODE_API_KEY=a COMMAND_CODE_API_KEY=b", file, "", "env COMMANDCODE_API_KEY a ", ""},
		{"commandcode", "COMMANDCODE_API_KEY= COMMAND_CODE_API_KEY=b", file, "", "env COMMAND_CODE_API_KEY b ", ""},
		{"commandcode", "", file, `{"apiKey":"vendor"}`, "file  from-file ", ""},
		{"commandcode", "", "", `{"apiKey":" vendor\n","userId":"u"}`, "file  vendor ", ""},
		{"commandcode", "", "", "\uFEFF" + `{"type":"api","key":"k"}`, "file  k ", ""},
		{"commandcode", "", "", `{"commandcode":{"type":"oauth","access":"acc","refresh":"r","expires":1}}`, "file  acc ", ""},
		{"commandcode", "", "", `{"other":{"key":"x"},"command-code":"plain"}`, "file  plain ", ""},
		{"commandcode", "", "", `{"refresh":"x"}`, "none COMMANDCODE_API_KEY  ", "COMMANDCODE_API_KEY is not set: export it, or run: amplifier-agent auth set commandcode <key>"},
		{"commandcode", "", "", "", "none COMMANDCODE_API_KEY  ", "COMMANDCODE_API_KEY"},
		{"anthropic", "ANTHROPIC_API_KEY=a", file, "", "env ANTHROPIC_API_KEY a ", ""},
		{"anthropic", "", file, "", "file  entry ", ""},
		{"anthropic", "", `{"anthropic":"flat"}`, "", "file  flat ", ""},
		{"anthropic", "", "\uFEFF" + `{"anthropic":"flat"}`, "", "file  flat ", ""},
		{"anthropic", "", "{}", `{"apiKey":"vendor"}`, "none ANTHROPIC_API_KEY  ", "auth set anthropic <key>"},
		{"openai", "", file, "", "none OPENAI_API_KEY  ", "OPENAI_API_KEY"},
		{"azure-openai", "AZURE_OPENAI_KEY=old", file, "", "env AZURE_OPENAI_KEY old https://az.test", ""},
		{"azure-openai", "AZURE_OPENAI_ENDPOINT=https://e.test", file, "", "file  az https://e.test", ""},
		{"azure-openai", "AZURE_OPENAI_API_KEY=k", "", "", "none AZURE_OPENAI_ENDPOINT k ", "auth set azure-openai <key> --endpoint <url>"},
		{"azure-openai", "AZURE_OPENAI_ENDPOINT=https://e.test", "", "", "none AZURE_OPENAI_API_KEY  https://e.test", "AZURE_OPENAI_API_KEY"},
		{"ollama", "OLLAMA_HOST=0.0.0.0 OLLAMA_BASE_URL=http://x:2", file, "", "env OLLAMA_HOST  http://127.0.0.1:11434", ""},
		{"ollama", "OLLAMA_BASE_URL=http://x:2/", file, "", "env OLLAMA_BASE_URL  http://x:2", ""},
		{"ollama", "", file, "", "file   http://box:1", ""},
		{"ollama", "", "", "", "default OLLAMA_HOST  http://localhost:11434", ""},
		{"github-copilot", "", file, "", "file  gh ", ""},
		{"github-copilot", "GITHUB_TOKEN=t", file, "", "env GITHUB_TOKEN t ", ""},
		{"gemini", "GEMINI_API_KEY=g", file, "", "env GEMINI_API_KEY g ", ""},
		{"gemini", "", file, "", "none GOOGLE_API_KEY  ", "GOOGLE_API_KEY"},
		{"chat-completions", "CHAT_COMPLETIONS_BASE_URL=http://h/v1", "", "", "env CHAT_COMPLETIONS_BASE_URL  http://h/v1", ""},
		{"chat-completions", "CHAT_COMPLETIONS_API_KEY=k", `{"chat-completions":{"endpoint":"http://h"}}`, "", "none CHAT_COMPLETIONS_BASE_URL k ", "CHAT_COMPLETIONS_BASE_URL is not set: export it"},
		{"vllm", "VLLM_BASE_URL=http://h:8000/v1", file, "", "env VLLM_BASE_URL EMPTY http://h:8000/v1", ""},
		{"vllm", "VLLM_BASE_URL=http://h:8000/v1 VLLM_API_KEY=k", file, "", "env VLLM_BASE_URL k http://h:8000/v1", ""},
		{"vllm", "", file, "", "none VLLM_BASE_URL  ", "VLLM_BASE_URL"},
	} {
		home, user := t.TempDir(), t.TempDir()
		if r.file != "" {
			write(t, home, "credentials.json", r.file)
		}
		if r.auth != "" {
			if err := os.Mkdir(filepath.Join(user, ".commandcode"), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, user, ".commandcode/auth.json", r.auth)
		}
		env := map[string]string{}
		for _, e := range strings.Fields(r.env) {
			name, value, _ := strings.Cut(e, "=")
			env[name] = value
		}
		c, err := Resolve(Provider{ID: r.module, Module: r.module}, envOf(env), home, user)
		got := fmt.Sprintf("%s %s %s %s", c.Source, c.Variable, c.Key, c.Endpoint)
		if got != r.want || c.Module != r.module || c.Resolved != (c.Source == SourceEnv || c.Source == SourceFile) || (c.Path != "") != (c.Source == SourceFile) {
			t.Errorf("%s with %s and %s:\n got %s, %+v\nwant %s", r.module, r.env, r.file+r.auth, got, c, r.want)
		}
		if (err != nil) != (r.missing != "") || err != nil && (!errors.Is(err, ErrNoCredential) || !strings.Contains(err.Error(), r.missing)) {
			t.Errorf("%s with %s: error %v, want %q", r.module, r.env, err, r.missing)
		}
		deprecated := strings.Contains(r.env, "AZURE_OPENAI_KEY=")
		if deprecated != (len(c.Warnings) == 1 && strings.Contains(c.Warnings[0], "deprecated")) {
			t.Errorf("%s with %s: warnings %q", r.module, r.env, c.Warnings)
		}
	}
	if _, err := Resolve(Provider{ID: "replay", Module: "replay"}, envOf(nil), t.TempDir(), ""); err == nil || errors.Is(err, ErrNoCredential) {
		t.Errorf("a module without credentials: %v", err)
	}
}

// TestResolveByID: a provider's own entry comes before that of its module and after the module's variables. One that is called like
// another module does not get that one's key.
func TestResolveByID(t *testing.T) {
	home := t.TempDir()
	write(t, home, "credentials.json", `{"providers":{"commandcode":"module","work":"work","openai":"openai","vllm":"vllm","mine":"mine",
		"az":{"api_key":"az"},"azure-openai":{"api_key":"no","endpoint":"https://az.test"}}}`)
	for _, r := range []struct{ id, module, env, want, missing string }{ // want: source key endpoint entry
		{"work", "commandcode", "", "file work  work", ""},
		{"home", "commandcode", "", "file module  commandcode", ""},
		{"commandcode", "commandcode", "", "file module  commandcode", ""},
		{"work", "commandcode", "COMMANDCODE_API_KEY=env", "env env  ", ""},
		{"openai", "commandcode", "", "file module  commandcode", ""},
		{"openai", "chat-completions", "CHAT_COMPLETIONS_BASE_URL=http://h", "env  http://h ", ""},
		{"mine", "chat-completions", "CHAT_COMPLETIONS_BASE_URL=http://h", "file mine http://h mine", ""},
		{"mine", "vllm", "", "file mine  mine", "or give the provider a base_url"},
		{"vllm", "vllm", "VLLM_BASE_URL=http://h", "env EMPTY http://h ", ""},
		{"az", "azure-openai", "", "file az https://az.test az", ""},
		{"new", "anthropic", "", "none   ", "amplifier-agent auth set new <key>"},
		{"gemini", "anthropic", "", "none   ", "amplifier-agent auth set anthropic <key>"},
		{"new", "vllm", "VLLM_BASE_URL=http://h", "env EMPTY http://h ", ""},
	} {
		name, value, _ := strings.Cut(r.env, "=")
		c, err := Resolve(Provider{ID: r.id, Module: r.module}, envOf(map[string]string{name: value}), home, "")
		if got := fmt.Sprintf("%s %s %s %s", c.Source, c.Key, c.Endpoint, c.Entry); got != r.want || c.ID != r.id || c.Module != r.module {
			t.Errorf("%s of %s with %s: got %s, want %s", r.id, r.module, r.env, got, r.want)
		}
		if (err != nil) != (r.missing != "") || err != nil && !(errors.Is(err, ErrNoCredential) && strings.Contains(err.Error(), r.missing)) {
			t.Errorf("%s of %s: %v, want %q", r.id, r.module, err, r.missing)
		}
	}
}

// TestResolveProviders: the providers of a host config come with those of the modules, and their own config has the last word.
func TestResolveProviders(t *testing.T) {
	home := t.TempDir()
	write(t, home, "credentials.json", `{"work":"work","unread":"x"}`)
	all := ResolveAll(envOf(map[string]string{"ANTHROPIC_API_KEY": "a", "AZURE_OPENAI_KEY": "z"}), home, "", []Provider{
		{ID: "work", Module: "commandcode", Config: []byte(`{}`)},
		{ID: "anthropic", Module: "anthropic", Config: []byte(`{"api_key":"own"}`)},
		{ID: "mine", Module: "chat-completions", Config: []byte(`{"base_url":"http://h"}`)},
		{ID: "openai", Module: "vllm", Config: []byte(`{"base_url":"http://v","api_key":null}`)},
		{ID: "az", Module: "azure-openai", Config: []byte(`{"base_url":"http://z"}`)},
		{ID: "gemini", Module: "gemini", Config: []byte(`{"base_url":"http://g"}`)},
		{ID: "tapes", Module: "replay", Config: []byte(`{}`)},
	})
	got := map[string]string{}
	for _, c := range all.List {
		got[c.ID+"@"+c.Module] = fmt.Sprintf("%v %s %s %s %s", c.Resolved, c.Source, c.Key, c.Endpoint, c.Entry)
	}
	for name, want := range map[string]string{
		"work@commandcode":        "true file work  work",
		"commandcode@commandcode": "false none   ",
		"anthropic@anthropic":     "true config own  ",
		"mine@chat-completions":   "true config  http://h ",
		"openai@vllm":             "true config EMPTY http://v ",
		"openai@openai":           "false none   ",
		"az@azure-openai":         "true env z http://z ",
		"gemini@gemini":           "false none  http://g ",
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
	if len(all.List) != len(accounts)+4 || !slices.Equal(all.Unknown, []string{"unread"}) || len(all.Warnings) != 1 {
		t.Errorf("%d in the list, unknown %q, warnings %q", len(all.List), all.Unknown, all.Warnings)
	}
}

// TestAccounts holds the table against the modules that there are.
func TestAccounts(t *testing.T) {
	for _, m := range Modules {
		if a := accountOf(m); (a == nil) != (m == "replay") {
			t.Errorf("%s: %+v", m, a)
		}
	}
	for _, a := range accounts {
		if !slices.Contains(Modules, a.module) || a.key == required && len(a.keys) == 0 || a.address == required && len(a.addresses) == 0 || a.file && a.address == required && a.member == "" {
			t.Errorf("%+v contradicts itself", a)
		}
	}
	keys, addresses := CredentialVariables()
	if !slices.Contains(keys, "COMMAND_CODE_API_KEY") || !slices.Contains(addresses, "OLLAMA_HOST") || slices.Contains(addresses, "VLLM_API_KEY") {
		t.Errorf("variables %q and %q", keys, addresses)
	}
}

func TestResolveAll(t *testing.T) {
	home := t.TempDir()
	write(t, home, "credentials.json", `{"version":1,"providers":{"openai":{"api_key":"o"},"mine":{"x":1},"vllm":{"api_key":"unread"}}}`)
	all := ResolveAll(envOf(map[string]string{"GOOGLE_API_KEY": "g", "AZURE_OPENAI_KEY": "a"}), home, "", nil)
	var resolved []string
	for _, c := range all.List {
		if c.Resolved {
			resolved = append(resolved, c.Module)
		}
	}
	if len(all.List) != len(accounts) || !slices.Equal(resolved, []string{"openai", "gemini"}) || !slices.Equal(all.Unknown, []string{"mine", "vllm"}) || len(all.Warnings) != 1 {
		t.Errorf("resolved %q, unknown %q, warnings %q", resolved, all.Unknown, all.Warnings)
	}
	write(t, home, "credentials.json", `{"openai":`)
	if all = ResolveAll(envOf(nil), home, "", nil); len(all.Warnings) != 1 || !strings.Contains(all.Warnings[0], "line 1") {
		t.Errorf("warnings of a damaged file: %q", all.Warnings)
	}
}

// TestCredentialPrintsNoKey: a key that is formatted by mistake does not show.
func TestCredentialPrintsNoKey(t *testing.T) {
	c := Credential{ID: "openai", Module: "openai", Source: SourceEnv, Key: longKey, Endpoint: "http://u:pass@h"}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "c", c, "list", []Credential{c})
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "c", c, "list", []*Credential{&c})
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%v %+v %#v %s %v", c, c, c, c, []Credential{c}) + log.String() + string(b)
	if strings.Contains(text, longKey) || strings.Contains(text, "pass") || !strings.Contains(text, "…last") {
		t.Error(text)
	}
	for key, want := range map[string]string{longKey: "…last", "": "", "short": "…", "fifteen-bytes-x": "…", "sixteen-bytes-xy": "…s-xy"} {
		if got := (Credential{Key: key}).MaskedKey(); got != want {
			t.Errorf("%q is shown as %q, want %q", key, got, want)
		}
	}
}

func TestOllamaURL(t *testing.T) {
	for in, want := range map[string]string{
		"h": "http://h:11434", "h:1": "http://h:1", "http://h": "http://h", "https://h/p/": "https://h/p", "0.0.0.0:1": "http://127.0.0.1:1", "[::]:1": "http://[::1]:1",
		"[::1]": "http://[::1]:11434", "http://[fd00::2]": "http://[fd00::2]", "http://0.0.0.0": "http://127.0.0.1", ":1": "http://:1", "a b": "http://a b",
	} {
		if got := ollamaURL(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestReadableByOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes here")
	}
	home := t.TempDir()
	path := write(t, home, "credentials.json", `{"openai":"k"}`)
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o604: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		c, err := Resolve(Provider{ID: "openai", Module: "openai"}, envOf(nil), home, "")
		if err != nil || warned != (len(c.Warnings) == 1 && strings.Contains(c.Warnings[0], "chmod 600")) {
			t.Errorf("mode %#o: %q, %v", mode, c.Warnings, err)
		}
	}
}
