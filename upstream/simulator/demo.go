package simulator

import (
	"strings"
	"unicode/utf8"
)

const (
	maxExcerpt     = 120     // characters of the prompt that a demo answer quotes
	maxExcerptScan = 4 << 10 // bytes of the prompt that are looked at for them
)

// demoText is the answer to a prompt nobody planned for. MODEL and PROMPT stand for themselves.
const demoText = "Hello! You are talking to **amplifier-agent** in demo mode: this answer comes from its built-in gateway simulator, " +
	"in the name of `MODEL`. Nothing has left your machine.\n\n" +
	"You wrote:\n\n> PROMPT\n\n" +
	"### What just happened\n\n" +
	"amplifier-agent is an OpenAI-compatible server in front of a streaming NDJSON gateway. Your request took the whole path:\n\n" +
	"1. **HTTP in.** `POST /v1/chat/completions` was authenticated and decoded into a turn.\n" +
	"2. **Stages.** Modes, skills, history and tools each had a look at it, one small stage after the other.\n" +
	"3. **NDJSON out.** It crossed a *real* socket to the gateway, which checked every field as strictly as the live one does.\n" +
	"4. **Decode.** The gateway streams one JSON object a line; each becomes an event, still in the reader's buffer.\n" +
	"5. **Event map, usage fold.** Reasoning, text and tool calls are told apart; tokens and cost are added up once.\n" +
	"6. **SSE out.** Each event is written as a `chat.completion.chunk` and flushed at once, so you see words as they are made.\n\n" +
	"### What to try next\n\n" +
	"- Ask me to *count*: `Count slowly to 10`.\n" +
	"- Watch the keepalive: `Stay silent for 8 seconds`.\n" +
	"- Offer me a tool and name it; I will call it and read its result back to you.\n" +
	"- Break me: put `[fault:reset-mid]` or `[fault:error-late]` in your prompt and see how the failure reaches your client.\n\n" +
	"For real answers, give the server a gateway key and start it without `--demo`."

const demoThought = "The user is trying out the demo. I should say what this server is, how their request travelled through it, " +
	"and what to try next."

// demoPlan answers a prompt that is in no table: with a call if a tool seems to be asked for, else with the tour.
func demoPlan(r *Request, prompt string) plan {
	if t, ok := toolMeant(r.Tools, prompt); ok {
		return plan{
			reasoning: words("The user would like me to use "+t.Name+", so I will call it.", demoPiece),
			text:      words("I will call `"+t.Name+"` and see what it says.", demoPiece),
			call:      newCall(t.Name, arguments(t.InputSchema)),
		}
	}
	// PROMPT last: what the user wrote may hold the other word.
	text := strings.Replace(strings.Replace(demoText, "MODEL", r.Model, 1), "PROMPT", excerpt(prompt), 1)
	return plan{reasoning: words(demoThought, demoPiece), text: words(text, demoPiece)}
}

// toolMeant picks the tool that the prompt names, else the first if the prompt speaks of a tool. A dictated call that was not
// possible means none.
func toolMeant(tools []Tool, prompt string) (Tool, bool) {
	if len(tools) == 0 || callPrompt.MatchString(prompt) {
		return Tool{}, false
	}
	lower := strings.ToLower(prompt)
	for _, t := range tools {
		if hasWord(lower, strings.ToLower(t.Name)) {
			return t, true
		}
	}
	return tools[0], strings.Contains(lower, "tool")
}

// hasWord reports whether word stands in text with no letter, digit, - or _ beside it.
func hasWord(text, word string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		start := from + i
		end := start + len(word)
		if (start == 0 || !wordByte(text[start-1])) && (end == len(text) || !wordByte(text[end])) {
			return true
		}
		from = start + 1
	}
}

// wordByte takes every byte of a letter beyond ASCII for a letter.
func wordByte(b byte) bool {
	return b == '_' || b == '-' || b >= utf8.RuneSelf || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

// excerpt is the beginning of the prompt on one line.
func excerpt(prompt string) string {
	if len(prompt) > maxExcerptScan {
		prompt = strings.ToValidUTF8(prompt[:maxExcerptScan], "")
	}
	s := strings.Join(strings.Fields(prompt), " ")
	if s == "" {
		return "(nothing)"
	}
	if r := []rune(s); len(r) > maxExcerpt {
		return strings.TrimSpace(string(r[:maxExcerpt])) + "…"
	}
	return s
}

// words cuts s behind every n-th run of spaces.
func words(s string, n int) []string {
	var out []string
	start, seen := 0, 0
	for i := 1; i < len(s); i++ {
		if isSpace(s[i-1]) && !isSpace(s[i]) {
			if seen++; seen%n == 0 {
				out = append(out, s[start:i])
				start = i
			}
		}
	}
	return append(out, s[start:])
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }
