package chatcompletions

import "crypto/rand"

// functionIndex is the index of a function_call, which has none.
const functionIndex = -1

// calls are the tool calls of an answer. Fragments name theirs by index, and upstreams get that wrong in many ways; what joins
// them behind here goes by id, so that each call has one of its own.
type calls struct{ list []call }

type call struct {
	index   int64
	indexed bool
	given   bool // the id is the upstream's
	id      []byte
	name    []byte
}

// take returns the call that a fragment belongs to. news says that the call is new, or that its name was not known before. The
// call is valid until the next take.
func (cs *calls) take(f *fragment, id, name []byte) (c *call, news bool) {
	if c = cs.find(f, id, name); c != nil {
		if len(c.name) > 0 || len(name) == 0 {
			return c, false
		}
		c.name = append(c.name, name...)
		return c, true
	}
	given := len(id) > 0 && cs.byID(id) == nil
	if !given {
		id = []byte("call_" + rand.Text())
	}
	cs.list = append(cs.list, call{index: f.index, indexed: f.indexed, given: given, id: append([]byte(nil), id...), name: append([]byte(nil), name...)})
	return &cs.list[len(cs.list)-1], true
}

// find returns the call that a fragment goes on with, nil if it begins one. An id counts, unless the index tells another call
// that has the same; then the index; a fragment with neither id, index nor name goes on with the last call.
func (cs *calls) find(f *fragment, id, name []byte) *call {
	if c := cs.byID(id); c != nil && (!f.indexed || !c.indexed || c.index == f.index) {
		return c
	}
	if !f.indexed {
		if n := len(cs.list); n > 0 && len(id) == 0 && len(name) == 0 {
			return &cs.list[n-1]
		}
		return nil
	}
	for i := len(cs.list) - 1; i >= 0; i-- {
		c := &cs.list[i]
		if !c.indexed || c.index != f.index {
			continue
		}
		if c.continues(id, name) {
			return c
		}
		return nil
	}
	return nil
}

func (cs *calls) byID(id []byte) *call {
	if len(id) == 0 {
		return nil
	}
	for i := len(cs.list) - 1; i >= 0; i-- {
		if string(cs.list[i].id) == string(id) {
			return &cs.list[i]
		}
	}
	return nil
}

// continues tells a fragment of c from another call at the same index: some gateways give all calls index 0, others each
// fragment an id of its own, or the id late.
func (c *call) continues(id, name []byte) bool {
	switch {
	case len(name) == 0:
		return true
	case len(c.name) > 0 && string(c.name) != string(name):
		return false
	}
	return len(id) == 0 || !c.given
}
