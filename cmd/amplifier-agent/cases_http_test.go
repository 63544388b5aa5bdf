package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// TestCaseTooLargeIsHeard: B044 and B045. A client that sends 50 MB before it reads a byte gets to read why that is too much, each
// time: however the body is framed, and whether it waits for leave to send it.
func TestCaseTooLargeIsHeard(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	times := 10
	if testing.Short() {
		times = 3
	}
	const size = 50_000_000
	whole := bytes.Repeat([]byte(" "), size)
	chunked := fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", size, whole)
	plain := fmt.Sprintf("Content-Length: %d\r\n", size)
	for name, row := range map[string]struct {
		header string
		body   []byte
		wait   bool // for a word before the body
	}{
		"of known length":                {plain, whole, false},
		"chunked":                        {"Transfer-Encoding: chunked\r\n", chunked, false},
		"of known length, waits":         {plain + "Expect: 100-continue\r\n", whole, true},
		"chunked, waits":                 {"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n", chunked, true},
		"of known length, does not wait": {plain + "Expect: 100-continue\r\n", whole, false},
		"chunked, does not wait":         {"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n", chunked, false},
	} {
		for i := range times {
			c, err := net.Dial("tcp", w.address())
			if err != nil {
				t.Fatal(err)
			}
			_ = c.SetDeadline(time.Now().Add(testPatience))
			br := bufio.NewReader(c)
			fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\n%s\r\n%s\r\n", w.address(), withKey+"\r\nContent-Type: application/json", row.header)
			req := &http.Request{Method: http.MethodPost}
			var resp *http.Response
			if row.wait {
				if resp, err = http.ReadResponse(br, req); err != nil {
					t.Fatalf("%s, %d: %v", name, i, err)
				}
			}
			if resp == nil || resp.StatusCode == http.StatusContinue {
				if _, err := c.Write(row.body); err != nil {
					t.Fatalf("%s, %d: %v", name, i, err)
				}
				for resp == nil || resp.StatusCode == http.StatusContinue {
					if resp, err = http.ReadResponse(br, req); err != nil {
						t.Fatalf("%s, %d: %v", name, i, err)
					}
				}
			}
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatalf("%s, %d: %v", name, i, err)
			}
			wantRefusal(t, resp, string(b), http.StatusRequestEntityTooLarge, "payload_too_large")
			if !resp.Close {
				t.Errorf("%s, %d: the connection would go on", name, i)
			}
			c.Close()
		}
	}
	if a := w.chat(t, say("Reply with exactly: alive")); a.Content != "alive" {
		t.Errorf("afterwards: %+v", a)
	}
	w.end(t)
}

// TestCaseIdleConnections: B046. Connections on which nothing is asked do not keep the program from ending, and are closed at once:
// it would wait an hour for an answer that runs.
func TestCaseIdleConnections(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{config: `{"limits":{"drainSeconds":3600}}`})
	var conns []*bufio.Reader
	for i := range 100 {
		c, err := net.Dial("tcp", w.address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(testPatience))
		br := bufio.NewReader(c)
		conns = append(conns, br)
		switch i % 4 {
		case 0: // says nothing
		case 1: // half a header
			fmt.Fprintf(c, "GET /v1/models HTTP/1.1\r\nHost:")
		default: // has asked
			text := say("Reply with exactly: hello")
			fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\n%s\r\nContent-Length: %d\r\n\r\n%s", w.address(), withKey, len(text), text)
			resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodPost})
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || resp.Close {
				t.Fatalf("status %d, error %v: %s", resp.StatusCode, err, b)
			}
		}
	}
	if code := w.stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d:\n%s", code, w.stderr.String())
	}
	for i, br := range conns {
		if b, err := io.ReadAll(br); len(b) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("connection %d: %q, error %v", i, b, err)
		}
	}
}

// TestCaseDecodedOnce: B049. A path is decoded once, before its route is looked for, and the key is asked for before that.
func TestCaseDecodedOnce(t *testing.T) {
	t.Parallel()
	w := stage(t, scene{})
	for _, row := range []struct {
		target string
		status int // with the key
		code   string
	}{
		{"/v1/models/deepseek%2Fdeepseek-v4-pro", 200, ""},
		{"/v1/%6dodels", 200, ""},
		{"/v1/models/deepseek%252Fdeepseek-v4-pro", 404, "model_not_found"},
		{"/v1/models/%252e%252e/x", 404, "model_not_found"},
		{"/v1/models/%252e%252e%252fchat%252fcompletions", 404, "model_not_found"},
		{"/v1/models/%25252e%25252e/x", 404, "model_not_found"},
		{"/v1/models/%2e%2e/x", 404, "not_found"},
		{"/v1/models/..%2f..%2fx", 404, "not_found"},
		{"/v1/%256dodels", 404, "not_found"},
		{"/%2561dmin", 404, "not_found"},
		{"/v1/sessions/%252e%252e/x", 404, "not_found"},
		{"/health/%2e%2e/v1/models", 200, ""},
		{"/health/%252e%252e/v1/models", 404, "not_found"},
		{"/health%2f..%2fv1/models", 200, ""},
	} {
		for _, line := range []string{"X: y", "Authorization: Bearer wrong"} {
			if resp, b := w.exchange(t, "GET", row.target, "", line); resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s with %s: status %d: %s", row.target, line, resp.StatusCode, b)
			}
		}
		resp, b := w.exchange(t, "GET", row.target, "", withKey)
		if row.status == 200 {
			if resp.StatusCode != 200 {
				t.Errorf("%s: status %d: %s", row.target, resp.StatusCode, b)
			}
			continue
		}
		wantRefusal(t, resp, b, row.status, row.code)
	}
}
