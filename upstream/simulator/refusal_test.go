package simulator

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// refused is the body form of the /alpha routes.
type refused struct {
	Success bool
	Error   struct {
		Code, Message, Docs string
		Status              int
	}
}

func readRefusal(t *testing.T, resp *http.Response) refused {
	t.Helper()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var r refused
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	if r.Success || r.Error.Status != resp.StatusCode || r.Error.Code == "" || r.Error.Docs == "" {
		t.Errorf("body form: %s", raw)
	}
	return r
}

func TestRefusesHeaders(t *testing.T) {
	g := serve(t, Options{Keys: []string{"right", "also right"}})
	for name, row := range map[string]struct {
		change  func(http.Header)
		status  int
		code    string
		message string
	}{
		"no key":     {func(h http.Header) { h.Del("Authorization") }, 401, "UNAUTHORIZED", ""},
		"empty key":  {func(h http.Header) { h.Set("Authorization", "Bearer ") }, 401, "UNAUTHORIZED", ""},
		"no scheme":  {func(h http.Header) { h.Set("Authorization", "right") }, 401, "UNAUTHORIZED", ""},
		"other":      {func(h http.Header) { h.Set("Authorization", "Basic right") }, 401, "UNAUTHORIZED", ""},
		"wrong key":  {func(h http.Header) { h.Set("Authorization", "Bearer wrong") }, 401, "UNAUTHORIZED", ""},
		"no version": {func(h http.Header) { h.Del("X-Command-Code-Version") }, 403, "upgrade_required", "upgrade"},
		"no type":    {func(h http.Header) { h.Del("Content-Type") }, 400, "BAD_REQUEST", "Validation error: expected object, received undefined"},
		"second key": {func(h http.Header) { h.Set("Authorization", "bearer also right") }, 200, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := g.request(t.Context(), body(user("hi")))
			r.Header.Set("Authorization", "Bearer right")
			row.change(r.Header)
			resp, err := g.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != row.status {
				t.Fatalf("status %d", resp.StatusCode)
			}
			if row.status == 200 {
				return
			}
			if e := readRefusal(t, resp).Error; e.Code != row.code || !strings.Contains(e.Message, row.message) {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestRefusesAnyKeyButEmpty(t *testing.T) {
	g := serve(t, Options{})
	if resp := g.post(body(user("hi"))); resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestRefusesRoutes(t *testing.T) {
	g := serve(t, Options{})
	for _, row := range [][2]string{{"GET", "/alpha/generate"}, {"POST", "/provider/v1/models"}, {"GET", "/provider/v1/chat/completions"}, {"GET", "/"}, {"GET", "/alpha/who"}} {
		r, err := http.NewRequestWithContext(t.Context(), row[0], g.URL()+row[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := g.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if e := readRefusal(t, resp).Error; resp.StatusCode != 404 || e.Code != "NOT_FOUND" {
			t.Errorf("%v: %d %+v", row, resp.StatusCode, e)
		}
		resp.Body.Close()
	}
}

func TestRefusesEnvelope(t *testing.T) {
	g := serve(t, Options{})
	config := func(b m) m { return b["config"].(m) }
	for name, row := range map[string]struct {
		change func(m)
		want   string // "" accepts
	}{
		"valid":          {func(m) {}, ""},
		"two at once":    {func(b m) { delete(config(b), "workingDir"); delete(config(b), "structure") }, `expected string, received undefined at "config.workingDir"; expected array, received undefined at "config.structure"`},
		"no config":      {func(b m) { delete(b, "config") }, `expected object, received undefined at "config"`},
		"case of a key":  {func(b m) { delete(config(b), "workingDir"); config(b)["workingdir"] = "/" }, `expected string, received undefined at "config.workingDir"`},
		"config types":   {func(b m) { config(b)["isGitRepo"] = "no"; config(b)["recentCommits"] = []any{"a", 1} }, `expected boolean, received string at "config.isGitRepo"; expected string, received number at "config.recentCommits[1]"`},
		"config strings": {func(b m) { config(b)["date"] = nil; config(b)["gitStatus"] = 1.5 }, `expected string, received null at "config.date"; expected string, received number at "config.gitStatus"`},
		"branches": {func(b m) {
			delete(config(b), "currentBranch")
			delete(config(b), "mainBranch")
			delete(config(b), "environment")
		}, `expected string, received undefined at "config.environment"; expected string, received undefined at "config.currentBranch"; expected string, received undefined at "config.mainBranch"`},
		"no memory":      {func(b m) { delete(b, "memory") }, `expected string, received undefined at "memory"`},
		"memory object":  {func(b m) { b["memory"] = m{} }, `expected string, received object at "memory"`},
		"memory null":    {func(b m) { b["memory"] = nil }, ""},
		"taste, skills":  {func(b m) { delete(b, "taste"); b["skills"] = []any{} }, `expected string, received undefined at "taste"; expected string, received array at "skills"`},
		"strings":        {func(b m) { b["taste"], b["skills"] = "", "" }, ""},
		"permission":     {func(b m) { b["permissionMode"] = "yolo" }, `Invalid option: expected one of "standard"|"auto-accept"|"plan" at "permissionMode"`},
		"no permission":  {func(b m) { delete(b, "permissionMode") }, `at "permissionMode"`},
		"no params":      {func(b m) { delete(b, "params") }, `expected object, received undefined at "params"`},
		"empty params":   {func(b m) { b["params"] = m{} }, `expected string, received undefined at "params.model"; expected array, received undefined at "params.messages"; expected array, received undefined at "params.tools"; expected number, received undefined at "params.max_tokens"; expected true at "params.stream"`},
		"stream false":   {func(b m) { params(b)["stream"] = false }, `expected true at "params.stream"`},
		"stream string":  {func(b m) { params(b)["stream"] = "true" }, `expected true at "params.stream"`},
		"max tokens":     {func(b m) { params(b)["max_tokens"] = 200001 }, `Too big: expected number to be <=200000 at "params.max_tokens"`},
		"max tokens ok":  {func(b m) { params(b)["max_tokens"] = 200000 }, ""},
		"max zero":       {func(b m) { params(b)["max_tokens"] = 0 }, `Too small: expected number to be >=1 at "params.max_tokens"`},
		"max float":      {func(b m) { params(b)["max_tokens"] = 1.5 }, `expected int, received number at "params.max_tokens"`},
		"temperature":    {func(b m) { params(b)["temperature"] = "hot" }, `expected number, received string at "params.temperature"`},
		"null temp":      {func(b m) { params(b)["temperature"] = nil }, `expected number, received null at "params.temperature"`},
		"effort none":    {func(b m) { params(b)["reasoning_effort"] = "none" }, `at "params.reasoning_effort"`},
		"effort minimal": {func(b m) { params(b)["reasoning_effort"] = "minimal" }, `at "params.reasoning_effort"`},
		"effort ok":      {func(b m) { params(b)["reasoning_effort"] = "xhigh" }, ""},
		"choice none":    {func(b m) { params(b)["tool_choice"] = m{"type": "none"} }, `at "params.tool_choice.type"`},
		"choice string":  {func(b m) { params(b)["tool_choice"] = "auto" }, `expected object, received string at "params.tool_choice"`},
		"choice tool":    {func(b m) { params(b)["tool_choice"] = m{"type": "tool"} }, `expected string, received undefined at "params.tool_choice.name"`},
		"choice ok":      {func(b m) { params(b)["tool_choice"] = m{"type": "any"} }, ""},
		"system blocks": {func(b m) {
			params(b)["system"] = []any{m{"type": "text", "text": "a", "cache_control": m{"type": "ephemeral"}}}
		}, ""},
		"system number":  {func(b m) { params(b)["system"] = 1 }, `expected string, received number at "params.system"`},
		"system block":   {func(b m) { params(b)["system"] = []any{m{"type": "text"}, "x"} }, `expected string, received undefined at "params.system[0].text"; expected object, received string at "params.system[1]"`},
		"thread v1":      {func(b m) { b["threadId"] = "2c5ea4c0-4067-11e9-8bad-9b1deb4d3b7d" }, `Invalid UUID at "threadId"`},
		"thread v4":      {func(b m) { b["threadId"] = "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d" }, ""},
		"thread variant": {func(b m) { b["threadId"] = "9b1deb4d-3b7d-4bad-0bdd-2b0d7b3dcb6d" }, `Invalid UUID at "threadId"`},
		"thread null":    {func(b m) { b["threadId"] = nil }, `Invalid UUID at "threadId"`},
		"mode":           {func(b m) { b["mode"] = "chat" }, `at "mode"`},
		"tool":           {func(b m) { withTools(b, m{"description": "x"}, 7) }, `expected string, received undefined at "params.tools[0].name"; expected object, received undefined at "params.tools[0].input_schema"; expected object, received number at "params.tools[1]"`},
		"tool schema":    {func(b m) { withTools(b, tool("a", nil)) }, `expected object, received null at "params.tools[0].input_schema"`},
		"openai tool":    {func(b m) { withTools(b, m{"type": "function", "function": m{"name": "a"}}) }, `expected string, received undefined at "params.tools[0].name"; expected object, received undefined at "params.tools[0].input_schema"`},
		"tool ok":        {func(b m) { withTools(b, m{"type": "function", "name": "a", "input_schema": m{}}) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := body(user("hi"))
			row.change(b)
			checkRefusal(t, g, b, 400, row.want, "Validation error: ")
		})
	}
	for name, raw := range map[string]string{"no JSON": `{"config"`, "array": `[]`, "empty": ``, "two values": `{} {}`} {
		t.Run(name, func(t *testing.T) {
			checkRefusal(t, g, []byte(raw), 400, "expected object, received undefined", "Validation error: ")
		})
	}
}

// checkRefusal wants 200 for an empty message.
func checkRefusal(t *testing.T, g *gateway, b any, status int, want, prefix string) {
	t.Helper()
	resp := g.post(b)
	if want == "" {
		status = 200
	}
	if resp.StatusCode != status {
		raw, _ := io.ReadAll(resp.Body)
		t.Fatalf("status %d: %s", resp.StatusCode, raw)
	}
	if want == "" {
		if a := readAnswer(resp.Body); len(a.errors) > 0 || a.reason == "" {
			t.Errorf("%v", a.lines)
		}
		return
	}
	e := readRefusal(t, resp).Error
	if !strings.HasPrefix(e.Message, prefix) || !strings.HasSuffix(e.Message, want) {
		t.Errorf("got  %s\nwant %s", e.Message, want)
	}
}

func TestRefusesMessages(t *testing.T) {
	g := serve(t, Options{})
	const img = "data:image/png;base64,iVBORw0KGgo="
	part := func(role string, parts ...any) []any { return []any{m{"role": role, "content": parts}} }
	after := func(extra ...any) []any {
		return append([]any{user("hi"), assistant(callPart("c1", "f", m{}))}, extra...)
	}
	for name, row := range map[string]struct {
		messages []any
		ok       bool
	}{
		"string":              {[]any{m{"role": "user", "content": "hi"}}, true},
		"empty string":        {[]any{m{"role": "user", "content": ""}}, false},
		"system role":         {[]any{m{"role": "system", "content": "x"}, user("hi")}, false},
		"no role":             {[]any{m{"content": "x"}}, false},
		"not an object":       {[]any{"hi"}, false},
		"null content":        {[]any{user("a"), m{"role": "assistant", "content": nil}, user("hi")}, false},
		"empty content":       {part("user"), false},
		"empty text":          {part("user", m{"type": "text", "text": ""}), false},
		"no text":             {part("user", m{"type": "text"}), false},
		"text number":         {part("user", m{"type": "text", "text": 1}), false},
		"unknown part":        {part("user", m{"type": "image_url", "image_url": m{}}), false},
		"no type":             {part("user", m{"text": "x"}), false},
		"image":               {part("user", m{"type": "text", "text": "x"}, m{"type": "image", "image": img, "mediaType": "image/png"}), true},
		"image without type":  {part("user", m{"type": "image", "image": img}), true},
		"remote image":        {part("user", m{"type": "image", "image": "https://example.com/a.png"}), false},
		"bare base64":         {part("user", m{"type": "image", "image": "iVBORw0KGgo="}), false},
		"media type":          {part("user", m{"type": "image", "image": img, "mediaType": nil}), false},
		"reasoning by a user": {part("user", m{"type": "reasoning", "text": "x"}), false},
		"assistant":           {[]any{user("a"), assistant(m{"type": "reasoning", "text": "r"}, m{"type": "text", "text": "t"}), user("b")}, true},
		"assistant image":     {[]any{user("a"), assistant(m{"type": "image", "image": img}), user("b")}, false},
		"round trip":          {after(result("c1", "f", "42")), true},
		"empty result":        {after(result("c1", "f", "")), true},
		"error-text":          {after(m{"role": "tool", "content": []any{m{"type": "tool-result", "toolCallId": "c1", "toolName": "f", "output": m{"type": "error-text", "value": "no"}}}}), true},
		"raw output":          {after(m{"role": "tool", "content": []any{m{"type": "tool-result", "toolCallId": "c1", "toolName": "f", "output": "42"}}}), false},
		"json output":         {after(m{"role": "tool", "content": []any{m{"type": "tool-result", "toolCallId": "c1", "toolName": "f", "output": m{"type": "json", "value": m{}}}}}), false},
		"tool string":         {after(m{"role": "tool", "content": "42"}), false},
		"text in tool":        {after(m{"role": "tool", "content": []any{m{"type": "text", "text": "x"}}}), false},
		"no result name":      {after(result("c1", "", "42")), false},
		"result unknown id":   {after(result("c2", "f", "42")), false},
		"result twice":        {after(result("c1", "f", "42"), result("c1", "f", "42")), false},
		"result first":        {[]any{result("c1", "f", "42"), user("hi")}, false},
		"empty call id":       {[]any{user("a"), assistant(callPart("", "f", m{}))}, false},
		"input string":        {[]any{user("a"), assistant(callPart("c1", "f", "{}")), result("c1", "f", "x")}, false},
		"input null":          {[]any{user("a"), assistant(callPart("c1", "f", nil)), result("c1", "f", "x")}, false},
		"input array":         {[]any{user("a"), assistant(callPart("c1", "f", []any{})), result("c1", "f", "x")}, false},
		"id used again":       {after(result("c1", "f", "1"), assistant(callPart("c1", "f", m{})), result("c1", "f", "2")), true},
		"split results":       {[]any{user("a"), assistant(callPart("c1", "f", m{}), callPart("c2", "f", m{})), result("c2", "f", "x"), result("c1", "f", "x")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			want := invalidPrompt
			if row.ok {
				want = ""
			}
			checkRefusal(t, g, body(row.messages...), 400, want, "")
		})
	}
	checkRefusal(t, g, body(), 400, "Invalid prompt: messages must not be empty", "")
}

func TestMissingToolResult(t *testing.T) {
	g := serve(t, Options{})
	for name, row := range map[string]struct {
		messages []any
		want     string
	}{
		"at the end":       {[]any{user("a"), assistant(callPart("c1", "f", m{}))}, "Tool result is missing for tool call c1"},
		"before user":      {[]any{user("a"), assistant(callPart("c1", "f", m{})), user("b"), result("c1", "f", "x")}, "Tool result is missing for tool call c1"},
		"before assistant": {[]any{user("a"), assistant(callPart("c1", "f", m{})), assistant(m{"type": "text", "text": "t"}), result("c1", "f", "x")}, "Tool result is missing for tool call c1"},
		"one of two":       {[]any{user("a"), assistant(callPart("c1", "f", m{}), callPart("c2", "f", m{})), result("c1", "f", "x"), user("b")}, "Tool result is missing for tool call c2"},
		"two":              {[]any{user("a"), assistant(callPart("c1", "f", m{}), callPart("c2", "f", m{}))}, "Tool results are missing for tool calls c1, c2"},
	} {
		t.Run(name, func(t *testing.T) {
			a := g.events(body(row.messages...))
			if a.types != "start error" || !strings.Contains(a.errors[0], row.want+`"`) {
				t.Errorf("%s %v", a.types, a.errors)
			}
		})
	}
	if r := g.Requests(); !r[0].Refused {
		t.Error("not marked as refused")
	}
}

func TestRefusesModels(t *testing.T) {
	g := serve(t, Options{})
	for id, want := range map[string]string{
		"nobody/nothing":           "Model/provider not recognized: nobody/nothing",
		"DeepSeek/DeepSeek-V4-Pro": "Model/provider not recognized: DeepSeek/DeepSeek-V4-Pro",
		"deepseek-v4-pro":          "Model/provider not recognized: deepseek-v4-pro",
		"":                         "Model/provider not recognized: ",
		"claude-opus-5":            "MODEL_NOT_IN_PLAN: Claude Opus 5 available in Max plans",
		"claude-sonnet-5":          "",
	} {
		b := body(user("hi"))
		params(b)["model"] = id
		checkRefusal(t, g, b, 403, want, "")
	}
	own := serve(t, Options{Models: []Model{{ID: "a/b"}}})
	b := body(user("hi"))
	params(b)["model"] = "a/b"
	checkRefusal(t, own, b, 403, "", "")
}

func TestRefusesLargeBody(t *testing.T) {
	g := serve(t, Options{})
	b := append([]byte(`{"x":"`), bytes.Repeat([]byte{'x'}, maxBodyBytes)...)
	resp := g.post(b)
	if e := readRefusal(t, resp).Error; resp.StatusCode != 413 || e.Message == "" {
		t.Errorf("%d %+v", resp.StatusCode, e)
	}
	if r := g.Requests(); len(r) != 1 || len(r[0].Raw) != 0 || !r[0].Refused {
		t.Errorf("%+v", r)
	}
	// Just below the limit a body is read and judged.
	checkRefusal(t, g, b[:maxBodyBytes], 400, "expected object, received undefined", "Validation error: ")
}
