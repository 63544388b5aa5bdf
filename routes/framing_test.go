package routes

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestSmuggling: a request whose end can be read in two ways gets one answer, and nothing behind it is taken for another request
// (T-SMUG).
func TestSmuggling(t *testing.T) {
	h := serve(t, Config{})
	const (
		post   = "POST /echo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n"
		second = "GET /open HTTP/1.1\r\nHost: x\r\n\r\n"
	)
	for _, row := range []struct {
		name, raw string
		status    int
	}{
		{"length and chunked", post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second, 400},
		{"chunked and length", post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + second, 400},
		{"length and identity", post + "Content-Length: 1\r\nTransfer-Encoding: identity\r\n\r\nx" + second, 400},
		{"identity alone", post + "Transfer-Encoding: identity\r\n\r\n" + second, 400},
		{"chunked twice", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second, 400},
		{"chunked, then identity", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + second, 400},
		{"a list of codings", post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + second, 400},
		{"chunked in quotes", post + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n" + second, 400},
		{"a coding with a tail", post + "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n" + second, 400},
		{"a coding behind a vertical tab", post + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + second, 400},
		{"a space before the colon", post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + second, 400},
		{"an empty coding", post + "Transfer-Encoding:\r\n\r\n" + second, 400},
		{"a coding in HTTP/1.0", "POST /echo HTTP/1.0\r\nAuthorization: Bearer k\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second, 400},
		{"two lengths", post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nx" + second, 400},
		{"a length twice", post + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx" + second, 400},
		{"a list of lengths", post + "Content-Length: 1, 1\r\n\r\nx" + second, 400},
		{"a negative length", post + "Content-Length: -1\r\n\r\nx" + second, 400},
		{"a length with a sign", post + "Content-Length: +1\r\n\r\nx" + second, 400},
		{"a length in hex", post + "Content-Length: 0x1\r\n\r\nx" + second, 400},
		{"a length that overflows", post + "Content-Length: 18446744073709551617\r\n\r\nx" + second, 400},
		{"an empty length", post + "Content-Length:\r\n\r\nx" + second, 400},
		{"a bare LF behind a field", post + "X: y\nContent-Length: 1\r\n\r\nx" + second, 400},
		{"a bare LF at the end", post + "Content-Length: 1\n\nx" + second, 400},
		{"a bare CR in a value", post + "X: y\rContent-Length: 1\r\n\r\nx" + second, 400},
		{"a NUL in a value", post + "X: y\x00\r\nContent-Length: 1\r\n\r\nx" + second, 400},
		{"a folded line", post + "X: y\r\n Content-Length: 1\r\n\r\nx" + second, 400},
		{"a folded coding", post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + second, 400},
		{"a folded first line", "POST /echo HTTP/1.1\r\n Host: x\r\n\r\n" + second, 400},
		{"a field without a name", post + ": chunked\r\nContent-Length: 1\r\n\r\nx" + second, 400},
		{"a field without a colon", post + "Content-Length 1\r\n\r\nx" + second, 400},
		{"two spaces in the first line", "POST  /echo HTTP/1.1\r\nHost: x\r\n\r\n" + second, 400},
		{"HTTP/0.9", "GET /open\r\n" + second, 400},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + second, 400},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n" + second, 400},
		{"a chunk behind bare LF", post + "Transfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n" + second, 400},
		{"a chunk without its end", post + "Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n" + second, 400},
		{"a negative chunk", post + "Transfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n" + second, 400},
		{"a chunk with 0x", post + "Transfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n" + second, 400},
		{"a chunk that overflows", post + "Transfer-Encoding: chunked\r\n\r\n10000000000000001\r\nx\r\n0\r\n\r\n" + second, 400},
		{"an extension with LF", post + "Transfer-Encoding: chunked\r\n\r\n1;a\nb\r\nx\r\n0\r\n\r\n" + second, 400},
		{"a length in a trailer", post + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nContent-Length: 5\r\n\r\n" + second, 400},
		{"a key in a trailer", "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nAuthorization: Bearer k\r\n\r\n" + second, 401},
		{"a header that is too large", post + "X: " + strings.Repeat("y", maxHeaderBytes) + "\r\n\r\n" + second, 431},
		{"a target that is too long", "GET /" + strings.Repeat("y", maxHeaderBytes) + " HTTP/1.1\r\nHost: x\r\n\r\n" + second, 431},
		{"many fields", post + strings.Repeat("X: y\r\n", maxHeaderBytes/6) + "\r\n" + second, 431},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := h.dial(t)
			fmt.Fprint(c, row.raw)
			list := replies(t, c)
			if len(list) != 1 || list[0].status != row.status || list[0].code() == "" && row.status != 401 {
				t.Fatalf("%d answers: %+v", len(list), list)
			}
		})
	}
}

// TestManyRequests: what follows a request that is whole is the next one, whatever became of the first.
func TestManyRequests(t *testing.T) {
	h := serve(t, Config{MaxBody: 1 << 20})
	post := func(key, framing, body string) string {
		return "POST /echo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\n" + framing + "\r\n\r\n" + body
	}
	last := "HEAD /open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	for _, row := range []struct {
		first string
		want  reply
	}{
		{post("k", "Content-Length: 3", "abc"), reply{status: 200, body: "abc"}},
		{post("k", "Content-Length: 0", ""), reply{status: 200}},
		{post("k", "X: y", ""), reply{status: 200}},
		{post("k", "Transfer-Encoding: Chunked", "1\r\na\r\n002;x=\"y\"\r\nbc\r\n0\r\nX: y\r\n\r\n"), reply{status: 200, body: "abc"}},
		{post("k", "Transfer-Encoding: chunked", "0\r\n\r\n"), reply{status: 200}},
		{post("k", "Content-Length: 200000", strings.Repeat("a", 200_000)), reply{status: 200, body: strings.Repeat("a", 200_000)}},
		{post("bad", "Content-Length: 3", "abc"), reply{status: 401}},
		{post("bad", "Content-Length: 200000", strings.Repeat("a", 200_000)), reply{status: 401}},
		{post("bad", "Transfer-Encoding: chunked", "1\r\na\r\n0\r\n\r\n"), reply{status: 401}},
		{"GET /open HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", reply{status: 200, body: "open"}},
		{"\r\n\r\nGET /open HTTP/1.1\r\nHost: x\r\n\r\n", reply{status: 200, body: "open"}},
		{"GET /nothing HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n\r\n", reply{status: 404}},
		{"GET /open HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", reply{status: 200, body: "open"}},
	} {
		for _, times := range []int{1, 30} {
			c := h.dial(t)
			go fmt.Fprint(c, strings.Repeat(row.first, times), last)
			methods := append(make([]string, 0, times+1), strings.Split(strings.Repeat("GET ", times), " ")...)
			methods[times] = "HEAD"
			list := replies(t, c, methods...)
			if len(list) != times+1 || list[times].status != 200 || list[times].header.Get("Content-Length") != "4" {
				t.Errorf("%.90q: %d answers", row.first, len(list))
			}
			for _, r := range list[:len(list)-1] {
				if r.status != row.want.status || r.status == 200 && r.body != row.want.body {
					t.Errorf("%.90q: status %d, %d bytes", row.first, r.status, len(r.body))
				}
			}
		}
	}
}

// TestExpect: a client that asks first is told by the header alone, and sends its body for nothing only if it wants to.
func TestExpect(t *testing.T) {
	h := serve(t, Config{MaxBody: 10})
	for _, row := range []struct {
		head   string
		status int
	}{
		{"POST /echo HTTP/1.1\r\nAuthorization: Bearer k\r\nContent-Length: 3", 100},
		{"POST /echo HTTP/1.1\r\nAuthorization: Bearer k\r\nTransfer-Encoding: chunked", 100},
		{"POST /echo HTTP/1.1\r\nAuthorization: Bearer k\r\nContent-Length: 11", 413},
		{"POST /echo HTTP/1.1\r\nContent-Length: 3", 401},
		{"POST /nothing HTTP/1.1\r\nAuthorization: Bearer k\r\nContent-Length: 3", 404},
		{"POST /open HTTP/1.1\r\nAuthorization: Bearer k\r\nContent-Length: 3", 405},
	} {
		c := h.dial(t)
		fmt.Fprint(c, row.head, "\r\nHost: x\r\nExpect: 100-continue\r\n\r\n")
		if row.status == 100 {
			interim := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
			if _, err := io.ReadFull(c, interim); err != nil || !bytes.HasPrefix(interim, []byte("HTTP/1.1 100 ")) {
				t.Fatalf("%s: %q, error %v", row.head, interim, err)
			}
			if strings.Contains(row.head, "chunked") {
				fmt.Fprint(c, "3\r\nabc\r\n0\r\n\r\n")
			} else {
				fmt.Fprint(c, "abc")
			}
			fmt.Fprint(c, "GET /open HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			if list := replies(t, c); len(list) != 2 || list[0].body != "abc" || list[1].body != "open" {
				t.Errorf("%s: %+v", row.head, list)
			}
			continue
		}
		if list := replies(t, c); len(list) != 1 || list[0].status != row.status || list[0].code() == "" && row.status != 401 {
			t.Errorf("%s: %+v", row.head, list)
		}
	}
}

// FuzzFraming: what passes has only whole lines, and says at most once, in one way, how long the body is.
func FuzzFraming(f *testing.F) {
	for _, s := range []string{"Host: x\r\n\r\n", "A: b\r\n c\r\n\r\n", "A: b\n\r\n", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "transfer-encoding:\tCHUNKED \r\n\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if framing(raw) != nil {
			return
		}
		s, _, _ := strings.Cut(strings.ToLower("\r\n"+string(raw)), "\r\n\r\n")
		if strings.Count(s, "\n") != strings.Count(s, "\r\n") || strings.Contains(s, "\n ") || strings.Contains(s, "\n\t") {
			t.Errorf("%q passes", raw)
		}
		if strings.Contains(s, "\r\ncontent-length:") && strings.Contains(s, "\r\ntransfer-encoding:") {
			t.Errorf("%q passes", raw)
		}
	})
}
