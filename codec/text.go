package codec

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is the body of a JSON string: what stands between its quotes, still escaped. A Text that a Scanner reports as clean
// may be put between quotes as it is; any other goes through a Joiner first. It borrows from the bytes it was scanned from.
type Text []byte

// String returns the text unescaped, in memory of its own. Lone surrogates and invalid UTF-8 become U+FFFD.
func (t Text) String() string {
	if i := firstSpecial(t); i == len(t) {
		return string(t)
	}
	return string(t.AppendTo(make([]byte, 0, len(t))))
}

// AppendTo appends the text unescaped to dst. Lone surrogates and invalid UTF-8 become U+FFFD.
func (t Text) AppendTo(dst []byte) []byte {
	for i := 0; i < len(t); {
		n := firstSpecial(t[i:])
		dst = append(dst, t[i:i+n]...)
		if i += n; i == len(t) {
			break
		}
		switch c := t[i]; {
		case c == '\\' && i+1 < len(t):
			if t[i+1] != 'u' {
				dst = append(dst, unescaped[t[i+1]])
				i += 2
				continue
			}
			r := hex4(t[i+2:])
			i += 6
			if utf16.IsSurrogate(r) {
				lo := lowSurrogate(t, i)
				if r = utf16.DecodeRune(r, lo); r != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(t[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		default:
			dst = append(dst, c)
			i++
		}
	}
	return dst
}

// AppendText appends s to dst as a JSON string body: quotes, backslashes and control characters are escaped, invalid UTF-8
// becomes U+FFFD, and U+0085, U+2028 and U+2029 are written as escapes.
func AppendText[T []byte | string](dst []byte, s T) []byte {
	start := 0
	for i := 0; i < len(s); {
		if i += leadingPlain(s[i:]); i == len(s) {
			break
		}
		c := s[i]
		if e := escapes[c]; e != 0 {
			dst = append(append(dst, s[start:i]...), '\\', e)
			i++
			start = i
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[start:i]...)
			dst = appendHex(dst, rune(c))
			i++
			start = i
			continue
		}
		if n := wide(s[i:]); n > 0 {
			i += n
			continue
		}
		r, n := decodeRune(s, i)
		dst = appendUnfit(append(dst, s[start:i]...), r)
		i += n
		start = i
	}
	return append(dst, s[start:]...)
}

// wide returns how many bytes s begins with that are characters beyond ASCII and may stand as they are.
func wide[T []byte | Text | string](s T) int {
	i := 0
	for i < len(s) && s[i] >= utf8.RuneSelf {
		// Most of Chinese, Japanese and Korean: any two continuation bytes are right behind these.
		if c := s[i]; c > 0xE2 && c < 0xED && i+2 < len(s) && s[i+1]&0xC0 == 0x80 && s[i+2]&0xC0 == 0x80 {
			i += 3
			continue
		}
		r, n := decodeRune(s, i)
		if r == utf8.RuneError && n == 1 || breaksLines(r) {
			break
		}
		i += n
	}
	return i
}

// appendUnfit appends what stands for a character at which wide stops: U+FFFD for bytes that are none, else its escape.
func appendUnfit(dst []byte, r rune) []byte {
	if breaksLines(r) {
		return appendHex(dst, r)
	}
	return append(dst, "\uFFFD"...)
}

// AppendString appends s to dst as a JSON string, quotes included; otherwise it is AppendText.
func AppendString[T []byte | string](dst []byte, s T) []byte {
	return append(AppendText(append(dst, '"'), s), '"')
}

func decodeRune[T []byte | Text | string](s T, i int) (rune, int) {
	var b [utf8.UTFMax]byte
	return utf8.DecodeRune(b[:copy(b[:], s[i:])])
}

// Joiner makes the deltas of one block safe to pass on: it escapes raw control characters and the line breaks that clients
// stumble over, replaces invalid UTF-8 and lone surrogates by U+FFFD, and joins a surrogate pair that was split over two
// deltas, for which it holds the first half back. The zero value is ready to use.
type Joiner struct {
	high rune // pending first half of a pair, 0 if none
}

// Pending reports whether half a character is held back.
func (j *Joiner) Pending() bool { return j.high != 0 }

// Flush appends U+FFFD to dst if half a character was held back: the block has ended without the other half.
func (j *Joiner) Flush(dst []byte) []byte {
	if j.high == 0 {
		return dst
	}
	j.high = 0
	return append(dst, "\uFFFD"...)
}

// Append appends t to dst, repaired and joined with what the delta before it ended in.
func (j *Joiner) Append(dst []byte, t Text) []byte {
	if len(t) == 0 {
		return dst
	}
	i := 0
	if j.high != 0 {
		if lo := lowSurrogate(t, 0); lo != 0 {
			dst = appendHex(appendHex(dst, j.high), lo)
			j.high = 0
			i = 6
		} else {
			dst = j.Flush(dst)
		}
	}
	for i < len(t) {
		n := firstSpecial(t[i:])
		dst = append(dst, t[i:i+n]...)
		if i += n; i == len(t) {
			break
		}
		switch c := t[i]; {
		case c == '\\':
			n = j.escape(t, i)
			if n > 0 {
				dst = append(dst, t[i:i+n]...)
				i += n
				continue
			}
			if j.high == 0 {
				dst = append(dst, "\uFFFD"...)
			}
			i += 6
		case c >= utf8.RuneSelf:
			if n := wide(t[i:]); n > 0 {
				dst = append(dst, t[i:i+n]...)
				i += n
				continue
			}
			r, n := utf8.DecodeRune(t[i:])
			dst = appendUnfit(dst, r)
			i += n
		default:
			dst = appendControl(dst, c)
			i++
		}
	}
	return dst
}

// escape returns the length of the escape at i if it can be copied as it is. Otherwise it is broken, which no Scanner lets pass,
// or half a pair: it is held back if the text ends with it, and lone if not.
func (j *Joiner) escape(t Text, i int) int {
	if i+1 == len(t) {
		return 0
	}
	if t[i+1] != 'u' {
		if unescaped[t[i+1]] == 0 {
			return 0
		}
		return 2
	}
	r := hex4(t[i+2:])
	switch {
	case r < 0:
		return 0
	case !utf16.IsSurrogate(r):
		return 6
	case r < lowMin && lowSurrogate(t, i+6) != 0:
		return 12
	case r < lowMin && i+6 == len(t):
		j.high = r
	}
	return 0
}

const (
	highMin = 0xD800
	lowMin  = 0xDC00
	lowMax  = 0xDFFF
)

// lowSurrogate returns the second half of a pair that stands escaped at t[i:], 0 if there is none.
func lowSurrogate(t Text, i int) rune {
	if i+6 <= len(t) && t[i] == '\\' && t[i+1] == 'u' {
		if r := hex4(t[i+2:]); r >= lowMin && r <= lowMax {
			return r
		}
	}
	return 0
}

// breaksLines reports whether clients that split on Unicode line breaks would take r for one.
func breaksLines(r rune) bool { return r == 0x85 || r == 0x2028 || r == 0x2029 }

func appendHex(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

// appendControl appends the escape of a quote, a backslash or a control character.
func appendControl(dst []byte, c byte) []byte {
	if e := escapes[c]; e != 0 {
		return append(dst, '\\', e)
	}
	return appendHex(dst, rune(c))
}

// escapes are the letters of short escapes, by what they stand for.
var escapes = [256]byte{'"': '"', '\\': '\\', '\n': 'n', '\r': 'r', '\t': 't'}

// hex4 reads four hexadecimal digits; -1 if they are not.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	h := hexValue[b[0]] | hexValue[b[1]] | hexValue[b[2]] | hexValue[b[3]]
	if h < 0 {
		return -1
	}
	return rune(hexValue[b[0]])<<12 | rune(hexValue[b[1]])<<8 | rune(hexValue[b[2]])<<4 | rune(hexValue[b[3]])
}

var hexValue = func() (t [256]int8) {
	for i := range t {
		t[i] = -1
	}
	for i := range 10 {
		t['0'+i] = int8(i)
	}
	for i := range 6 {
		t['a'+i], t['A'+i] = int8(10+i), int8(10+i)
	}
	return t
}()

// plain marks the ASCII bytes that a JSON string holds unescaped.
var plain = func() (t [utf8.RuneSelf]bool) {
	for i := 0x20; i < len(t); i++ {
		t[i] = i != '"' && i != '\\'
	}
	return t
}()

// unescaped maps the letter of a two-byte escape to what it stands for; 0 marks letters that are no escape.
var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// firstSpecial returns the index of the first byte of b that is a quote, a backslash, a control character or not ASCII;
// len(b) if there is none.
func firstSpecial(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if m := specials(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c >= utf8.RuneSelf || !plain[c] {
			break
		}
	}
	return i
}

// leadingPlain is firstSpecial for both forms of text. It looks at a few bytes one by one before it takes them by eights: in text with many
// escapes the next one is near.
func leadingPlain[T []byte | string](s T) int {
	i := 0
	for ; i < min(near, len(s)); i++ {
		if c := s[i]; c >= utf8.RuneSelf || !plain[c] {
			return i
		}
	}
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		if m := specials(w); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c >= utf8.RuneSelf || !plain[c] {
			break
		}
	}
	return i
}

// near is how many bytes that is.
const near = 4

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// specials sets the top bit of each of the eight bytes in w that firstSpecial looks for. Lanes above the first hit may be
// wrong, the first never is.
func specials(w uint64) uint64 {
	quote := w ^ ones*'"'
	slash := w ^ ones*'\\'
	return (w | (w-ones*0x20)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs
}
