package config

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"amplifier-agent/codec"
)

// wellFormed checks that data is exactly one JSON value in UTF-8 in which no object has a key twice. JSON lets that pass, but one of
// the two values would be lost without a word.
func wellFormed(data []byte) error {
	if at := invalidUTF8(data); at >= 0 {
		return malformed(data, at, "not UTF-8: save the file as UTF-8")
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return &Error{Code: CodeMalformed, Message: "the file is empty: the smallest config is {}"}
	}
	var s codec.Scanner
	s.Reset(data)
	s.Raw()
	if err := s.End(); err != nil {
		return malformed(data, s.Offset(), reason(err, data[s.Offset():]))
	}
	var d twice
	d.s.Reset(data)
	if d.value() {
		err := malformed(data, d.at, fmt.Sprintf("the key %s is there twice in one object", quote(d.path)))
		err.Path = d.path
		return err
	}
	return nil
}

func malformed(data []byte, at int, what string) *Error {
	return &Error{Code: CodeMalformed, Message: position(data, at) + ": " + what}
}

// position names the place in a file that is at an offset of it.
func position(data []byte, offset int) string {
	before := data[:offset]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return fmt.Sprintf("line %d, column %d", bytes.Count(before, []byte("\n"))+1, utf8.RuneCount(line)+1)
}

// reason says what is wrong with a text that goes on with rest where it stops being JSON.
func reason(err error, rest []byte) string {
	switch {
	case errors.Is(err, codec.ErrDepth):
		return fmt.Sprintf("more than %d levels of objects and lists", codec.MaxDepth)
	case len(rest) == 0:
		return "not valid JSON: it ends too early"
	}
	switch rest[0] {
	case '}', ']':
		return "not valid JSON: is there a comma too many before it?"
	case '"':
		return `not valid JSON: a string that does not end in its line, or holds a lone \, which is written \\, or a comma is missing before it`
	case '\'':
		return `not valid JSON: strings stand in double quotes`
	case '/', '#':
		return "not valid JSON: it has no comments"
	}
	return "not valid JSON"
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, -1 if there is none.
func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return -1
}

// twice looks for a key that is in an object more than once.
type twice struct {
	s    codec.Scanner
	path string // of the key that was found
	at   int    // the offset of its value
}

// value passes over the next value, which is valid, and reports whether it found one in it.
func (d *twice) value() bool {
	switch d.s.Kind() {
	case codec.Object:
		seen := map[string]bool{}
		for d.s.Object(); d.s.Key(); {
			name := string(d.s.Name())
			found := seen[name]
			if found {
				d.s.Kind()
				d.path, d.at = name, d.s.Offset()
			} else if found = d.value(); found {
				d.path = join(name, d.path)
			}
			if found {
				return true
			}
			seen[name] = true
		}
	case codec.Array:
		n := 0
		for d.s.Array(); d.s.Elem(); n++ {
			if d.value() {
				d.path = join(fmt.Sprintf("[%d]", n), d.path)
				return true
			}
		}
	default:
		d.s.Skip()
	}
	return false
}
