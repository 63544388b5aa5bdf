package config

import (
	"strconv"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline/secret"
)

// JSON returns the config as a file that Parse reads as the same, defaults included and secrets as well, in one line.
func (h *Host) JSON() []byte {
	return h.appendObject(nil, &root, func(raw []byte) []byte { return raw })
}

// Show returns the config as JSON for people: defaults included, secrets masked (see secret.JSON).
func (h *Host) Show() ([]byte, error) {
	return codec.MarshalIndent(codec.RawMessage(h.Masked()))
}

// Masked is JSON with secrets masked.
func (h *Host) Masked() []byte { return h.appendObject(nil, &root, secret.JSON) }

// appendObject appends the object of k with what is set of the keys below it. Each value passes through mask.
func (h *Host) appendObject(dst []byte, k *Key, mask func([]byte) []byte) []byte {
	dst = append(dst, '{')
	for _, c := range children(k.Path) {
		var value []byte
		switch {
		case c.Type == Entries:
			value = h.appendEntries(nil, c, mask)
		case len(children(c.Path)) > 0:
			if value = h.appendObject(nil, c, mask); string(value) == "{}" {
				continue
			}
		default:
			if value = c.value(h); value == nil {
				continue
			}
			value = mask(value)
		}
		dst = append(appendName(dst, c.name()), value...)
	}
	return append(dst, '}')
}

func (h *Host) appendEntries(dst []byte, k *Key, mask func([]byte) []byte) []byte {
	each := children(k.Path)[0]
	dst = append(dst, '{')
	for i, p := range h.Providers {
		upTo := Host{Providers: h.Providers[:i+1]} // so that this one is the last
		dst = upTo.appendObject(appendName(dst, p.ID), each, mask)
	}
	return append(dst, '}')
}

// appendName appends the name of a member, with a comma before it unless it is the first.
func appendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(codec.AppendString(dst, name), ':')
}

// value returns the value of a key as JSON, nil if there is none and none by default.
func (k *Key) value(h *Host) []byte {
	switch p := k.field(h).(type) {
	case *[]byte:
		return *p
	case *bool:
		return strconv.AppendBool(nil, *p)
	case *int:
		return strconv.AppendInt(nil, int64(*p), 10)
	case *time.Duration:
		return strconv.AppendInt(nil, int64(*p/k.unit), 10)
	case *string:
		if *p == "" && k.Default == "" {
			return nil
		}
		return codec.AppendString(nil, *p)
	case *[]string:
		return appendList(nil, *p)
	case *[]Fallback:
		dst := []byte{'{'}
		for _, f := range *p {
			dst = appendList(appendName(dst, f.Model), f.Others)
		}
		return append(dst, '}')
	}
	return nil
}

func appendList(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = codec.AppendString(dst, s)
	}
	return append(dst, ']')
}
