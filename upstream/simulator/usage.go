package simulator

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	bytesPerToken         = 4    // a rule of thumb good enough to be plausible, and the same on every run
	ownPromptTokens       = 7500 // what the gateway's own system prompt adds when params.system is missing
	picoDigits            = 12
	picoUSD         int64 = 1_000_000_000_000
)

// usage is what finish-step and finish report. input is the total, cached tokens included.
type usage struct {
	input, cached   int
	text, reasoning int
}

func tokens(bytes int) int { return (bytes + bytesPerToken - 1) / bytesPerToken }

func usageOf(r *Request, textBytes, reasoningBytes int) usage {
	u := usage{
		input:     max(1, tokens(r.inputBytes)),
		cached:    tokens(r.oldBytes),
		text:      tokens(textBytes),
		reasoning: tokens(reasoningBytes),
	}
	u.cached = min(u.cached, u.input)
	if !r.HasSystem {
		u.input += ownPromptTokens
	}
	return u
}

func (u usage) output() int { return u.text + u.reasoning }

func (u usage) appendJSON(dst []byte) []byte {
	fresh, total := u.input-u.cached, u.input+u.output()
	return fmt.Appendf(dst, `{"inputTokens":%d,"inputTokenDetails":{"noCacheTokens":%d,"cacheReadTokens":%d},`+
		`"outputTokens":%d,"outputTokenDetails":{"textTokens":%d,"reasoningTokens":%d},"totalTokens":%d,`+
		`"reasoningTokens":%d,"cachedInputTokens":%d,"raw":{"prompt_tokens":%d,"completion_tokens":%d,`+
		`"prompt_cache_hit_tokens":%d,"prompt_cache_miss_tokens":%d,"total_tokens":%d,`+
		`"completion_tokens_details":{"reasoning_tokens":%d}}}`,
		u.input, fresh, u.cached, u.output(), u.text, u.reasoning, total, u.reasoning, u.cached,
		u.input, u.output(), u.cached, fresh, total, u.reasoning)
}

// cost is the exact price in USD, as a decimal string.
func (u usage) cost(m Model) string {
	if m.InputPrice == 0 && m.CachePrice == 0 && m.OutputPrice == 0 {
		m = builtinModels()[0]
	}
	pico := int64(u.input-u.cached)*m.InputPrice + int64(u.cached)*m.CachePrice + int64(u.output())*m.OutputPrice
	return decimal(pico)
}

func decimal(pico int64) string {
	whole, part := pico/picoUSD, strconv.FormatInt(pico%picoUSD, 10)
	part = strings.Repeat("0", picoDigits-len(part)) + part
	if part = strings.TrimRight(part, "0"); part == "" {
		return strconv.FormatInt(whole, 10)
	}
	return strconv.FormatInt(whole, 10) + "." + part
}
