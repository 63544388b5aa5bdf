package simulator

import (
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	argumentPiece = 12       // characters in a tool-input-delta
	bodyReserve   = 12 << 10 // bytes: holds a demo answer beside the echo
)

// call is one tool call. args are the exact bytes of its arguments.
type call struct {
	id, name, args string
}

// turn renders a plan into the lines of a response. A fault calls the same pieces in a worse order.
type turn struct {
	script
	req  *Request
	plan plan
	pace time.Duration
	gen  string

	textBytes, reasoningBytes int // emitted so far: usage follows what was said, also when a fault cut it short
	speaking                  bool
}

func (s *Server) newTurn(r *Request) *turn {
	t := &turn{req: r, plan: planFor(r), pace: s.opts.Pace, gen: fmt.Sprintf("gen_%016x", rand.Uint64())}
	t.body = make([]byte, 0, bodyReserve+len(r.params))
	if t.plan.gap > 0 {
		t.pace = t.plan.gap
	}
	return t
}

// answer is the plan with nothing wrong.
func (t *turn) answer() *Answer {
	t.opening()
	t.pause(t.plan.silence)
	t.thinking()
	t.saying(t.plan.text)
	t.calling()
	t.finishing(t.reason())
	return t.script.answer()
}

func (t *turn) opening() {
	t.start()
	t.startStep(t.req.params)
}

// thinking is the reasoning block. When text follows it starts before the reasoning ends, as has been seen live.
func (t *turn) thinking() {
	if len(t.plan.reasoning) == 0 {
		return
	}
	t.head("reasoning-start")
	t.field("id", reasoningID)
	t.raw(`,"providerMetadata":{"gateway":{"generationId":"` + t.gen + `"}}`)
	t.line("}")
	for _, d := range t.plan.reasoning {
		t.delta("reasoning-delta", reasoningID, d)
		t.reasoningBytes += len(d)
		t.pause(t.pace)
	}
	if len(t.plan.text) > 0 {
		t.speak()
	}
	t.mark("reasoning-end", reasoningID)
}

func (t *turn) speak() {
	if !t.speaking {
		t.mark("text-start", textID)
		t.speaking = true
	}
}

// say appends text deltas and leaves the block open.
func (t *turn) say(deltas []string) {
	for _, d := range deltas {
		t.speak()
		t.delta("text-delta", textID, d)
		t.textBytes += len(d)
		t.pause(t.pace)
	}
}

func (t *turn) hush() {
	if t.speaking {
		t.mark("text-end", textID)
		t.speaking = false
	}
}

// saying is a whole text block.
func (t *turn) saying(deltas []string) {
	t.say(deltas)
	t.hush()
}

func (t *turn) calling() {
	c := t.plan.call
	if c == nil {
		return
	}
	t.toolStart(c)
	for _, piece := range pieces(c.args, argumentPiece) {
		t.toolDelta(c, piece)
		t.pause(t.pace)
	}
	t.mark("tool-input-end", c.id)
	t.toolCall(c)
	t.textBytes += len(c.args)
}

func (t *turn) reason() (unified, raw string) {
	if t.plan.call != nil {
		return "tool-calls", "tool_calls"
	}
	return "stop", "stop"
}

func (t *turn) usage() usage { return usageOf(t.req, t.textBytes, t.reasoningBytes) }

// finishing is the tail: finish-step with usage and cost, finish, and the cost once more behind it.
func (t *turn) finishing(unified, raw string) {
	cost := t.usage().cost(t.req.model)
	t.finishStep(unified, raw, true, cost)
	t.finish(unified, raw, true)
	t.costEvent(cost)
}

// finishStep appends the end of the step; cost "" leaves the gateway's metadata out, as some routes do.
func (t *turn) finishStep(unified, raw string, withUsage bool, cost string) {
	u := t.usage()
	t.reasons("finish-step", unified, raw)
	if withUsage {
		t.raw(`,"usage":`)
		t.body = u.appendJSON(t.body)
	}
	vendor := t.req.model.vendor()
	t.raw(`,"providerMetadata":{`)
	t.body = appendString(t.body, vendor)
	if withUsage {
		t.body = fmt.Appendf(t.body, `:{"promptCacheHitTokens":%d,"promptCacheMissTokens":%d}`, u.cached, u.input-u.cached)
	} else {
		t.raw(":{}")
	}
	if cost != "" {
		t.raw(`,"gateway":{"routing":{"resolvedProvider":`)
		t.body = appendString(t.body, vendor)
		t.raw(`,"finalProvider":`)
		t.body = appendString(t.body, vendor)
		t.raw(`},"cost":"` + cost + `","marketCost":"` + cost + `","inferenceCost":"` + cost + `","generationId":"` + t.gen + `"}`)
	}
	t.raw(`},"response":{"id":"` + t.gen + `","modelId":`)
	t.body = appendString(t.body, t.req.model.ID)
	t.line(`,"timestamp":"` + t.req.At.UTC().Format("2006-01-02T15:04:05.000Z") + `"}}`)
}

func (t *turn) finish(unified, raw string, withUsage bool) {
	t.reasons("finish", unified, raw)
	if withUsage {
		t.raw(`,"totalUsage":`)
		t.body = t.usage().appendJSON(t.body)
	}
	t.line("}")
}

// reasons opens a finish event; an empty reason is left out.
func (t *turn) reasons(typ, unified, raw string) {
	t.head(typ)
	if unified != "" {
		t.field("finishReason", unified)
	}
	if raw != "" {
		t.field("rawFinishReason", raw)
	}
}

func (t *turn) costEvent(cost string) {
	t.line(`{"type":"provider-metadata","providerMetadata":{"gateway":{"cost":"` + cost + `","generationId":"` + t.gen + `"}}}`)
}
