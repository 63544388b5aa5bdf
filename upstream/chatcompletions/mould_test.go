package chatcompletions

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
)

// TestDeltasAreWhatTheySay: what a delta means does not depend on those before it, though it may be told by what it has in common with
// them. Neither do usage and cost, of which the last counts.
func TestDeltasAreWhatTheySay(t *testing.T) {
	form := func(delta, behind, top string) string {
		return `{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{` + delta + `}` + behind + `}]` + top + `}`
	}
	forms := []string{
		form(`"content":"%s"`, `,"finish_reason":null`, `,"usage":null`), form(`"role":"assistant","content":"%s"`, "", ""), form(`"reasoning_content":"%s"`, "", ""),
		form(`"reasoning":"%s","content":""`, "", ""), form(`"reasoning":"%s","reasoning_content":"%[1]s"`, "", ""), form(`"content":"%s","reasoning":"why"`, "", ""),
		form(`"reasoning_content":"%s","reasoning":"why"`, "", ""), form(`"reasoning":"%s","reasoning_content":"why"`, "", ""),
		form(`"reasoning":{"text":"%s","summary":"sum"}`, "", ""),
		form(`"content":"%s"`, "", `,"usage":{"prompt_tokens":1,"completion_tokens":1}`), form(`"content":"%s"`, "", `,"usage":{"prompt_tokens":2,"completion_tokens":9}`),
		form(`"content":"%s"`, "", `,"cost":0.5`), form(`"content":"%s","refusal":"no"`, "", ""), form(`"content":["%s"]`, "", ""),
		form(`"content":"%s"`, `},{"index":1,"delta":{"content":"too"}`, ""), form(`"content":"a","content":"%s"`, "", ""),
	}
	texts := []string{"", "a", `\"`, "word word word ", `\ud83d`, `\q`, "\x01", "é", `"},"x":{"y":"`}
	var told string
	tell := func(d *Decoder, line string) string {
		told = ""
		d.Line([]byte(line), upstream.NewEmitter(func(ev *pipeline.Event, err error) bool {
			told += fmt.Sprintf("%v %q %v %v;", ev.Kind, ev.Text, ev.Clean, err)
			return true
		}))
		return told
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		d := NewDecoder(nil)
		last := pipeline.StepInfo{}
		f := forms[0]
		for range 200 {
			if r.IntN(3) == 0 { // else several of one form stand in a row
				f = forms[r.IntN(len(forms))]
			}
			line := fmt.Sprintf(f, texts[r.IntN(len(texts))])
			fresh := NewDecoder(nil)
			if got, want := tell(d, line), tell(fresh, line); got != want {
				t.Fatalf("seed %d: %s\nis  %s\nnot %s", seed, line, got, want)
			}
			if fresh.end.Usage.Known() {
				last.Usage = fresh.end.Usage
			}
			if fresh.end.Cost.Known() {
				last.Cost = fresh.end.Cost
			}
			if d.end.Usage != last.Usage || d.end.Cost.String() != last.Cost.String() {
				t.Fatalf("seed %d: %s\nusage %+v, not %+v; cost %s, not %s", seed, line, d.end.Usage, last.Usage, d.end.Cost, last.Cost)
			}
		}
	}
}
