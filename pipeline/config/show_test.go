package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// secretive holds the secret s3cr3t wherever one may stand in a config.
const secretive = `{
  "mcp": {
    "servers": {"x": {"command": "x", "args": ["--api-key", "s3cr3t", "-v"], "env": {"X_TOKEN": "s3cr3t", "X_MODE": "fast"}}},
    "headers": {"X-Whatever": "s3cr3t"}
  },
  "provider": {"module": "openai", "config": {"api_key": "s3cr3t"}},
  "providers": {
    "key": {"module": "vllm", "config": {"base_url": "http://user:s3cr3t@127.0.0.1:8000/v1?key=s3cr3t", "apiKey": "s3cr3t", "max_tokens": 100}},
    "azure-openai": {"config": {"nested": [{"Authorization": "Bearer s3cr3t", "password": ["s3cr3t", {"a": "s3cr3t"}]}], "default_model": "m"}}
  },
  "skills": {"skills": ["git+https://user:s3cr3t@example.org/r"], "visibility": {"secret": "s3cr3t"}},
  "approval": {"password": "s3cr3t"}
}`

func TestShow(t *testing.T) {
	for name, file := range map[string]string{"default": `{}`, "secretive": secretive} {
		h, err := Parse([]byte(file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.Show()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(got), "s3cr3t") || strings.Contains(string(h.Masked()), "s3cr3t") {
			t.Errorf("%s shows its secret", name)
		}
		golden(t, "show_"+name+".golden", append(got, '\n'))
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}
