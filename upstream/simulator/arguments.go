package simulator

import (
	"strconv"

	"amplifier-agent/codec"
)

const (
	maxSchemaDepth = 8 // deeper members get null
	maxItems       = 8 // of a synthesised array
)

// arguments makes up an object that fits a tool's JSON Schema: the required members, each with a simple value of its type.
func arguments(schema codec.RawMessage) string {
	o, ok := objectOf(schema)
	if !ok {
		return "{}"
	}
	return string(appendMembers(nil, o, 0))
}

func appendMembers(dst []byte, schema object, depth int) []byte {
	properties, _ := objectOf(schema["properties"])
	dst = append(dst, '{')
	for i, key := range arrayOf(schema["required"]) {
		if i > 0 {
			dst = append(dst, ',')
		}
		name := stringOf(key)
		dst = append(appendString(dst, name), ':')
		dst = appendExample(dst, name, properties[name], depth+1)
	}
	return append(dst, '}')
}

func appendExample(dst []byte, name string, schema codec.RawMessage, depth int) []byte {
	o, ok := objectOf(schema)
	if !ok { // true, or nothing said about it
		return appendString(dst, "example")
	}
	if depth > maxSchemaDepth {
		return append(dst, "null"...)
	}
	if values := arrayOf(o["enum"]); len(values) > 0 {
		return appendOneLine(dst, values[0])
	}
	for _, key := range []string{"const", "default"} {
		if v, ok := o[key]; ok {
			return appendOneLine(dst, v)
		}
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if choices := arrayOf(o[key]); len(choices) > 0 {
			return appendExample(dst, name, choices[0], depth+1)
		}
	}
	switch schemaType(o) {
	case kindObject:
		return appendMembers(dst, o, depth)
	case kindArray:
		n, _ := strconv.Atoi(string(o["minItems"]))
		dst = append(dst, '[')
		for i := range min(n, maxItems) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendExample(dst, name, o["items"], depth+1)
		}
		return append(dst, ']')
	case "integer", kindNumber:
		if kindOf(o["minimum"]) == kindNumber {
			return appendOneLine(dst, o["minimum"])
		}
		return append(dst, '1')
	case kindBoolean:
		return append(dst, "true"...)
	case kindNull:
		return append(dst, "null"...)
	default:
		return appendString(dst, exampleString(name))
	}
}

// schemaType is the first type that is not null, told by the members if it is not said.
func schemaType(o object) string {
	if t := stringOf(o["type"]); t != "" {
		return t
	}
	for _, e := range arrayOf(o["type"]) {
		if t := stringOf(e); t != kindNull {
			return t
		}
	}
	switch {
	case o["properties"] != nil:
		return kindObject
	case o["items"] != nil:
		return kindArray
	default:
		return kindString
	}
}

// exampleString is harmless in the hands of the tools that agents offer.
func exampleString(name string) string {
	switch name {
	case "command", "cmd":
		return "echo hello"
	case "path", "file", "file_path", "filePath", "filename":
		return "README.md"
	case "url":
		return "https://example.com/"
	case "city", "location":
		return "Paris"
	default:
		return "example"
	}
}
