package commandcode

import (
	"bytes"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

const (
	// maxSchemaBytes is the longest schema that is rewritten: each level of it is copied. No tool needs as much.
	maxSchemaBytes = 256 << 10
	// maxSchemasBytes is how much of the schemas of a request is: those behind stay as they are.
	maxSchemasBytes = 1 << 20
)

// nullableTools are tools whose schemas say "nullable" where they named the type null: Google's models refuse that type beside
// others. What needs no change is shared.
func nullableTools(tools []pipeline.ToolSpec) []pipeline.ToolSpec {
	changed := make([]pipeline.ToolSpec, len(tools))
	copy(changed, tools)
	left := maxSchemasBytes
	for i := range changed {
		schema := changed[i].Parameters
		if left -= len(schema); left < 0 {
			break
		}
		changed[i].Parameters = nullable(schema)
	}
	return changed
}

// nullable rewrites a schema. The order of members and the spelling of values stay; a schema that names no null, or is not valid
// JSON, stays byte for byte.
func nullable(schema []byte) []byte {
	if len(schema) > maxSchemaBytes || !bytes.Contains(schema, []byte("null")) || codec.Validate(schema) != nil {
		return schema
	}
	if out, changed := appendNullable(nil, schema); changed {
		return out
	}
	return schema
}

// schemaMembers say where in a schema other schemas stand: as the value or a list of them ('s'), or as the members of an object
// ('m'). What stands anywhere else is data.
var schemaMembers = map[string]byte{
	"items": 's', "prefixItems": 's', "additionalItems": 's', "contains": 's', "additionalProperties": 's', "propertyNames": 's',
	"unevaluatedItems": 's', "unevaluatedProperties": 's', "not": 's', "if": 's', "then": 's', "else": 's',
	"anyOf": 's', "oneOf": 's', "allOf": 's',
	"properties": 'm', "patternProperties": 'm', "dependentSchemas": 'm', "$defs": 'm', "definitions": 'm',
}

// appendNullable appends a schema, or a list of schemas.
func appendNullable(dst, schema []byte) (out []byte, changed bool) {
	var s codec.Scanner
	s.Reset(schema)
	switch s.Kind() {
	case codec.Object:
	case codec.Array:
		return appendEach(dst, schema)
	default:
		return append(dst, schema...), false
	}
	names, null := members(schema)
	w := objectWriter{dst: dst}
	for s.Object(); s.Key(); {
		name := string(s.Name())
		value := s.Raw()
		switch {
		case null && name == "nullable": // said at the end
			continue
		case null && name == "type":
			value = withoutNull(value)
		case null && name == "enum":
			if left := list(value, func(raw []byte) bool { return string(raw) != "null" }); len(left) > len("[]") {
				value = left
			}
		case null && isUnion(name) && namesNull(value):
			others := elements(list(value, func(raw []byte) bool { return !isNullSchema(raw) }))
			if len(others) == 1 && others[0][0] == '{' {
				delete(names, name) // the one that is left may bring a union of its own
				w.merge(others[0], names)
				continue
			}
			value, _ = appendEach(nil, list(value, func(raw []byte) bool { return !isNullSchema(raw) }))
		case schemaMembers[name] == 's':
			var c bool
			value, c = appendNullable(nil, value)
			changed = changed || c
		case schemaMembers[name] == 'm' && value[0] == '{':
			var c bool
			value, c = appendMembers(nil, value)
			changed = changed || c
		}
		w.member(name, value)
	}
	if null {
		w.member("nullable", []byte("true"))
	}
	return w.end(), changed || null
}

// appendEach appends a list of schemas.
func appendEach(dst, list []byte) (out []byte, changed bool) {
	dst = append(dst, '[')
	for i, e := range elements(list) {
		if i > 0 {
			dst = append(dst, ',')
		}
		var c bool
		dst, c = appendNullable(dst, e)
		changed = changed || c
	}
	return append(dst, ']'), changed
}

// appendMembers appends an object whose members are schemas.
func appendMembers(dst, object []byte) (out []byte, changed bool) {
	var s codec.Scanner
	s.Reset(object)
	w := objectWriter{dst: dst}
	for s.Object(); s.Key(); {
		name := string(s.Name())
		value, c := appendNullable(nil, s.Raw())
		w.member(name, value)
		changed = changed || c
	}
	return w.end(), changed
}

// members returns the names of a schema's members, and whether null is one of several types that it allows.
func members(schema []byte) (names map[string]bool, null bool) {
	names = map[string]bool{}
	var s codec.Scanner
	s.Reset(schema)
	for s.Object(); s.Key(); {
		name := string(s.Name())
		names[name] = true
		switch value := s.Raw(); {
		case name == "type":
			null = null || value[0] == '[' && len(elements(withoutNull(value))) != len(elements(value))
		case isUnion(name):
			null = null || namesNull(value)
		}
	}
	return names, null
}

func isUnion(name string) bool { return name == "anyOf" || name == "oneOf" }

// namesNull reports whether a list of schemas holds the one for null, and others.
func namesNull(value []byte) bool {
	all := elements(value)
	nulls := 0
	for _, e := range all {
		if isNullSchema(e) {
			nulls++
		}
	}
	return nulls > 0 && nulls < len(all)
}

// isNullSchema reports whether a schema allows null and nothing else.
func isNullSchema(schema []byte) (null bool) {
	var s codec.Scanner
	s.Reset(schema)
	if s.Kind() != codec.Object {
		return false
	}
	for s.Object(); s.Key(); {
		if string(s.Name()) != "type" {
			s.Skip()
			continue
		}
		t, ok := s.Text()
		null = ok && t.String() == "null"
	}
	return null
}

// withoutNull takes null from a list of types, unless it is the only one. A single type that is left needs no list.
func withoutNull(types []byte) []byte {
	left := list(types, func(raw []byte) bool { return string(raw) != `"null"` })
	switch e := elements(left); len(e) {
	case 0:
		return types
	case 1:
		return e[0]
	}
	return left
}

// list is a list with the elements that are kept; what is no list is returned as it is.
func list(value []byte, keep func(raw []byte) bool) []byte {
	if value[0] != '[' {
		return value
	}
	out := []byte{'['}
	for _, e := range elements(value) {
		if !keep(e) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, e...)
	}
	return append(out, ']')
}

// elements are those of a list, none if it is no list.
func elements(value []byte) (all [][]byte) {
	if len(value) == 0 || value[0] != '[' {
		return nil
	}
	var s codec.Scanner
	s.Reset(value)
	for s.Array(); s.Elem(); {
		all = append(all, s.Raw())
	}
	return all
}

// objectWriter appends an object.
type objectWriter struct {
	dst  []byte
	open bool
}

func (w *objectWriter) member(name string, value []byte) {
	if w.open {
		w.dst = append(w.dst, ',')
	} else {
		w.open = true
		w.dst = append(w.dst, '{')
	}
	w.dst = append(codec.AppendString(w.dst, name), ':')
	w.dst = append(w.dst, value...)
}

// merge appends the members of another schema, rewritten, but for those that this one has itself; it adds what it appends to them.
func (w *objectWriter) merge(schema []byte, own map[string]bool) {
	schema, _ = appendNullable(nil, schema)
	var s codec.Scanner
	s.Reset(schema)
	for s.Object(); s.Key(); {
		name := string(s.Name())
		if value := s.Raw(); !own[name] && name != "nullable" {
			own[name] = true
			w.member(name, value)
		}
	}
}

func (w *objectWriter) end() []byte {
	if !w.open {
		w.dst = append(w.dst, '{')
	}
	return append(w.dst, '}')
}
