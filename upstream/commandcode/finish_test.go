package commandcode

import (
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
		if r := body(t, strings.NewReader(text+in)); r.err != nil || r.finish.Reason != want {
			t.Errorf("%s: %+v, %v", in, r.finish, r.err)
		}
	}
	in := text + `{"type":"finish-step","finishReason":"other","rawFinishReason":"network-error"}` + "\n" + `{"type":"finish","finishReason":"other"}`
	wantError(t, body(t, strings.NewReader(in)).err, pipeline.CodeUpstream, 0, "network-error")
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
	if r.err != nil || r.turn.Cost.String() != "0.30" {
		t.Errorf("cost %s, error %v", r.turn.Cost, r.err)
	}
}
