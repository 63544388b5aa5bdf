package routes

import (
	"bytes"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
)

const (
	authorized = "Authorization: Bearer k"
	page       = "https://app.example"
)

// TestHostAndOrigin is the whole matrix (B094, B095): names, origins and methods, with a key and without.
func TestHostAndOrigin(t *testing.T) {
	h := serve(t, Config{Guard: Guard{Bind: "127.0.0.1", Hosts: []string{"box.lan", "Agent.Example."}, Origins: []string{page}}})
	hosts := map[string]int{ // status, 0 where the rest decides
		"localhost": 0, "localhost:9099": 0, "LOCALHOST.:1": 0, "127.0.0.1": 0, "127.0.0.1:9099": 0, "127.8.9.1": 0,
		"[::1]": 0, "[::1]:9099": 0, "[::ffff:127.0.0.1]": 0, "box.lan:80": 0, "agent.example": 0, "localhost:": 0,
		"evil.example": 403, "evil.example:9099": 403, "evil.localhost": 403, "localhost.evil.example": 403, "192.168.1.7:9099": 403,
		"0.0.0.0:9099": 403, "[::]": 403, "[fe80::1]": 403, "[::1%25lo]": 403, "2130706433": 403, "127.1": 403, "0x7f.1": 403,
		"evil.example@localhost": 403, "localhost@evil.example": 403, "localhost:99a": 400, "[::1]x": 400, "[localhost]": 400,
		"127.0.0.1.nip.io": 403, "localhost:80:80": 400, "::1": 400, "loc\u00e4lhost": 403, "localhost,evil.example": 403,
	}
	origins := map[string]bool{
		"": true, "same": true, page: true, strings.ToUpper(page): true,
		"https://evil.example": false, "null": false, page + ".evil.example": false, "http://app.example": false, page + ":444": false,
		"http://localhost:1234": false, page + "/": false, page + "\r\nOrigin: " + page: false, "*": false, " ": false,
	}
	methods := map[string]int{"GET /open": 200, "GET /closed": 200, "POST /closed": 405, "OPTIONS /closed": 405, "GET /nothing": 404, "HEAD /open": 200}
	for host, status := range hosts {
		for origin, originOK := range origins {
			for method, want := range methods {
				lines := []string{method + " HTTP/1.1", "Host: " + host, authorized}
				if origin == "same" {
					lines = append(lines, "Origin: http://"+host)
				} else if origin != "" {
					lines = append(lines, "Origin: "+origin)
				}
				r := h.send(t, lines...)
				switch {
				case status != 0:
					want = status
				case !originOK:
					want = 403
				}
				if r.status != want {
					t.Errorf("%q: status %d, want %d: %s", lines, r.status, want, r.body)
				}
				cors := ""
				if status == 0 && originOK && strings.EqualFold(origin, page) {
					cors = origin
				}
				if got := r.header.Get("Access-Control-Allow-Origin"); got != cors {
					t.Errorf("%q: Access-Control-Allow-Origin %q, want %q", lines, got, cors)
				}
			}
		}
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	h := serve(t, Config{Guard: Guard{Bind: "localhost"}})
	r := h.send(t, "GET /open HTTP/1.1", "Host: evil.example:9099")
	if r.status != 403 || r.code() != "forbidden" || !strings.Contains(r.message(), `"evil.example:9099"`) || !strings.Contains(r.message(), "AMPLIFIER_AGENT_HTTP_ALLOW_HOSTS") {
		t.Errorf("%+v", r)
	}
	r = h.send(t, "GET /open HTTP/1.1", "Host: localhost", "Origin: https://evil.example")
	if r.status != 403 || r.code() != "forbidden" || !strings.Contains(r.message(), `"https://evil.example"`) || !strings.Contains(r.message(), "AMPLIFIER_AGENT_HTTP_ALLOW_ORIGINS") {
		t.Errorf("%+v", r)
	}
	if r = h.send(t, "GET /open HTTP/1.1", "Host: "+strings.Repeat("e", 8000)); r.status != 403 || len(r.body) > 500 {
		t.Errorf("%+v", r)
	}
}

// TestOddHosts: requests with no host, two, or one of their own in the target.
func TestOddHosts(t *testing.T) {
	h := serve(t, Config{Guard: Guard{Bind: "::1"}})
	for _, row := range []struct {
		lines  string
		status int
	}{
		{"GET /open HTTP/1.0", 200},
		{"GET /open HTTP/1.0|Host: evil.example", 403},
		{"GET /open HTTP/1.1", 400},
		{"GET /open HTTP/1.1|Host: ", 400},
		{"GET /open HTTP/1.2", 403},
		{"GET /open HTTP/1.1|Host: localhost|Host: localhost", 400},
		{"GET /open HTTP/1.1|Host: localhost|Host: evil.example", 400},
		{"GET http://localhost/open HTTP/1.1|Host: localhost:1", 200},
		{"GET http://evil.example/open HTTP/1.1|Host: localhost", 403},
		{"GET http://localhost/open HTTP/1.1|Host: evil.example", 403},
		{"GET http://evil.example/open HTTP/1.0", 403},
		{"GET http://localhost/open HTTP/1.0", 200},
		{"GET //evil.example/http://x HTTP/1.1|Host: localhost", 403},
		{"GET /open?x=http://evil.example/ HTTP/1.1|Host: localhost", 200},
		{"OPTIONS * HTTP/1.1|Host: localhost|" + authorized, 404},
		{"CONNECT evil.example:80 HTTP/1.1|Host: localhost|" + authorized, 404},
		{"CONNECT evil.example:80 HTTP/1.1|Host: evil.example:80|" + authorized, 403},
	} {
		if r := h.send(t, strings.Split(row.lines, "|")...); r.status != row.status {
			t.Errorf("%q: status %d, want %d: %s", row.lines, r.status, row.status, r.body)
		}
	}
}

// TestOtherBinds: what counts when the server is not bound to loopback.
func TestOtherBinds(t *testing.T) {
	for _, row := range []struct {
		guard Guard
		host  string
		ok    bool
	}{
		{Guard{}, "evil.example", true},
		{Guard{Bind: "0.0.0.0"}, "evil.example", true},
		{Guard{Bind: "192.168.1.7"}, "anything at all", true},
		{Guard{Bind: "0.0.0.0", Hosts: []string{"box.lan"}}, "box.lan:9099", true},
		{Guard{Bind: "0.0.0.0", Hosts: []string{"box.lan"}}, "localhost", true},
		{Guard{Bind: "0.0.0.0", Hosts: []string{"box.lan"}}, "evil.example", false},
		{Guard{Bind: "0.0.0.0", Hosts: []string{"box.lan"}}, "0.0.0.0", false},
		{Guard{Bind: "::", Hosts: []string{"box.lan"}}, "[::]", false},
		{Guard{Bind: "192.168.1.7", Hosts: []string{"box.lan"}}, "192.168.1.7:9099", true},
		{Guard{Bind: "fd00::7", Hosts: []string{"[fd00::8]:80"}}, "[FD00:0::7]:9099", true},
		{Guard{Bind: "fd00::7", Hosts: []string{"[fd00::8]:80"}}, "[fd00::8]", true},
		{Guard{Bind: "127.0.0.5"}, "127.0.0.1", true},
		{Guard{Bind: "LOCALHOST"}, "evil.example", false},
	} {
		g := newGuard(row.guard)
		if got := g.knows([]byte(row.host)); got != row.ok {
			t.Errorf("%+v, Host %q: %v", row.guard, row.host, got)
		}
	}
}

func TestGuardCheck(t *testing.T) {
	if err := (Guard{Hosts: []string{"a.example", "[::1]:80", "10.0.0.1"}, Origins: []string{"*", "https://a.example", "http://localhost:3000/", "tauri://localhost", "chrome-extension://abcdef"}}).Check(); err != nil {
		t.Error(err)
	}
	for _, g := range []Guard{
		{Hosts: []string{""}}, {Hosts: []string{"http://a.example"}}, {Hosts: []string{"*"}},
		{Origins: []string{"a.example"}}, {Origins: []string{"localhost:3000"}}, {Origins: []string{"https://a.example/path"}}, {Origins: []string{"null"}}, {Origins: []string{""}},
	} {
		if g.Check() == nil {
			t.Errorf("%+v passes", g)
		}
	}
}

// TestEveryAnswerHasCORS: a page of a listed origin can read whatever the server says; no other answer speaks of origins.
func TestEveryAnswerHasCORS(t *testing.T) {
	const body = "\r\n\r\nx" // and what send puts behind it
	for _, listed := range []string{page, "*"} {
		h := serve(t, Config{MaxBody: 10, Guard: Guard{Bind: "127.0.0.1", Origins: []string{listed}}})
		for request, want := range map[string]int{
			"GET /open": 200, "GET /closed|" + authorized: 200, "GET /closed": 401, "GET /nothing|" + authorized: 404,
			"PUT /open|" + authorized: 405, "GET /panic": 500,
			"POST /echo|Content-Length: 11|" + authorized + body:                            413,
			"POST /echo|Content-Length: 11|Expect: 100-continue|" + authorized:              413,
			"POST /echo|Content-Length: 10|Expect: 100-continue":                            401,
			"GET /open|Content-Length: 1|Transfer-Encoding: chunked":                        400,
			"OPTIONS /closed|Access-Control-Request-Method: POST":                           204,
			"OPTIONS /nothing|Access-Control-Request-Method: POST":                          204,
			"OPTIONS /nothing|Access-Control-Request-Headers: x|" + authorized:              404,
			"OPTIONS /closed|Access-Control-Request-Method: POST|" + authorized:             204,
			"HEAD /open|Access-Control-Request-Method: POST":                                200,
			"OPTIONS /x|Content-Length: 1|Transfer-Encoding: identity|" + authorized + body: 400,
			"OPTIONS /closed|Expect: 100-continue|Access-Control-Request-Method:":           401,
		} {
			lines := strings.Split(request, "|")
			r := h.send(t, append([]string{lines[0] + " HTTP/1.1", "Host: localhost", "Origin: " + page}, lines[1:]...)...)
			if r.status != want || r.header.Get("Vary") != "Origin" || r.header.Get("Access-Control-Allow-Origin") != listed ||
				!strings.Contains(r.header.Get("Access-Control-Expose-Headers"), "Retry-After") {
				t.Errorf("%s, %s: status %d, want %d, header %v", listed, request, r.status, want, r.header)
			}
		}
	}
	for _, guard := range []Guard{{Bind: "127.0.0.1"}, {Bind: "127.0.0.1", Origins: []string{"https://other.example"}}} {
		h := serve(t, Config{Guard: guard})
		for _, origin := range []string{"", "Origin: http://localhost", "Origin: " + page, "Origin: null"} {
			for _, line := range []string{"GET /open HTTP/1.1", "GET /closed HTTP/1.1", "OPTIONS /closed HTTP/1.1"} {
				lines := []string{line, "Host: localhost", "Access-Control-Request-Method: POST"}
				if origin != "" {
					lines = append(lines, origin)
				}
				for name := range h.send(t, lines...).header {
					if strings.HasPrefix(name, "Access-Control") || name == "Vary" {
						t.Errorf("%q: %s", lines, name)
					}
				}
			}
		}
	}
}

func TestPreflight(t *testing.T) {
	h := serve(t, Config{Guard: Guard{Bind: "127.0.0.1", Origins: []string{page}}})
	r := h.send(t, "OPTIONS /closed HTTP/1.1", "Host: localhost", "Origin: "+page, "Access-Control-Request-Method: POST",
		"Access-Control-Request-Headers: authorization, content-type,,x y, x-\u00e4 ,X-Session-Id", "Access-Control-Request-Private-Network: true")
	for name, want := range map[string]string{
		"Access-Control-Allow-Methods":         preflightMethods,
		"Access-Control-Allow-Headers":         "authorization, content-type, X-Session-Id",
		"Access-Control-Max-Age":               preflightAge,
		"Access-Control-Allow-Private-Network": "true",
		"Access-Control-Allow-Credentials":     "",
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if r.status != 204 || r.body != "" {
		t.Errorf("%+v", r)
	}
	r = h.send(t, "OPTIONS /closed HTTP/1.1", "Host: localhost", "Origin: "+page, "Access-Control-Request-Method: POST")
	if r.header.Get("Access-Control-Allow-Private-Network") != "" || r.header.Get("Access-Control-Allow-Headers") != "" {
		t.Errorf("%+v", r)
	}
	if got := tokens(strings.Repeat("x,", 1000)); strings.Count(got, "x") != maxPreflight {
		t.Errorf("%d names", strings.Count(got, "x"))
	}
}

// TestRoutesAreMatchedOnce: on one decoding, behind the key (B049).
func TestRoutesAreMatchedOnce(t *testing.T) {
	h := serve(t, Config{})
	for _, row := range []struct {
		path          string
		without, with int
	}{
		{"/closed", 401, 200},
		{"/clos%65d", 401, 200},
		{"/clos%2565d", 401, 404},
		{"/%2561dmin", 401, 404},
		{"/v1/sessions/%252e%252e/x", 401, 404},
		{"/open/..%2fclosed", 401, 200},
		{"/open/..%252fclosed", 401, 404},
		{"/open/../closed", 401, 200},
		{"/x/../open", 200, 200},
		{"/open%00", 401, 404},
		{"/open;x", 401, 404},
		{"/open/", 401, 404},
		{"/OPEN", 401, 404},
	} {
		for key, want := range map[string]int{"X: y": row.without, authorized: row.with} {
			if r := h.send(t, "GET "+row.path+" HTTP/1.1", "Host: x", key); r.status != want {
				t.Errorf("%s with %s: status %d, want %d", row.path, key, r.status, want)
			}
		}
	}
}

// TestNoAuth: the zero stage admits everybody (rulings 35).
func TestNoAuth(t *testing.T) {
	h := serveAs(t, Config{Auth: pipeline.Stage{}})
	for line, want := range map[string]int{"GET /closed": 200, "GET /nothing": 404, "POST /closed": 405} {
		if r := h.send(t, line+" HTTP/1.1", "Host: x"); r.status != want {
			t.Errorf("%s: status %d, want %d", line, r.status, want)
		}
	}
}

func FuzzHostName(f *testing.F) {
	for _, s := range []string{"localhost:9099", "[::1]:80", "[::1", "a..", "..", ":", "[]:", "1.2.3.4.", "[fe80::1%25x]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		name, ok := hostName(field)
		if !ok {
			return
		}
		again, ok := hostName(bracketed(name))
		if !ok || again != name && again != strings.TrimSuffix(name, ".") {
			t.Errorf("%q is %q is %q", field, name, again)
		}
		if loopback(name) && !strings.HasPrefix(name, "127.") && name != "localhost" && name != "::1" {
			t.Errorf("%q counts as loopback", field)
		}
	})
}

func FuzzPreflightHeaders(f *testing.F) {
	f.Add("a, b,c\r\nX: y")
	f.Fuzz(func(t *testing.T, list string) {
		if got := tokens(list); bytes.ContainsAny([]byte(got), "\r\n\x00:") {
			t.Errorf("%q", got)
		}
	})
}
