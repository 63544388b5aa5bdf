package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"amplifier-agent/pipeline/config"
)

// catalogue is the JSON form of models list, of one provider or of all.
type catalogue struct {
	SchemaVersion int    `json:"schema_version"`
	FetchedAt     string `json:"fetched_at"`
	Provider      string
	Models        []catalogued
	Results       []struct {
		Provider, Status, Error string
		Models                  []catalogued
	}
}

type catalogued struct {
	ID       string
	ServedAs string `json:"served_as"`
}

func (m catalogued) String() string {
	if m.ServedAs == "" {
		return m.ID
	}
	return m.ID + "→" + m.ServedAs
}

func readCatalogue(t *testing.T, got spoken) (c catalogue) {
	t.Helper()
	if err := json.Unmarshal([]byte(got.stdout), &c); err != nil || c.SchemaVersion != 1 || c.FetchedAt == "" || !strings.HasPrefix(got.stdout, "{\n  \"schema_version\": 1,\n") {
		t.Fatalf("%+v: %v", got, err)
	}
	return c
}

// models is a gateway that lists ids.
func models(t *testing.T, ids ...string) string {
	t.Helper()
	var rows []string
	for _, id := range ids {
		rows = append(rows, fmt.Sprintf(`{"id":%q}`, id))
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(rows, ","))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestModelsList(t *testing.T) {
	got := speak(t, "", nil, "models", "list", "--demo")
	if got.code != 0 || got.stderr != "" || !strings.HasPrefix(got.stdout, "PROVIDER     MODELS\ncommandcode  "+demoModel+", claude-sonnet-5, moonshotai/Kimi-K3, … (7 total)\n") {
		t.Errorf("%+v", got)
	}
	got = speak(t, "", nil, "models", "list", "--demo", "--provider", "commandcode")
	if got.code != 0 || got.stderr != "" || !strings.HasPrefix(got.stdout, "ID ") || !strings.Contains(got.stdout, "\n"+demoModel+"  ") || strings.Count(got.stdout, "\n") != 8 || strings.Contains(got.stdout, "SERVED AS") {
		t.Errorf("%+v", got)
	}
	c := readCatalogue(t, speak(t, "", nil, "models", "list", "--demo", "--json"))
	if len(c.Results) != 1 || c.Results[0].Status != "ok" || c.Results[0].Provider != "commandcode" || len(c.Results[0].Models) != 7 || c.Models != nil {
		t.Errorf("%+v", c)
	}
	c = readCatalogue(t, speak(t, "", nil, "models", "list", "--demo", "--json", "--provider", "commandcode"))
	if c.Provider != "commandcode" || len(c.Models) != 7 || c.Models[0].ID != demoModel || c.Results != nil {
		t.Errorf("%+v", c)
	}
}

// TestModelsListStatuses: each provider of the host config with what became of it, in its order.
func TestModelsListStatuses(t *testing.T) {
	host := filepath.Join(t.TempDir(), "host.json")
	writeFile(t, host, fmt.Sprintf(`{"providers":{
		"a":      {"module":"chat-completions","config":{"base_url":%q,"api_key":"sk-a-0123456789-aaaa"}},
		"keyless":{"module":"openai","config":{"base_url":"http://%[3]s"}},
		"b":      {"module":"chat-completions","config":{"base_url":%[2]q}},
		"dead":   {"module":"commandcode","config":{"base_url":"http://%[3]s","api_key":"sk-dead-0123456789-bbbb"}},
		"none":   {"module":"chat-completions","config":{"base_url":%[4]q}},
		"copilot":{"module":"github-copilot","config":{"base_url":%[2]q,"api_key":"k"}}
	}}`, models(t, "x", "a/y"), models(t, "x", "z-1", "z-2"), refusing(t), models(t)))
	env := []string{"AMPLIFIER_AGENT_CONFIG=" + host}
	got := speak(t, "", env, "models", "list", "--json")
	c := readCatalogue(t, got)
	var rows []string
	for _, r := range c.Results {
		if r.Models == nil || (r.Error == "") != (r.Status == "ok") {
			t.Errorf("%+v", r)
		}
		rows = append(rows, fmt.Sprint(r.Provider, " ", r.Status, " ", r.Models))
	}
	want := []string{"a ok [x a/y]", "keyless credentials_missing []", "b ok [x→b/x z-1 z-2]", "dead error []", "none ok []", "copilot ok [x→copilot/x z-1→copilot/z-1 z-2→copilot/z-2]"}
	if got.code != 0 || !slices.Equal(rows, want) {
		t.Errorf("exit code %d, %q, want %q", got.code, rows, want)
	}
	for _, line := range []string{"# keyless: no credentials: OPENAI_API_KEY is not set: export it, or run: amplifier-agent auth set keyless <key>\n",
		"# dead: list models: connect to the upstream: ", "# none: it lists no models\n"} {
		if !strings.Contains(got.stderr, line) {
			t.Errorf("stderr lacks %q:\n%s", line, got.stderr)
		}
	}
	if strings.Contains(got.stderr+got.stdout, "0123456789") || strings.Contains(got.stderr, "# a:") {
		t.Errorf("stderr %s", got.stderr)
	}
	table := squeezed(speak(t, "", env, "models", "list").stdout)
	for _, row := range []string{"PROVIDER MODELS SERVED AS\n", "\na x, a/y —\n", "\nkeyless — (credentials_missing) —\n", "\nb x, z-1, z-2 b/x\n", "\ndead — (error) —\n", "\nnone — —\n", "\ncopilot x, z-1, z-2 copilot/x, copilot/z-1, copilot/z-2\n"} {
		if !strings.Contains("\n"+table, row) {
			t.Errorf("the table lacks %q:\n%s", row, table)
		}
	}
	for _, r := range []struct {
		args, out, err string
		code           int
	}{
		{"--provider b", "ID NAME CONTEXT CAPABILITIES\nx x - -\nz-1 z-1 - -\nz-2 z-2 - -\n", "", 0},
		{"--provider b --latest", "ID NAME CONTEXT CAPABILITIES\nx x - -\nz-2 z-2 - -\n", "", 0},
		{"--provider copilot --latest", "ID NAME CONTEXT CAPABILITIES SERVED AS\nx x (GitHub) - - copilot/x\nz-2 z-2 (GitHub) - - copilot/z-2\n", "", 0},
		{"--provider none", "ID NAME CONTEXT CAPABILITIES\n", "# none: it lists no models\n", 0},
		{"--provider keyless", "", "# keyless: ", 2},
		{"--provider dead", "", "# dead: list models: ", 2},
		{"--provider commandcode", "", `no provider is called "commandcode": use one of a, keyless, b, dead, none, copilot`, 1},
		{"--provider=", "", `no provider is called ""`, 1},
		{"--provider b --config /nonsense", "", "config /nonsense: ", 2},
	} {
		got := speak(t, "", env, append([]string{"models", "list"}, strings.Fields(r.args)...)...)
		if got.code != r.code || squeezed(got.stdout) != r.out || !strings.Contains(got.stderr, r.err) {
			t.Errorf("%s: %+v, want %+v", r.args, got, r)
		}
	}
	if c := readCatalogue(t, speak(t, "", env, "models", "list", "--json", "--provider", "dead")); c.Provider != "dead" || c.Models == nil || len(c.Models) > 0 {
		t.Errorf("%+v", c)
	}
}

// TestModelsListWithoutHostConfig: all kinds of providers are told of, and only those with credentials are asked: not one by default,
// and not with the key of this server's own clients.
func TestModelsListWithoutHostConfig(t *testing.T) {
	got := speak(t, "", nil, "models", "list", "--json")
	var names []string
	for _, r := range readCatalogue(t, got).Results {
		if names = append(names, r.Provider); r.Status != "credentials_missing" || !strings.HasPrefix(r.Error, "no credentials: ") {
			t.Errorf("%+v", r)
		}
	}
	if want := []string{"commandcode", "anthropic", "openai", "azure-openai", "ollama", "github-copilot", "gemini", "chat-completions", "vllm"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	got = speak(t, "", nil, "models", "list")
	if got.code != 2 || strings.Count(got.stdout, "— (credentials_missing)") != 9 || !strings.HasPrefix(got.stderr, "# models list: no provider has credentials") {
		t.Errorf("%+v", got)
	}
	url := models(t, "m")
	got = speak(t, "", []string{"VLLM_BASE_URL=" + url, "OPENAI_API_KEY=" + contractKey, envPrefix + "API_KEY=" + contractKey}, "models", "list")
	if got.code != 0 || got.stderr != "" || !strings.Contains(squeezed(got.stdout), "\nvllm m\n") || strings.Count(got.stdout, "— (credentials_missing)") != 8 {
		t.Errorf("%+v", got)
	}
	got = speak(t, "", []string{"OPENAI_API_KEY=" + contractKey, envPrefix + "API_KEY=" + contractKey}, "models", "list", "--provider", "openai")
	if got.code != 2 || !strings.HasPrefix(got.stderr, "# openai: no credentials: $OPENAI_API_KEY holds the key of this server's own clients") {
		t.Errorf("%+v", got)
	}
}

func TestListingStatus(t *testing.T) {
	for want, err := range map[string]error{
		"ok": nil, "error": errors.New("x"), "credentials_missing": fmt.Errorf("x: %w", config.ErrNoCredential), "module_not_installed": func() error {
			_, err := construct(&sources{host: config.Default()}, new(upstreams), "x", "nonsense", nil)
			return err
		}(),
	} {
		if got := listingStatus(err); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
}

// TestNewest: a family are ids that differ in versions and dates only.
func TestNewest(t *testing.T) {
	for _, family := range []string{
		"claude-3-5-sonnet-20241022 claude-sonnet-4-20250514 claude-sonnet-4-5-20250929 >claude-sonnet-5",
		"claude-sonnet-4-5-20250929 >claude-sonnet-4-5-20251001",
		"deepseek/deepseek-v3.2 >deepseek/deepseek-v4",
		"deepseek/deepseek-v4 >deepseek/deepseek-v10", // numbers, not letters
		"Qwen/Qwen3.6-Max Qwen/Qwen3.8-Max >Qwen/Qwen3.10-Max",
		"moonshotai/Kimi-K2 >moonshotai/Kimi-K3",
		"gpt-4o-2024-05-13 gpt-4o-2024-11-20 >gpt-5o",
		"gpt-4o >gpt-4o-2024-08-06",
		"gpt-4-0613 >gpt-4-1106",
		"gpt-4 gpt-4.1 >gpt-5",
		"llama3:8b >llama3.1:8b",
		"text-2024-01-02 >text-2025-01-01",
		"glm-5 >glm-5.0",
		">o3-mini >o3 >o3-pro >deepseek/o3 >vendor/o3-mini >chat >latest >gpt-4-32k >gpt-4-turbo >Qwen3-8b >Qwen3-32b >gemma-e4b >mixtral-8x7b >mixtral-8x22b",
		">sonnet sonnet-3 >sonnet-4", // one without a version is no older
	} {
		for _, order := range []func([]string){func([]string) {}, slices.Reverse[[]string]} {
			ids := strings.Fields(family)
			order(ids)
			var want []string
			for i, id := range ids {
				if name, ok := strings.CutPrefix(id, ">"); ok {
					ids[i] = name
					want = append(want, name)
				}
			}
			if got := newest(ids, func(id string) string { return id }); !slices.Equal(got, want) {
				t.Errorf("of %q are newest %q, want %q", ids, got, want)
			}
		}
	}
	if got := newest([]string{"a-1", "a-1", "", "-", "/", "1", "99999999999999999999.1", "a-1.99999999999999999999"}, func(id string) string { return id }); !slices.Contains(got, "a-1.99999999999999999999") || !slices.Contains(got, "") {
		t.Errorf("odd ids: %q", got)
	}
}
