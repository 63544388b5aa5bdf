package stages

import (
	"fmt"
	"strconv"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// What a round may bring in tool calls. No model makes as many, and what is beyond is not to use up the memory.
const (
	maxCalls         = 1024
	maxArgumentBytes = 32 << 20
)

// calls are the tool calls of one round, in the order in which their ids were first seen.
type calls struct {
	turn string // makes ids unique that are given here
	list []call
	next int // first one that has not been passed on
	sent int // how many have
	size int // bytes of arguments that have come
}

// admit counts n more bytes of arguments. It returns an error once the round has brought more than it may.
func (cs *calls) admit(n int) error {
	if cs.size += n; cs.size <= maxArgumentBytes && len(cs.list) <= maxCalls {
		return nil
	}
	return &pipeline.Error{Code: pipeline.CodeUpstream, Origin: pipeline.OriginUpstream,
		Message: fmt.Sprintf("the upstream sent more than %d tool calls or %d MiB of arguments", maxCalls, maxArgumentBytes>>20)}
}

// call gathers one tool call. It owns its bytes.
type call struct {
	id, name  []byte
	arguments []byte // JSON string body
	join      codec.Joiner
	ended     bool // no fragment will follow
	whole     bool // the arguments are final
	cancelled bool // the upstream runs it itself
}

// get returns the call of id, which is new if id is. A name is kept if none is known yet. A call that came without an id gets
// one of its own, as clients cannot answer it otherwise. The result is valid until the next get.
func (cs *calls) get(id, name []byte) *call {
	var c *call
	if len(id) > 0 {
		for i := len(cs.list) - 1; i >= 0 && c == nil; i-- {
			if string(cs.list[i].id) == string(id) {
				c = &cs.list[i]
			}
		}
	}
	if c == nil {
		cs.list = append(cs.list, call{id: append([]byte(nil), id...)})
		c = &cs.list[len(cs.list)-1]
		if len(id) == 0 {
			c.id = strconv.AppendInt(append(append(c.id, "call_"+cs.turn...), '_'), int64(len(cs.list)-1), 10)
		}
	}
	if len(c.name) == 0 {
		c.name = append(c.name, name...)
	}
	return c
}

// finishing returns the call that a whole call belongs to: that of id, or, if the upstream names none, the first of this name
// that is not whole yet. Otherwise it is new.
func (cs *calls) finishing(id, name []byte) *call {
	for i := cs.next; i < len(cs.list) && len(id) == 0; i++ {
		c := &cs.list[i]
		if !c.whole && !c.cancelled && (len(c.name) == 0 || len(name) == 0 || string(c.name) == string(name)) {
			id = c.id
		}
	}
	return cs.get(id, name)
}

// open returns the call that a fragment belongs to: that of id, or the last one if the upstream names none; nil if there is none.
func (cs *calls) open(id []byte) *call {
	if len(id) > 0 {
		return cs.get(id, nil)
	}
	if len(cs.list) == 0 {
		return nil
	}
	return &cs.list[len(cs.list)-1]
}

// any reports whether a call concerns the client. What was passed on does, whatever the upstream made of it since.
func (cs *calls) any() bool {
	for i := range cs.list {
		if !cs.list[i].cancelled {
			return true
		}
	}
	return cs.sent > 0
}

// settle completes at the end of a round what can be completed and returns the first call that cannot, nil if there is none.
func (cs *calls) settle() (half *call) {
	for i := range cs.list {
		c := &cs.list[i]
		if c.cancelled {
			continue
		}
		c.whole = c.whole || c.complete()
		if !c.ready() && half == nil {
			half = c
		}
	}
	return half
}

// ready reports whether the call can be passed on: nobody could run it without a name.
func (c *call) ready() bool { return c.whole && len(c.name) > 0 && !c.cancelled }

// complete reports whether the fragments add up to JSON; no fragments do if the upstream said that there are none.
func (c *call) complete() bool {
	if len(c.arguments) == 0 && c.ended {
		c.arguments = append(c.arguments, "{}"...)
		return true
	}
	if len(c.arguments) == 0 || c.join.Pending() {
		return false
	}
	return codec.Validate(codec.Text(c.arguments).AppendTo(nil)) == nil
}
