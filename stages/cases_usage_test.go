package stages_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/stages"
)

// TestCaseTotalsAreCompared: B055. A total that is not the sum of the steps, which may have been running totals, is logged.
func TestCaseTotalsAreCompared(t *testing.T) {
	tokens := func(in, out int64) pipeline.Usage {
		return usage(in, 0, 0, out, 0, pipeline.HasInput|pipeline.HasOutput)
	}
	for name, row := range map[string]struct {
		in     []item
		logged bool
	}{
		"running totals": {[]item{step(tokens(100, 10), "", ""), step(tokens(250, 25), "", ""), total(tokens(250, 25), "", "")}, true},
		"other output":   {[]item{step(tokens(100, 10), "", ""), total(tokens(100, 11), "", "")}, true},
		"other input":    {[]item{step(tokens(100, 10), "", ""), total(tokens(90, 10), "", "")}, true},
		"the sum":        {[]item{step(tokens(100, 10), "", ""), step(tokens(150, 15), "", ""), total(tokens(250, 25), "", "")}, false},
		"steps alone":    {[]item{step(tokens(100, 10), "", ""), total(pipeline.Usage{}, "", "")}, false},
		"a total alone":  {[]item{total(tokens(100, 10), "", "")}, false},
	} {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		gather(t, stages.UsageFold(log).Events(&pipeline.Turn{ID: "turn"}, source(row.in...)), all)
		if got := strings.Contains(out.String(), "turn=turn") && strings.Contains(out.String(), "sum of the steps"); got != row.logged {
			t.Errorf("%s: %q", name, out.String())
		}
	}
}
