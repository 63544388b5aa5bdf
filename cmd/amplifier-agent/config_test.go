package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runConfig runs a config command without the process around it.
func runConfig(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	c := configCommand()
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&errOut)
	err = c.ExecuteContext(t.Context())
	if errOut.Len() > 0 {
		t.Errorf("%q wrote to stderr: %s", args, errOut.String())
	}
	return out.String(), err
}

// configFiles writes host configs into a folder of the test's own, away from any that the environment names.
func configFiles(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("AMPLIFIER_AGENT_HTTP_CONFIG_PATH", "")
	t.Setenv("AMPLIFIER_AGENT_CONFIG", "")
	for name, content := range map[string]string{
		"good.json": `{"providers": {"local": {"module": "vllm", "config": {"base_url": "http://u:p4ssw0rd@h/", "api_key": "p4ssw0rd"}}}}`,
		"bad.json":  `{"limits": {"bodyByte": 1}}`,
		"text.json": "{\n  x\n}",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestConfigCheck(t *testing.T) {
	dir := configFiles(t)
	good, bad := filepath.Join(dir, "good.json"), filepath.Join(dir, "bad.json")
	badMessage := "config " + bad + ": config_unknown_key: unknown key \"limits.bodyByte\": did you mean \"limits.bodyBytes\"?"
	for _, r := range []struct {
		args         []string
		path, config string // of the environment
		out, err     string
	}{
		{nil, "", "", "no host config: defaults apply\n", ""},
		{nil, "  ", " ", "no host config: defaults apply\n", ""},
		{[]string{good}, "", "", good + ": ok\n", ""},
		{[]string{"~/good.json"}, "", "", good + ": ok\n", ""},
		{[]string{"--config", good}, bad, bad, good + ": ok\n", ""},
		{[]string{good, "--config", bad}, bad, bad, good + ": ok\n", ""},
		{nil, good, bad, good + ": ok\n", ""},
		{nil, " ", good, good + ": ok\n", ""},
		{[]string{bad}, "", "", "", badMessage},
		{nil, "", bad, "", badMessage},
		{[]string{dir}, "", "", "", "config " + dir + ": config_unreadable: it is a folder: name the file in it"},
		{[]string{filepath.Join(dir, "text.json")}, "", "", "", "config " + filepath.Join(dir, "text.json") + ": config_malformed_json: line 2, column 3: not valid JSON"},
		{[]string{good, bad}, "", "", "", "accepts at most 1 arg(s), received 2"},
	} {
		t.Setenv("AMPLIFIER_AGENT_HTTP_CONFIG_PATH", r.path)
		t.Setenv("AMPLIFIER_AGENT_CONFIG", r.config)
		out, err := runConfig(t, append([]string{"check"}, r.args...)...)
		message := ""
		if err != nil {
			message = err.Error()
		}
		if out != r.out || message != r.err {
			t.Errorf("%q with %q and %q:\n got %q, %s\nwant %q, %s", r.args, r.path, r.config, out, message, r.out, r.err)
		}
		if _, ok := errors.AsType[*exitError](err); ok {
			t.Errorf("%q: a wrong config is no failure: the program ends with 2", r.args)
		}
	}
}

func TestConfigCheckJSON(t *testing.T) {
	dir := configFiles(t)
	good, bad, none := filepath.Join(dir, "good.json"), filepath.Join(dir, "bad.json"), filepath.Join(dir, "none.json")
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, r := range []struct {
		args   []string
		want   string
		failed bool
	}{
		{nil, `{"ok":true,"path":null,"error":null}`, false},
		{[]string{"~/good.json"}, `{"ok":true,"path":` + quoted(good) + `,"error":null}`, false},
		{[]string{"~/bad.json"}, `{"ok":false,"path":` + quoted(bad) + `,"error":{"code":"config_unknown_key",` +
			`"message":"unknown key \"limits.bodyByte\": did you mean \"limits.bodyBytes\"?","path":"limits.bodyByte"}}`, true},
		{[]string{none}, `{"ok":false,"path":` + quoted(none) + `,"error":{"code":"config_unreadable",` +
			`"message":"no such file or directory: create it, name another one, or name none to run with the defaults","path":null}}`, true},
	} {
		out, err := runConfig(t, append([]string{"check", "--json"}, r.args...)...)
		if out != r.want+"\n" || (err != nil) != r.failed {
			t.Errorf("%q:\n got %s, %v\nwant %s", r.args, out, err, r.want)
		}
	}
}

func TestConfigShow(t *testing.T) {
	dir := configFiles(t)
	good := filepath.Join(dir, "good.json")
	pretty, err := runConfig(t, "show", good)
	if err != nil {
		t.Fatal(err)
	}
	short, err := runConfig(t, "show", "--json", "--config", good)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{pretty, short} {
		var h struct {
			Providers map[string]struct {
				Config map[string]string
			}
			PreflightMs int
		}
		if err := json.Unmarshal([]byte(out), &h); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if c := h.Providers["local"].Config; c["api_key"] != "***" || c["base_url"] != "http://***@h/" || h.PreflightMs != 50 || strings.Contains(out, "p4ssw0rd") {
			t.Errorf("got %s", out)
		}
	}
	if strings.Count(short, "\n") != 1 || !strings.HasPrefix(pretty, "{\n  \"") {
		t.Errorf("got\n%s\n%s", pretty, short)
	}
	if out, err := runConfig(t, "show", filepath.Join(dir, "bad.json")); err == nil || out != "" {
		t.Errorf("got %s, %v", out, err)
	}
	if out, err := runConfig(t, "show"); err != nil || !strings.Contains(out, `"client": "contain"`) {
		t.Errorf("no file: got %s, %v", out, err)
	}
}
