package simulator

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// exchange speaks HTTP by hand, so that the sizes of the chunks are seen.
func (g *gateway) exchange(b m) []string {
	g.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL(), "http://"))
	if err != nil {
		g.t.Fatal(err)
	}
	defer conn.Close()
	if err := g.request(g.t.Context(), b).Write(conn); err != nil {
		g.t.Fatal(err)
	}
	br := bufio.NewReader(conn)
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			g.t.Fatal(err)
		}
		if line == "\r\n" {
			break
		}
	}
	var chunks []string
	for {
		var n int
		if _, err := fmt.Fscanf(br, "%x\r\n", &n); err != nil {
			g.t.Fatal(err)
		}
		data := make([]byte, n+2)
		if _, err := io.ReadFull(br, data); err != nil {
			g.t.Fatal(err)
		}
		if n == 0 {
			return chunks
		}
		chunks = append(chunks, string(data[:n]))
	}
}

func TestWriteSizes(t *testing.T) {
	g := serve(t, Options{})
	const text = "one\ntwo\n\nfour"
	for name, row := range map[string]struct {
		answer Answer
		want   []string
	}{
		"lines":     {Answer{}, []string{"one\n", "two\n", "\n", "four"}},
		"bytes":     {Answer{WriteSize: 5}, []string{"one\nt", "wo\n\nf", "our"}},
		"one":       {Answer{WriteSize: Coalesce}, []string{text}},
		"pause":     {Answer{WriteSize: Coalesce, Pauses: []Pause{{At: 5, For: time.Millisecond}, {At: 99, For: time.Millisecond}}}, []string{"one\nt", "wo\n\nfour"}},
		"in a line": {Answer{Pauses: []Pause{{At: 0, For: 1}, {At: 2, For: 1}, {At: LineOffset([]byte(text), 1), For: 1}}}, []string{"on", "e\n", "two\n", "\n", "four"}},
		"filler":    {Answer{WriteSize: Coalesce, Filler: 3}, []string{text, "xxx"}},
		"every":     {Answer{WriteSize: 7, Every: time.Millisecond}, []string{"one\ntwo", "\n\nfour"}},
	} {
		t.Run(name, func(t *testing.T) {
			row.answer.Body = []byte(text)
			g.Script(func(*Request) *Answer { return &row.answer })
			if got := g.exchange(body(user("x"))); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", row.want) {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}

func TestPauses(t *testing.T) {
	const pause = 30 * time.Millisecond
	g := serve(t, Options{})
	for name, a := range map[string]*Answer{
		"headers": {HeaderDelay: pause},
		"start":   {Pauses: []Pause{{0, pause}}},
		"middle":  {Pauses: []Pause{{4, pause}}},
		"end":     {Pauses: []Pause{{8, pause}}},
		"every":   {Every: pause},
	} {
		t.Run(name, func(t *testing.T) {
			a.Body = []byte("one\ntwo\n")
			g.Script(func(*Request) *Answer { return a })
			start := time.Now()
			resp := g.post(body(user("x")))
			headers := time.Since(start)
			raw, err := io.ReadAll(resp.Body)
			if err != nil || string(raw) != "one\ntwo\n" {
				t.Errorf("%v %q", err, raw)
			}
			if d := time.Since(start); d < pause {
				t.Errorf("took %v", d)
			}
			if name == "headers" && headers < pause {
				t.Errorf("headers after %v", headers)
			}
		})
	}
}

func TestEnds(t *testing.T) {
	g := serve(t, Options{})
	script := func(a Answer) { g.Script(func(*Request) *Answer { return &a }) }
	script(Answer{Status: 200, End: EndReset})
	if _, err := io.ReadAll(g.post(body(user("x"))).Body); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reset behind the headers: %v", err)
	}
	script(Answer{HeaderDelay: time.Millisecond, End: EndReset})
	if _, err := g.client.Do(g.request(t.Context(), body(user("x")))); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reset before the headers: %v", err)
	}
	script(Answer{Encoding: "rot13", Body: []byte("x")})
	if resp := g.post(body(user("x"))); resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("unknown encoding: %d", resp.StatusCode)
	}
	script(Answer{End: EndHang})
	resp := g.post(body(user("x"))) // the headers come at once
	g.until("hang", func() bool { return g.Active() == 1 })
	resp.Body.Close()
	g.until("gone", func() bool { return g.Active() == 0 && g.Gone() == 1 })
	script(Answer{})
	if raw, err := io.ReadAll(g.post(body(user("x"))).Body); err != nil || len(raw) != 0 {
		t.Errorf("zero answer: %v %q", err, raw)
	}
}

func TestHalfARequest(t *testing.T) {
	g := serve(t, Options{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /alpha/generate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	g.until("exchange", func() bool { return g.Active() == 1 })
	conn.Close()
	g.until("gone", func() bool { return g.Active() == 0 && g.Gone() == 1 })
	if len(g.Requests()) != 0 {
		t.Error("half a request is recorded")
	}
}

func TestBrokenRequestBody(t *testing.T) {
	g := serve(t, Options{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /alpha/generate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n")
	if raw, _ := io.ReadAll(conn); len(raw) != 0 { // the error is a reset or none, as the kernel likes
		t.Errorf("answered %q", raw)
	}
}

func TestLineOffset(t *testing.T) {
	for n, want := range []int{0, 2, 3, 5, 5} {
		if got := LineOffset([]byte("a\n\nbc"), n); got != want {
			t.Errorf("line %d: %d, want %d", n, got, want)
		}
	}
}

func BenchmarkGenerate(b *testing.B) {
	s, err := Start(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	g := &gateway{Server: s, t: b, client: &http.Client{Transport: tr}}
	payload := body(user("What is this?"))
	b.ReportAllocs()
	for b.Loop() {
		resp, err := g.client.Do(g.request(b.Context(), payload))
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(n)
		resp.Body.Close()
	}
}
