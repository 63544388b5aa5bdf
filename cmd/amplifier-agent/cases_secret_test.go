package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"amplifier-agent/upstream/simulator"
)

// TestCaseSecrets: B099. An upstream that repeats credentials in its errors does not make the server repeat them: no answer, no
// log and no file holds the upstream's key, and the server's own is only where the contract has it.
func TestCaseSecrets(t *testing.T) {
	const key = "user_secret0123456789abcdef"
	w := stage(t, scene{env: []string{"COMMANDCODE_API_KEY=" + key}, args: []string{"--log-level", "debug"}})
	leak := "the keys " + key + " and " + contractKey + ` and {\"authorization\":\"Bearer ` + key + `\"} are bad`
	text := `{"type":"text-delta","id":"t","text":"said"}` + "\n"
	for name, a := range map[string]simulator.Answer{
		"first":     {Body: []byte(`{"type":"error","error":"` + leak + `"}` + "\n")},
		"late":      {Body: []byte(text + `{"type":"error","error":{"message":"` + leak + `","statusCode":401}}` + "\n")},
		"abort":     {Body: []byte(text + `{"type":"abort","reason":"` + leak + `"}` + "\n")},
		"finish":    {Body: []byte(text + `{"type":"finish","finishReason":"error","rawFinishReason":"` + key + `"}` + "\n")},
		"odd":       {Body: []byte(text + `{"type":"finish","finishReason":"other","rawFinishReason":"` + key + `"}` + "\n")},
		"half":      {Body: []byte(`{"type":"tool-input-start","id":"` + key + `","toolName":"f"}` + "\n" + `{"type":"finish","finishReason":"stop"}` + "\n")},
		"refusal":   {Status: 401, Body: []byte(`{"error":{"message":"` + leak + `"}}`)},
		"plain":     {Status: 500, Body: []byte(strings.ReplaceAll(leak, `\"`, `"`))},
		"no base64": {Status: 403, Body: []byte(`"` + leak + `"`)},
		"encoding":  {Header: map[string][]string{"Content-Encoding": {key}}, Body: []byte(text)},
	} {
		w.sim.Script(func(*simulator.Request) *simulator.Answer { return &a })
		for _, stream := range []bool{true, false} {
			_, body := w.request(t, "POST", "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[{"role":"user","content":"x"}]}`, contractModel, stream))
			if strings.Contains(body, key) || strings.Contains(body, contractKey) {
				t.Errorf("%s: %s", name, body)
			}
			if !strings.Contains(body, "error") && name != "odd" {
				t.Errorf("%s is no error: %s", name, body)
			}
		}
	}
	for _, path := range []string{"/v1/models", "/v1/skills", "/v1/modes", "/health", "/openapi.json", "/metrics", "/nothing"} {
		if _, body := w.request(t, "GET", path, ""); strings.Contains(body, key) || strings.Contains(body, contractKey) {
			t.Errorf("%s: %s", path, body)
		}
	}
	check := func(place, content string) {
		for line := range strings.Lines(content) {
			banner := strings.HasPrefix(line, "  API key: ") || strings.HasPrefix(line, "ready: ")
			if strings.Contains(line, key) || strings.Contains(line, contractKey) && !banner {
				t.Errorf("%s: %s", place, line)
			}
		}
	}
	files := 0
	scan := func() {
		err := filepath.WalkDir(w.home, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(name) == ".json" && strings.HasPrefix(d.Name(), "serve") { // the state file, http-face.md
				return err
			}
			b, err := os.ReadFile(name)
			files++
			check(name, string(b))
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	scan()
	if code := w.stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	scan()
	check("stderr", w.stderr.String())
	check("stdout", w.stdout.String())
	if files == 0 || !strings.Contains(w.stderr.String(), "turn") {
		t.Errorf("nothing was written:\n%s", w.stderr.String())
	}
}
