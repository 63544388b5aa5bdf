package simulator

import (
	"strconv"

	"amplifier-agent/codec"
)

// kindOf names the kind of a JSON value that has been seen to be valid; an absent one is undefined.
func kindOf(raw codec.RawMessage) string {
	for _, b := range raw {
		switch b {
		case ' ', '\t', '\r', '\n':
			continue
		case '{':
			return kindObject
		case '[':
			return kindArray
		case '"':
			return kindString
		case 't', 'f':
			return kindBoolean
		case 'n':
			return kindNull
		default:
			return kindNumber
		}
	}
	return kindUndefined
}

func objectOf(raw codec.RawMessage) (object, bool) {
	if kindOf(raw) != kindObject {
		return nil, false
	}
	var o object
	if err := codec.Unmarshal(raw, &o); err != nil {
		return nil, false
	}
	return o, true
}

// arrayOf returns nil for what is no array.
func arrayOf(raw codec.RawMessage) []codec.RawMessage {
	if kindOf(raw) != kindArray {
		return nil
	}
	var a []codec.RawMessage
	if err := codec.Unmarshal(raw, &a); err != nil {
		return nil
	}
	return a
}

// stringOf returns "" for what is no string.
func stringOf(raw codec.RawMessage) string {
	if kindOf(raw) != kindString {
		return ""
	}
	var s string
	if err := codec.Unmarshal(raw, &s); err != nil {
		return ""
	}
	return s
}

func join(parent, key string) string {
	if parent == "" {
		return key
	}
	return parent + "." + key
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
