package codec

import "slices"

const (
	maxMouldBytes = 1 << 10 // of a line, apart from its text
	maxMisses     = 8       // lines in a row that were learned in vain, until no more are
)

// Mould recognises a line of JSON that differs from one that was decoded before in the text of one string only, as deltas mostly do: it is
// then known what the line says without parsing it. The zero value knows none.
type Mould struct {
	line   []byte // what stands around the text: up to its opening quote, and from its closing one on
	at     int    // where the text stands
	misses int
}

// Text returns the text of a line that fits, which is not empty; ok is false if the line does not. It borrows from line. Clean is as
// Scanner.Clean. Decoders may take another member where one is empty, so that lines with an empty text do not fit.
func (m *Mould) Text(line []byte) (t Text, clean, ok bool) {
	if m.at == 0 || len(line) < len(m.line) || string(line[:m.at]) != string(m.line[:m.at]) {
		return nil, false, false
	}
	end, f := scanString(line, m.at)
	if end <= m.at || string(line[end:]) != string(m.line[m.at:]) {
		return nil, false, false
	}
	m.misses = 0
	return line[m.at:end:end], f&dirty == 0, true
}

// Learn has the next lines compared with this one, which did not fit, and reports whether it does. t is the text of one of its strings,
// as a Scanner has returned it.
func (m *Mould) Learn(line []byte, t Text) bool {
	at, n := cap(line)-cap(t), len(line)-len(t) // t is a part of line
	if m.misses == maxMisses || len(t) == 0 || n > maxMouldBytes {
		return false
	}
	m.misses++
	m.line = append(append(slices.Grow(m.line[:0], n), line[:at]...), line[at+len(t):]...)
	m.at = at
	return true
}
