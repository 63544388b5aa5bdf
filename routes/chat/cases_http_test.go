package chat_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"amplifier-agent/routes/chat/chattest"
)

// TestCaseForeignBytes: B041. Hundreds of clients, each with a marker of its own, half of whom leave: in the middle of their
// request's body, or of its answer. Nobody sees another's marker, whatever memory and connections are used again, on either side of
// the server; and nothing is left running.
func TestCaseForeignBytes(t *testing.T) {
	clients := 400
	if testing.Short() {
		clients = 100
	}
	s := start(t, setup{extra: patient})
	markers := regexp.MustCompile(`marker-\d+-`)
	var wg sync.WaitGroup
	side := make(chan bool, 50)
	for i := range clients {
		wg.Go(func() {
			side <- true
			defer func() { <-side }()
			marker := fmt.Sprintf("marker-%d-", i)
			want := strings.Repeat(marker, 200)
			stream := i%4 < 2
			body := ask(stream, "Reply with exactly: "+want)
			check := func(b []byte) {
				for _, m := range markers.FindAll(b, -1) {
					if string(m) != marker {
						t.Errorf("%s sees %s", marker, m)
						return
					}
				}
			}
			if i%2 == 0 { // stays
				resp, err := s.http.Do(s.request(t.Context(), t, body))
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				b, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Error(err)
				}
				check(b)
				if a, err := chattest.Parser(stream)(b); err != nil || a.Content != want {
					t.Errorf("%s: %d bytes of content, error %v: %.200s", marker, len(a.Content), err, b)
				}
				return
			}
			c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			var request bytes.Buffer
			raw(&request, "HTTP/1.1", body)
			if i%4 == 3 { // leaves while the server reads
				_, _ = c.Write(request.Bytes()[:request.Len()/2])
				return
			}
			_, _ = c.Write(request.Bytes())
			b := make([]byte, 1+i%700)
			n, _ := io.ReadFull(c, b)
			check(b[:n])
		})
	}
	wg.Wait()
	eventually(t, "no exchange is left open", func() bool { return s.sim.Active() == 0 })
}

// TestCaseNextRequest: B042, as a server. The end of a body is known without a read behind it: its answer comes while the client
// keeps the connection open and sends nothing more, and the next request is answered too.
func TestCaseNextRequest(t *testing.T) {
	s := start(t, setup{})
	c := s.dial(t)
	br := bufio.NewReader(c)
	body := ask(false, "Reply with exactly: hello")
	for i, framed := range []string{
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body),
		fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body),
		fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\nX: y\r\n\r\n", len(body), body),
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body),
	} {
		fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s", key, framed)
		resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodPost})
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || !bytes.Contains(b, []byte(`"content":"hello"`)) {
			t.Errorf("request %d: status %d, error %v: %s", i, resp.StatusCode, err, b)
		}
	}
}
