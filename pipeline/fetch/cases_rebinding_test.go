package fetch

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

// TestCaseEachDialIsChecked: B098. An address that was good for one hop is checked again for the next: here it is good only once.
func TestCaseEachDialIsChecked(t *testing.T) {
	var hits, dials atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hits.Add(1) == 1 {
			w.Header().Set("Connection", "close") // or the next hop would need no dial
			http.Redirect(w, r, "/again", http.StatusFound)
		}
	}))
	defer s.Close()
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	c := New(Options{
		Resolver: names(t, map[string][]string{"once.example": {"127.0.0.1"}}),
		Permit:   func(a netip.AddrPort) bool { return a == at && dials.Add(1) == 1 },
	})
	_, err := c.Get(t.Context(), fmt.Sprintf("http://once.example:%d/", at.Port()))
	if got := message(t, err); !strings.Contains(got, string(errAway)) || hits.Load() != 1 || dials.Load() != 2 {
		t.Errorf("%s, %d requests, %d dials", got, hits.Load(), dials.Load())
	}
}
