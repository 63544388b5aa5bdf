package codec

import (
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Errors of this package. A face turns them into its own words.
var (
	ErrSyntax   = errors.New("not valid JSON")
	ErrDepth    = errors.New("JSON nested too deeply")
	ErrTooLarge = errors.New("larger than the limit")
)

// MaxDepth is how many objects and arrays may stand inside one another.
const MaxDepth = 512

// Kind is what a JSON value is, told from its first byte.
type Kind uint8

// The kinds of JSON values. Invalid also stands for the end of the input and for a scanner that has failed.
const (
	Invalid Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// Scanner reads one JSON value in one pass and without allocating. Members may come in any order and more than once, keys may
// be escaped, unknown values are passed over: the caller loops over Key and takes what it knows. Everything it returns borrows
// from the input; an unescaped key also from the scanner, until the next Key.
//
//	s.Reset(line)
//	for s.Object(); s.Key(); {
//		switch string(s.Name()) {
//		case "type":
//			typ, _ = s.Text()
//		default:
//			s.Skip()
//		}
//	}
//	if s.End() != nil { … }
//
// Errors stick: after the first, Key and Elem return false and End reports it. Exactly one value must be consumed after each
// Key and each Elem that returned true.
type Scanner struct {
	b      []byte
	i      int
	err    error
	comma  bool // another member or element needs one before it
	depth  int
	key    []byte
	keyBuf []byte
	clean  bool
}

// Reset makes the scanner read b from its beginning.
func (s *Scanner) Reset(b []byte) {
	s.b, s.i, s.err, s.comma, s.depth, s.key = b, 0, nil, false, 0, nil
}

// Kind tells what the next value is, without consuming it.
func (s *Scanner) Kind() Kind {
	if s.err != nil {
		return Invalid
	}
	s.space()
	if s.i == len(s.b) {
		return Invalid
	}
	return kinds[s.b[s.i]]
}

// Object enters the next value if it is an object; otherwise the scanner fails.
func (s *Scanner) Object() { s.enter('{') }

// Array enters the next value if it is an array; otherwise the scanner fails.
func (s *Scanner) Array() { s.enter('[') }

func (s *Scanner) enter(open byte) {
	if s.err != nil {
		return
	}
	s.space()
	if s.i == len(s.b) || s.b[s.i] != open {
		s.fail(ErrSyntax)
		return
	}
	if s.depth == MaxDepth {
		s.fail(ErrDepth)
		return
	}
	s.depth++
	s.i++
	s.comma = false
}

// Key moves to the next member of the object that was entered and reports whether there is one; its key is Name. At the end
// of the object it leaves it.
func (s *Scanner) Key() bool {
	if !s.next('}') {
		return false
	}
	if s.i == len(s.b) || s.b[s.i] != '"' {
		s.fail(ErrSyntax)
		return false
	}
	end, f := scanString(s.b, s.i+1)
	if end < 0 {
		s.fail(ErrSyntax)
		return false
	}
	s.key = s.b[s.i+1 : end]
	if f&escaped != 0 {
		s.keyBuf = Text(s.key).AppendTo(s.keyBuf[:0])
		s.key = s.keyBuf
	}
	s.i = end + 1
	s.space()
	if s.i == len(s.b) || s.b[s.i] != ':' {
		s.fail(ErrSyntax)
		return false
	}
	s.i++
	return true
}

// Name is the key of the member that Key moved to, unescaped.
func (s *Scanner) Name() []byte { return s.key }

// Elem moves to the next element of the array that was entered and reports whether there is one. At the end of the array it
// leaves it.
func (s *Scanner) Elem() bool { return s.next(']') }

// next stands behind the comma before the next member or element, or leaves the object or array.
func (s *Scanner) next(closing byte) bool {
	if s.err != nil {
		return false
	}
	s.space()
	if s.i == len(s.b) {
		s.fail(ErrSyntax)
		return false
	}
	c := s.b[s.i]
	if c == closing {
		s.i++
		s.depth--
		s.comma = true // in what this one stands in
		return false
	}
	if s.comma {
		if c != ',' {
			s.fail(ErrSyntax)
			return false
		}
		s.i++
		s.space()
	}
	s.comma = true
	return true
}

// Text consumes the next value; ok tells whether it is a string. Clean then tells whether it may be passed on as it is.
func (s *Scanner) Text() (t Text, ok bool) {
	if s.Kind() != String {
		s.Skip()
		return nil, false
	}
	end, f := scanString(s.b, s.i+1)
	if end < 0 {
		s.fail(ErrSyntax)
		return nil, false
	}
	t = s.b[s.i+1 : end]
	s.clean = f&dirty == 0
	s.i = end + 1
	return t, true
}

// Clean reports whether the Text read last can stand between quotes as it is. If not, a Joiner makes it so.
func (s *Scanner) Clean() bool { return s.clean }

// Raw consumes the next value of any kind and returns its bytes, which are strictly valid JSON apart from, at worst, invalid
// UTF-8 inside strings.
func (s *Scanner) Raw() []byte { return s.span(true) }

// Span is Raw for a value that is scanned again and not passed on: like Skip it lets raw control characters inside strings be.
func (s *Scanner) Span() []byte { return s.span(false) }

func (s *Scanner) span(strict bool) []byte {
	s.space()
	start := s.i
	s.skip(strict)
	if s.err != nil {
		return nil
	}
	return s.b[start:s.i]
}

// Skip consumes the next value.
func (s *Scanner) Skip() { s.skip(false) }

// Int consumes the next value; ok tells whether it is a number that is whole, not negative and below 2^53.
func (s *Scanner) Int() (n int64, ok bool) {
	if s.Kind() != Number {
		s.Skip()
		return 0, false
	}
	raw := s.Raw()
	for _, c := range raw {
		if c < '0' || c > '9' || len(raw) > 15 {
			f, err := strconv.ParseFloat(string(raw), 64)
			if n = int64(f); err != nil || f < 0 || f >= 1<<53 || float64(n) != f {
				return 0, false
			}
			return n, true
		}
		n = n*10 + int64(c-'0')
	}
	return n, raw != nil
}

// Bool consumes the next value and reports whether it is true; ok tells whether it is a boolean.
func (s *Scanner) Bool() (v, ok bool) {
	if s.Kind() != Bool {
		s.Skip()
		return false, false
	}
	raw := s.Raw()
	return string(raw) == "true", raw != nil
}

// End reports the first error, or that something stands behind the value.
func (s *Scanner) End() error {
	if s.err == nil {
		if s.space(); s.i != len(s.b) || s.depth != 0 {
			s.fail(ErrSyntax)
		}
	}
	return s.err
}

// Err reports the first error so far.
func (s *Scanner) Err() error { return s.err }

// Offset is how many bytes have been consumed; after an error, where it was found.
func (s *Scanner) Offset() int { return s.i }

func (s *Scanner) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *Scanner) space() {
	for s.i < len(s.b) && s.b[s.i] <= ' ' && isSpace[s.b[s.i]] {
		s.i++
	}
}

var isSpace = [256]bool{' ': true, '\t': true, '\r': true, '\n': true}

var kinds = [256]Kind{
	'n': Null, 't': Bool, 'f': Bool, '"': String, '[': Array, '{': Object, '-': Number,
	'0': Number, '1': Number, '2': Number, '3': Number, '4': Number, '5': Number, '6': Number, '7': Number, '8': Number, '9': Number,
}

type textFlags uint8

const (
	escaped textFlags = 1 << iota // holds a backslash
	dirty                         // must not be passed on as it is
	control                       // holds a raw control character, which strict JSON forbids
)

// scanString finds the end of the string whose first byte behind the opening quote is b[i]: the index of its closing quote,
// negative if there is none or an escape is broken. On the way it finds out whether the text must be rewritten.
func scanString(b []byte, i int) (end int, f textFlags) {
	for {
		i += firstSpecial(b[i:])
		if i == len(b) {
			return -1, f
		}
		switch c := b[i]; {
		case c == '"':
			return i, f
		case c == '\\':
			f |= escaped
			if i+1 == len(b) {
				return -1, f
			}
			if b[i+1] != 'u' {
				if unescaped[b[i+1]] == 0 {
					return -1, f
				}
				i += 2
				continue
			}
			r := hex4(b[i+2:])
			if r < 0 {
				return -1, f
			}
			i += 6
			if utf16.IsSurrogate(r) {
				if r < lowMin && lowSurrogate(b, i) != 0 {
					i += 6
				} else {
					f |= dirty
				}
			}
		case c >= utf8.RuneSelf:
			n := wide(b[i:])
			if n == 0 {
				f |= dirty
				_, n = utf8.DecodeRune(b[i:])
			}
			i += n
		default:
			f |= dirty | control
			i++
		}
	}
}
