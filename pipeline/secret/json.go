package secret

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"amplifier-agent/codec"
)

// JSON returns a JSON value, a config that is to be shown, with whatever looks like a credential masked, at any depth: values of
// members whose names say so, all members of headers, arguments behind or in a flag whose name says so, and in any string the user
// of a URL, parameters of a URL and what follows Bearer or Basic. null, "" and truth values stay, since they tell only that there is
// none. Apart from that data stays as it is, to the byte. Of what is no JSON nothing is shown.
func JSON(data []byte) []byte {
	var j shown
	j.s.Reset(data)
	j.src = data
	j.value()
	if j.s.End() != nil {
		return []byte(`"` + stars + `"`)
	}
	return append(j.dst, j.src[j.copied:]...)
}

// shown is a JSON value in the course of being masked.
type shown struct {
	s      codec.Scanner
	src    []byte
	dst    []byte
	copied int // of src: what is before it is in dst, masked
}

func (j *shown) value() {
	switch j.s.Kind() {
	case codec.Object:
		for j.s.Object(); j.s.Key(); {
			switch name := string(j.s.Name()); {
			case credential(name):
				j.hide(counts(name))
			case headers(name) && j.s.Kind() == codec.Object:
				for j.s.Object(); j.s.Key(); {
					j.hide(false)
				}
			default:
				j.value()
			}
		}
	case codec.Array:
		hide := false // the element before is a flag such as --api-key
		for j.s.Array(); j.s.Elem(); {
			switch {
			case hide:
				j.hide(false)
				hide = false
			case j.s.Kind() == codec.String:
				hide = flag(j.text())
			default:
				j.value()
			}
		}
	case codec.String:
		j.text()
	default:
		j.s.Skip()
	}
}

// hide replaces the next value. A number stays if it may be one that counts tokens.
func (j *shown) hide(count bool) {
	kind := j.s.Kind()
	start := j.s.Offset()
	raw := j.s.Span()
	if kind == codec.Bool || kind == codec.Null || kind == codec.Number && count || string(raw) == `""` {
		return
	}
	j.replace(start, stars)
}

// text reads the next string, masks what is in it and returns it as it was.
func (j *shown) text() string {
	j.s.Kind() // stands before the quote
	start := j.s.Offset()
	t, _ := j.s.Text()
	was := t.String()
	if masked := words(was); masked != was {
		j.replace(start, masked)
	}
	return was
}

// replace puts a string in the place of the value from start up to where the scanner is.
func (j *shown) replace(start int, s string) {
	j.dst = append(j.dst, j.src[j.copied:start]...)
	j.dst = codec.AppendString(j.dst, s)
	j.copied = j.s.Offset()
}

// Endings of the words of a name that say that its value is a credential. They are endings because names such as apikey run
// words together.
var credentials = []string{"key", "token", "secret", "password", "passwd", "passphrase", "pass", "pwd", "credential",
	"authorization", "auth", "bearer", "jwt", "cookie"}

// credential reports whether a name looks like that of a credential.
func credential(name string) bool {
	for _, w := range split(name) {
		for _, c := range credentials {
			if strings.HasSuffix(w, c) || strings.HasSuffix(w, c+"s") {
				return true
			}
		}
	}
	return false
}

// Parameter reports whether a parameter of a URL is called like one that holds a credential: as credentials are called elsewhere, or
// as in URLs only, where a function's key is its code and a signature lets in whoever has it.
func Parameter(name string) bool {
	return credential(name) || slices.Contains([]string{"code", "sig", "signature"}, strings.ToLower(name))
}

// counts reports whether a name is one such as max_tokens or token_limit, whose value is no secret if it is a number.
func counts(name string) bool {
	for _, w := range split(name) {
		if w == "token" || w == "tokens" {
			return len(split(name)) > 1
		}
	}
	return false
}

func headers(name string) bool { return strings.HasSuffix(strings.ToLower(name), "headers") }

// split returns the words of a name in lower case: api_key, api-key and apiKey have the same.
func split(name string) []string {
	var b strings.Builder
	lower := false
	for _, r := range name {
		if unicode.IsUpper(r) && lower {
			b.WriteByte(' ')
		}
		lower = unicode.IsLower(r) || unicode.IsDigit(r)
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			r = ' '
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(b.String())
}

// flag reports whether an argument is a flag whose value, a credential, is the next argument.
func flag(arg string) bool {
	return strings.HasPrefix(arg, "-") && !strings.ContainsAny(arg, "= :") && credential(arg)
}

var (
	urlUser   = regexp.MustCompile(`(://)[^\s/?#]*@`)
	scheme    = regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[^\s"',;]+`)
	parameter = regexp.MustCompile(`([?&;\s]([\w.-]+)=)[^\s&#;]+`)
	whole     = regexp.MustCompile(`(?s)^(\s*([\w.-]+)(?:=|:\s+)).+$`) // --key=…, KEY=…, Key: …
)

// words masks credentials inside a text.
func words(s string) string {
	s = urlUser.ReplaceAllString(s, "${1}"+stars+"@")
	s = scheme.ReplaceAllString(s, "${1}"+stars)
	for _, re := range []*regexp.Regexp{parameter, whole} {
		s = re.ReplaceAllStringFunc(s, func(m string) string {
			if p := re.FindStringSubmatch(m); p != nil && (credential(p[2]) || strings.ContainsAny(m[:1], "?&") && Parameter(p[2])) {
				return p[1] + stars
			}
			return m
		})
	}
	return s
}
