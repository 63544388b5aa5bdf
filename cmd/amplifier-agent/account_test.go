package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"amplifier-agent/pipeline"
	"amplifier-agent/upstream/commandcode"
	"amplifier-agent/upstream/simulator"
)

// teller is a gateway that answers questions about an account: with a body by path, or a status in its place. It notes what it is asked.
type teller struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func newTeller(t *testing.T, answers map[string]string) *teller {
	t.Helper()
	g := new(teller)
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.asked = append(g.asked, r.Method+" "+r.URL.RequestURI())
		g.mu.Unlock()
		answer, ok := answers[r.URL.Path]
		switch {
		case r.Header.Get("Authorization") != "Bearer "+accountKey || !strings.HasPrefix(r.Header.Get("User-Agent"), "amplifier-agent/"):
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"success":false,"error":{"code":"UNAUTHORIZED","message":"no such key: `+accountKey+`"}}`)
		case !ok:
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"message":"broken"}`)
		default:
			_, _ = io.WriteString(w, answer)
		}
	}))
	t.Cleanup(g.Close)
	return g
}

func (g *teller) questions() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(slices.Values(g.asked))
}

const (
	accountKey = "user_account-0123456789-abcd"

	aWhoami  = `{"success":true,"user":{"id":"u1","name":"Ada","email":"ada@example.org","userName":"ada1"},"org":{"id":"o 1","login":"acme","name":"Acme"},"orgLimits":[]}`
	aCredits = `{"credits":{"belowThreshold":true,"creditThreshold":2,"monthlyCredits":0.1000000000000000055511151231257827,"purchasedCredits":0,"freeCredits":null},
		"windowLimits":{"limited":true,"exceeded":null,"fiveHour":{"used":0.30000000000000004,"cap":12,"exceeded":false,"resetAt":4102444800000},"weekly":{"used":"7.25","cap":60,"exceeded":true,"resetAt":0}}}`
	aPlan  = `{"success":true,"data":{"planId":"individual-max","status":"active","currentPeriodStart":"2099-11-05T06:07:08.900Z","currentPeriodEnd":1765000000000,"cancelAtPeriodEnd":true}}`
	aUsage = `{"totalCost":1e2,"totalCount":3,"totalTokens":12345678901,"totalMonthlyCredits":"99.50"}`
)

func whole() map[string]string {
	return map[string]string{"/alpha/whoami": aWhoami, "/alpha/billing/credits": aCredits, "/alpha/billing/subscriptions": aPlan, "/alpha/usage/summary": aUsage}
}

// accounted is the environment of somebody with a key for a gateway.
func accounted(url string) []string {
	return []string{"TZ=UTC", "COMMANDCODE_API_KEY=" + accountKey, "COMMANDCODE_BASE_URL=" + url}
}

func TestAccount(t *testing.T) {
	g := newTeller(t, whole())
	got := speak(t, "", accounted(g.URL), "account")
	if got.code != 0 || got.stderr != "" {
		t.Errorf("exit code %d, stderr %s", got.code, got.stderr)
	}
	text := squeezed(got.stdout)
	for _, line := range []string{
		"User Ada (ada1) <ada@example.org>\n",
		"Organisation Acme (acme)\n",
		"Plan individual-max, active\n",
		"Period 5 Nov 2099 to 6 Dec 2025, and not renewed then\n",
		"Credits left monthly $0.1000000000000000055511151231257827, purchased $0, free unknown, which is low\n",
		"Five hours used $0.30000000000000004 of $12, resets Fri 1 Jan 00:00 UTC (in ",
		"Week used $7.25 of $60, exceeded, not begun\n",
		"Used $100 since 5 Nov 2099, 3 requests, 12345678901 tokens\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	want := []string{"GET /alpha/billing/credits?orgId=o+1", "GET /alpha/billing/subscriptions?orgId=o+1", "GET /alpha/usage/summary?orgId=o+1&since=2099-11-05T06%3A07%3A08.900Z", "GET /alpha/whoami?limits=1"}
	if asked := g.questions(); !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	got = speak(t, "", accounted(g.URL), "account", "--json")
	_, rest, _ := strings.Cut(got.stdout, `"fetched_at": "`)
	_, rest, _ = strings.Cut(rest, "\",\n")
	const document = `  "user": {
    "id": "u1",
    "user_name": "ada1",
    "name": "Ada",
    "email": "ada@example.org"
  },
  "organisation": {
    "id": "o 1",
    "login": "acme",
    "name": "Acme"
  },
  "plan": {
    "id": "individual-max",
    "status": "active",
    "period_start": "2099-11-05T06:07:08Z",
    "period_end": "2025-12-06T05:46:40Z",
    "cancel_at_period_end": true
  },
  "credits": {
    "monthly": 0.1000000000000000055511151231257827,
    "purchased": 0,
    "threshold": 2,
    "below_threshold": true
  },
  "windows": {
    "limited": true,
    "five_hour": {
      "used": 0.30000000000000004,
      "cap": 12,
      "exceeded": false,
      "begun": true,
      "resets_at": "2100-01-01T00:00:00Z"
    },
    "weekly": {
      "used": 7.25,
      "cap": 60,
      "exceeded": true,
      "begun": false
    }
  },
  "usage": {
    "total_cost": 100,
    "monthly_credits": 99.50,
    "requests": 3,
    "tokens": 12345678901
  }
}
`
	if got.code != 0 || rest != document || !strings.HasPrefix(got.stdout, "{\n  \"schema_version\": 1,\n  \"provider\": \"commandcode\",\n") {
		t.Errorf("exit code %d, %s\n%s", got.code, got.stderr, got.stdout)
	}
}

// TestAccountParts: each part asks for itself, and for what it must be asked with.
func TestAccountParts(t *testing.T) {
	for part, want := range map[string]struct{ lines, asked string }{
		"whoami":  {"User Organisation", "GET /alpha/whoami?limits=1"},
		"credits": {"Plan Period Credits Five Week", "GET /alpha/billing/credits?orgId=o+1 GET /alpha/billing/subscriptions?orgId=o+1 GET /alpha/whoami?limits=1"},
		"usage": {"Plan Period Used", "GET /alpha/billing/subscriptions?orgId=o+1 GET /alpha/usage/summary?orgId=o+1&since=2099-11-05T06%3A07%3A08.900Z " +
			"GET /alpha/whoami?limits=1"},
	} {
		g := newTeller(t, whole())
		got := speak(t, "", accounted(g.URL), "account", part)
		var names []string
		for line := range strings.Lines(got.stdout) {
			names = append(names, strings.Fields(line)[0])
		}
		if asked := strings.Join(g.questions(), " "); got.code != 0 || got.stderr != "" || strings.Join(names, " ") != want.lines || asked != want.asked {
			t.Errorf("%s: %+v\nasked %s, want %+v", part, got, asked, want)
		}
	}
}

// TestAccountTolerates: whatever an answer lacks, or has in a shape of its own, is unknown and not zero.
func TestAccountTolerates(t *testing.T) {
	for _, odd := range []string{`{}`, `{"user":null,"org":[],"credits":null,"windowLimits":null,"data":null,"totalCost":null}`,
		`{"user":{"id":7,"name":null,"email":[],"userName":{}},"org":"acme","credits":{"monthlyCredits":"many","purchasedCredits":{},"freeCredits":true,"belowThreshold":"no"},
		"windowLimits":{"limited":null,"fiveHour":{"used":null,"cap":1e999999999,"exceeded":null,"resetAt":"soon"},"weekly":[1]},
		"data":{"planId":null,"status":1,"currentPeriodStart":"yesterday","currentPeriodEnd":-1,"cancelAtPeriodEnd":null},"totalCost":"NaN","totalCount":1.5,"totalTokens":"x"}`} {
		g := newTeller(t, map[string]string{"/alpha/whoami": odd, "/alpha/billing/credits": odd, "/alpha/billing/subscriptions": odd, "/alpha/usage/summary": odd})
		got := speak(t, "", accounted(g.URL), "account")
		const want = "User unknown\nOrganisation unknown\nPlan unknown, status unknown\nPeriod unknown\nCredits left monthly unknown, purchased unknown, free unknown\n" +
			"Five hours used unknown of unknown, reset unknown\nWeek used unknown of unknown, reset unknown\nUsed unknown\n"
		if got.code != 0 || got.stderr != "" || squeezed(got.stdout) != want {
			t.Errorf("%s:\n%+v", odd, got)
		}
		got = speak(t, "", accounted(g.URL), "account", "--json")
		var document map[string]any
		if err := json.Unmarshal([]byte(got.stdout), &document); err != nil {
			t.Fatalf("%v: %+v", err, got)
		}
		delete(document, "fetched_at")
		b, _ := json.Marshal(document)
		if string(b) != `{"credits":{},"plan":{},"provider":"commandcode","schema_version":1,"usage":{},"user":{},"windows":{"five_hour":{},"weekly":{}}}` {
			t.Errorf("%s:\n%s", odd, b)
		}
	}
	g := newTeller(t, map[string]string{"/alpha/whoami": `{"user":{"userName":"solo"},"org":null}`, "/alpha/billing/credits": `{"windowLimits":{"limited":false,"fiveHour":null}}`,
		"/alpha/billing/subscriptions": `{"data":{"status":"trialing","currentPeriodEnd":"2026-12-24T00:00:00Z"}}`, "/alpha/usage/summary": `{"totalCost":0}`})
	got := squeezed(speak(t, "", accounted(g.URL), "account").stdout)
	for _, want := range []string{"User solo\n", "Organisation none\n", "Plan unknown, trialing\n", "Period unknown to 24 Dec 2026\n", "Five hours not limited\n", "Used $0\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if asked := g.questions(); !slices.Contains(asked, "GET /alpha/usage/summary") || !slices.Contains(asked, "GET /alpha/billing/credits") {
		t.Errorf("asked %q", asked)
	}
}

// TestAccountRefusals: what fails is told of, and the rest is shown.
func TestAccountRefusals(t *testing.T) {
	without := func(paths ...string) map[string]string {
		m := whole()
		for _, p := range paths {
			delete(m, p)
		}
		return m
	}
	const who, credits, plan, usage = "/alpha/whoami", "/alpha/billing/credits", "/alpha/billing/subscriptions", "/alpha/usage/summary"
	for _, r := range []struct {
		args    string
		answers map[string]string
		code    int
		out     string // the first words of the lines
		failed  string
	}{
		{"account", without(credits), 0, "User Organisation Plan Period Used", "credits"},
		{"account", without(who, plan), 0, "Credits Five Week Used", "whoami plan"},
		{"account", without(who, credits, plan), 0, "Used", "whoami plan credits"},
		{"account", without(who, credits, plan, usage), 1, "", "whoami plan credits usage"},
		{"account whoami", without(who), 1, "", "whoami"},
		{"account credits", without(credits, plan), 1, "", "plan credits"},
		{"account credits", without(credits), 0, "Plan Period", "credits"},
		{"account usage", without(usage), 1, "", "usage"},
		{"account usage", without(who), 0, "Plan Period Used", "whoami"},
	} {
		g := newTeller(t, r.answers)
		got := speak(t, "", accounted(g.URL), strings.Fields(r.args)...)
		var names, failures []string
		for line := range strings.Lines(got.stdout) {
			names = append(names, strings.Fields(line)[0])
		}
		for line := range strings.Lines(got.stderr) {
			name, ok := strings.CutPrefix(strings.TrimSuffix(line, ": the upstream answered 500: broken\n"), "# account: ")
			if !ok {
				t.Errorf("stderr %q", line)
			}
			failures = append(failures, name)
		}
		if got.code != r.code || strings.Join(names, " ") != r.out || strings.Join(failures, " ") != r.failed {
			t.Errorf("%s: %+v\nwant %d, %s, %s", r.args, got, r.code, r.out, r.failed)
		}
	}
	repeats := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"error":"bad key `+r.Header.Get("Authorization")+`"}`)
	}))
	defer repeats.Close()
	got := speak(t, "", accounted(repeats.URL), "account", "whoami")
	if got.code != 1 || strings.Contains(got.stderr, accountKey) || !strings.HasPrefix(got.stderr, "# account: whoami: the upstream answered 403: bad key Bearer ") {
		t.Errorf("%+v", got)
	}
	got = speak(t, "", accounted("http://"+refusing(t)), "account")
	if got.code != 1 || got.stdout != "" || strings.Count(got.stderr, "# account: ") != 4 || !strings.Contains(got.stderr, "connection refused") {
		t.Errorf("%+v", got)
	}
}

// TestAccountDemo: the simulator answers, and takes the right key only.
func TestAccountDemo(t *testing.T) {
	got := speak(t, "", nil, "account", "--demo")
	text := squeezed(got.stdout)
	if got.code != 0 || got.stderr != "" || strings.Count(got.stdout, "\n") != 8 || strings.Contains(text, unknown) || !strings.Contains(text, "\nOrganisation Demo Organisation (demo-org)\n") || strings.Count(text, " (in ") != 2 {
		t.Errorf("%+v", got)
	}
	sim, err := simulator.Start(simulator.Options{Keys: []string{accountKey}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sim.Close() }()
	if got := speak(t, "", accounted(sim.URL()), "account"); got.code != 0 || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	if got := speak(t, "", append(accounted(sim.URL()), "COMMANDCODE_API_KEY=another"), "account"); got.code != 1 || strings.Count(got.stderr, "the upstream answered 401: Invalid or missing API key\n") != 4 {
		t.Errorf("%+v", got)
	}
}

// TestAccountPicks: whom to ask. Nobody is contacted unless that is clear, and no surface need be chosen.
func TestAccountPicks(t *testing.T) {
	work, home := newTeller(t, whole()), newTeller(t, map[string]string{"/alpha/whoami": `{"user":{"name":"Home"}}`})
	dir := t.TempDir()
	entry := func(id, url string) string {
		return fmt.Sprintf(`%q:{"module":"commandcode","config":{"base_url":%q,"api_key":%q}}`, id, url, accountKey)
	}
	for name, providers := range map[string]string{
		"one": entry("work", work.URL) + `,"x":{"module":"replay"}`, "two": entry("work", work.URL) + "," + entry("home", home.URL),
		"none": `"x":{"module":"replay"}`, "keyless": `"work":{"module":"commandcode","config":{"surface":"provider"}}`, "odd": `"work":{"module":"commandcode","config":{"base_url":"nonsense","api_key":"k"}}`,
	} {
		writeFile(t, filepath.Join(dir, name), `{"providers":{`+providers+`}}`)
	}
	for _, r := range []struct {
		args     string
		code     int
		out, err string
	}{
		{"--config one", 0, "User Ada", ""},
		{"--config one --provider work", 0, "User Ada", ""},
		{"--config two --provider home", 0, "User Home\n", ""},
		{"--config two", 2, "", "choose one with --provider: work, home"},
		{"--config two --provider commandcode", 2, "", `no provider of the module commandcode is called "commandcode": use work or home`},
		{"--config none", 2, "", "none of its providers is of the module commandcode"},
		{"--config keyless", 2, "", "COMMANDCODE_API_KEY is not set: export it, or run: amplifier-agent auth set work <key>"},
		{"--config odd", 2, "", "base URL"},
		{"--config nonsense", 2, "", "nonsense"},
		{"", 2, "", "COMMANDCODE_API_KEY is not set"},
		{"--provider x", 2, "", `called "x": use commandcode`},
		{"whoami credits", 2, "", "use one of whoami, credits, usage"},
		{"balance", 2, "", "account balance: use one of"},
	} {
		args := strings.Fields(strings.ReplaceAll(r.args, "--config ", "--config "+dir+"/"))
		if !slices.Contains(args, "balance") && !strings.HasPrefix(r.args, "whoami") {
			args = append([]string{"whoami"}, args...)
		}
		got := speak(t, "", nil, append([]string{"account"}, args...)...)
		if got.code != r.code || !strings.HasPrefix(squeezed(got.stdout), r.out) || (r.out == "") != (got.stdout == "") || !strings.Contains(got.stderr, r.err) || (r.err == "") != (got.stderr == "") {
			t.Errorf("%s: %+v, want %+v", r.args, got, r)
		}
	}
}

// TestWindowWords: when a window begins anew, and how long that takes, in the local time.
func TestWindowWords(t *testing.T) {
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.Local)
	price, _ := pipeline.ParsePrice("1.50")
	yes, no := true, false
	a := answers{at: now}
	for want, w := range map[string]commandcode.Window{
		"used $1.50 of unknown, resets Tue 1 Dec 10:00 (in 1m)":             {Used: price, ResetAt: now.Add(40 * time.Second)},
		"used $1.50 of $1.50, exceeded, resets Tue 1 Dec 14:59 (in 4h 59m)": {Used: price, Cap: price, Exceeded: &yes, ResetAt: now.Add(4*time.Hour + 59*time.Minute + 20*time.Second)},
		"used unknown of $1.50, resets Sun 6 Dec 13:00 (in 5d 3h)":          {Cap: price, ResetAt: now.Add(123 * time.Hour)},
		"used unknown of unknown, reset at Tue 1 Dec 09:00":                 {ResetAt: now.Add(-time.Hour)},
		"used unknown of unknown, not begun":                                {Idle: true},
	} {
		if got := strings.ReplaceAll(a.window(w, &yes), " "+now.Format("MST"), ""); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := a.window(w, &no); (got == "not limited") != !w.Cap.Known() {
			t.Errorf("where there is no limit: %q", got)
		}
	}
}
