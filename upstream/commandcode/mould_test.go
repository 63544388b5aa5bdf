package commandcode

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
)

// TestDeltasAreWhatTheySay: what a delta means does not depend on those before it, though it may be told by what it has in common with
// them.
func TestDeltasAreWhatTheySay(t *testing.T) {
	forms := []string{
		`{"type":"text-delta","id":"txt-0","text":"%s"}`, `{"type":"reasoning-delta","id":"txt-0","text":"%s"}`, `{"type":"text-delta","id":"txt-0","delta":"%s"}`,
		`{"type":"text-delta","text":"%s","id":"txt-0"}`, `{"type":"text-delta","text":"first","text":"%s"}`, `{"type":"text-delta","delta":"no","text":"%s"}`,
		`{"type":"text-delta","text":"yes","delta":"%s"}`, `{"type":"text\u002ddelta","text":"%s"}`, `{"text":"%s","type":"reasoning-delta"}`,
		`{"type":"text-delta","data":{"text":"%s"}}`, `{"type":"text-delta","id":"txt-0","text":"%s"} `, `{"type":"odd","text":"%s"}`,
	}
	texts := []string{"", "a", `\"`, `x\\`, "word word word ", `\ud83d`, `\q`, "\x01", "é", `","text":"b`, `"}`}
	tell := func(d *Decoder, line string) (told string) {
		out := upstream.NewEmitter(func(ev *pipeline.Event, err error) bool {
			told += fmt.Sprintf("%v %q %v %v;", ev.Kind, ev.Text, ev.Clean, err)
			return true
		})
		d.Line([]byte(line), out)
		return told
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		d := NewDecoder(nil)
		form := forms[0]
		for range 200 {
			if r.IntN(3) == 0 { // else several of one form stand in a row
				form = forms[r.IntN(len(forms))]
			}
			line := fmt.Sprintf(form, texts[r.IntN(len(texts))])
			if got, want := tell(d, line), tell(NewDecoder(nil), line); got != want {
				t.Fatalf("seed %d: %s\nis  %s\nnot %s", seed, line, got, want)
			}
		}
	}
}
