package simulator

import (
	"encoding/json"
	"net/http"
	"testing"
)

// TestAccountRoutes: they are strict about the key, the organisation and the form of a date.
func TestAccountRoutes(t *testing.T) {
	g := serve(t, Options{Keys: []string{"good"}})
	for _, r := range []struct {
		path, key string
		status    int
		has       string
	}{
		{"/alpha/whoami", "good", 200, "user"},
		{"/alpha/whoami?limits=1", "good", 200, "orgLimits"},
		{"/alpha/billing/credits", "good", 200, "windowLimits"},
		{"/alpha/billing/credits?orgId=org_demo", "good", 200, "credits"},
		{"/alpha/billing/subscriptions?orgId=org_demo", "good", 200, "data"},
		{"/alpha/usage/summary?orgId=org_demo&since=2026-11-01T00:00:00.000Z", "good", 200, "totalCost"},
		{"/alpha/usage/summary?since=yesterday", "good", 400, "error"},
		{"/alpha/billing/credits?orgId=", "good", 403, "error"},
		{"/alpha/billing/subscriptions?orgId=mine", "good", 403, "error"},
		{"/alpha/whoami", "bad", 401, "error"},
		{"/alpha/billing/credits", "", 401, "error"},
		{"/alpha/usage/summary?since=yesterday", "bad", 401, "error"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL()+r.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+r.key)
		resp, err := g.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || resp.StatusCode != r.status || body[r.has] == nil {
			t.Errorf("%s with %q: %d %v, %v", r.path, r.key, resp.StatusCode, body, err)
		}
		resp.Body.Close()
	}
}
