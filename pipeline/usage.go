package pipeline

import (
	"strings"

	"github.com/shopspring/decimal"
)

// Fields says which parts of a Usage were reported. What was not is unknown, which is not zero.
type Fields uint8

// The parts of a Usage.
const (
	HasInput Fields = 1 << iota
	HasCache
	HasOutput
	HasReasoning
)

// Usage counts tokens in disjoint buckets, but for Reasoning, which is a part of Output (rulings 23).
type Usage struct {
	Input      int64 // neither read from nor written to the cache
	CacheRead  int64
	CacheWrite int64
	Output     int64
	Reasoning  int64
	Has        Fields
}

// Prompt is all input: what chat-completions calls prompt_tokens.
func (u Usage) Prompt() int64 { return u.Input + u.CacheRead + u.CacheWrite }

// Known reports whether anything was reported.
func (u Usage) Known() bool { return u.Has != 0 }

// Add returns the sum of two calls.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input:      u.Input + v.Input,
		CacheRead:  u.CacheRead + v.CacheRead,
		CacheWrite: u.CacheWrite + v.CacheWrite,
		Output:     u.Output + v.Output,
		Reasoning:  u.Reasoning + v.Reasoning,
		Has:        u.Has | v.Has,
	}
}

// InclusiveUsage splits an input count that includes the cached tokens into buckets, so that Prompt is total again. Parts that
// claim more than the total are cut.
func InclusiveUsage(total, cacheRead, cacheWrite int64) Usage {
	cacheRead = min(cacheRead, total)
	cacheWrite = min(cacheWrite, total-cacheRead)
	return Usage{Input: total - cacheRead - cacheWrite, CacheRead: cacheRead, CacheWrite: cacheWrite}
}

// Price is an exact amount in US dollars; the zero value is unknown, which is not zero.
type Price struct {
	amount decimal.Decimal
	known  bool
}

// Bounds of a price's spelling: what is longer, or has a larger exponent, is no price but an attack on memory.
const (
	maxPriceBytes    = 64
	maxPriceExponent = 64
)

// ParsePrice reads a decimal number; false means that s is none (rulings 22: it is then skipped).
func ParsePrice(s string) (Price, bool) {
	s = strings.TrimSpace(s)
	if len(s) == 0 || len(s) > maxPriceBytes {
		return Price{}, false
	}
	d, err := decimal.NewFromString(s)
	if err != nil || d.Exponent() > maxPriceExponent || d.Exponent() < -maxPriceExponent {
		return Price{}, false
	}
	return Price{amount: d, known: true}, true
}

// Known reports whether a cost was reported.
func (p Price) Known() bool { return p.known }

// Add returns the exact sum. An unknown part adds nothing; the sum of two unknown prices is unknown.
func (p Price) Add(q Price) Price {
	switch {
	case !q.known:
		return p
	case !p.known:
		return q
	}
	return Price{amount: p.amount.Add(q.amount), known: true}
}

// Decimal returns the amount, nil if unknown.
func (p Price) Decimal() *decimal.Decimal {
	if !p.known {
		return nil
	}
	return &p.amount
}

// String is the amount in plain notation with every digit that was reported, "" if unknown.
func (p Price) String() string {
	if !p.known {
		return ""
	}
	return p.amount.StringFixed(max(0, -p.amount.Exponent()))
}
