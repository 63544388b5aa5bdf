package chatcompletions

import (
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
)

// TestNew holds what the user is told about a configuration.
func TestNew(t *testing.T) {
	const local = "http://127.0.0.1:9"
	for name, row := range map[string]struct {
		c   Config
		err string // "" for none
	}{
		"plain":                   {Config{BaseURL: local}, ""},
		"plain without an URL":    {Config{}, "no base URL: export CHAT_COMPLETIONS_BASE_URL"},
		"openai":                  {Config{Preset: "openai", Key: testKey}, ""},
		"openai without a key":    {Config{Preset: "openai", Key: " \n"}, "no key: export OPENAI_API_KEY"},
		"ollama":                  {Config{Preset: "ollama"}, ""},
		"vllm":                    {Config{Preset: "vllm", BaseURL: local}, ""},
		"vllm without an URL":     {Config{Preset: "vllm"}, "no base URL: export VLLM_BASE_URL"},
		"gemini without a key":    {Config{Preset: "gemini"}, "no key: export GOOGLE_API_KEY"},
		"copilot without a key":   {Config{Preset: "github-copilot"}, "no key: export GITHUB_TOKEN"},
		"azure":                   {Config{Preset: "azure-openai", BaseURL: local, Key: testKey, Models: []string{"m"}}, ""},
		"azure without an URL":    {Config{Preset: "azure-openai", Key: testKey, Models: []string{"m"}}, "no base URL: export AZURE_OPENAI_ENDPOINT"},
		"azure without models":    {Config{Preset: "azure-openai", BaseURL: local, Key: testKey}, "no models: name the deployments, as they cannot be listed"},
		"azure /v1, no models":    {Config{Preset: "azure-openai", BaseURL: local + "/openai/v1", Key: testKey}, "no models: name the deployments, as they cannot be listed"},
		"unknown preset":          {Config{Preset: "OpenAI"}, `unknown preset "OpenAI": use one of azure-openai, chat-completions, gemini, github-copilot, ollama, openai, vllm`},
		"no URL":                  {Config{BaseURL: "nonsense"}, `base URL "nonsense": an http:// or https:// URL is needed`},
		"no scheme":               {Config{BaseURL: "127.0.0.1:8080/v1?key=" + testKey}, `base URL "127.0.0.1:8080/v1": an http:// or https:// URL is needed`},
		"another scheme":          {Config{BaseURL: "ftp://x"}, `base URL "ftp://x": an http:// or https:// URL is needed`},
		"an URL that holds a key": {Config{BaseURL: "http://x:y/" + testKey}, `base URL: invalid port ":y" after host`},
		"own preset":              {Config{BaseURL: local, Key: testKey, Preset: "nonsense", Own: &Preset{}}, ""},
		"own preset, no key":      {Config{BaseURL: local, Own: &Preset{KeyVariables: []string{"MY_KEY"}}}, "no key: export MY_KEY"},
		"max tokens":              {Config{BaseURL: local, MaxTokens: -1}, "max_tokens -1: use 1 or more"},
	} {
		p, err := New(row.c)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			p.Close()
		}
		if got != row.err {
			t.Errorf("%s: %q, want %q", name, got, row.err)
		}
	}
}

// TestBaseURL: what users leave out of a base URL, or put into it, is made up for.
func TestBaseURL(t *testing.T) {
	for _, row := range []struct{ preset, in, want string }{
		{PresetPlain, "http://h:1", "http://h:1"},
		{PresetPlain, " http://h:1/v1/ ", "http://h:1/v1"},
		{PresetPlain, "http://h/v1/chat/completions", "http://h/v1"},
		{PresetPlain, "http://h/v1?a=b", "http://h/v1?a=b"},
		{"openai", "", "https://api.openai.com/v1"},
		{"openai", "https://proxy", "https://proxy/v1"},
		{"openai", "https://proxy/x", "https://proxy/x"},
		{"ollama", "", "http://localhost:11434/v1"},
		{"ollama", "host:11434", "http://host:11434/v1"},
		{"ollama", "https://host/", "https://host/v1"},
		{"vllm", "http://h:8000", "http://h:8000/v1"},
		{"gemini", "", "https://generativelanguage.googleapis.com/v1beta/openai"},
		{"github-copilot", "", "https://api.githubcopilot.com"},
		{"azure-openai", "https://r.openai.azure.com/", "https://r.openai.azure.com/openai"},
		{"azure-openai", "https://r.openai.azure.com?api-version=x", "https://r.openai.azure.com/openai?api-version=x"},
	} {
		preset := Presets[row.preset]
		u, err := baseURL(row.in, &preset)
		if err != nil || u.String() != row.want {
			t.Errorf("%s %q: %v, %v, want %s", row.preset, row.in, u, err, row.want)
		}
	}
}

// TestPresets holds the table to what New and the request need of it.
func TestPresets(t *testing.T) {
	for name, p := range Presets {
		if p.MaxTokens == "" {
			t.Errorf("%s: no name for the bound of an answer", name)
		}
		if p.BaseURL == "" && len(p.BaseVariables) == 0 {
			t.Errorf("%s: nobody says where it is", name)
		}
		if !p.KeyOptional && len(p.KeyVariables) == 0 {
			t.Errorf("%s: nobody says its key", name)
		}
	}
	for _, name := range []string{"openai", "ollama", "vllm", "gemini", "azure-openai", "github-copilot"} { // rulings 10
		if _, ok := Presets[name]; !ok {
			t.Errorf("no preset %s", name)
		}
	}
}

// TestWire holds, for each preset, where a request goes and what it brings.
func TestWire(t *testing.T) {
	picture := &pipeline.Round{Model: "m/1 x", Messages: []pipeline.Message{
		{Role: pipeline.RoleUser, Parts: []pipeline.Part{show()}}, assistant("", toolCall("c", "f", "{}")), toolResult("c", say("ok")),
	}}
	for name, row := range map[string]struct {
		change func(*Config)
		base   string
		uri    string
		header map[string]string
	}{
		"plain":     {nil, "", "/chat/completions", map[string]string{"Authorization": "Bearer " + testKey, "User-Agent": "amplifier-agent", "Accept-Encoding": "identity", "X-Initiator": ""}},
		"no key":    {func(c *Config) { c.Key = "" }, "/v1", "/v1/chat/completions", map[string]string{"Authorization": ""}},
		"query":     {nil, "/v1?tenant=7", "/v1/chat/completions?tenant=7", nil},
		"vllm":      {func(c *Config) { c.Preset, c.Key = "vllm", "" }, "", "/v1/chat/completions", map[string]string{"Authorization": "Bearer EMPTY"}},
		"vllm, key": {func(c *Config) { c.Preset = "vllm" }, "/v1", "/v1/chat/completions", map[string]string{"Authorization": "Bearer " + testKey}},
		"ollama":    {func(c *Config) { c.Preset, c.Key = "ollama", "" }, "", "/v1/chat/completions", map[string]string{"Authorization": ""}},
		"pasted":    {func(c *Config) { c.Key = "\x1b[200~" + testKey + "\n\x1b[201~" }, "", "/chat/completions", map[string]string{"Authorization": "Bearer " + testKey}},
		"azure": {func(c *Config) { c.Preset, c.Models = "azure-openai", []string{"m"} }, "", "/openai/deployments/m%2F1%20x/chat/completions?api-version=2024-10-21",
			map[string]string{"Api-Key": testKey, "Authorization": ""}},
		"azure, version": {func(c *Config) { c.Preset, c.Models = "azure-openai", []string{"m"} }, "?api-version=2025-01-01", "/openai/deployments/m%2F1%20x/chat/completions?api-version=2025-01-01", nil},
		"azure /v1":      {func(c *Config) { c.Preset, c.Models = "azure-openai", []string{"m"} }, "/openai/v1", "/openai/v1/chat/completions", map[string]string{"Api-Key": testKey}},
		"copilot": {func(c *Config) { c.Preset = "github-copilot" }, "", "/chat/completions",
			map[string]string{"Authorization": "Bearer " + testKey, "Openai-Intent": "conversation-edits", "X-Initiator": "agent", "Copilot-Vision-Request": "true"}},
		"own fields": {func(c *Config) {
			c.Preset, c.UserAgent = "github-copilot", "amplifier-agent/1.2"
			c.Header = [][2]string{{"openai-intent", "mine"}, {"X-Initiator", "user"}, {"X-Title", "t"}}
		}, "", "/chat/completions", map[string]string{"Openai-Intent": "mine", "X-Initiator": "user", "X-Title": "t", "User-Agent": "amplifier-agent/1.2"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got *http.Request
			answer := sse(hello, stop)
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				got = r
				answer(w, r)
			})
			p := connect(t, s.URL+row.base, func(c *Config) {
				if row.change != nil {
					row.change(c)
				}
			})
			if r := run(t, p, picture); r.Err != nil {
				t.Fatal(r.Err)
			}
			if got.RequestURI != row.uri {
				t.Errorf("asked %s, want %s", got.RequestURI, row.uri)
			}
			for name, want := range row.header {
				if v := got.Header.Values(name); strings.Join(v, "|") != want {
					t.Errorf("%s: %q, want %q", name, v, want)
				}
			}
		})
	}
}

// TestInitiator: who asks is told by the last message.
func TestInitiator(t *testing.T) {
	p := &Provider{preset: Presets["github-copilot"]}
	for want, messages := range map[string][]pipeline.Message{
		"user":  {user("hi"), assistant("hello"), user("again")},
		"agent": {user("hi"), assistant("", toolCall("c", "f", "{}")), toolResult("c")},
	} {
		h := p.roundHeader(&pipeline.Round{Messages: messages})
		if !slices.Contains(h, [2]string{"X-Initiator", want}) || slices.ContainsFunc(h, func(f [2]string) bool { return f[0] == "Copilot-Vision-Request" }) {
			t.Errorf("%v, want %s", h, want)
		}
	}
}

// TestUserInPlaceOfKey: the user of a base URL is sent where there is no key, but for one that stands for none.
func TestUserInPlaceOfKey(t *testing.T) {
	const user = "Basic YW5uOnB3"
	for name, row := range map[string]struct{ preset, key, want string }{
		"no key":                {"ollama", "", user},
		"no key, a placeholder": {"vllm", "", user},
		"a placeholder for key": {"vllm", Presets["vllm"].Placeholder, user},
		"a key":                 {"vllm", "key", "Bearer key"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := ""
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				seen = r.Header.Get("Authorization")
				_, _ = w.Write([]byte(`{"data":[]}`))
			})
			p := connect(t, strings.Replace(s.URL, "://", "://ann:pw@", 1), func(c *Config) { c.Preset, c.Key = row.preset, row.key })
			if _, err := p.Models(t.Context()); err != nil || seen != row.want {
				t.Errorf("sent %q, want %q (%v)", seen, row.want, err)
			}
		})
	}
}

// TestSecretsAreMasked: no credential shows in an error, wherever it was configured.
func TestSecretsAreMasked(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "you sent "+r.Header.Get("X-Api-Key")+" "+r.Header.Get("Authorization")+" "+r.URL.RawQuery+" and "+r.Header.Get("X-Title"), http.StatusUnauthorized)
	})
	p := connect(t, s.URL+"?subscription-key=secret-of-query&code=secret-of-function", func(c *Config) {
		c.Header = [][2]string{{"x-api-key", "secret-of-header"}, {"Authorization", "Bearer secret-of-auth"}, {"X-Title", "a title"}}
	})
	e := wantError(t, run(t, p, ask("hi")).Err, pipeline.CodeUpstreamAuth, 401, "and a title")
	if strings.Contains(e.Error(), "secret-of") {
		t.Error(e)
	}
}

func TestModels(t *testing.T) {
	for name, row := range map[string]struct {
		status int
		body   string
		want   []pipeline.Model
		err    string
	}{
		"openai":   {200, `{"object":"list","data":[{"id":"b","object":"model","created":1,"owned_by":"x"},{"id":"a"}]}`, []pipeline.Model{{ID: "b"}, {ID: "a"}}, ""},
		"lengths":  {200, `{"data":[{"id":"a","name":"A","context_length":5},{"id":"b","max_model_len":6},{"id":"c","context_window":7,"display_name":"C","name":null},{"id":"d","context_length":null,"max_model_len":8}]}`, []pipeline.Model{{ID: "a", Name: "A", ContextTokens: 5}, {ID: "b", ContextTokens: 6}, {ID: "c", Name: "C", ContextTokens: 7}, {ID: "d", ContextTokens: 8}}, ""},
		"odd ones": {200, `{"data":[7,null,{"name":"without id"},{"id":7},{"id":""},{"id":"models/a","context_length":"many"}]}`, []pipeline.Model{{ID: "models/a"}}, ""},
		"empty":    {200, `{"data":[]}`, []pipeline.Model{}, ""},
		"null":     {200, `{"data":null}`, []pipeline.Model{}, ""},
		"alone":    {200, ` [{"id":"b"},{"id":"a","context_length":5}]`, []pipeline.Model{{ID: "b"}, {ID: "a", ContextTokens: 5}}, ""},
		"a word":   {200, `"ok"`, nil, "list models: expected an object, got a string: is the base URL right?"},
		"no list":  {200, `{"data":{"id":"a"}}`, nil, "list models: data: expected a list, got an object: is the base URL right?"},
		"a page":   {200, `<html>`, nil, "list models: the upstream's answer is not valid JSON: is its base URL right?"},
		"refused":  {401, `{"error":{"message":"bad key ` + testKey + `"}}`, nil, "list models: the upstream answered 401: bad key ***"},
		"none":     {404, `404 page not found`, nil, "list models: the upstream answered 404: 404 page not found"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.RequestURI != "/v1/models?x=1" || r.Header.Get("Authorization") != "Bearer "+testKey {
					t.Errorf("%s %s %v", r.Method, r.RequestURI, r.Header)
				}
				w.WriteHeader(row.status)
				_, _ = w.Write([]byte(row.body))
			})
			got, err := connect(t, s.URL+"/v1?x=1").Models(t.Context())
			if row.err != "" {
				if err == nil || err.Error() != row.err {
					t.Errorf("error %v, want %s", err, row.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, row.want) {
				t.Errorf("%+v, %v, want %+v", got, err, row.want)
			}
		})
	}
}

// TestConfiguredModels are served without a question.
func TestConfiguredModels(t *testing.T) {
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s", r.Method, r.URL) })
	got, err := connect(t, s.URL, func(c *Config) { c.Models, c.MaxTokens = []string{"b", "a"}, 9 }).Models(t.Context())
	defaults := []byte(`{"max_tokens":9}`)
	if want := []pipeline.Model{{ID: "b", Defaults: defaults}, {ID: "a", Defaults: defaults}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestModelsUnreachable: who cannot be reached is told as such, and soon.
func TestModelsUnreachable(t *testing.T) {
	s := serve(t, nil)
	s.Close()
	_, err := connect(t, s.URL).Models(t.Context())
	if e, ok := errors.AsType[*pipeline.Error](err); !ok || e.Code != pipeline.CodeUpstream || !strings.HasPrefix(err.Error(), "list models: connect to the upstream") {
		t.Error(err)
	}
}
