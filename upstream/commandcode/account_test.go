package commandcode

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/upstream/simulator"
)

// TestAccount: the simulator's answers, as they come out. That none of it depends on a surface shows on the vendor's host, which nobody
// is asked of here.
func TestAccount(t *testing.T) {
	sim, err := simulator.Start(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sim.Close() }()
	a, err := NewAccount(Config{BaseURL: sim.URL(), Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	who, err := a.Whoami(t.Context())
	if err != nil || who != (Identity{UserID: "user_demo", UserName: "demo", Name: "Demo User", Email: "demo@example.org", OrgID: "org_demo", OrgLogin: "demo-org", OrgName: "Demo Organisation"}) {
		t.Errorf("%+v, %v", who, err)
	}
	plan, err := a.Plan(t.Context(), who.OrgID)
	if err != nil || plan.ID != "individual-pro" || plan.Status != "active" || *plan.CancelAtPeriod || !plan.End.After(time.Now().Add(-time.Minute)) || plan.Start.After(time.Now()) {
		t.Errorf("%+v, %v", plan, err)
	}
	c, err := a.Credits(t.Context(), who.OrgID)
	if err != nil || c.Monthly.String() != "21.375" || c.Purchased.String() != "5" || c.Free.String() != "0" || !*c.Limited || c.FiveHour.Cap.String() != "6" || c.Weekly.Used.String() != "3.1" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, w := range []Window{c.FiveHour, c.Weekly} {
		if left := time.Until(w.ResetAt); w.Idle || left <= 0 || left > 7*24*time.Hour {
			t.Errorf("%+v", w)
		}
	}
	s, err := a.Spent(t.Context(), who.OrgID, plan.Start)
	if err != nil || s.Cost.String() != "8.625" || *s.Turns != 212 || *s.Tokens != 4815162 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := a.Credits(t.Context(), "another"); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("another's organisation: %v", err)
	}
	if a, err := NewAccount(Config{Key: "k"}); err != nil {
		t.Errorf("the vendor's host without a surface: %v", err)
	} else {
		a.Close()
	}
	for _, c := range []Config{{}, {Key: " \n"}, {Key: "k", BaseURL: "nonsense"}} {
		if _, err := NewAccount(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// TestAccountRefuses: an answer that says no is none, whatever its status, and shows no key.
func TestAccountRefuses(t *testing.T) {
	for body, want := range map[string]string{
		`{"success":false,"error":{"code":"FORBIDDEN","status":403,"message":"not with user_0123456789"}}`: "not with ***",
		`{"success":false,"error":"no"}`: "no", `{"success":false}`: "without a message", `[1]`: "", `{"success":true`: "",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		a, err := NewAccount(Config{BaseURL: s.URL, Key: "user_0123456789"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Whoami(t.Context()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "0123456789") {
			t.Errorf("%s: %v", body, err)
		}
		a.Close()
		s.Close()
	}
}

func TestMoment(t *testing.T) {
	for raw, want := range map[string]string{
		`1764500000000`: "2025-11-30T10:53:20Z", `1764500000`: "2025-11-30T10:53:20Z", `"1764500000000"`: "2025-11-30T10:53:20Z", `1.7645e12`: "2025-11-30T10:53:20Z",
		`"2026-12-01T02:03:04.5+02:00"`: "2026-12-01T00:03:04Z", `0`: "none", `"0"`: "none",
		`-1`: "", `1e15`: "", `1e63`: "", `0.5`: "", `null`: "", `"soon"`: "", `{}`: "", ``: "", `true`: "", `"-1764500000000"`: "",
	} {
		at, none := object{"at": codec.RawMessage(raw)}.moment("at")
		got := at.UTC().Format(time.RFC3339)
		switch {
		case none:
			got = "none"
		case at.IsZero():
			got = ""
		}
		if got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}
