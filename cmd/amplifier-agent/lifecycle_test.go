package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestLifecycleCommands pins what the commands make of their flags and how they end; what they do is tested in lifecycle.
func TestLifecycleCommands(t *testing.T) {
	home := t.TempDir()
	t.Setenv("AMPLIFIER_AGENT_HOME", home)
	for _, row := range []struct {
		command func() *cobra.Command
		args    []string
		code    int
		stdout  string
		stderr  string
		err     string // what is left to say
	}{
		{statusCommand, nil, 0, "amplifier-agent serve: not running\n", "", ""},
		{statusCommand, []string{"--port", "9100"}, 0, "amplifier-agent serve: not running on port 9100\n", "", ""},
		{stopCommand, nil, 1, "", "amplifier-agent serve: not running\n", ""},
		{stopCommand, []string{"--force", "--timeout", "0.5"}, 1, "", "amplifier-agent serve: not running\n", ""},
		{restartCommand, nil, 1, "", "amplifier-agent serve: not running — nothing to restart\n", ""},
		{statusCommand, []string{"--json"}, 0, `{"schema_version":1,"running":false,"servers":[]}` + "\n", "", ""},
		{stopCommand, []string{"--json"}, 1, `{"schema_version":1,"stopped":false,"error":"not running"}` + "\n", "", ""},
		{restartCommand, []string{"--json"}, 1, `{"schema_version":1,"restarted":false,"error":"not running — nothing to restart"}` + "\n", "", ""},
		{stopCommand, []string{"--timeout", "-1"}, exitUsage, "", "", "timeout -1"},
		{stopCommand, []string{"--timeout", "NaN"}, exitUsage, "", "", "timeout NaN"},
		{stopCommand, []string{"--timeout", "1e300"}, exitUsage, "", "", "timeout 1e+300"},
		{statusCommand, []string{"--port", "0"}, exitUsage, "", "", "port 0"},
		{restartCommand, []string{"--port", "70000"}, exitUsage, "", "", "port 70000"},
		{restartCommand, []string{"--force"}, exitUsage, "", "", "--force"},
		{statusCommand, []string{"now"}, exitUsage, "", "", "now"},
	} {
		c := row.command()
		c.SilenceUsage, c.SilenceErrors = true, true
		var stdout, stderr bytes.Buffer
		c.SetOut(&stdout)
		c.SetErr(&stderr)
		c.SetArgs(append([]string{}, row.args...))
		err := c.ExecuteContext(t.Context())
		code, text := exitOK, ""
		if e, ok := errors.AsType[*exitError](err); ok {
			if code = e.code; e.err != nil {
				text = e.err.Error()
			}
		} else if err != nil {
			code, text = exitUsage, err.Error()
		}
		if code != row.code || stdout.String() != row.stdout || stderr.String() != row.stderr || row.err == "" && text != "" || !strings.Contains(text, row.err) {
			t.Errorf("%s %v: exit code %d, stdout %q, stderr %q, error %q", c.Name(), row.args, code, stdout.String(), stderr.String(), text)
		}
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) > 0 {
		t.Errorf("asking left %v, error %v", entries, err)
	}
}

// TestLifecycleErrors: an error is printed by main, or stands in the object.
func TestLifecycleErrors(t *testing.T) {
	home := t.TempDir()
	t.Setenv("AMPLIFIER_AGENT_HOME", home)
	path := filepath.Join(home, "state", "serve.json")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []func() *cobra.Command{statusCommand, stopCommand, restartCommand} {
		for _, args := range [][]string{{}, {"--json"}} {
			c := command()
			c.SilenceUsage, c.SilenceErrors = true, true
			var stdout, stderr bytes.Buffer
			c.SetOut(&stdout)
			c.SetErr(&stderr)
			c.SetArgs(args)
			e, ok := errors.AsType[*exitError](c.ExecuteContext(t.Context()))
			if !ok || e.code != exitFailure || stderr.Len() > 0 {
				t.Fatalf("%s %v: %v, stderr %q", c.Name(), args, e, stderr.String())
			}
			if len(args) == 0 {
				if e.err == nil || !strings.Contains(e.err.Error(), path) || stdout.Len() > 0 {
					t.Errorf("%s: error %v, stdout %q", c.Name(), e.err, stdout.String())
				}
				continue
			}
			var object struct{ Error string }
			if err := json.Unmarshal(stdout.Bytes(), &object); err != nil || !strings.Contains(object.Error, path) || e.err != nil {
				t.Errorf("%s %v: stdout %q, error %v", c.Name(), args, stdout.String(), e.err)
			}
		}
	}
}

// TestStopHelp: the help says how long stop waits by itself.
func TestStopHelp(t *testing.T) {
	if usage := stopCommand().Flags().FlagUsages(); !strings.Contains(usage, "default 5, or 2 more than its limits.drainSeconds") || strings.Count(usage, "(default 5") != 1 {
		t.Errorf("%s", usage)
	}
}
