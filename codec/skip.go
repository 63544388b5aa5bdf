package codec

// Validate checks that data is exactly one JSON value with at most MaxDepth levels. It is strict but for invalid UTF-8 inside
// strings, which decoders replace.
func Validate(data []byte) error {
	var s Scanner
	s.Reset(data)
	s.skip(true)
	return s.End()
}

// skip consumes one value of any depth without recursion. Strict also refuses raw control characters inside strings.
func (s *Scanner) skip(strict bool) {
	if s.err != nil {
		return
	}
	var stack nesting
	for {
		s.space()
		if s.i == len(s.b) {
			s.fail(ErrSyntax)
			return
		}
		switch c := s.b[s.i]; c {
		case '{', '[':
			if s.depth+stack.n == MaxDepth {
				s.fail(ErrDepth)
				return
			}
			stack.push(c == '{')
			s.i++
			if s.space(); s.i < len(s.b) && s.b[s.i] == c+2 { // '{'+2 is '}', '['+2 is ']'
				s.i++
				stack.n--
			} else if c == '{' {
				if !s.member(strict) {
					return
				}
				continue
			} else {
				continue
			}
		case '"':
			if !s.str(strict) {
				return
			}
		default:
			if !s.scalar() {
				s.fail(ErrSyntax)
				return
			}
		}
		if !s.after(&stack, strict) {
			return
		}
	}
}

// after stands behind a value: it closes what ends here and moves to the next value, if there is one and nothing is wrong.
func (s *Scanner) after(stack *nesting, strict bool) (more bool) {
	for stack.n > 0 {
		s.space()
		if s.i == len(s.b) {
			s.fail(ErrSyntax)
			return false
		}
		c, object := s.b[s.i], stack.top()
		s.i++
		switch {
		case c == ',' && object:
			return s.member(strict)
		case c == ',':
			return true
		case c == '}' && object, c == ']' && !object:
			stack.n--
		default:
			s.i--
			s.fail(ErrSyntax)
			return false
		}
	}
	return false
}

// member consumes a key and the colon behind it.
func (s *Scanner) member(strict bool) bool {
	s.space()
	if s.i == len(s.b) || s.b[s.i] != '"' {
		s.fail(ErrSyntax)
		return false
	}
	if !s.str(strict) {
		return false
	}
	if s.space(); s.i == len(s.b) || s.b[s.i] != ':' {
		s.fail(ErrSyntax)
		return false
	}
	s.i++
	return true
}

func (s *Scanner) str(strict bool) bool {
	end, f := scanString(s.b, s.i+1)
	if end < 0 || strict && f&control != 0 {
		s.fail(ErrSyntax)
		return false
	}
	s.i = end + 1
	return true
}

// scalar consumes a literal or a number.
func (s *Scanner) scalar() bool {
	b := s.b[s.i:]
	switch kinds[b[0]] {
	case Null:
		return s.literal(b, "null")
	case Bool:
		return s.literal(b, "true") || s.literal(b, "false")
	case Number:
		n := numberLen(b)
		s.i += n
		return n > 0
	}
	return false
}

func (s *Scanner) literal(b []byte, word string) bool {
	if len(b) < len(word) || string(b[:len(word)]) != word {
		return false
	}
	s.i += len(word)
	return true
}

// numberLen returns the length of the JSON number that b starts with, 0 if there is none.
func numberLen(b []byte) int {
	i := 0
	if i < len(b) && b[i] == '-' {
		i++
	}
	digits := func() bool {
		start := i
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		return i > start
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		return 0
	}
	if i < len(b) && b[i] == '.' {
		if i++; !digits() {
			return 0
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return 0
		}
	}
	return i
}

// nesting is a stack of bits: which of the values that stand open are objects.
type nesting struct {
	bits [MaxDepth / 64]uint64
	n    int
}

func (n *nesting) push(object bool) {
	w, bit := n.n/64, uint64(1)<<(n.n%64)
	if object {
		n.bits[w] |= bit
	} else {
		n.bits[w] &^= bit
	}
	n.n++
}

func (n *nesting) top() bool { return n.bits[(n.n-1)/64]>>((n.n-1)%64)&1 == 1 }
