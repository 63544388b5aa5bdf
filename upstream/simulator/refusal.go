package simulator

import (
	"net/http"
	"strings"

	"amplifier-agent/codec"
)

const (
	docsURL       = "https://commandcode.ai/docs"
	invalidPrompt = "Invalid prompt: The messages do not match the ModelMessage[] schema."
)

// refusal is an error in the form of the /alpha routes.
type refusal struct {
	status  int
	code    string
	message string
}

func (r refusal) answer() *Answer {
	return jsonAnswer(r.status, map[string]any{"success": false, "error": map[string]any{
		"code": r.code, "status": r.status, "message": r.message, "docs": docsURL,
	}})
}

func jsonAnswer(status int, v any) *Answer {
	body, err := codec.Marshal(v)
	if err != nil { // cannot be: v is built of strings and numbers
		body = []byte(`{"success":false}`)
	}
	return &Answer{Status: status, ContentType: "application/json", Body: body, WriteSize: Coalesce}
}

func refuseNoRoute(method, path string) *Answer {
	return refusal{http.StatusNotFound, "NOT_FOUND", "Route not found: " + method + " " + path}.answer()
}

func refuseTooLarge() *Answer {
	return refusal{http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE", "Request body is too large"}.answer()
}

func refuseUnauthorized() *Answer {
	return refusal{http.StatusUnauthorized, "UNAUTHORIZED", "Invalid or missing API key"}.answer()
}

func refuseVersion() *Answer {
	return refusal{http.StatusForbidden, "upgrade_required", "Please upgrade the Command Code CLI to continue"}.answer()
}

func refuseInvalid(message string) *Answer {
	return refusal{http.StatusBadRequest, "BAD_REQUEST", message}.answer()
}

func refuseUnknownModel(id string) *Answer {
	return refusal{http.StatusForbidden, "FORBIDDEN", "Model/provider not recognized: " + id}.answer()
}

func planMessage(m Model) string {
	plan := m.Plan
	if plan == "" {
		plan = "Pro and above"
	}
	return "MODEL_NOT_IN_PLAN: " + m.title() + " available in " + plan + " plans"
}

func refusePlan(m Model) *Answer {
	return refusal{http.StatusForbidden, "FORBIDDEN", planMessage(m)}.answer()
}

// refuseUnknownFault is no answer of the gateway: it is for the person who misspelt a fault in a prompt or a script.
func refuseUnknownFault(f Fault) *Answer {
	names := make([]string, 0, len(Faults()))
	for _, k := range Faults() {
		names = append(names, string(k))
	}
	return refuseInvalid("simulator: no fault is called " + string(f) + "; known: " + strings.Join(names, ", "))
}

// missingResults is found by the gateway's SDK only after the stream was opened, so it comes inside a 200.
func missingResults(ids []string) *Answer {
	msg := "Tool result is missing for tool call " + ids[0]
	if len(ids) > 1 {
		msg = "Tool results are missing for tool calls " + strings.Join(ids, ", ")
	}
	s := &script{}
	s.start()
	s.errorEvent(map[string]any{"name": "AI_MissingToolResultsError", "message": msg})
	return s.answer()
}
