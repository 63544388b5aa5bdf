package secret

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"amplifier-agent/codec"
)

const (
	stars = "***" // what a secret becomes

	minSecretBytes  = 4 // shorter ones would mask ordinary words
	minEncodedBytes = 8 // of the part of a base64 text that is the secret's alone
)

// Mask knows secrets and masks them. It is safe for concurrent use; a nil *Mask and the zero Mask mask nothing.
type Mask struct {
	mu    sync.Mutex // of those that add
	forms atomic.Pointer[[]string]
}

// Add makes the mask know more secrets, from then on and in all the forms in which String finds them. Secrets shorter than 4 bytes
// are ignored. It does nothing on a nil Mask.
func (m *Mask) Add(secrets ...string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	if old := m.forms.Load(); old != nil {
		all = slices.Clone(*old)
	}
	for _, s := range secrets {
		if len(s) < minSecretBytes {
			continue
		}
		for _, f := range formsOf(s) {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	m.forms.Store(&all)
}

// String returns s with every secret in it masked: as it is, escaped in JSON, by Go's %q or in a URL, as the numbers or hex digits
// of its bytes, and in base64, also in the midst of something longer such as the credentials of basic authentication. It allocates only if there is one.
func (m *Mask) String(s string) string {
	if m == nil {
		return s
	}
	forms := m.forms.Load()
	if forms == nil {
		return s
	}
	var found []span
	for _, f := range *forms {
		for from := 0; ; {
			i := strings.Index(s[from:], f)
			if i < 0 {
				break
			}
			found = append(found, span{from + i, from + i + len(f)})
			from += i + 1 // the next may overlap
		}
	}
	if found == nil {
		return s
	}
	return cover(s, found)
}

// span is a part of a text, from start up to but without end.
type span struct{ start, end int }

// cover returns s with stars for each run of spans that touch or overlap: no rest of one secret is left behind by another.
func cover(s string, spans []span) string {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	var b strings.Builder
	done := 0 // everything before it has been written or covered
	for i, x := range spans {
		if i == 0 || x.start > done {
			b.WriteString(s[done:x.start])
			b.WriteString(stars)
		}
		done = max(done, x.end)
	}
	b.WriteString(s[done:])
	return b.String()
}

// formsOf returns the texts in which a secret may appear, without repetition.
func formsOf(s string) []string {
	escaped := string(codec.AppendText(nil, s))
	forms := []string{
		s,
		escaped,
		strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(escaped), // as encoders for web pages do
		strings.ReplaceAll(escaped, "/", `\/`),
		unquoted(strconv.Quote(s)),
		unquoted(strconv.QuoteToASCII(s)),
		url.QueryEscape(s),
		lowerHex(url.QueryEscape(s)),
		url.PathEscape(s),
		lowerHex(url.PathEscape(s)),
		url.UserPassword("", s).String()[1:], // behind the colon
		unquoted(fmt.Sprint([]byte(s))),      // numbers
		fmt.Sprintf("%x", s),
		fmt.Sprintf("%X", s),
	}
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		forms = append(forms, e.EncodeToString([]byte(s)), e.WithPadding(base64.NoPadding).EncodeToString([]byte(s)))
		for before := range 3 {
			if f := encodedAt(e, s, before); len(f) >= minEncodedBytes {
				forms = append(forms, f)
			}
		}
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

func unquoted(s string) string { return s[1 : len(s)-1] }

// encodedAt returns what the base64 of a longer text has in common for all texts that hold s behind before bytes, modulo 3.
func encodedAt(e *base64.Encoding, s string, before int) string {
	b := append(make([]byte, before, before+len(s)), s...)
	first := (before*8 + 5) / 6 // the first digit without a bit of what comes before
	last := len(b) * 8 / 6      // the first digit with a bit of what follows
	return e.EncodeToString(b)[first:last]
}

// lowerHex returns a URL-escaped text with the hex digits of its escapes in lower case.
func lowerHex(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(s[i+1:i+3]))
		}
	}
	return string(b)
}
