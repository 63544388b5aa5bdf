package simulator

import (
	"net/http"
	"time"
)

// demoOrg is the organisation of whoever asks.
const demoOrg = "org_demo"

// fiveHours and week are the lengths of the windows that bound spending.
const (
	fiveHours = 5 * time.Hour
	week      = 7 * 24 * time.Hour
)

// account wraps a question about the account of a key: the key must be one, and an organisation the right one.
func (s *Server) account(answer func(q map[string]string, now time.Time) *Answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := map[string]string{}
		for name, values := range r.URL.Query() {
			q[name] = values[0]
		}
		var a *Answer
		switch org, named := q["orgId"]; {
		case !s.keyAccepted(r.Header.Get("Authorization")):
			a = refuseUnauthorized()
		case named && org != demoOrg:
			a = refusal{http.StatusForbidden, "FORBIDDEN", "You are not a member of this organization"}.answer()
		default:
			a = answer(q, time.Now().UTC())
		}
		s.plain(w, r, a)
	}
}

func whoami(q map[string]string, _ time.Time) *Answer {
	v := map[string]any{
		"success": true,
		"user":    map[string]any{"id": "user_demo", "name": "Demo User", "email": "demo@example.org", "userName": "demo"},
		"org":     map[string]any{"id": demoOrg, "login": "demo-org", "name": "Demo Organisation"},
	}
	if q["limits"] == "1" {
		v["orgLimits"] = []any{}
	}
	return jsonAnswer(http.StatusOK, v)
}

// credits tells of windows that began at the last full hour and the last midnight. Their ends are in milliseconds.
func credits(_ map[string]string, now time.Time) *Answer {
	return jsonAnswer(http.StatusOK, map[string]any{
		"credits": map[string]any{
			"belowThreshold": false, "creditThreshold": 1, "monthlyCredits": 21.375, "purchasedCredits": 5, "freeCredits": 0, "planId": "individual-pro",
		},
		"windowLimits": map[string]any{
			"limited": true, "exceeded": nil,
			"fiveHour": map[string]any{"used": 0.84, "cap": 6, "exceeded": false, "resetAt": now.Truncate(time.Hour).Add(fiveHours).UnixMilli()},
			"weekly":   map[string]any{"used": 3.1, "cap": 15, "exceeded": false, "resetAt": now.Truncate(24 * time.Hour).Add(week).UnixMilli()},
		},
	})
}

func subscription(_ map[string]string, now time.Time) *Answer {
	start := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	return jsonAnswer(http.StatusOK, map[string]any{"success": true, "data": map[string]any{
		"planId": "individual-pro", "status": "active", "cancelAtPeriodEnd": false,
		"currentPeriodStart": start.Format(time.RFC3339), "currentPeriodEnd": start.AddDate(0, 1, 0).Format(time.RFC3339),
	}})
}

func usageSummary(q map[string]string, _ time.Time) *Answer {
	if since, named := q["since"]; named {
		if _, err := time.Parse(time.RFC3339, since); err != nil {
			return refuseInvalid("Invalid datetime at \"since\"")
		}
	}
	return jsonAnswer(http.StatusOK, map[string]any{"totalCost": 8.625, "totalMonthlyCredits": 8.625, "totalCount": 212, "totalTokens": 4_815_162})
}
