package upstream

import (
	"errors"
	"io"
	"net"
	"testing"
)

// TestPoolIsBounded: of the connections of a burst only so many are kept, the last ones.
func TestPoolIsBounded(t *testing.T) {
	const more = 3
	g := serve(t, func(p *peer) {
		for p.request() {
			p.plain("hello")
		}
	})
	tr := transport(t, g.url, 0)
	var replies []*Reply
	var conns []*conn
	for range maxIdle + more {
		r, err := tr.Open(t.Context(), get(), &watch{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Fatal(err)
		}
		replies, conns = append(replies, r), append(conns, r.c)
	}
	for _, r := range replies {
		r.Close(true)
	}
	for i, c := range conns {
		_, err := c.Conn.Write(nil)
		if dropped := errors.Is(err, net.ErrClosed); dropped != (i < more) {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	// What is kept is used, newest first, and no other connection is opened.
	for i := range maxIdle {
		r, err := tr.Open(t.Context(), get(), &watch{})
		if err != nil {
			t.Fatal(err)
		}
		if want := conns[len(conns)-1-i]; r.c != want {
			t.Errorf("exchange %d goes over another connection", i)
		}
		defer r.Close(false)
	}
	if n := g.conns.Load(); n != maxIdle+more {
		t.Errorf("%d connections were opened", n)
	}
}
