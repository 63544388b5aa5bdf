package config

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"amplifier-agent/codec"
)

// Parse reads a host config and fills in the defaults. A byte order mark in front of it is passed over, null is an empty config. The
// first thing that is wrong, in the order of Keys, is the error, an *Error. The Host does not borrow from data.
func Parse(data []byte) (*Host, error) {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if err := wellFormed(data); err != nil {
		return nil, err
	}
	h := Default()
	switch kind := kindOf(data); kind {
	case codec.Null:
	case codec.Object:
		if err := root.members(h, "", data); err != nil {
			return nil, err
		}
	default:
		return nil, &Error{Code: CodeMalformed, Message: "expected an object, got " + kindNames[kind]}
	}
	return h, nil
}

// set judges the value of a key, which is at path in the file, and stores it.
func (k *Key) set(h *Host, path string, raw []byte) *Error {
	kind := kindOf(raw)
	if kind == codec.Null && k.nullable || kind != codec.Object && k.lenient {
		return nil
	}
	var field any
	if k.field != nil {
		field = k.field(h)
	}
	switch k.Type {
	case Anything:
		switch p := field.(type) {
		case *[]byte:
			*p = compact(raw)
		case *bool:
			*p = truthy(raw)
		}
	case Object:
		if kind != codec.Object {
			return k.wrongType(path, raw)
		}
		switch p := field.(type) {
		case *[]byte:
			*p = compact(raw)
		case *Override:
			p.Set, p.Config = true, []byte("{}")
		}
		return k.members(h, path, raw)
	case Entries:
		if kind != codec.Object {
			return k.wrongType(path, raw)
		}
		return k.entries(h, path, raw)
	case Text:
		if kind != codec.String {
			return k.wrongType(path, raw)
		}
		*field.(*string) = textOf(raw)
	case List:
		return k.list(field.(*[]string), path, raw)
	case Lists:
		if kind != codec.Object {
			return k.wrongType(path, raw)
		}
		return k.lists(field.(*[]Fallback), path, raw)
	case Flag:
		if kind != codec.Bool {
			return k.wrongType(path, raw)
		}
		*field.(*bool) = string(raw) == "true"
	case Number:
		return k.number(field, path, raw)
	case Choice:
		return k.choice(field.(*string), path, raw)
	}
	return nil
}

// members judges an object by the keys that the table has below k.
func (k *Key) members(h *Host, path string, raw []byte) *Error {
	below := children(k.Path)
	all := membersOf(raw)
	unknown := func() *Error {
		for _, m := range all {
			if k.unknown != "" && !slices.ContainsFunc(below, func(k *Key) bool { return k.name() == m.name }) {
				return unknownKey(k.unknown, k.Path, path, m.name)
			}
		}
		return nil
	}
	if !k.late {
		if err := unknown(); err != nil {
			return err
		}
	}
	for _, c := range below {
		at := join(path, c.name())
		i := slices.IndexFunc(all, func(m member) bool { return m.name == c.name() })
		var err *Error
		switch {
		case i >= 0:
			err = c.set(h, at, all[i].raw)
		case c.Path == entry.Path+".module":
			err = c.fromID(h.last(), at)
		}
		if err != nil {
			return err
		}
	}
	if k.late {
		return unknown()
	}
	return nil
}

// entries judges an object of providers.
func (k *Key) entries(h *Host, path string, raw []byte) *Error {
	each := children(k.Path)[0]
	for _, m := range membersOf(raw) {
		if m.name == "" {
			return &Error{Code: CodeInvalidType, Path: path, Message: path + ": the name of a provider must not be empty"}
		}
		h.Providers = append(h.Providers, Provider{ID: m.name, Config: []byte("{}")})
		if err := each.set(h, join(path, m.name), m.raw); err != nil {
			return err
		}
	}
	return nil
}

// last is the provider that is being read.
func (h *Host) last() *Provider { return &h.Providers[len(h.Providers)-1] }

// fromID takes the name of a provider for its module.
func (k *Key) fromID(p *Provider, path string) *Error {
	if !slices.Contains(k.Choices, p.ID) {
		return &Error{Code: CodeInvalidModule, Path: path, Message: fmt.Sprintf("%s is missing, and the name %s is no module: expected %s%s",
			path, quote(p.ID), k.Expects(), k.hint(p.ID))}
	}
	p.Module = p.ID
	return nil
}

func (k *Key) list(field *[]string, path string, raw []byte) *Error {
	if kindOf(raw) != codec.Array {
		return k.wrongType(path, raw)
	}
	var all []string
	var s codec.Scanner
	s.Reset(raw)
	for s.Array(); s.Elem(); {
		if kind := s.Kind(); kind != codec.String {
			path = fmt.Sprintf("%s[%d]", path, len(all))
			return &Error{Code: CodeInvalidType, Path: path, Message: path + ": expected a string, got " + kindNames[kind]}
		}
		t, _ := s.Text()
		all = append(all, t.String())
	}
	*field = all
	return nil
}

func (k *Key) lists(field *[]Fallback, path string, raw []byte) *Error {
	each := Key{Type: List}
	var all []Fallback
	for _, m := range membersOf(raw) {
		f := Fallback{Model: m.name}
		if err := each.list(&f.Others, join(path, m.name), m.raw); err != nil {
			return err
		}
		all = append(all, f)
	}
	*field = all
	return nil
}

func (k *Key) number(field any, path string, raw []byte) *Error {
	if kindOf(raw) != codec.Number {
		return k.wrongType(path, raw)
	}
	var s codec.Scanner
	s.Reset(raw)
	n, ok := s.Int()
	if !ok || n < k.Min || n > k.Max {
		return &Error{Code: CodeInvalidType, Path: path, Message: fmt.Sprintf("%s: expected %s, got %.20s", path, k.Expects(), raw)}
	}
	switch p := field.(type) {
	case *int:
		*p = int(n)
	case *time.Duration:
		*p = time.Duration(n) * k.unit
	}
	return nil
}

func (k *Key) choice(field *string, path string, raw []byte) *Error {
	text := ""
	if kindOf(raw) == codec.String {
		text = textOf(raw)
	}
	if text == "" {
		return k.wrongType(path, raw)
	}
	if !slices.Contains(k.Choices, text) {
		return &Error{Code: cmp.Or(k.invalid, CodeInvalidType), Path: path, Message: fmt.Sprintf("%s: expected %s, got %s%s",
			path, k.Expects(), quote(text), k.hint(text))}
	}
	*field = text
	return nil
}

// hint names the choice that was most likely meant.
func (k *Key) hint(text string) string {
	if i := nearest(text, k.Choices); i >= 0 {
		return fmt.Sprintf(": did you mean %q?", k.Choices[i])
	}
	return ""
}

func (k *Key) wrongType(path string, raw []byte) *Error {
	got := kindNames[kindOf(raw)]
	if string(raw) == `""` {
		got = "an empty string"
	}
	return &Error{Code: cmp.Or(k.wrong, CodeInvalidType), Path: path, Message: fmt.Sprintf("%s: expected %s, got %s", path, k.Expects(), got)}
}

var kindNames = [...]string{
	codec.Invalid: "nothing", codec.Null: "null", codec.Bool: "true or false", codec.Number: "a number", codec.String: "a string",
	codec.Array: "a list", codec.Object: "an object",
}

// member is one of an object's.
type member struct {
	name string
	raw  []byte // its value, without space around it
}

// membersOf returns the members of an object, which is valid, in its order.
func membersOf(raw []byte) []member {
	var all []member
	var s codec.Scanner
	s.Reset(raw)
	for s.Object(); s.Key(); {
		name := string(s.Name())
		all = append(all, member{name, s.Raw()})
	}
	return all
}

func kindOf(raw []byte) codec.Kind {
	var s codec.Scanner
	s.Reset(raw)
	return s.Kind()
}

func textOf(raw []byte) string {
	var s codec.Scanner
	s.Reset(raw)
	t, _ := s.Text()
	return t.String()
}

// truthy reports whether a value means yes.
func truthy(raw []byte) bool {
	switch kindOf(raw) {
	case codec.Null:
		return false
	case codec.Bool:
		return string(raw) == "true"
	case codec.Number: // of zero, each digit before the exponent is one
		mantissa, _, _ := bytes.Cut(bytes.ToLower(raw), []byte("e"))
		return bytes.ContainsAny(mantissa, "123456789")
	default:
		return !slices.Contains([]string{`""`, "[]", "{}"}, string(compact(raw)))
	}
}

// compact returns a value, which is valid, without space between its parts, in memory of its own.
func compact(raw []byte) []byte {
	b, err := codec.Marshal(codec.RawMessage(raw))
	if err != nil {
		return bytes.Clone(raw)
	}
	return b
}
