package simulator

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"amplifier-agent/codec"
)

const (
	countGap       = 50 * time.Millisecond // between the numbers of "Count slowly to N"
	maxSilence     = time.Hour             // of "Stay silent for N seconds"
	maxCount       = 10_000                // of "Count slowly to N"
	replyPiece     = 8                     // characters in a delta of a dictated reply
	demoPiece      = 3                     // words in a delta of a demo answer
	maxReplyPieces = 4096                  // deltas of one text; a longer text gets longer deltas
)

// plan is what to answer, before it is put into events.
type plan struct {
	reasoning []string
	text      []string
	call      *call
	silence   time.Duration // before the first word
	gap       time.Duration // between deltas; 0 is the server's pace
}

var (
	callPrompt    = regexp.MustCompile(`Call the tool (\S+) once with these arguments: \{`)
	silencePrompt = regexp.MustCompile(`Stay silent for (\d+) seconds`)
	countPrompt   = regexp.MustCompile(`Count slowly to (\d+)`)
	replyPrompt   = regexp.MustCompile(`(?s)Reply with exactly: (.+)`)
)

// planFor reads the prompt. The sentences it knows are plain English that a real model would follow as well, so that one
// acceptance kit serves both; what it does not know gets a demo answer.
func planFor(r *Request) plan {
	prompt := r.LastUser()
	results := r.Results()
	if name, args, ok := dictatedCall(prompt); ok && r.tool(name) && len(results) == 0 {
		return plan{reasoning: shortThought(), call: newCall(name, args)}
	}
	if len(results) > 0 {
		return plan{reasoning: shortThought(), text: pieces("The tool said: "+strings.Join(results, "\n"), replyPiece)}
	}
	if m := silencePrompt.FindStringSubmatch(prompt); m != nil {
		return plan{silence: time.Duration(number(m[1], int(maxSilence/time.Second))) * time.Second, reasoning: shortThought(), text: []string{"awake ", "again"}}
	}
	if m := countPrompt.FindStringSubmatch(prompt); m != nil {
		p := plan{reasoning: shortThought(), gap: countGap}
		for i := range number(m[1], maxCount) {
			p.text = append(p.text, strconv.Itoa(i+1)+" ")
		}
		return p
	}
	if m := replyPrompt.FindStringSubmatch(prompt); m != nil {
		if reply := trim(m[1]); reply != "" {
			return plan{reasoning: shortThought(), text: pieces(reply, replyPiece)}
		}
	}
	return demoPlan(r, prompt)
}

func shortThought() []string { return []string{"Let me ", "think."} }

func newCall(name, args string) *call {
	return &call{id: fmt.Sprintf("call_00_%016x", rand.Uint64()), name: name, args: args}
}

// dictatedCall finds the tool and the exact bytes of its arguments. They end where the object does, not at the first "}." that a
// string in them may hold.
func dictatedCall(prompt string) (name, args string, ok bool) {
	m := callPrompt.FindStringSubmatchIndex(prompt)
	if m == nil {
		return "", "", false
	}
	name, rest := prompt[m[2]:m[3]], prompt[m[1]-1:]
	n := objectLength(rest)
	if n == 0 || (n < len(rest) && rest[n] != '.' && rest[n] != '\n') {
		return "", "", false
	}
	return name, rest[:n], codec.Validate([]byte(rest[:n])) == nil
}

// objectLength is the length of the JSON object that s starts with, 0 if it has no end.
func objectLength(s string) int {
	depth, inString := 0, false
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case inString && b == '\\':
			i++
		case b == '"':
			inString = !inString
		case inString:
		case b == '{':
			depth++
		case b == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// trim removes what JavaScript's String.trim does: unlike Go's white space that includes the BOM and leaves U+0085.
func trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool {
		return r == '\uFEFF' || (unicode.IsSpace(r) && r != '\u0085')
	})
}

func number(digits string, limit int) int {
	n, err := strconv.Atoi(digits)
	if err != nil || n > limit {
		return limit // err: too many digits
	}
	return n
}

// pieces cuts s into runs of n characters, or longer ones if that would make too many of them.
func pieces(s string, n int) []string {
	count := utf8.RuneCountInString(s)
	n = max(n, (count+maxReplyPieces-1)/maxReplyPieces)
	out := make([]string, 0, count/n+1)
	for s != "" {
		end := 0
		for i := 0; i < n && end < len(s); i++ {
			_, size := utf8.DecodeRuneInString(s[end:])
			end += size
		}
		out = append(out, s[:end])
		s = s[end:]
	}
	return out
}
