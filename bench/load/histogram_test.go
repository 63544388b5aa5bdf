package main

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var h, other histogram
	if h.quantile(0.5) != 0 {
		t.Error("an empty one has a median")
	}
	for i := range 1000 {
		[]*histogram{&h, &other}[i%2].add(time.Duration(i+1) * time.Microsecond)
	}
	h.merge(&other)
	for part, want := range map[float64]time.Duration{0: time.Microsecond, 0.5: 501 * time.Microsecond, 0.99: 991 * time.Microsecond, 0.9999: time.Millisecond} {
		if got := h.quantile(part); got > want || got < want-want/subBuckets-1 {
			t.Errorf("%v: %v, want %v", part, got, want)
		}
	}
	for d := time.Duration(0); d < time.Hour; d = d*9/8 + 1 {
		if low := lower(bucket(d)); low > d || low < d-d/subBuckets-1 {
			t.Errorf("%v counts as %v", d, low)
		}
	}
}
