package main

import (
	"math/bits"
	"time"
)

// subBuckets is how many buckets lie between a power of two and the next: a latency is known to one part in that many.
const subBuckets = 32

// histogram counts latencies. The zero value is empty.
type histogram struct {
	counts [64 * subBuckets]uint64
	n      uint64
}

func bucket(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < subBuckets {
		return int(v)
	}
	exponent := bits.Len64(v) - bits.Len64(subBuckets)
	return exponent*subBuckets + int(v>>exponent)
}

// lower is the least latency of a bucket.
func lower(bucket int) time.Duration {
	if bucket < 2*subBuckets {
		return time.Duration(bucket)
	}
	exponent := bucket/subBuckets - 1
	return time.Duration((bucket - exponent*subBuckets) << exponent)
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucket(d)]++
	h.n++
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.n += o.n
}

// quantile is the latency below which a part of all lies; 0 if there is none.
func (h *histogram) quantile(part float64) time.Duration {
	rank := uint64(part * float64(h.n))
	for i, n := range h.counts {
		if rank < n {
			return lower(i)
		}
		rank -= n
	}
	return 0
}
