package catalog

import (
	"fmt"
	"strings"
)

// fields are what a mapping of the front matter says. Its methods return the zero value for a key that is not there or null, and
// an error, which names the key, for a value of another kind. A key matches with hyphens as with underscores.
type fields map[string]any

func (f fields) get(key string) any {
	if v := f[key]; v != nil {
		return v
	}
	if v := f[strings.ReplaceAll(key, "_", "-")]; v != nil {
		return v
	}
	return f[strings.ReplaceAll(key, "-", "_")]
}

func (f fields) mapping(key string) (fields, error) {
	switch v := f.get(key).(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return v, nil
	}
	return nil, fmt.Errorf("%s is no mapping: write '%[1]s:' with its keys indented below it", key)
}

// text returns a scalar as trimmed text.
func (f fields) text(key string) (string, error) {
	s, ok := scalar(f.get(key))
	if !ok {
		return "", fmt.Errorf("%s is no text: write one value, no list and no mapping", key)
	}
	return s, nil
}

// required is text that must be there.
func (f fields) required(key string) (string, error) {
	s, err := f.text(key)
	if err == nil && s == "" {
		err = fmt.Errorf("front matter has no %s: add a line '%[1]s: …'", key)
	}
	return s, err
}

// flag also returns whether the file says anything.
func (f fields) flag(key string) (value, said bool, err error) {
	s, ok := scalar(f.get(key))
	if !ok {
		return false, false, fmt.Errorf("%s is neither true nor false: write '%[1]s: true' or '%[1]s: false'", key)
	}
	switch strings.ToLower(s) {
	case "":
		return false, false, nil
	case "true", "yes", "on": // YAML 1.1 took all of them
		return true, true, nil
	case "false", "no", "off":
		return false, true, nil
	}
	return false, false, fmt.Errorf("%s is neither true nor false: write '%[1]s: true' or '%[1]s: false'", key)
}

// words returns a list of texts, which may also be written as one text with blanks or commas in between.
func (f fields) words(key string) ([]string, error) {
	v := f.get(key)
	if list, ok := v.([]any); ok {
		words := make([]string, 0, len(list))
		for _, v := range list {
			s, ok := scalar(v)
			if !ok || s == "" {
				return nil, fmt.Errorf("%s has an entry that is no name: write '%[1]s: [one, two]'", key)
			}
			words = append(words, s)
		}
		return words, nil
	}
	s, ok := scalar(v)
	if !ok {
		return nil, fmt.Errorf("%s is no list of names: write '%[1]s: [one, two]'", key)
	}
	return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" \t\n,", r) }), nil
}

// scalar returns v as text, "" if it is nil, and false if it is a list or a mapping.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "", true
	case string:
		return strings.TrimSpace(strings.ToValidUTF8(v, replacement)), true
	case []any, map[string]any:
		return "", false
	}
	return fmt.Sprint(v), true
}
