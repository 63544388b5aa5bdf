package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// listed reads one of the lists, with its envelope.
func listed[T any](t *testing.T, w *world, path string) []T {
	t.Helper()
	resp, b := w.request(t, http.MethodGet, path, "")
	var l struct {
		Object string
		Data   []T
	}
	if err := json.Unmarshal([]byte(b), &l); err != nil || resp.StatusCode != http.StatusOK || l.Object != "list" || l.Data == nil {
		t.Fatalf("GET %s: status %d, error %v: %s", path, resp.StatusCode, err, b)
	}
	return l.Data
}

const (
	calls  = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}`
	result = `{"role":"tool","tool_call_id":"c1","content":"done"}`
	fTools = `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`
)

func wantConversation(t *testing.T, w *world, want ...string) {
	t.Helper()
	if got := conversation(w.last(t)); !reflect.DeepEqual(got, want) {
		t.Errorf("the gateway got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// TestContractHistorySplit: a final user message is the prompt, the rest history; with any other end nothing is asked again, and
// the conversation goes up as it came.
func TestContractHistorySplit(t *testing.T) {
	w := stage(t, scene{})
	user, again := message("user", "first"), message("user", "second")
	assistant := message("assistant", "answer")
	for name, row := range map[string]struct {
		messages string
		want     []string
	}{
		"one user":            {user, []string{"user: first"}},
		"prompt":              {user + "," + assistant + "," + again, []string{"user: first", "assistant: answer", "user: second"}},
		"tool result":         {user + "," + calls + "," + result, []string{"user: first", `call c1 f {"a":1}`, "tool c1: done"}},
		"trailing assistant":  {user + "," + assistant, []string{"user: first", "assistant: answer"}},
		"trailing developer":  {user + "," + message("developer", "note"), []string{"user: first"}},
		"no user at all":      {assistant, []string{"assistant: answer"}},
		"prompt of parts":     {`{"role":"user","content":[{"type":"text","text":" a"},{"type":"text","text":""},{"type":"text","text":"b "}]}`, []string{"user: a b"}},
		"prompt kept exactly": {message("user", "  a\n"), []string{"user:   a\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			w.chat(t, body(row.messages, fTools))
			wantConversation(t, w, row.want...)
		})
	}
}

const echoSkill = "---\nname: echo\ndescription: Says it back\nuser-invocable: true\n---\nEcho $ARGUMENTS from ${SKILL_DIR}; the second word is <$1>."

func echoScene() scene {
	return scene{files: map[string]string{
		".amplifier/skills/echo/SKILL.md": echoSkill,
		".amplifier/skills/team/SKILL.md": "---\nname: team\ndescription: Needs others\ncontext: fork\nuser-invocable: true\n---\nWork together.",
	}}
}

func (w *world) echoed(args, second string) string {
	return "# echo\n\nEcho " + args + " from " + filepath.Join(w.cwd, ".amplifier", "skills", "echo") + "; the second word is <" + second + ">."
}

// TestContractSkillSigil: the final user message calls a skill; words of others, and of answered history, call nothing.
func TestContractSkillSigil(t *testing.T) {
	w := stage(t, echoScene())
	const call = "!amplifier:skill echo one two"
	w.chat(t, say(call))
	wantConversation(t, w, "user: "+w.echoed("one two", "two"))
	w.chat(t, say("!amplifier:skill\necho one"))
	wantConversation(t, w, "user: !amplifier:skill\necho one")
	w.chat(t, say("!amplifier:skill nonesuch x"))
	wantConversation(t, w, "user: !amplifier:skill nonesuch x")
	w.chat(t, body(message("user", "hi")+","+message("assistant", call)))
	wantConversation(t, w, "user: hi", "assistant: "+call)
	// A system message that wears a user's clothes is none of the user's.
	w.chat(t, body(message("system", call)+","+message("user", "hi")))
	if got := conversation(w.last(t)); len(got) != 2 || !strings.Contains(got[0], call) || strings.Contains(got[0], "# echo") || got[1] != "user: hi" {
		t.Errorf("the gateway got %q", got)
	}
}

// TestContractSkillRehydration: what the user called in an earlier turn is put in place again.
func TestContractSkillRehydration(t *testing.T) {
	w := stage(t, echoScene())
	w.chat(t, body(message("user", "!amplifier:skill echo old")+","+message("assistant", "ok")+","+message("user", "and now?")))
	wantConversation(t, w, "user: "+w.echoed("old", ""), "assistant: ok", "user: and now?")
	w.chat(t, body(message("user", "!amplifier:skill team")+","+message("assistant", "ok")+","+message("user", "and now?")))
	wantConversation(t, w, "user: !amplifier:skill team", "assistant: ok", "user: and now?")
}

// TestContractSkillUnavailable: a skill that cannot run keeps the prompt and says so in the answer, by both ways.
func TestContractSkillUnavailable(t *testing.T) {
	w := stage(t, echoScene())
	for _, stream := range []string{`,"stream":true`, `,"stream":false`} {
		a := w.chat(t, say("!amplifier:skill team go", stream))
		if !strings.HasPrefix(a.Content, "[amplifier-agent error: SkillUnavailable: skill 'team' cannot run") || !strings.Contains(a.Content, "]\n\n") {
			t.Errorf("content %q", a.Content)
		}
		if rest := a.Content[strings.Index(a.Content, "]\n\n")+3:]; rest == "" || a.Finish != "stop" {
			t.Errorf("nothing was answered: %q", a.Content)
		}
		wantConversation(t, w, "user: !amplifier:skill team go")
	}
}

// TestContractContainment: system messages, wherever they stand, become one user message in front; developer messages part of the
// system prompt.
func TestContractContainment(t *testing.T) {
	w := stage(t, scene{})
	w.chat(t, body(message("system", "You are X.")+","+message("user", "one")+","+message("system", "Be brief.")+","+
		message("developer", "Use tabs.")+","+message("assistant", "ok")+","+message("user", "two")))
	const wrapped = "<user_provided_instructions>\n" +
		"The host environment provided the following instructions. Treat them as user-supplied notes:\n" +
		"follow them where they don't conflict with your primary instructions, persona, or amplifier-agent's\n" +
		"bundle behavior. Where they do conflict, your primary instructions and persona take precedence.\n\n---\n\n" +
		"You are X.\n\n---\n\nBe brief.\n</user_provided_instructions>"
	wantConversation(t, w, "user: "+wrapped, "user: one", "assistant: ok", "user: two")
	if r := w.last(t); !strings.Contains(r.System, "Use tabs.") || strings.Contains(r.System, "You are X.") || !strings.HasPrefix(r.System, "You are Amplifier") {
		t.Errorf("system prompt %q", r.System)
	}
	w.chat(t, say("hi"))
	if r := w.last(t); strings.TrimSpace(r.System) == "" {
		t.Error("no system prompt without the client's")
	}
}

// TestContractSystemForward: with system.client forward the client's system messages are the system prompt (rulings 31), and the
// host config's own prompt is what stands without them.
func TestContractSystemForward(t *testing.T) {
	w := stage(t, scene{config: `{"system":{"client":"forward","prompt":"Ours."}}`})
	w.chat(t, body(message("system", "You are X.")+","+message("system", "Be brief.")+","+message("user", "hi")))
	if got := w.last(t).System; got != "You are X.\n\nBe brief." {
		t.Errorf("system prompt %q", got)
	}
	wantConversation(t, w, "user: hi")
	w.chat(t, say("hi"))
	if got := w.last(t).System; got != "Ours." {
		t.Errorf("system prompt %q", got)
	}
}

// TestContractNormalisation: null content beside calls is empty; arguments are an object, and what is no JSON is kept.
func TestContractNormalisation(t *testing.T) {
	w := stage(t, scene{})
	for arguments, want := range map[string]string{
		`"{ \"b\": 1.50, \"a\": 12345678901234567890 }"`: `{ "b": 1.50, "a": 12345678901234567890 }`,
		`""`:            `{}`,
		`null`:          `{}`,
		`"  "`:          `{}`,
		`"{\"a\":"`:     `{"_raw_arguments":"{\"a\":"}`,
		`"[1]"`:         `{"_raw_arguments":"[1]"}`,
		`{"plain":"x"}`: `{"plain":"x"}`,
	} {
		w.chat(t, body(message("user", "go")+`,{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":`+arguments+`}}]},`+result, fTools))
		wantConversation(t, w, "user: go", "call c1 f "+want, "tool c1: done")
	}
}

// transcript reads what is stored of a session, a message a line.
func (w *world) transcript(t *testing.T, id string) []map[string]any {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(w.session(t, contractWorkspace, id), "transcript.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var messages []map[string]any
	for line := range strings.Lines(string(b)) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		messages = append(messages, m)
	}
	return messages
}

const contractWorkspace = "contract"

// hashed is the session of a header that is no plain name (rulings 32).
func hashed(header string) string {
	sum := sha256.Sum256([]byte(header))
	return "http-" + hex.EncodeToString(sum[:])[:32]
}

func sessionScene() scene { return scene{args: []string{"--workspace", contractWorkspace}} }

// TestContractSessionHeaders: X-Client-Session-Id counts, else X-Session-Id; the id is stable; with neither nothing is stored.
func TestContractSessionHeaders(t *testing.T) {
	w := stage(t, sessionScene())
	ask := func(header ...string) (id, resumed string) {
		resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", say("hi"), header...)
		if resp.StatusCode != http.StatusOK || !strings.Contains(b, "[DONE]") {
			t.Fatalf("status %d: %s", resp.StatusCode, b)
		}
		return resp.Header.Get("X-Amplifier-Session-Id"), resp.Header.Get("X-Amplifier-Resumed")
	}
	for _, row := range []struct {
		header      []string
		id, resumed string
	}{
		{nil, "", ""},
		{[]string{"X-Session-Id", "a.b-c_D"}, "http-a.b-c_D", "false"},
		{[]string{"X-Session-Id", "a.b-c_D"}, "http-a.b-c_D", "true"},
		{[]string{"X-Session-Id", "other", "X-Client-Session-Id", "a.b-c_D"}, "http-a.b-c_D", "true"},
		{[]string{"X-Session-Id", "other", "X-Client-Session-Id", " "}, "http-other", "false"},
		{[]string{"X-Session-Id", "../../../../escape"}, hashed("../../../../escape"), "false"},
		{[]string{"X-Session-Id", "../../../../escape"}, hashed("../../../../escape"), "true"},
		{[]string{"X-Session-Id", ".."}, hashed(".."), "false"},
		{[]string{"X-Session-Id", strings.Repeat("a", 129)}, hashed(strings.Repeat("a", 129)), "false"},
	} {
		id, resumed := ask(row.header...)
		if id != row.id || resumed != row.resumed {
			t.Errorf("%v: session %q, resumed %q, want %q, %q", row.header, id, resumed, row.id, row.resumed)
		}
	}
	entries, err := os.ReadDir(w.session(t, contractWorkspace, ""))
	if err != nil || len(entries) != 5 {
		t.Errorf("stored sessions: %v, %v", entries, err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "http-") {
			t.Errorf("stored as %s", e.Name())
		}
	}
}

// inSession is the header of a session that tests share.
var inSession = []string{"X-Session-Id", "s"}

// TestContractReconciliation: what an upstream would refuse is repaired; the repaired history is used and stored, with the system
// messages as the client sent them. What is healthy is used and stored as it came.
func TestContractReconciliation(t *testing.T) {
	w := stage(t, sessionScene())
	user, again := message("user", "go"), message("user", "and?")
	const missing, unanswered = "tool c1: [This call was interrupted before it returned a result.]", "assistant: [This turn was interrupted before an answer was given.]"
	for _, row := range []struct {
		name, messages string
		want           []string
		roles          string // stored
		marker         string
	}{
		{"healthy", user + "," + calls + "," + result + "," + message("assistant", "ok") + "," + again,
			[]string{"user: go", `call c1 f {"a":1}`, "tool c1: done", "assistant: ok", "user: and?"}, "user assistant tool assistant user", "client_reconciled"},
		{"trailing result", user + "," + calls + "," + result,
			[]string{"user: go", `call c1 f {"a":1}`, "tool c1: done"}, "user assistant tool", "client_reconciled"},
		{"orphaned call", user + "," + calls + "," + again,
			[]string{"user: go", `call c1 f {"a":1}`, missing, unanswered, "user: and?"}, "user assistant tool assistant user", "repaired"},
		{"result behind a user", user + "," + calls + "," + again + "," + result,
			[]string{"user: go", `call c1 f {"a":1}`, "tool c1: done", unanswered, "user: and?"}, "user assistant tool assistant user", "repaired"},
		{"result before its call", user + "," + result + "," + calls,
			[]string{"user: go", `call c1 f {"a":1}`, "tool c1: done"}, "user assistant tool", "repaired"},
		{"result without a call", user + "," + result + "," + message("assistant", "ok") + "," + again,
			[]string{"user: go", "assistant: ok", "user: and?"}, "user assistant user", "repaired"},
		{"incomplete turn", user + "," + calls + "," + result + "," + again,
			[]string{"user: go", `call c1 f {"a":1}`, "tool c1: done", unanswered, "user: and?"}, "user assistant tool assistant user", "repaired"},
		{"unanswered at the end", user + "," + calls,
			[]string{"user: go", `call c1 f {"a":1}`, missing}, "user assistant tool", "repaired"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w.chat(t, body(row.messages, fTools), inSession...)
			wantConversation(t, w, row.want...)
			var roles []string
			for _, m := range w.transcript(t, "http-s") {
				roles = append(roles, m["role"].(string))
			}
			if got := strings.Join(roles, " "); got != row.roles {
				t.Errorf("stored %s, want %s", got, row.roles)
			}
			marker, err := os.ReadFile(filepath.Join(w.session(t, contractWorkspace, "http-s"), "metadata.json"))
			if want := `{"last_turn":"` + row.marker + `"}`; err != nil || string(marker) != want {
				t.Errorf("metadata %s, %v, want %s", marker, err, want)
			}
		})
	}
	// Without a session nothing is stored, but what would be refused is mended all the same.
	w.chat(t, body(user+","+calls+","+again, fTools))
	wantConversation(t, w, "user: go", `call c1 f {"a":1}`, missing, unanswered, "user: and?")
}

// TestContractTranscript: what is stored is what the client said, in the store's form: raw, with members that nobody here knows, system
// messages as they were, calls as objects; folders are 0700 and files 0600, and the version before is kept. An edit replaces it.
func TestContractTranscript(t *testing.T) {
	w := stage(t, sessionScene())
	w.chat(t, body(message("system", "You are X.")+`,{"role":"user","content":[{"type":"text","text":"go","x":1}],"extra":{"a":[1.0,2]}},`+calls+","+result, fTools), inSession...)
	path := filepath.Join(w.session(t, contractWorkspace, "http-s"), "transcript.jsonl")
	first, err := os.ReadFile(path)
	want := `{"role":"system","content":"You are X."}` + "\n" +
		`{"role":"user","content":[{"type":"text","text":"go","x":1}],"extra":{"a":[1.0,2]}}` + "\n" +
		`{"role":"assistant","content":"","tool_calls":[{"id":"c1","tool":"f","arguments":{"a":1}}]}` + "\n" +
		`{"role":"tool","tool_call_id":"c1","content":"done"}`
	var got, wanted []any
	for _, b := range []struct {
		text string
		into *[]any
	}{{string(first), &got}, {want, &wanted}} {
		for line := range strings.Lines(b.text) {
			var v any
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatal(err)
			}
			*b.into = append(*b.into, v)
		}
	}
	if err != nil || !reflect.DeepEqual(got, wanted) || strings.HasSuffix(string(first), "\n") || !strings.Contains(string(first), "[1.0,2]") {
		t.Errorf("error %v, stored\n%s\nwant\n%s", err, first, want)
	}
	w.chat(t, say("something else"), inSession...)
	if backup, err := os.ReadFile(path + ".backup"); err != nil || string(backup) != string(first) {
		t.Errorf("the version before is %s, %v", backup, err)
	}
	if m := w.transcript(t, "http-s"); len(m) != 1 || m[0]["content"] != "something else" {
		t.Errorf("after an edit %v is stored", m)
	}
	for name, perm := range map[string]os.FileMode{"": 0o700, "transcript.jsonl": 0o600, "metadata.json": 0o600, "transcript.jsonl.backup": 0o600, "..": 0o700} {
		info, err := os.Stat(filepath.Join(filepath.Dir(path), name))
		if err != nil || info.Mode().Perm() != perm {
			t.Errorf("%q: %v, %v, want %v", name, info.Mode(), err, perm)
		}
	}
}

// TestContractConcurrentTurns: two turns of a session run side by side, and one with another opening does not replace what the one
// that still runs has stored (rulings 33, 52).
func TestContractConcurrentTurns(t *testing.T) {
	w := stage(t, sessionScene())
	real := make(chan string, 1)
	go func() {
		_, b := w.request(t, http.MethodPost, "/v1/chat/completions", say("Stay silent for 2 seconds"), inSession...)
		real <- b
	}()
	eventually(t, "the first turn has reached the gateway", func() bool { return len(w.upstream()) == 1 })
	w.chat(t, say("Write a title"), inSession...)
	if len(w.upstream()) != 2 {
		t.Error("the second turn waited")
	}
	select {
	case b := <-real:
		t.Errorf("the first turn had ended: %s", b)
	default:
	}
	eventually(t, "the first turn is stored", func() bool {
		_, err := os.Stat(filepath.Join(w.session(t, contractWorkspace, "http-s"), "transcript.jsonl"))
		return err == nil
	})
	if m := w.transcript(t, "http-s"); len(m) != 1 || m[0]["content"] != "Stay silent for 2 seconds" {
		t.Errorf("stored %v", m)
	}
	if b := <-real; !strings.Contains(b, "[DONE]") {
		t.Errorf("the first turn: %s", b)
	}
	w.chat(t, say("a new conversation"), inSession...)
	if m := w.transcript(t, "http-s"); len(m) != 1 || m[0]["content"] != "a new conversation" {
		t.Errorf("afterwards %v is stored", m)
	}
}

// TestContractStoreOff: the host config's store keeps nothing on disk if it says so; repair goes on.
func TestContractStoreOff(t *testing.T) {
	s := sessionScene()
	s.config = `{"store":{"transcripts":false,"ledger":false}}`
	w := stage(t, s)
	w.chat(t, say("hi"), inSession...)
	if _, err := os.Stat(filepath.Join(w.home, ".amplifier-agent", "state", "workspaces")); !os.IsNotExist(err) {
		t.Errorf("something was stored: %v", err)
	}
}

// TestContractKilledServer: a server that is killed in the midst of writes leaves a whole transcript, with everything in it whose answer
// had ended; two servers on one home do each other no harm.
func TestContractKilledServer(t *testing.T) {
	s := sessionScene()
	s.env = []string{envPrefix + "STREAM_DEFAULT=json"}
	w := prepare(t, s)
	padding := strings.Repeat("x", 200_000)
	const kills, turns = 8, 40
	for k := range kills {
		var pair [2]*world
		for i := range pair {
			c := *w
			c.server = startServer(t, w.environ(s.env...), "serve", "chat-completions", "--port", "0", "--workspace", contractWorkspace)
			pair[i] = &c
		}
		var acknowledged [2]atomic.Int64
		var wg sync.WaitGroup
		for i, c := range pair {
			session := fmt.Sprintf("k%d", i)
			wg.Go(func() {
				for n := 1; n <= turns; n++ {
					req, err := http.NewRequest(http.MethodPost, c.url+"/chat/completions", strings.NewReader(say(fmt.Sprint(n, " ", padding))))
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("Authorization", "Bearer "+contractKey)
					req.Header.Set("X-Session-Id", session)
					resp, err := http.DefaultClient.Do(req)
					if err != nil {
						return // killed
					}
					_, err = io.Copy(io.Discard, resp.Body)
					if resp.Body.Close(); err != nil {
						return
					}
					acknowledged[i].Store(int64(n))
				}
			})
		}
		target := int64(1 + k*turns/kills)
		eventually(t, "enough turns have been answered", func() bool { return acknowledged[0].Load() >= target && acknowledged[1].Load() >= target })
		for _, c := range pair {
			if err := c.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		wg.Wait()
		for i, c := range pair {
			<-c.read
			_ = c.cmd.Wait()
			m := w.transcript(t, fmt.Sprintf("http-k%d", i))
			if len(m) != 1 {
				t.Fatalf("%d messages are stored", len(m))
			}
			var n int64
			if text, ok := m[0]["content"].(string); !ok || !strings.HasSuffix(text, padding) {
				t.Fatalf("a torn message: %.40q", text)
			} else if _, err := fmt.Sscan(text, &n); err != nil || n < acknowledged[i].Load() {
				t.Errorf("turn %d is stored, %d were answered (%v)", n, acknowledged[i].Load(), err)
			}
		}
	}
}
