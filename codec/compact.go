package codec

import "bytes"

// AppendCompact appends src, which must be valid JSON, to dst without the white space between its tokens. Strings stay byte for
// byte, so that the result fits on one line: valid JSON holds raw line feeds between tokens only. Of other bytes it makes other
// bytes.
func AppendCompact(dst, src []byte) []byte {
	start := 0
	for i := 0; i < len(src); {
		switch c := src[i]; {
		case c == '"':
			i = stringEnd(src, i+1)
		case isSpace[c]:
			dst = append(dst, src[start:i]...)
			for i++; i < len(src) && isSpace[src[i]]; i++ {
			}
			start = i
		default:
			i++
		}
	}
	return append(dst, src[start:]...)
}

// stringEnd returns the index behind the closing quote of the string whose first byte is b[i]; len(b) if there is none.
func stringEnd(b []byte, i int) int {
	for first := i; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		quote := i + n
		i = quote + 1
		slash := quote
		for slash > first && b[slash-1] == '\\' {
			slash--
		}
		if (quote-slash)%2 == 0 {
			return i
		}
	}
}
