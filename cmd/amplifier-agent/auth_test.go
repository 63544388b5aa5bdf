package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// spoken is what a program said.
type spoken struct {
	code           int
	stdout, stderr string
}

// speak runs the program to its end.
func speak(t *testing.T, stdin string, env []string, args ...string) spoken {
	t.Helper()
	c := program(t, env, args...)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &errs
	return spoken{exitCode(c.Run()), out.String(), errs.String()}
}

func TestAuth(t *testing.T) {
	home := filepath.Join(t.TempDir(), "h")
	const openai, azure = "sk-openai-0123456789-aaaa", "azure-0123456789-bbbb"
	file := filepath.Join(home, "credentials.json")
	for _, r := range []struct {
		stdin, env, args string
		code             int
		out, err         string // parts
	}{
		{"", "", "auth list", 0, "openai none - - nowhere: set $OPENAI_API_KEY", ""},
		{"", "", "auth remove openai", 1, "", "has no entry"},
		{"\x1b[200~" + openai + "\n\x1b[201~\n", "", "auth set openai", 0, "openai: written to " + file, ""},
		{"", "", "auth list", 0, "openai file …aaaa - " + file, ""},
		{"", "OPENAI_API_KEY=sk-other-0123456789-cccc", "auth list", 0, "openai env …cccc - $OPENAI_API_KEY", ""},
		{"", "OPENAI_API_KEY=sk-other-0123456789-cccc", "auth set openai " + openai, 0, "written", "note: openai takes its credentials from $OPENAI_API_KEY"},
		{"", "", "auth set azure-openai " + azure + " --endpoint https://user:" + azure + "@e.test/x?key=" + azure, 0, "written", ""},
		{"", "", "auth list", 0, "https://e.test/x", ""},
		{"", "", "auth set azure-openai --endpoint https://f.test", 0, "written", ""},
		{"", "", "auth list", 0, "azure-openai file …bbbb https://f.test", ""},
		{"not read", "", "auth set ollama --host box", 0, "written", ""},
		{"", "", "auth list", 0, "ollama file - http://box:11434", ""},
		{"", "AZURE_OPENAI_KEY=" + azure, "auth list", 0, "$AZURE_OPENAI_KEY", "AZURE_OPENAI_KEY is deprecated: export AZURE_OPENAI_API_KEY"},
		{"", "", "auth set openai", 1, "", "nothing to set"},
		{openai + "\n" + openai, "", "auth set openai", 1, "", "white space"},
		{strings.Repeat("k", maxKeyBytes+1), "", "auth set openai", 1, "", "longer than"},
		{"", "", "auth set opena " + openai, 2, "", "did you mean openai?"},
		{"", "", "auth set vllm " + openai, 2, "", "export VLLM_BASE_URL"},
		{"", "", "auth set ollama --host a --endpoint b", 2, "", "host"},
		{"", "", "auth set", 2, "", "arg"},
		{"", "OPENAI_API_KEY=" + openai, "auth remove openai", 0, "openai: removed from " + file, "note: openai takes its credentials from $OPENAI_API_KEY"},
		{"", "", "auth list", 0, "openai none", ""},
	} {
		got := speak(t, r.stdin, []string{"AMPLIFIER_AGENT_HOME=" + home, r.env}, strings.Fields(r.args)...)
		if got.code != r.code || !strings.Contains(strings.Join(strings.Fields(got.stdout), " "), r.out) || !strings.Contains(got.stderr, r.err) || (r.err == "") != (got.stderr == "") {
			t.Errorf("%s: exit code %d\n%s%s\nwant %d, %q, %q", r.args, got.code, got.stdout, got.stderr, r.code, r.out, r.err)
		}
		for _, secret := range []string{openai, azure} {
			if strings.Contains(got.stdout+got.stderr, secret) {
				t.Errorf("%s shows a key:\n%s%s", r.args, got.stdout, got.stderr)
			}
		}
	}
}

func TestAuthListJSON(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "credentials.json"), []byte(`{"anthropic":"sk-ant-0123456789-dddd","mine":"m"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	got := speak(t, "", []string{"AMPLIFIER_AGENT_HOME=" + home, "CHAT_COMPLETIONS_BASE_URL=http://u:p4ss@h/v1"}, "auth", "list", "--json")
	var list struct {
		Providers []map[string]any
		Unknown   []string
	}
	if err := json.Unmarshal([]byte(got.stdout), &list); err != nil || got.code != 0 || strings.Count(got.stdout, "\n") != 1 {
		t.Fatalf("%+v: %v", got, err)
	}
	rows := map[string]map[string]any{}
	for _, p := range list.Providers {
		rows[p["provider"].(string)] = p
	}
	want := map[string]string{
		"anthropic":        `{"fields":["api_key"],"key":"…dddd","path":"` + filepath.Join(home, "credentials.json") + `","provider":"anthropic","resolved":true,"source":"file"}`,
		"chat-completions": `{"endpoint":"http://h/v1","fields":["endpoint"],"provider":"chat-completions","resolved":true,"source":"env","variable":"CHAT_COMPLETIONS_BASE_URL"}`,
		"ollama":           `{"endpoint":"http://localhost:11434","fields":["endpoint"],"provider":"ollama","resolved":false,"source":"default","variable":"OLLAMA_HOST"}`,
		"openai":           `{"fields":[],"provider":"openai","resolved":false,"source":"none","variable":"OPENAI_API_KEY"}`,
	}
	for name, text := range want {
		if b, err := json.Marshal(rows[name]); err != nil || string(b) != text {
			t.Errorf("got %s\nwant %s", b, text)
		}
	}
	if len(rows) != 9 || !slices.Equal(list.Unknown, []string{"mine"}) || strings.Contains(got.stdout, "0123456789") || strings.Contains(got.stdout, "p4ss") {
		t.Errorf("%q: %s", slices.Sorted(maps.Keys(rows)), got.stdout)
	}
}

// TestAuthDamagedFile: it is empty for a reader, who is told, and an error for a writer, who leaves it.
func TestAuthDamagedFile(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, "credentials.json")
	if err := os.WriteFile(path, []byte(`{"openai":`), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"AMPLIFIER_AGENT_HOME=" + home}
	if got := speak(t, "", env, "auth", "list"); got.code != 0 || strings.Count(got.stderr, path) != 1 || !strings.Contains(got.stderr, "counts as empty") {
		t.Errorf("%+v", got)
	}
	for _, args := range [][]string{{"auth", "set", "openai", "k"}, {"auth", "remove", "openai"}} {
		if got := speak(t, "", env, args...); got.code != 1 || !strings.Contains(got.stderr, "mend the file") {
			t.Errorf("%q: %+v", args, got)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != `{"openai":` {
		t.Errorf("the file became %q, %v", b, err)
	}
}

// TestAuthAtOnce: commands that run at once lose nothing of each other's.
func TestAuthAtOnce(t *testing.T) {
	env := []string{"AMPLIFIER_AGENT_HOME=" + filepath.Join(t.TempDir(), "new")}
	names := []string{"openai", "anthropic", "gemini", "github-copilot", "commandcode"}
	var wait sync.WaitGroup
	for _, name := range names {
		c := program(t, env, "auth", "set", name, "key-of-"+name)
		wait.Go(func() {
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", name, err, out)
			}
		})
	}
	wait.Wait()
	if got := speak(t, "", env, "auth", "list"); strings.Count(got.stdout, " file ") != len(names) {
		t.Errorf("%+v", got)
	}
}
