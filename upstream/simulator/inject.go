package simulator

import (
	"bytes"
	"strings"
	"time"
)

const (
	errorLateAfter   = 200 * time.Millisecond
	lateCostAfter    = 100 * time.Millisecond
	costTooLateAfter = 2 * time.Second
	hugeLineBytes    = 20 << 20
	hugeDeltaBytes   = 17<<20 + 1
	noNewlineBytes   = 64 << 20
)

// faulty renders the plan with f. f is known.
func (t *turn) faulty(f Fault) *Answer {
	if a := t.status(f); a != nil {
		return a
	}
	switch f {
	case FaultGzip, FaultDeflate, FaultZstd, FaultBrotli:
		a := t.answer()
		a.Encoding = string(f)
		return a
	case FaultSplitLines:
		a := t.answer()
		a.WriteSize = 1
		return a
	case FaultGarbage, FaultSSEFraming:
		return t.reframed(f)
	case FaultStallHeaders:
		return &Answer{HeaderDelay: Forever}
	case FaultReset:
		return &Answer{End: EndReset}
	case FaultHTML:
		return &Answer{ContentType: "text/html; charset=utf-8", Body: []byte(edgePage), WriteSize: Coalesce}
	case FaultHugeLine:
		return t.hugeLine()
	default:
	}
	t.opening()
	end, filler := EndEOF, int64(0)
	switch f {
	case FaultErrorString, FaultErrorObject, FaultErrorMessage, FaultErrorFirst, FaultErrorEarly, FaultErrorLate:
		t.failing(f)
	case FaultEOF:
		t.half()
	case FaultEOFTool:
		t.halfCall()
	case FaultFinishStepOnly:
		t.whole()
		u, raw := t.reason()
		t.finishStep(u, raw, true, t.usage().cost(t.req.model))
	case FaultStall:
		t.half()
		end = EndHang
	case FaultCut:
		t.half()
		end = EndCut
	case FaultResetMid:
		t.half()
		t.raw(`{"type":"text-delta","id":"` + textID + `","text":"and then the line bre`)
		end = EndReset
	case FaultNoNewline:
		t.thinking()
		t.speak()
		t.raw(`{"type":"text-delta","id":"` + textID + `","text":"`)
		filler = noNewlineBytes
	default:
		t.ending(f)
	}
	a := t.script.answer()
	a.End, a.Filler = end, filler
	return a
}

// prose makes sure that there is text to break off.
func (t *turn) prose() {
	if t.plan.call = nil; len(t.plan.text) == 0 {
		t.plan.text = words(strings.Replace(demoText, "MODEL", t.req.Model, 1), demoPiece)
	}
}

// half is the reasoning and the first half of the text, whose block stays open.
func (t *turn) half() {
	t.prose()
	t.thinking()
	t.say(t.plan.text[:(len(t.plan.text)+1)/2])
}

// whole is everything before finish-step.
func (t *turn) whole() {
	t.pause(t.plan.silence)
	t.thinking()
	t.saying(t.plan.text)
	t.calling()
}

func (t *turn) halfCall() {
	c := t.plan.call
	if c == nil {
		c = newCall("lookup", `{"query":"the tides of Brest"}`)
		if len(t.req.Tools) > 0 {
			c = newCall(t.req.Tools[0].Name, arguments(t.req.Tools[0].InputSchema))
		}
	}
	t.plan.text = nil
	t.thinking()
	t.toolStart(c)
	t.toolDelta(c, c.args[:1])
}

func (t *turn) failing(f Fault) {
	type object = map[string]any
	switch f {
	case FaultErrorString:
		t.half()
		t.errorEvent("Network connection lost.")
	case FaultErrorObject:
		t.half()
		t.errorEvent(object{"type": "overloaded_error", "message": "Overloaded", "code": "overloaded", "statusCode": 529, "isRetryable": true})
	case FaultErrorMessage:
		t.half()
		t.line(`{"type":"error","message":"upstream exploded"}`)
	case FaultErrorEarly:
		t.plan.text = nil
		t.thinking()
		t.errorEvent(object{"type": "server_error", "message": "providers are currently at capacity", "statusCode": 429, "isRetryable": true})
	case FaultErrorLate:
		t.pause(errorLateAfter)
		t.errorEvent(object{"type": "server_error", "message": "Gateway request failed", "statusCode": 502, "isRetryable": true})
	default: // FaultErrorFirst
		t.body = nil
		t.start()
		t.errorEvent(object{"type": "permission_error", "message": planMessage(t.req.model), "statusCode": 403})
	}
}

// ending holds the streams that do come to an end of some kind.
func (t *turn) ending(f Fault) {
	switch f {
	case FaultNetworkError:
		t.plan.text = nil
		t.thinking()
		t.finish("", "network-error", true)
	case FaultEmpty:
		t.finishing("stop", "stop")
	case FaultOther:
		t.finish("other", "", true)
	case FaultLength:
		t.half()
		t.hush()
		t.finishing("length", "max_tokens")
	case FaultContentFilter:
		t.half()
		t.hush()
		t.finishing("content-filter", "content_filter")
	case FaultAbort:
		t.half()
		t.line(`{"type":"abort","reason":"request aborted"}`)
	case FaultLateCost:
		t.costAfter(lateCostAfter)
	case FaultCostTooLate:
		t.costAfter(costTooLateAfter)
	case FaultNoCost, FaultNoUsage:
		t.whole()
		u, raw := t.reason()
		t.finishStep(u, raw, f == FaultNoCost, "")
		t.finish(u, raw, f == FaultNoCost)
	default:
		t.strange(f)
		t.hush()
		t.finishing("stop", "stop")
	}
}

// costAfter sends the only cost some time after finish.
func (t *turn) costAfter(d time.Duration) {
	t.whole()
	u, raw := t.reason()
	t.finishStep(u, raw, true, "")
	t.finish(u, raw, true)
	t.pause(d)
	t.costEvent(t.usage().cost(t.req.model))
}

// strange is a text of deltas that are hard to read.
func (t *turn) strange(f Fault) {
	var deltas []string
	switch f {
	case FaultInvalidUTF8:
		deltas = []string{"before ", "\xff\xfe \xc3( \xe2\x82 \xed\xa0\x80", " after"}
	case FaultLoneSurrogate:
		deltas = []string{"before ", `\ud83d alone`, " after"}
	case FaultSplitSurrogate:
		deltas = []string{"before ", `a \ud83d`, `\ude00 b`, " after"}
	default: // FaultHugeDelta
		deltas = []string{strings.Repeat("0123456789abcdef", hugeDeltaBytes/16+1)}
	}
	t.plan.text, t.plan.call = deltas, nil
	t.thinking()
	for _, d := range deltas {
		t.escapedDelta("text-delta", textID, d)
		t.textBytes += len(d)
	}
}

func (t *turn) hugeLine() *Answer {
	echo := append([]byte(`{"padding":"`), bytes.Repeat([]byte{'x'}, hugeLineBytes)...)
	echo = append(append(append(echo, `","request":`...), t.req.params...), '}')
	t.req = t.req.withEcho(echo)
	return t.answer()
}

// withEcho is a shallow copy: a recorded request does not change.
func (r *Request) withEcho(echo []byte) *Request {
	c := *r
	c.params = echo
	return &c
}

// reframed is the whole answer with other lines around its own. It has no pauses: they belong to the old offsets.
func (t *turn) reframed(f Fault) *Answer {
	garbage := []string{
		"not json at all", "", `{"type":`, "[1,2,3]", "42", `"a string"`, "null", `{"no":"type"}`, `{"type":7,"text":"number"}`,
		": a comment", "event: ping", "\xff\xfe\x00", `{"type":"from-the-future","text":"no text of ours","delta":"nor this"}`,
	}
	t.pace = 0
	a := t.answer()
	var out []byte
	for i, line := range bytes.Split(bytes.TrimSuffix(a.Body, []byte{'\n'}), []byte{'\n'}) {
		if f == FaultGarbage {
			out = append(append(append(append(out, garbage[i%len(garbage)]...), '\n'), line...), '\n')
		} else {
			out = append(append(append(out, ": comment\r\ndata: "...), line...), "\r\n\r\n"...)
		}
	}
	if f == FaultSSEFraming {
		out = append(out, "data: [DONE]\r\n\r\n"...)
	}
	return &Answer{Body: out, WriteSize: Coalesce}
}
