//go:build !race

package chat_test

import "testing"

// TestSteadyStateAllocatesNothing: from line to frame, a stream of any length costs what its set-up costs. The detector of races has
// pools lose what they are given, so that this is not for it.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for name, lines := range map[string]string{
		"text":      `{"type":"text-delta","id":"txt-0","text":"a few \"words\" — 東京"}` + "\n",
		"reasoning": `{"type":"reasoning-delta","id":"reasoning-0","text":"hm"}` + "\n",
		"dirty":     `{"type":"text-delta","id":"t","text":"half \ud83d"}` + "\n" + `{"type":"text-delta","id":"t","text":"\ude00 whole"}` + "\n",
		"unknown":   `{"type":"brand-new","text":"x"}` + "\n" + `not json` + "\n\n",
	} {
		short := testing.AllocsPerRun(50, func() { line2frame(100, []byte(lines)) })
		long := testing.AllocsPerRun(50, func() { line2frame(1100, []byte(lines)) })
		if more := long - short; more >= 10 { // one in a hundred: a collection in the midst empties the pools
			t.Errorf("%s: %.1f allocations more for 1000 reads more", name, more)
		}
	}
}
