package chat_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/routes/chat/chattest"
)

// TestPipelined: requests that come in one piece are answered in turn, streamed or not, each with one whole answer, and the connection
// stays open for more.
func TestPipelined(t *testing.T) {
	s := start(t, setup{})
	c := s.dial(t)
	br := bufio.NewReader(c)
	kinds := []bool{true, true, false, true, false, false, true}
	for round := range 2 {
		var b strings.Builder
		for _, stream := range kinds {
			raw(&b, "HTTP/1.1", ask(stream, "Reply with exactly: one of many"))
			b.WriteString("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
		}
		if _, err := io.WriteString(c, b.String()); err != nil {
			t.Fatal(err)
		}
		for i, stream := range kinds {
			resp, body := next(t, br)
			a, err := chattest.Parser(stream)(body)
			if err != nil || resp.StatusCode != http.StatusOK || a.Content != "one of many" {
				t.Fatalf("round %d, answer %d: status %d, %q, %v", round, i, resp.StatusCode, body, err)
			}
			if resp, body = next(t, br); resp.StatusCode != http.StatusOK || !strings.HasPrefix(string(body), "{") {
				t.Fatalf("round %d, behind answer %d: status %d, %q", round, i, resp.StatusCode, body)
			}
		}
	}
}

// TestConnectionClose: a client that wants one answer gets one, and is told that there will be no more.
func TestConnectionClose(t *testing.T) {
	s := start(t, setup{})
	for _, stream := range []bool{true, false} {
		c := s.dial(t)
		body := ask(stream, "Reply with exactly: the only one")
		fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", key, len(body), body)
		br := bufio.NewReader(c)
		resp, answer := next(t, br)
		if a, err := chattest.Parser(stream)(answer); err != nil || a.Content != "the only one" || !resp.Close {
			t.Errorf("stream %v: close %v, %q, %v", stream, resp.Close, answer, err)
		}
		if rest, err := io.ReadAll(br); err != nil || len(rest) > 0 {
			t.Errorf("stream %v: then %q, %v", stream, rest, err)
		}
	}
}

// next reads one answer.
func next(t *testing.T, br *bufio.Reader) (*http.Response, []byte) {
	t.Helper()
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read an answer: %v", err)
	}
	return resp, b
}

// TestPanicBehindAnAnswer: what goes wrong once an answer has ended adds nothing to it, nor to the next one.
func TestPanicBehindAnAnswer(t *testing.T) {
	s := start(t, setup{extra: []pipeline.Stage{{Name: "odd", Request: func(_ context.Context, t *pipeline.Turn) error {
		t.AtEnd(func() { panic("odd") })
		return nil
	}}}})
	c := s.dial(t)
	raw(c, "HTTP/1.1", ask(true, "Reply with exactly: whole"))
	br := bufio.NewReader(c)
	_, body := next(t, br)
	if a, err := chattest.Parser(true)(body); err != nil || a.Content != "whole" {
		t.Errorf("%q, %v", body, err)
	}
	if rest, err := io.ReadAll(br); len(rest) > 0 {
		t.Errorf("then %q, %v", rest, err)
	}
}
