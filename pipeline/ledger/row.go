package ledger

import (
	"strconv"
	"time"
	"unicode/utf8"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// maxWordBytes is what a row holds of a text that others chose, such as the model that a client asked for. Rows stay small, and
// with that whole.
const maxWordBytes = 256

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// appendRow appends the row of a turn, with its line feed.
func appendRow(dst []byte, t *pipeline.Turn, o pipeline.Outcome) []byte {
	finish, provider := "", ""
	if o.Status == pipeline.StatusDone {
		finish = o.Reason.String()
	}
	if t.Provider != nil {
		provider = t.Provider.Name()
	}
	u := t.Usage
	dst = t.Received.UTC().AppendFormat(append(dst, `{"ts":"`...), timeLayout)
	dst = append(dst, '"')
	for _, f := range []struct{ key, word string }{
		{"turn", t.ID}, {"session", t.Session}, {"model", t.Model}, {"provider", provider}, {"upstream_model", t.UpstreamID}, {"mode", t.Mode},
		{"status", string(o.Status)}, {"code", string(o.Code)}, {"finish", finish},
	} {
		dst = appendWord(appendKey(dst, f.key), f.word)
	}
	for _, f := range []struct {
		key   string
		n     int64
		known bool
	}{
		{"prompt_tokens", u.Prompt(), u.Has&pipeline.HasInput != 0},
		{"completion_tokens", u.Output, u.Has&pipeline.HasOutput != 0},
		{"cached_tokens", u.CacheRead, u.Has&pipeline.HasCache != 0},
		{"cache_write_tokens", u.CacheWrite, u.Has&pipeline.HasCache != 0},
		{"reasoning_tokens", u.Reasoning, u.Has&pipeline.HasReasoning != 0},
	} {
		dst = appendNumber(appendKey(dst, f.key), f.n, f.known)
	}
	dst = appendWord(appendKey(dst, "cost_usd"), t.Cost.String())
	dst = appendNumber(appendKey(dst, "first_ms"), int64(o.First/time.Millisecond), o.First > 0)
	dst = appendNumber(appendKey(dst, "took_ms"), int64(o.Took/time.Millisecond), true)
	return append(dst, "}\n"...)
}

func appendKey(dst []byte, key string) []byte {
	return append(append(append(dst, `,"`...), key...), `":`...)
}

// appendWord appends a string, or null for an empty one.
func appendWord(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	if len(s) > maxWordBytes {
		end := maxWordBytes
		for end > maxWordBytes-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	return codec.AppendString(dst, s)
}

func appendNumber(dst []byte, n int64, known bool) []byte {
	if !known {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, n, 10)
}
