package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"amplifier-agent/upstream/simulator"
)

const (
	missingAuth = `{"error":{"message":"Missing or malformed Authorization header","type":"invalid_request_error"}}` + "\n"
	invalidKey  = `{"error":{"message":"Invalid API key","type":"invalid_request_error"}}` + "\n"
	withKey     = "Authorization: Bearer " + contractKey
)

// address is where the server listens, as a Host field has it.
func (w *world) address() string {
	return strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/v1")
}

// exchange sends one request exactly as it is written here, which no client of the library would do, and reads the answer. The lines
// of the header follow its Host, which is the server's own unless one of them says otherwise.
func (w *world) exchange(t *testing.T, method, target, text string, lines ...string) (*http.Response, string) {
	t.Helper()
	nc, err := net.Dial("tcp", w.address())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(testPatience))
	host := "Host: " + w.address()
	for i, line := range lines {
		if strings.HasPrefix(line, "Host:") {
			host, lines = line, append(append([]string(nil), lines[:i]...), lines[i+1:]...)
			break
		}
	}
	head := append([]string{method + " " + target + " HTTP/1.1", host, "Connection: close"}, lines...)
	if text != "" && !strings.Contains(strings.Join(lines, "\n"), "Content-Length:") {
		head = append(head, fmt.Sprintf("Content-Length: %d", len(text)))
	}
	if _, err := io.WriteString(nc, strings.Join(head, "\r\n")+"\r\n\r\n"+text); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(nc), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// everywhere are routes of the face, and what is none.
var everywhere = []struct{ method, path string }{
	{"POST", "/v1/chat/completions"}, {"GET", "/v1/models"}, {"GET", "/v1/models/" + contractModel}, {"GET", "/v1/skills"}, {"GET", "/v1/modes"},
	{"HEAD", "/v1/models"}, {"GET", "/v1/chat/completions"}, {"DELETE", "/v1/models"}, {"POST", "/health"}, {"OPTIONS", "/v1/models"},
	{"GET", "/v1/nothing"}, {"GET", "/v1/models/none"}, {"GET", "/"}, {"POST", "/v1/chat/completions/"}, {"GET", "/v1/../v1/models"},
}

// TestContractAuth: every route, and what is none, wants the key, and refuses with the contract's words and no others.
func TestContractAuth(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	for _, row := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"none", nil, missingAuth},
		{"empty", []string{"Authorization:"}, missingAuth},
		{"another scheme", []string{"Authorization: Basic " + contractKey}, missingAuth},
		{"no scheme", []string{"Authorization: " + contractKey}, missingAuth},
		{"no token", []string{"Authorization: Bearer"}, missingAuth},
		{"blank token", []string{"Authorization: Bearer  "}, missingAuth},
		{"no space", []string{"Authorization: Bearer" + contractKey}, missingAuth},
		{"twice", []string{withKey, withKey}, missingAuth},
		{"twice, one right", []string{withKey, "Authorization: Bearer wrong"}, missingAuth},
		{"elsewhere", []string{"X-Api-Key: " + contractKey, "Cookie: key=" + contractKey}, missingAuth},
		{"wrong", []string{"Authorization: Bearer wrong"}, invalidKey},
		{"longer", []string{withKey + "x"}, invalidKey},
		{"shorter", []string{withKey[:len(withKey)-1]}, invalidKey},
		{"another case", []string{"Authorization: Bearer " + strings.ToUpper(contractKey)}, invalidKey},
		{"two tokens", []string{withKey + " " + contractKey}, invalidKey},
		{"quoted", []string{`Authorization: Bearer "` + contractKey + `"`}, invalidKey},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, route := range everywhere {
				resp, b := w.exchange(t, route.method, route.path+"?api_key="+contractKey+"&access_token="+contractKey, "", row.lines...)
				want := row.want
				if route.method == "HEAD" {
					want = ""
				}
				if resp.StatusCode != http.StatusUnauthorized || b != want || resp.Header.Get("WWW-Authenticate") != "Bearer" || resp.Header.Get("Content-Type") != "application/json" {
					t.Errorf("%s %s: status %d, header %v, body %s", route.method, route.path, resp.StatusCode, resp.Header, b)
				}
			}
		})
	}
	if n := len(w.upstream()); n != 0 {
		t.Errorf("%d requests reached the gateway", n)
	}
}

// TestContractAuthSpelling: neither the case of the scheme nor spaces around the token matter.
func TestContractAuthSpelling(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	for _, line := range []string{
		withKey, "authorization: bearer " + contractKey, "AUTHORIZATION: BEARER " + contractKey, "Authorization: bEaReR    " + contractKey,
		"Authorization: Bearer " + contractKey + "   ", "Authorization:    Bearer " + contractKey, "Authorization:Bearer " + contractKey + "\t",
	} {
		if resp, b := w.exchange(t, "GET", "/v1/models", "", line); resp.StatusCode != http.StatusOK {
			t.Errorf("%q: status %d: %s", line, resp.StatusCode, b)
		}
	}
}

// TestContractAuthFirst: a request without the key is refused before its body is looked at, and before it has arrived; a foreign name
// is refused before that.
func TestContractAuthFirst(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	for name, row := range map[string]struct {
		text  string
		lines []string
	}{
		"no JSON":         {"{", nil},
		"unknown model":   {`{"model":"none","messages":[]}`, nil},
		"unknown coding":  {"x", []string{"Content-Encoding: lzw"}},
		"no gzip":         {"x", []string{"Content-Encoding: gzip"}},
		"too large":       {"{", []string{"Content-Length: 1000000000000"}},
		"only begun":      {"{", []string{"Content-Length: 1000"}},
		"waits to be let": {"", []string{"Content-Length: 1000", "Expect: 100-continue"}},
	} {
		if resp, b := w.exchange(t, "POST", "/v1/chat/completions", row.text, row.lines...); resp.StatusCode != http.StatusUnauthorized || b != missingAuth {
			t.Errorf("%s: status %d: %s", name, resp.StatusCode, b)
		}
	}
	resp, b := w.exchange(t, "POST", "/v1/chat/completions", "{", "Host: evil.example")
	wantRefusal(t, resp, b, http.StatusForbidden, "forbidden")
}

// TestContractAuthOff: AUTH=off lets everybody in on a loopback address, but no foreign page; elsewhere it is refused at startup, and
// so is the default key.
func TestContractAuthOff(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{env: []string{envPrefix + "AUTH=off"}})
	for _, line := range []string{"X: y", "Authorization: Bearer wrong", "Authorization: Basic x", withKey} {
		if resp, b := w.exchange(t, "POST", "/v1/chat/completions", say("Reply with exactly: open"), line); resp.StatusCode != http.StatusOK || !strings.Contains(b, "[DONE]") {
			t.Errorf("%q: status %d: %s", line, resp.StatusCode, b)
		}
	}
	for _, line := range []string{"Host: evil.example", "Origin: https://evil.example"} {
		resp, b := w.exchange(t, "POST", "/v1/chat/completions", say("hi"), line)
		wantRefusal(t, resp, b, http.StatusForbidden, "forbidden")
	}
	for name, row := range map[string]struct {
		env  []string
		args []string
		says string
	}{
		"off for all":                   {[]string{envPrefix + "AUTH=off"}, []string{"--bind", "0.0.0.0"}, "without authentication"},
		"off for all, from environment": {[]string{envPrefix + "AUTH=OFF", envPrefix + "BIND=::"}, nil, "without authentication"},
		"off with a key of one's own":   {[]string{envPrefix + "AUTH=off"}, []string{"--bind", "192.0.2.1", "--api-key", "mine"}, "without authentication"},
		"default key":                   {nil, []string{"--bind", "0.0.0.0", "--api-key", defaultKey}, "default API key"},
		"default key, from environment": {[]string{envPrefix + "BIND=0.0.0.0", envPrefix + "API_KEY="}, nil, "default API key"},
		"nonsense":                      {[]string{envPrefix + "AUTH=maybe"}, nil, "AUTH"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := w.command(t, row.env, append([]string{"serve", "chat-completions", "--port", "0"}, row.args...)...)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, row.says) {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
		})
	}
}

// TestContractForeignHosts: a server on a loopback address answers under the names of this machine and those that are listed, on
// every route; others get a 403 (rulings 34).
func TestContractForeignHosts(t *testing.T) {
	t.Parallel()
	own := stage(t, scene{})
	listed := stage(t, scene{env: []string{envPrefix + "ALLOW_HOSTS= gateway.example , other.example"}})
	for host, row := range map[string]struct{ own, listed bool }{
		"127.0.0.1": {true, true}, "127.0.0.1:1": {true, true}, "127.9.9.9": {true, true}, "[::1]": {true, true}, "[::1]:80": {true, true},
		"localhost": {true, true}, "LocalHost:9099": {true, true}, "localhost.": {true, true},
		"gateway.example": {false, true}, "GATEWAY.example:8443": {false, true}, "gateway.example.": {false, true}, "other.example": {false, true},
		"evil.example": {}, "evil.example:9099": {}, "localhost.evil.example": {}, "127.0.0.1.nip.io": {}, "evil.gateway.example": {},
		"127.0.0.1@evil.example": {}, "evil.example@127.0.0.1": {}, "192.0.2.1": {}, "0.0.0.0": {}, "[::]": {}, "[::ffff:192.0.2.1]": {},
	} {
		for w, want := range map[*world]bool{own: row.own, listed: row.listed} {
			for _, path := range []string{"/v1/models", "/health"} {
				resp, b := w.exchange(t, "GET", path, "", "Host: "+host, withKey)
				switch {
				case want && resp.StatusCode != http.StatusOK:
					t.Errorf("%q on %s: status %d: %s", host, path, resp.StatusCode, b)
				case !want:
					wantRefusal(t, resp, b, http.StatusForbidden, "forbidden")
				}
			}
		}
	}
	for _, host := range []string{"", "localhost:x"} { // no names at all
		resp, b := own.exchange(t, "GET", "/v1/models", "", "Host: "+host, withKey)
		wantRefusal(t, resp, b, http.StatusBadRequest, "invalid_request")
	}
	// The target's own host counts more than the field.
	resp, b := own.exchange(t, "GET", "http://evil.example/v1/models", "", withKey)
	wantRefusal(t, resp, b, http.StatusForbidden, "forbidden")
}

// TestContractOrigins: pages are let in if their origin is the server's own or listed; only those that are listed get CORS headers, also
// on errors and on streams, and an answer to their preflight without a key (rulings 34).
func TestContractOrigins(t *testing.T) {
	t.Parallel()
	const app, evil = "https://app.example", "https://evil.example"
	none := stage(t, scene{})
	some := stage(t, scene{env: []string{envPrefix + "ALLOW_ORIGINS=https://other.example:8443, " + app}})
	all := stage(t, scene{env: []string{envPrefix + "ALLOW_ORIGINS=*"}})
	const no, yes = http.StatusForbidden, http.StatusOK
	for _, row := range []struct {
		name   string
		w      *world
		origin string
		status int
		allow  string
	}{
		{"none/foreign", none, evil, no, ""}, {"none/null", none, "null", no, ""}, {"none/own", none, "http://" + none.address(), yes, ""},
		{"none/own name, other port", none, "http://127.0.0.1:1", no, ""}, {"none/https", none, "https://" + none.address(), no, ""},
		{"some/listed", some, app, yes, app}, {"some/case", some, "HTTPS://App.Example", yes, "HTTPS://App.Example"},
		{"some/port", some, "https://other.example:8443", yes, "https://other.example:8443"}, {"some/no port", some, "https://other.example", no, ""},
		{"some/scheme", some, "http://app.example", no, ""}, {"some/longer", some, app + ".evil.example", no, ""}, {"some/below", some, "https://x.app.example", no, ""},
		{"some/foreign", some, evil, no, ""}, {"some/null", some, "null", no, ""}, {"some/own", some, "http://" + some.address(), yes, ""},
		{"all/any", all, evil, yes, "*"}, {"all/null", all, "null", yes, "*"},
	} {
		t.Run(row.name, func(t *testing.T) {
			origin := "Origin: " + row.origin
			cors := func(resp *http.Response, b string, status int) {
				t.Helper()
				if resp.StatusCode != status || resp.Header.Get("Access-Control-Allow-Origin") != row.allow {
					t.Errorf("status %d, header %v: %s", resp.StatusCode, resp.Header, b)
				}
				if row.allow != "" && (!strings.Contains(resp.Header.Get("Vary"), "Origin") || resp.Header.Get("Access-Control-Allow-Credentials") != "") {
					t.Errorf("header %v", resp.Header)
				}
			}
			resp, b := row.w.exchange(t, "GET", "/v1/models", "", origin, withKey)
			cors(resp, b, row.status)
			if row.status == no {
				wantRefusal(t, resp, b, no, "forbidden")
			}
			resp, b = row.w.exchange(t, "POST", "/v1/chat/completions", say("Reply with exactly: x"), origin, withKey)
			cors(resp, b, row.status)
			resp, b = row.w.exchange(t, "POST", "/v1/chat/completions", "{", origin, withKey)
			cors(resp, b, unless(row.status == no, no, http.StatusBadRequest))
			resp, b = row.w.exchange(t, "GET", "/v1/nothing", "", origin)
			cors(resp, b, unless(row.status == no, no, http.StatusUnauthorized))
			resp, b = row.w.exchange(t, "OPTIONS", "/v1/chat/completions", "", origin, "Access-Control-Request-Method: POST",
				"Access-Control-Request-Headers: authorization, content-type, x-session-id")
			switch {
			case row.status == no:
				cors(resp, b, no)
			case row.allow == "": // its own page needs no preflight
				cors(resp, b, http.StatusUnauthorized)
			default:
				cors(resp, b, http.StatusNoContent)
				methods, headers := resp.Header.Get("Access-Control-Allow-Methods"), resp.Header.Get("Access-Control-Allow-Headers")
				if b != "" || !strings.Contains(methods, "POST") || !strings.Contains(headers, "authorization") || !strings.Contains(headers, "x-session-id") {
					t.Errorf("methods %q, headers %q, body %q", methods, headers, b)
				}
			}
		})
	}
	resp, _ := none.exchange(t, "GET", "/v1/models", "", withKey)
	for name := range resp.Header {
		if strings.HasPrefix(name, "Access-Control") {
			t.Errorf("without an origin there is %s", name)
		}
	}
}

func unless(exception bool, then, otherwise int) int {
	if exception {
		return then
	}
	return otherwise
}

// TestContractErrorsKeepSecrets: the gateway's key shows in no error, however the gateway says it back, and neither key in the log,
// even if that tells everything.
func TestContractErrorsKeepSecrets(t *testing.T) {
	t.Parallel()
	const key = `up/stream+key="a&b"` // which looks different in every spelling
	for _, config := range []string{patiently, `{"preflightMs":30000,"streamErrors":"event","limits":{"tries":1}}`} {
		w := stage(t, scene{config: config, env: []string{"COMMANDCODE_API_KEY=" + key}, args: []string{"--log-level", "debug"}})
		quoted, _ := json.Marshal(key)
		inJSON := string(quoted[1 : len(quoted)-1])
		for name, said := range map[string]string{
			"as it is": inJSON, "as a header": "Bearer " + inJSON, "in a URL": "https://example.com/?key=" + url.QueryEscape(key),
			"as basic authentication": base64.StdEncoding.EncodeToString([]byte("user:" + key)), "the server's own": contractKey, "quoted twice": strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(inJSON),
		} {
			told := `"message":"the key ` + said + ` is not good"`
			for shape, answer := range map[string]simulator.Answer{
				"status":       {Status: 401, Body: []byte(`{"error":{"code":"UNAUTHORIZED","status":401,` + told + `}}`)},
				"text":         {Status: 500, ContentType: "text/plain", Body: []byte(told)},
				"page":         {Status: 500, ContentType: "text/html", Body: []byte("<html>" + told + "</html>")},
				"event":        {Body: []byte(`{"type":"error","error":{` + told + `}}` + "\n")},
				"event behind": {Body: []byte(`{"type":"text-delta","id":"t","text":"said"}` + "\n" + `{"type":"error","error":{` + told + `}}` + "\n")},
				"abort":        {Body: []byte(`{"type":"text-delta","id":"t","text":"said"}` + "\n" + `{"type":"abort","reason":"the key ` + said + ` is not good"}` + "\n")},
			} {
				w.sim.Script(func(r *simulator.Request) *simulator.Answer {
					if got := r.Header.Get("Authorization"); got != "Bearer "+key {
						t.Errorf("the gateway was asked with %q", got)
					}
					return &answer
				})
				for _, way := range ways {
					_, b := w.request(t, http.MethodPost, "/v1/chat/completions", say("x", way))
					if secret := revealed(b, key, contractKey); secret != "" {
						t.Errorf("%s/%s%s: %q shows in %s", name, shape, way, secret, b)
					}
					if !strings.Contains(b, "is not good") && shape != "page" {
						t.Errorf("%s/%s%s: the gateway's words are lost: %s", name, shape, way, b)
					}
				}
			}
		}
		w.request(t, http.MethodGet, "/v1/models?key="+contractKey, "", "Authorization", "Basic "+key)
		w.end(t)
		for line := range strings.Lines(w.stderr.String()) {
			if !strings.HasPrefix(line, "time=") {
				continue // the banner names the server's own key, as the contract wants it
			}
			if secret := revealed(line, key, contractKey); secret != "" {
				t.Errorf("%q shows in the log: %s", secret, line)
			}
		}
		if !strings.Contains(w.stderr.String(), "is not good") {
			t.Error("the log does not tell what went wrong")
		}
	}
}

// revealed is the spelling in which a text holds one of secrets, "" for none.
func revealed(text string, secrets ...string) string {
	plain := strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(text)
	for _, s := range secrets {
		for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s), base64.StdEncoding.EncodeToString([]byte("user:" + s)), strings.ReplaceAll(s, `"`, `\"`)} {
			for _, in := range []string{text, plain, strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(plain)} {
				if strings.Contains(in, form) {
					return form
				}
			}
		}
	}
	return ""
}
