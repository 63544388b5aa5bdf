package commandcode

import (
	"regexp"
	"strings"
)

// aliases are names under which the vendor's own client takes a model, in lower case.
var aliases = map[string]string{
	"claude-sonnet-4-20250514":   "claude-sonnet-4-6",
	"claude-sonnet-4-5-20250929": "claude-sonnet-4-6",
	"claude-opus-4-5-20251101":   "claude-opus-4-7",
	"claude-opus-4-6":            "claude-opus-4-7",
	"claude-haiku-4-5":           "claude-haiku-4-5-20251001",
	"tencent/hy3":                "tencent/Hy3",
}

// dated ends the name of a model that was released on a day.
var dated = regexp.MustCompile(`[-@]\d{8}$`)

// ids are those of the models that are there, in the order of a list.
type ids struct {
	list []string
	set  map[string]bool
}

func newIDs(list []string) *ids {
	x := &ids{list: list, set: make(map[string]bool, len(list))}
	for _, id := range list {
		x.set[id] = true
	}
	return x
}

// mean returns the id that name stands for, which the gateway itself tells from every other spelling: the name as it is, an alias
// of the vendor's client, or an id in other letters or without its namespace, if there is only one; the same without a date at the
// end of name. "" if it stands for none.
func (x *ids) mean(name string) string {
	if name == "" {
		return ""
	}
	for range 2 {
		if x.set[name] {
			return name
		}
		if id := aliases[strings.ToLower(name)]; x.set[id] {
			return id
		}
		if id := x.only(func(id string) bool { return strings.EqualFold(id, name) }); id != "" {
			return id
		}
		if id := x.only(func(id string) bool {
			n := len(id) - len(name)
			return n > 0 && id[n-1] == '/' && strings.EqualFold(id[n:], name)
		}); id != "" {
			return id
		}
		at := dated.FindStringIndex(name)
		if at == nil {
			return ""
		}
		name = name[:at[0]]
	}
	return ""
}

// only returns the id that fits, "" if none or several do.
func (x *ids) only(fits func(id string) bool) (found string) {
	for _, id := range x.list {
		if !fits(id) {
			continue
		}
		if found != "" {
			return ""
		}
		found = id
	}
	return found
}

// Resolve implements upstream.Resolver. It looks among the models that were listed last, then in the catalogue.
func (p *Provider) Resolve(name string) string {
	if listed := p.listed.Load(); listed != nil {
		if id := listed.mean(name); id != "" {
			return id
		}
	}
	return catalogueIDs().mean(name)
}

// resolved is the id to ask for: what a round names, if that is an id or nobody knows better, else the id that it stands for.
func (p *Provider) resolved(name string) string {
	listed := p.listed.Load()
	if listed != nil && listed.set[name] || catalogueIDs().set[name] {
		return name
	}
	id := p.Resolve(name)
	if id == "" {
		return name
	}
	p.cfg.Log.Debug("the model is asked for by its id", "provider", p.cfg.ID, "model", name, "id", id)
	return id
}
