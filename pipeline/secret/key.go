package secret

import (
	"strings"
	"unicode"
)

// CleanKey strips what pasting leaves around a key: white space, control characters and the marks of bracketed paste.
func CleanKey(key string) string {
	key = strings.NewReplacer("\x1b[200~", "", "\x1b[201~", "").Replace(key)
	return strings.TrimFunc(key, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == '\uFEFF' })
}
