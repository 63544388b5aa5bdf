package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"amplifier-agent/routes/chat/chattest"
	"amplifier-agent/upstream/simulator"
)

const (
	// patiently makes the preflight window last until the gateway has answered, however busy the machine is; hastily makes it as
	// good as none.
	patiently = `{"preflightMs":30000,"limits":{"tries":1}}`
	hastily   = `{"preflightMs":1}`
)

// ways are both transports, by what a request says.
var ways = []string{`,"stream":true`, `,"stream":false`}

// TestContractDraining: a server that is told to stop ends the answers that it is giving and takes no new turn, neither on a
// connection of its own nor behind a running answer.
func TestContractDraining(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	nc, err := net.Dial("tcp", w.address())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(testPatience))
	post := func(text string) {
		_, _ = fmt.Fprintf(nc, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n%s\r\nContent-Length: %d\r\n\r\n%s", withKey, len(text), text)
	}
	post(say("Count slowly to 20", ways[0]))
	r := bufio.NewReader(nc)
	running, err := http.ReadResponse(r, nil)
	if err != nil || running.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", running, err)
	}
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nobody is let in any more", func() bool {
		c, err := net.Dial("tcp", w.address())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	post(`{"model":"none"`) // in its turn, and with other faults
	b, err := io.ReadAll(running.Body)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := chattest.ParseSSE(b); err != nil || a.Finish != "stop" || !strings.HasSuffix(a.Content, " 20 ") {
		t.Errorf("the running answer: %+v, %v", a, err)
	}
	if late, err := http.ReadResponse(r, nil); err == nil {
		b, _ := io.ReadAll(late.Body)
		wantRefusal(t, late, string(b), http.StatusServiceUnavailable, "unavailable")
	}
	if n := len(w.upstream()); n != 1 {
		t.Errorf("the gateway was asked %d times", n)
	}
	<-w.read
	if code := exitCode(w.cmd.Wait()); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, w.stderr.String())
	}
}

// TestContractUnknownModel: a model that is not served is refused, without a fallback and with the id that was meant; a served one is
// known by its provider's name too.
func TestContractUnknownModel(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	for model, says := range map[string]string{
		"none":                                   "'none'",
		strings.ToUpper(contractModel):           "Did you mean '" + contractModel + "'?",
		"deepseek-v4-pro":                        "Did you mean '" + contractModel + "'?",
		contractModel + " ":                      "Did you mean '" + contractModel + "'?",
		"openai/" + contractModel:                "openai/",
		"amplifier":                              "'amplifier'", // the label is no model
		strings.Repeat("long", 1000):             "is not served",
		"<script>\u2028\x00\"\\":                 "is not served",
		"commandcode/commandcode/" + "gpt-6-sol": "is not served",
	} {
		quoted, _ := json.Marshal(model)
		for _, way := range ways {
			msg := w.refused(t, http.StatusBadRequest, "unknown_model", `{"model":`+string(quoted)+`,"messages":[`+hello+`]`+way+`}`)
			if !strings.Contains(msg, says) || !strings.Contains(msg, "/v1/models") {
				t.Errorf("%.50q: %s", model, msg)
			}
		}
	}
	if n := len(w.upstream()); n != 0 {
		t.Errorf("%d requests reached the gateway", n)
	}
	if a := w.chat(t, `{"model":"commandcode/`+contractModel+`","messages":[`+hello+`]}`); a.Content != "hello" || w.last(t).Model != contractModel {
		t.Errorf("by its provider's name: %+v", a)
	}
}

// failing is a request that the gateway answers with a fault.
func failing(fault simulator.Fault, more ...string) string {
	return say("Reply with exactly: one two three four [fault:"+string(fault)+"]", more...)
}

// TestContractPreflight: if the gateway fails before it has answered anything, the status says so, with the gateway's own status and
// words, by both ways: no page of HTML, no key.
func TestContractPreflight(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{config: patiently})
	for _, row := range []struct {
		fault simulator.Fault
		says  []string
		retry string // Retry-After
	}{
		{simulator.FaultStatus400, []string{"400", `expected string, received undefined at "config.workingDir"`}, ""},
		{simulator.FaultStatus401, []string{"401", "API key"}, ""},
		{simulator.FaultStatus403, []string{"403", "MODEL_NOT_IN_PLAN"}, ""},
		{simulator.FaultStatus404, []string{"404", "Route not found"}, ""},
		{simulator.FaultStatus413, []string{"413", "too large"}, ""},
		{simulator.FaultStatus422, []string{"422", "zero data retention"}, ""},
		{simulator.FaultStatus429, []string{"429", "five hour limit"}, "3600"},
		{simulator.FaultStatus429Plain, []string{"429", "Rate limit exceeded"}, "1"},
		{simulator.FaultStatus500, []string{"500", "Internal Server Error"}, "1"},
		{simulator.FaultStatus503, []string{"503"}, "1"},
		{simulator.FaultStatus529, []string{"529", "Overloaded"}, ""},
		{simulator.FaultCredits, []string{"400", "Insufficient credits"}, ""},
		{simulator.FaultAuthFlaky, []string{"403", "Authentication failed"}, ""},
		{simulator.FaultErrorFirst, []string{"403", "MODEL_NOT_IN_PLAN"}, ""},
		{simulator.FaultErrorLate, []string{"Gateway request failed"}, ""},
		{simulator.FaultReset, []string{"upstream"}, ""},
		{simulator.FaultHTML, []string{"upstream", "base URL"}, ""},
		{simulator.FaultEmpty, []string{"without any output"}, ""},
		{simulator.FaultOther, []string{"without"}, ""},
		{simulator.FaultProxyUse, []string{"400", "Proxy use detected"}, ""}, // the last one: the gateway is not asked again after it
		{simulator.FaultErrorObject, []string{"Proxy use detected", "switched off"}, ""},
	} {
		t.Run(string(row.fault), func(t *testing.T) {
			var bodies []string
			for _, way := range ways {
				resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", failing(row.fault, way))
				msg := wantRefusal(t, resp, b, http.StatusBadGateway, "upstream_error")
				for _, word := range row.says {
					if !strings.Contains(msg, word) {
						t.Errorf("the message lacks %q: %s", word, msg)
					}
				}
				if got := resp.Header.Get("Retry-After"); got != row.retry || strings.ContainsAny(msg, "<>") || resp.Header.Get("Content-Type") != "application/json" ||
					!strings.Contains(b, `"type":"upstream_error","param":null,`) {
					t.Errorf("Retry-After %q, header %v: %s", got, resp.Header, b)
				}
				if row.fault == simulator.FaultProxyUse {
					return // only the first one hears it from the gateway
				}
				bodies = append(bodies, b)
			}
			if bodies[0] != bodies[1] {
				t.Errorf("by one way %sby the other %s", bodies[0], bodies[1])
			}
		})
	}
}

// hold lets the gateway stay silent until the returned function is called, and then fail.
func (w *world) hold() (release func()) {
	gate := make(chan struct{})
	w.sim.Script(func(*simulator.Request) *simulator.Answer {
		<-gate
		return &simulator.Answer{Fault: simulator.FaultStatus403}
	})
	return sync.OnceFunc(func() { close(gate) })
}

// TestContractPreflightWindow: an answer is waited for as long as the window lasts; then the turn is committed as a 200 with the role
// chunk, though the gateway is silent, and a refusal that comes later is told in the content.
func TestContractPreflightWindow(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"default": "", "as short as can be": hastily, "none": `{"preflightMs":0}`} {
		t.Run(name, func(t *testing.T) {
			w := stage(t, scene{config: config})
			release := w.hold()
			defer release()
			resp, _ := w.open(t, say("x", ways[0])) // comes back while the gateway is silent
			until(t, resp.Body, `"delta":{"role":"assistant"}`)
			if resp.StatusCode != http.StatusOK {
				t.Errorf("status %d", resp.StatusCode)
			}
		})
	}
	t.Run("long", func(t *testing.T) {
		w := stage(t, scene{config: patiently})
		release := w.hold()
		defer release()
		answered := make(chan string, 1)
		go func() {
			resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", say("x", ways[0]))
			answered <- resp.Status + b
		}()
		eventually(t, "the gateway has been asked", func() bool { return len(w.upstream()) == 1 })
		select {
		case a := <-answered:
			t.Errorf("answered at once: %s", a)
		case <-time.After(200 * time.Millisecond): // four times the default
		}
		release()
		if a := <-answered; !strings.HasPrefix(a, "502") {
			t.Errorf("answer %s", a)
		}
	})
	t.Run("committed", func(t *testing.T) {
		w := stage(t, scene{config: hastily})
		for _, way := range ways {
			a := w.chat(t, failing(simulator.FaultErrorLate, way))
			if a.Content != "[amplifier-agent error: UpstreamError: Gateway request failed]" || a.Finish != "stop" {
				t.Errorf("%s: %+v", way, a)
			}
		}
	})
}

// brokenAnswers are faults in the middle of an answer: what the client has got by then, and what it is told.
var brokenAnswers = []struct {
	fault simulator.Fault
	text  string // what comes before, or as much of it as arrives
	error string // type and message
}{
	{simulator.FaultErrorString, "one two three four [faul", "UpstreamError: Network connection lost."},
	{simulator.FaultErrorObject, "one two three four [faul", "UpstreamError: Overloaded (upstream status 529)"},
	{simulator.FaultErrorMessage, "one two three four [faul", "UpstreamError: upstream exploded"},
	{simulator.FaultErrorEarly, "", "RateLimitError: providers are currently at capacity (upstream status 429)"},
	{simulator.FaultEOF, "one two three fo", "TruncatedError: the upstream's stream was cut off: neither finish nor finish-step arrived"},
	{simulator.FaultEOFTool, "", "TruncatedError: the upstream's stream was cut off: neither finish nor finish-step arrived"},
	{simulator.FaultCut, "one two three fo", "TruncatedError: the upstream's stream was cut off: neither finish nor finish-step arrived"},
	{simulator.FaultAbort, "one two three fo", "AbortedError: the upstream aborted the stream: request aborted (upstream status 499)"},
	{simulator.FaultNetworkError, "", "UpstreamError: the upstream's provider failed (finish reason network-error)"},
	{simulator.FaultResetMid, "one two three four [faul", "UpstreamError: read the upstream's answer: it closed the connection"},
}

// overtaken reports whether an answer is that of a reset which has overtaken everything that was sent before it: then there is
// nothing that could be held against it.
func overtaken(fault simulator.Fault, status int) bool {
	return fault == simulator.FaultResetMid && status == http.StatusBadGateway
}

// TestContractInlineErrors: behind the 200 the status stays; the error stands in the content, apart from what was said before, and the
// normal end follows. Both ways tell the same.
func TestContractInlineErrors(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{config: patiently})
	for _, row := range brokenAnswers {
		t.Run(string(row.fault), func(t *testing.T) {
			for _, way := range ways {
				resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", failing(row.fault, way))
				if overtaken(row.fault, resp.StatusCode) {
					continue
				}
				a, err := chattest.Parser(way == ways[0])([]byte(b))
				if err != nil {
					t.Fatal(err)
				}
				text, message, _ := strings.Cut(a.Content, "[amplifier-agent error: ")
				whole := row.text
				if whole != "" {
					whole += "\n\n"
				}
				if text != whole && row.fault != simulator.FaultResetMid || message != row.error+"]" || a.Finish != "stop" || resp.StatusCode != http.StatusOK {
					t.Errorf("%s: status %d, %+v", way, resp.StatusCode, a)
				}
			}
		})
	}
}

// TestContractErrorEvents: with "streamErrors":"event" the error is an object of its own behind what was said, and nothing follows, no
// terminal chunk and no [DONE]; without a stream it is a status (rulings 26).
func TestContractErrorEvents(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{config: `{"preflightMs":30000,"streamErrors":"event","limits":{"tries":1}}`})
	for _, row := range brokenAnswers {
		t.Run(string(row.fault), func(t *testing.T) {
			_, message, _ := strings.Cut(row.error, ": ")
			resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", failing(row.fault, ways[0]))
			if !overtaken(row.fault, resp.StatusCode) {
				at := strings.LastIndex(b, "data: ")
				wantRefusal(t, resp, strings.TrimPrefix(b[at:], "data: "), http.StatusOK, "upstream_error")
				if !strings.Contains(b[at:], message) || !strings.HasSuffix(b, "}\n\n") || !strings.HasPrefix(b, "data: ") || !strings.Contains(b, `"delta":{"role":"assistant"}`) {
					t.Errorf("answer %s", b)
				}
				if strings.Contains(b, "[DONE]") || strings.Contains(b, "amplifier-agent error") || strings.Contains(b, `"finish_reason":"`) || strings.Contains(b, `"usage"`) {
					t.Errorf("something follows: %s", b)
				}
				// But for its end it is a stream like any other.
				ended := b[:at] + `data: {"object":"chat.completion.chunk","choices":[{"delta":{},"finish_reason":"stop"}],"activeMode":null,"usage":{}}` + "\n\ndata: [DONE]\n\n"
				id := regexp.MustCompile(`"id":"[^"]*"|"model":"amplifier"`)
				if a, err := chattest.ParseSSE([]byte(id.ReplaceAllString(ended, `"x":0`))); err != nil || a.Content != row.text && row.fault != simulator.FaultResetMid {
					t.Errorf("%+v, %v", a, err)
				}
			}
			msg := w.refused(t, http.StatusBadGateway, "upstream_error", failing(row.fault, ways[1]))
			if !strings.Contains(msg, message) {
				t.Errorf("message %s", msg)
			}
		})
	}
	for _, way := range ways {
		w.refused(t, http.StatusBadGateway, "upstream_error", failing(simulator.FaultStatus403, way))
		if a := w.chat(t, body(hello, way)); a.Content != "hello" || a.Finish != "stop" {
			t.Errorf("without a fault: %+v", a)
		}
	}
}

// TestContractOrder: of several things that are wrong with a request, the first in the contract's order is told.
func TestContractOrder(t *testing.T) {
	t.Parallel()
	s := zenScene()
	s.config = `{"preflightMs":30000,"limits":{"bodyBytes":4096}}`
	w := stage(t, s)
	broken := stage(t, scene{config: patiently, files: map[string]string{".amplifier/modes": "a file where a folder should be"}})
	fails := message("user", "[fault:status-403]")
	unknown, zen := message("system", directive("gone")), message("system", directive("zen"))
	request := func(model, messages string, more ...string) string {
		return `{"model":"` + model + `","messages":[` + messages + `]` + strings.Join(more, "") + `}`
	}
	large := strings.Repeat(" ", 4096)
	for _, row := range []struct {
		name   string
		w      *world
		path   string
		text   string
		lines  []string
		status int
		code   string // "" is the body of a 401
	}{
		{"host before key", w, "", "{", []string{"Host: evil.example"}, 403, "forbidden"},
		{"origin before key", w, "", "{", []string{"Origin: https://evil.example"}, 403, "forbidden"},
		{"key before route", w, "/v1/none", large, nil, 401, ""},
		{"key before size", w, "", large + "{", nil, 401, ""},
		{"route before size", w, "/v1/none", large + "{", []string{withKey}, 404, "not_found"},
		{"size before coding", w, "", large + "{", []string{withKey, "Content-Encoding: lzw"}, 413, "payload_too_large"},
		{"coding before JSON", w, "", "{", []string{withKey, "Content-Encoding: lzw"}, 415, "unsupported_encoding"},
		{"JSON before schema", w, "", `{"model":7,`, []string{withKey}, 400, "invalid_request"},
		{"schema before model", w, "", request("none", unknown+","+fails, `,"stream":7`), []string{withKey}, 400, "invalid_request"},
		{"model before mode", w, "", request("none", unknown+","+fails), []string{withKey}, 400, "unknown_model"},
		{"alias of no mode", w, "", request("mode-gone", unknown+","+fails), []string{withKey}, 400, "unknown_model"},
		{"mode before turn", w, "", request(contractModel, unknown+","+fails), []string{withKey}, 400, "unknown_mode"},
		{"an alias has its mode", w, "", request("mode-zen", unknown+","+fails), []string{withKey}, 502, "upstream_error"},
		{"turn", w, "", request(contractModel, zen+","+fails), []string{withKey}, 502, "upstream_error"},
		{"model before modes", broken, "", request("none", unknown+","+fails), []string{withKey}, 400, "unknown_model"},
		{"no aliases without modes", broken, "", request("mode-plan", unknown+","+fails), []string{withKey}, 400, "unknown_model"},
		{"modes before turn", broken, "", request(contractModel, unknown+","+fails), []string{withKey}, 503, "modes_unavailable"},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := row.path
			if path == "" {
				path = "/v1/chat/completions"
			}
			resp, b := row.w.exchange(t, "POST", path, row.text, row.lines...)
			if row.code == "" {
				if resp.StatusCode != row.status || b != missingAuth {
					t.Errorf("status %d: %s", resp.StatusCode, b)
				}
				return
			}
			wantRefusal(t, resp, b, row.status, row.code)
			want := map[int]string{502: "upstream_error", 503: "server_error"}[row.status]
			if want == "" {
				want = "invalid_request_error"
			}
			if !strings.Contains(b, `"type":"`+want+`","param":`) {
				t.Errorf("type is not %s: %s", want, b)
			}
		})
	}
	if n := len(w.upstream()) + len(broken.upstream()); n != 2 {
		t.Errorf("the gateways were asked %d times", n)
	}
}

// TestContractErrorBodies: what is no route, no method or no HTTP is told in the one form of errors, with all four keys (rulings 17).
func TestContractErrorBodies(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	for _, row := range []struct {
		method, target string
		lines          []string
		status         int
		code, param    string
		allow          string
	}{
		{"GET", "/", nil, 404, "not_found", "null", ""},
		{"GET", "/v1", nil, 404, "not_found", "null", ""},
		{"GET", "/v1/nothing", nil, 404, "not_found", "null", ""},
		{"POST", "/chat/completions", nil, 404, "not_found", "null", ""},
		{"POST", "/v1/chat/completions/", nil, 404, "not_found", "null", ""},
		{"POST", "/V1/chat/completions", nil, 404, "not_found", "null", ""},
		{"GET", "/v1/sessions/%252e%252e/x", nil, 404, "not_found", "null", ""},
		{"GET", "/v1/skills/x", nil, 404, "not_found", "null", ""},
		{"GET", "/v1/models/none", nil, 404, "model_not_found", `"model"`, ""},
		{"GET", "/v1/chat/completions", nil, 405, "method_not_allowed", "null", "POST"},
		{"HEAD", "/v1/chat/completions", nil, 405, "", "", "POST"},
		{"PUT", "/v1/chat/completions", nil, 405, "method_not_allowed", "null", "POST"},
		{"OPTIONS", "/v1/chat/completions", nil, 405, "method_not_allowed", "null", "POST"},
		{"POST", "/v1/models", nil, 405, "method_not_allowed", "null", "GET"},
		{"DELETE", "/v1/models/" + contractModel, nil, 405, "method_not_allowed", "null", "GET"},
		{"POST", "/v1/skills", nil, 405, "method_not_allowed", "null", "GET"},
		{"PATCH", "/v1/modes", nil, 405, "method_not_allowed", "null", "GET"},
		{"POST", "/health", nil, 405, "method_not_allowed", "null", "GET"},
		{"POST", "/metrics", nil, 405, "method_not_allowed", "null", "GET"},
		{"NONSENSE", "/v1/models", nil, 405, "method_not_allowed", "null", "GET"},
		{"GET", "/v1/models", []string{"X-Long: " + strings.Repeat("x", 20_000)}, 431, "header_too_large", "null", ""},
		{"GET", "/v1/models", []string{"no header"}, 400, "invalid_request", "null", ""},
		{"POST", "/v1/chat/completions", []string{"Content-Length: 5", "Transfer-Encoding: chunked"}, 400, "invalid_request", "null", ""},
		{"POST", "/v1/chat/completions", []string{"Content-Length: x"}, 400, "invalid_request", "null", ""},
	} {
		t.Run(row.method+" "+row.target, func(t *testing.T) {
			resp, b := w.exchange(t, row.method, row.target, "", append([]string{withKey}, row.lines...)...)
			if resp.Header.Get("Allow") != row.allow || resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("header %v", resp.Header)
			}
			if row.code == "" { // a HEAD has no body
				if resp.StatusCode != row.status || b != "" {
					t.Errorf("status %d, body %q", resp.StatusCode, b)
				}
				return
			}
			wantRefusal(t, resp, b, row.status, row.code)
			if !regexp.MustCompile(`^\{"error":\{"message":"[^"].*","type":"invalid_request_error","param":` + row.param + `,"code":"` + row.code + `"\}\}\n$`).MatchString(b) {
				t.Errorf("body %s", b)
			}
		})
	}
}

// TestContractRetries: what fails in passing is asked again while nothing was said, and a failure can still be a status, although the
// preflight window is over by then; behind the first word nothing is asked again (rulings 14).
func TestContractRetries(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	down := &simulator.Answer{Status: 503, Body: []byte(`{"error":{"message":"busy"}}`)}
	said := &simulator.Answer{Body: []byte(`{"type":"text-delta","id":"t","text":"said"}` + "\n" + `{"type":"error","error":{"message":"busy","statusCode":503}}` + "\n")}
	for name, row := range map[string]struct {
		first []*simulator.Answer // then the simulator's own
		times int
		want  string // content, or the status
	}{
		"passing":      {[]*simulator.Answer{down, down}, 3, "fine"},
		"for good":     {[]*simulator.Answer{down, down, down}, 3, "502"},
		"behind words": {[]*simulator.Answer{said}, 1, "said"},
	} {
		for _, stream := range []string{`,"stream":true`, `,"stream":false`} {
			before := len(w.upstream())
			w.sim.Script(func(r *simulator.Request) *simulator.Answer {
				if n := len(w.upstream()) - before - 1; n < len(row.first) {
					return row.first[n]
				}
				return nil
			})
			resp, b := w.request(t, http.MethodPost, "/v1/chat/completions", say("Reply with exactly: fine", stream))
			got := strconv.Itoa(resp.StatusCode)
			if resp.StatusCode == http.StatusOK {
				a, err := chattest.Parser(stream == `,"stream":true`)([]byte(b))
				if err != nil {
					t.Fatal(err)
				}
				got = a.Content
			}
			if times := len(w.upstream()) - before; !strings.HasPrefix(got, row.want) || times != row.times {
				t.Errorf("%s%s: got %q after %d requests, want %q after %d", name, stream, got, times, row.want, row.times)
			}
		}
	}
}
