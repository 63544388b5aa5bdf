package commandcode

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
)

// TestFinishCompletesTheStep: what finish-step has said of the end stands unless finish says something of its own.
func TestFinishCompletesTheStep(t *testing.T) {
	const text = `{"type":"text-delta","id":"t","text":"x"}` + "\n"
	for in, want := range map[string]pipeline.Reason{
		`{"type":"finish-step","finishReason":"length","rawFinishReason":"max_tokens"}` + "\n" + `{"type":"finish","totalUsage":{"outputTokens":1}}`: pipeline.ReasonLength,
		`{"type":"finish-step","finishReason":"content-filter"}` + "\n" + `{"type":"finish","finishReason":"unknown"}`:                               pipeline.ReasonContentFilter,
		`{"type":"finish-step","finishReason":"length"}` + "\n" + `{"type":"finish","finishReason":"stop"}`:                                          pipeline.ReasonStop,
	} {
		if r := body(t, strings.NewReader(text+in)); r.Err != nil || r.Finish.Reason != want {
			t.Errorf("%s: %+v, %v", in, r.Finish, r.Err)
		}
	}
	in := text + `{"type":"finish-step","finishReason":"other","rawFinishReason":"network-error"}` + "\n" + `{"type":"finish","finishReason":"other"}`
	wantError(t, body(t, strings.NewReader(in)).Err, pipeline.CodeUpstream, 0, "network-error")
}

// TestCostOfTheLastStep: the cost of an earlier step does not end the wait for that of the last.
func TestCostOfTheLastStep(t *testing.T) {
	r := body(t, strings.NewReader(strings.Join([]string{
		`{"type":"text-delta","id":"t","text":"x"}`,
		`{"type":"finish-step","finishReason":"stop","providerMetadata":{"gateway":{"cost":"0.10","generationId":"a"}}}`,
		`{"type":"finish-step","finishReason":"stop"}`,
		`{"type":"finish","finishReason":"stop"}`,
		`{"type":"provider-metadata","providerMetadata":{"gateway":{"cost":"0.20","generationId":"b"}}}`,
	}, "\n")))
	if r.Err != nil || r.Turn.Cost.String() != "0.30" {
		t.Errorf("cost %s, error %v", r.Turn.Cost, r.Err)
	}
}

// TestDeadProvider: a gateway whose provider fails before it has said anything is asked again, and what that step was is not counted;
// one that fails behind a word is not.
func TestDeadProvider(t *testing.T) {
	const (
		dead = `{"type":"start"}` + "\n" + `{"type":"finish-step","finishReason":"","rawFinishReason":"network-error","usage":{"inputTokens":7,"outputTokens":0}}` + "\n" +
			`{"type":"finish","finishReason":"","rawFinishReason":"network-error","totalUsage":{"inputTokens":7,"outputTokens":0}}` + "\n"
		good = `{"type":"text-delta","id":"t","text":"yes"}` + "\n" + `{"type":"finish-step","finishReason":"stop","usage":{"inputTokens":7,"outputTokens":1}}` + "\n" + `{"type":"finish","finishReason":"stop"}` + "\n"
		word = `{"type":"reasoning-delta","id":"r","text":"hm"}` + "\n"
	)
	for name, row := range map[string]struct {
		answers []string
		text    string
		failed  bool
	}{
		"once":          {[]string{dead, good}, "yes", false},
		"behind a word": {[]string{word + dead, good}, "", true},
		"always":        {[]string{dead, dead}, "", true},
		"at a price":    {[]string{strings.Replace(dead, `"usage"`, `"providerMetadata":{"gateway":{"cost":"0.25"}},"usage"`, 1), good}, "", true},
	} {
		asked := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			asked++
			_, _ = io.WriteString(w, row.answers[min(asked, len(row.answers))-1])
		}))
		r := run(t, connect(t, s.URL, func(c *Config) { c.Tries = 2 }), ask("hi"))
		s.Close()
		if r.Text != row.text || (r.Err != nil) != row.failed || !row.failed && (r.Turn.Usage.Prompt() != 7 || asked != 2) || (name == "behind a word" || name == "at a price") && asked != 1 || name == "at a price" && r.Turn.Cost.String() != "0.25" {
			t.Errorf("%s: %q, error %v, usage %+v, asked %d times", name, r.Text, r.Err, r.Turn.Usage, asked)
		}
		if row.failed {
			wantError(t, r.Err, pipeline.CodeUpstream, 0, "network-error")
		}
	}
}
