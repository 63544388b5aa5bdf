package codec

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	json "github.com/goccy/go-json"
)

// RawMessage is a JSON value kept as the bytes it was read from.
type RawMessage = json.RawMessage

// Marshal returns the JSON encoding of v without HTML escaping. What it returns is valid UTF-8 and holds U+0085, U+2028 and U+2029
// only as escapes, raw values included. For everything off the hot path; events and frames are appended by hand.
func Marshal(v any) ([]byte, error) {
	b, err := json.MarshalWithOption(v, json.DisableHTMLEscape())
	return tidy(b), err
}

// MarshalIndent is Marshal with two spaces of indentation, for people.
func MarshalIndent(v any) ([]byte, error) {
	b, err := json.MarshalIndentWithOption(v, "", "  ", json.DisableHTMLEscape())
	return tidy(b), err
}

// tidy rewrites what go-json and raw values let through and clients stumble over. In valid JSON it can stand in strings only.
func tidy(b []byte) []byte {
	var dst []byte
	start := 0
	for i := 0; i < len(b); {
		if b[i] < utf8.RuneSelf {
			i++
			continue
		}
		if n := wide(b[i:]); n > 0 {
			i += n
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		dst = appendUnfit(append(dst, b[start:i]...), r)
		i += n
		start = i
	}
	if start == 0 {
		return b
	}
	return append(dst, b[start:]...)
}

// Unmarshal decodes data into v. It checks first, with a bound on nesting, that data is exactly one JSON value, so that
// hostile input is refused before any reflection sees it.
func Unmarshal(data []byte, v any) error {
	if err := Validate(data); err != nil {
		return err
	}
	err := json.Unmarshal(data, v)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return misfit(e)
	}
	return err
}

// called are the types of JSON values, for people, by what go-json calls them.
var called = map[string]string{"string": "a string", "number": "a number", "bool": "true or false", "array": "a list", "object": "an object"}

// misfit tells people of a value that is not of the type that is expected, without the names that types have in here.
func misfit(e *json.UnmarshalTypeError) error {
	got, number, _ := strings.Cut(e.Value, " ")
	got = cmp.Or(number, called[got], got)
	want := called["object"]
	switch kind := e.Type.Kind(); {
	case kind >= reflect.Int && kind <= reflect.Uintptr:
		want = "a whole number"
	case kind == reflect.Float32, kind == reflect.Float64:
		want = called["number"]
	case kind == reflect.String:
		want = called["string"]
	case kind == reflect.Bool:
		want = called["bool"]
	case kind == reflect.Slice, kind == reflect.Array:
		want = called["array"]
	}
	path := strings.TrimPrefix(e.Field, ".")
	if path != "" {
		path += ": "
	}
	return fmt.Errorf("%sexpected %s, got %s", path, want, got)
}

// Read decodes one JSON document of at most limit bytes from r into v.
func Read(r io.Reader, limit int64, v any) error {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return err
	}
	if int64(len(data)) > limit {
		return ErrTooLarge
	}
	return Unmarshal(data, v)
}
