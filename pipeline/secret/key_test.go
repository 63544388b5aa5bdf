package secret

import "testing"

func TestCleanKey(t *testing.T) {
	for in, want := range map[string]string{
		"k": "k", "  k\r\n": "k", "\x1b[200~k\x1b[201~": "k", "\x00k\x7f": "k", "\u00a0k\ufeff\u200a": "k", " \x1b[200~ k \x1b[201~ ": "k", " \n": "", "a b": "a b",
	} {
		if got := CleanKey(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
