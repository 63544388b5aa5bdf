package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
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
		"anthropic":        `{"entry":"anthropic","fields":["api_key"],"key":"…dddd","module":"anthropic","path":"` + filepath.Join(home, "credentials.json") + `","provider":"anthropic","resolved":true,"source":"file"}`,
		"chat-completions": `{"endpoint":"http://h/v1","fields":["endpoint"],"module":"chat-completions","provider":"chat-completions","resolved":true,"source":"env","variable":"CHAT_COMPLETIONS_BASE_URL"}`,
		"ollama":           `{"endpoint":"http://localhost:11434","fields":["endpoint"],"module":"ollama","provider":"ollama","resolved":false,"source":"default","variable":"OLLAMA_HOST"}`,
		"openai":           `{"fields":[],"module":"openai","provider":"openai","resolved":false,"source":"none","variable":"OPENAI_API_KEY"}`,
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

// TestAuthOfProviders: two providers of one module have two keys, each where it belongs; the doctor and the list say which is used.
func TestAuthOfProviders(t *testing.T) {
	home, host := t.TempDir(), filepath.Join(t.TempDir(), "host.json")
	seen := make(chan string, 10)
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key := r.Header.Get("Authorization"); key != "" {
			seen <- r.URL.Path + " " + key
		}
		_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
	}))
	defer gateway.Close()
	writeFile(t, host, fmt.Sprintf(`{"providers":{
		"work":    {"module":"commandcode","config":{"base_url":"%[1]s/work"}},
		"home":    {"module":"commandcode","config":{"base_url":"%[1]s/home"}},
		"local":   {"module":"chat-completions","config":{"base_url":"%[1]s/local"}},
		"openai":  {"module":"chat-completions","config":{"base_url":"%[1]s/other"}}
	}}`, gateway.URL))
	env := []string{"HOME=" + home, "AMPLIFIER_AGENT_HOME=" + home, "AMPLIFIER_AGENT_CONFIG=" + host}
	for id, key := range map[string]string{"work": "key-of-work-0123-aaaa", "commandcode": "key-of-module-0123-bbbb", "local": "key-of-local-0123-cccc", "openai": "key-of-openai-0123-dddd"} {
		if got := speak(t, key, env, "auth", "set", id); got.code != 0 || got.stdout != id+": written to "+filepath.Join(home, "credentials.json")+"\n" {
			t.Errorf("%s: %+v", id, got)
		}
	}
	for args, want := range map[string]string{
		"auth set work k --config /nonsense": "config /nonsense: ", // the flag counts
		"auth set wort k":                    "did you mean work?",
	} {
		if got := speak(t, "", env, strings.Fields(args)...); got.code != 2 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if got := speak(t, "", env, "models", "list", "--json"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	close(seen)
	var asked []string
	for s := range seen {
		asked = append(asked, s)
	}
	slices.Sort(asked)
	if want := []string{"/home/provider/v1/models Bearer key-of-module-0123-bbbb", "/local/models Bearer key-of-local-0123-cccc", "/work/provider/v1/models Bearer key-of-work-0123-aaaa"}; !slices.Equal(asked, want) {
		t.Errorf("asked with %q, want %q", asked, want)
	}
	list := speak(t, "", env, "auth", "list")
	_, found, all := diagnose(t, env)
	for _, want := range []string{"work (commandcode) file …aaaa", ", entry work\n", "home (commandcode) file …bbbb", ", entry commandcode\n", "local (chat-completions) file …cccc", "openai (chat-completions) config - " + gateway.URL + "/other the host config\n"} {
		if !strings.Contains(squeezed(list.stdout), want) {
			t.Errorf("the list lacks %q:\n%s", want, list.stdout)
		}
	}
	for _, want := range []string{"ok work (commandcode): …aaaa", "entry work\n", "ok home (commandcode): …bbbb", "ok local (chat-completions): …cccc", "ok openai (chat-completions): " + gateway.URL + "/other from the host config\n",
		"warn home (commandcode): the key of all providers of the module commandcode goes to " + gateway.URL + "/home", "ok not used, since the host config names others: commandcode, openai\n"} {
		if !strings.Contains(found["credentials"], want) {
			t.Errorf("the doctor does not say %q:\n%s", want, all)
		}
	}
	if strings.Contains(all+list.stdout, "key-of-") || strings.Contains(found["credentials"], "warn work") {
		t.Errorf("keys show, or one of its own is warned of:\n%s%s", all, list.stdout)
	}
	if got := speak(t, "", append(env, "COMMANDCODE_API_KEY=key-of-env-0123-eeee"), "auth", "remove", "work"); got.code != 0 || !strings.Contains(got.stderr, "note: work takes its credentials from $COMMANDCODE_API_KEY") {
		t.Errorf("%+v", got)
	}
	if got := speak(t, "", []string{"AMPLIFIER_AGENT_HOME=" + home}, "auth", "list"); !strings.Contains(squeezed(got.stdout), "local file - - an entry that nobody reads") {
		t.Errorf("without the host config: %+v", got)
	}
}

// squeezed is text without what aligns its columns.
func squeezed(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	return strings.Join(lines, "\n")
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
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
