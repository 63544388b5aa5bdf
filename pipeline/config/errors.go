package config

import (
	"fmt"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Code says what is wrong with a host config. All are of the class protocol: a program ends with 2.
type Code string

// The codes, in the order in which a file is judged. The codes of types and modules take turns.
const (
	CodeUnreadable    Code = "config_unreadable"
	CodeMalformed     Code = "config_malformed_json" // no JSON, a key twice in one object, or no object
	CodeUnknownKey    Code = "config_unknown_key"
	CodeInvalidType   Code = "config_invalid_type" // a wrong type, a value out of range, an unknown key in skills or debug
	CodeInvalidModule Code = "config_invalid_provider_module"
)

// Error is what is wrong with a host config. Path is that of the key, such as limits.bodyBytes, "" if it is about the whole file.
// The message names it, holds no secret, and says what is expected.
type Error struct {
	Code    Code
	Message string
	Path    string
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// maxShownBytes bounds what a message repeats of a file.
const maxShownBytes = 60

func quote(s string) string {
	if len(s) > maxShownBytes {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(s[:maxShownBytes], ""))
	}
	return fmt.Sprintf("%q", s)
}

// unknownKey is the error of a key that is none of those below parent, which is at path in the file.
func unknownKey(code Code, parent, path, name string) *Error {
	full := join(path, name)
	e := &Error{Code: code, Path: full, Message: "unknown key " + quote(full)}
	var here, paths, names []string
	for _, k := range Keys {
		if k.parent() == parent {
			here = append(here, k.name())
		}
		if k.parent() != entry.Path && k.name() != entry.name() {
			paths, names = append(paths, k.Path), append(names, k.name())
		}
	}
	if i := nearest(name, here); i >= 0 {
		e.Message += fmt.Sprintf(": did you mean %q?", join(path, here[i]))
	} else if i := nearest(name, names); i >= 0 {
		e.Message += fmt.Sprintf(": did you mean %q?", paths[i])
	} else {
		e.Message += ": known here are " + strings.Join(here, ", ")
	}
	return e
}

// nearest returns the index of the name that was most likely meant, -1 if none is near.
func nearest(name string, names []string) int {
	if len(name) > maxShownBytes {
		return -1
	}
	best, bestDistance := -1, len(name)/2+1
	lower := strings.ToLower(name)
	for i, n := range names {
		if d := levenshtein.ComputeDistance(lower, strings.ToLower(n)); d < bestDistance {
			best, bestDistance = i, d
		}
	}
	return best
}

// join is the path of a member or, in brackets, of an element.
func join(path, name string) string {
	if path == "" || strings.HasPrefix(name, "[") {
		return path + name
	}
	return path + "." + name
}
