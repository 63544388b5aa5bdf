package upstreamtest

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"amplifier-agent/pipeline"
)

// Script is an answer in neutral terms.
type Script struct {
	Parts  []Part
	Usage  Tokens          // not told if it is zero
	Cost   string          // US dollars, "" for none
	Finish pipeline.Reason // ReasonNone and no RawFinish: the answer has no end

	RawUsage  string // the wire's own usage object, in place of Usage
	RawFinish string // the wire's own finish reason, in place of Finish; what it looks like is the dialect's affair
}

// Part is one piece of what a model says; one of its members is set.
type Part struct {
	Reasoning string
	Text      string
	Calls     []Call // of several, the fragments come in turn
}

// Call is a tool call.
type Call struct {
	ID, Name  string
	Arguments []string // fragments of one JSON object
}

// Whole is the call as it must arrive.
func (c *Call) Whole() pipeline.Call {
	return pipeline.Call{ID: c.ID, Name: c.Name, Arguments: []byte(strings.Join(c.Arguments, ""))}
}

// Tokens is a usage as people count it.
type Tokens struct {
	Input      int64 // all of it
	CacheRead  int64 // of Input
	CacheWrite int64 // of Input
	Output     int64 // all of it
	Reasoning  int64 // of Output
}

// Buckets is the usage as it must arrive, but for which parts were reported.
func (k Tokens) Buckets() pipeline.Usage {
	return pipeline.Usage{Input: k.Input - k.CacheRead - k.CacheWrite, CacheRead: k.CacheRead, CacheWrite: k.CacheWrite, Output: k.Output, Reasoning: k.Reasoning}
}

// Ends reports whether the answer has an end.
func (s *Script) Ends() bool { return s.Finish != pipeline.ReasonNone || s.RawFinish != "" }

// Quote is s as JSON that says the same things in different ways: of the characters beyond ASCII every other one is escaped, in two
// halves where it needs them.
func Quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	escape := false
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '/':
			b.WriteString(`\/`)
		case r < ' ' || r == '<':
			fmt.Fprintf(&b, `\u%04X`, r)
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		default:
			if escape = !escape; !escape {
				b.WriteRune(r)
				continue
			}
			for _, u := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&b, `\u%04x`, u)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}

// body is all of an answer.
func (d *Dialect) body(s *Script) string {
	said, end := d.Write(s)
	return strings.Join(said, "") + strings.Join(end, "")
}

// said is an answer without its end.
func (d *Dialect) said(texts ...string) string {
	s := &Script{}
	for _, text := range texts {
		s.Parts = append(s.Parts, Part{Text: text})
	}
	said, _ := d.Write(s)
	return strings.Join(said, "")
}

// hello is a short answer that ends well.
func (d *Dialect) hello() string {
	return d.body(&Script{Parts: []Part{{Text: "hello"}}, Usage: Tokens{Input: 9, Output: 1}, Finish: pipeline.ReasonStop})
}
