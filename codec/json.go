package codec

import (
	"io"

	json "github.com/goccy/go-json"
)

// RawMessage is a JSON value kept as the bytes it was read from.
type RawMessage = json.RawMessage

// Marshal returns the JSON encoding of v without HTML escaping. For everything off the hot path; events and frames are
// appended by hand.
func Marshal(v any) ([]byte, error) {
	return json.MarshalWithOption(v, json.DisableHTMLEscape())
}

// MarshalIndent is Marshal with two spaces of indentation, for people.
func MarshalIndent(v any) ([]byte, error) {
	return json.MarshalIndentWithOption(v, "", "  ", json.DisableHTMLEscape())
}

// Unmarshal decodes data into v. It checks first, with a bound on nesting, that data is exactly one JSON value, so that
// hostile input is refused before any reflection sees it.
func Unmarshal(data []byte, v any) error {
	if err := Validate(data); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
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
