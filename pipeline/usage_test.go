package pipeline_test

import (
	"fmt"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
)

// TestPrice checks spelling: plain notation, with every digit that was reported, as Python's Decimal keeps them.
func TestPrice(t *testing.T) {
	for in, want := range map[string]string{
		"0":                                 "0",
		"0.0":                               "0.0",
		"0.0421":                            "0.0421",
		"0.000065598":                       "0.000065598",
		"1.10":                              "1.10",
		"1.00":                              "1.00",
		"12":                                "12",
		"+0.5":                              "0.5",
		".5":                                "0.5",
		"007.50":                            "7.50",
		" 0.5\n":                            "0.5",
		"6.5598e-05":                        "0.000065598",
		"1e-7":                              "0.0000001",
		"1.0E-2":                            "0.010",
		"0E-8":                              "0.00000000",
		"1E+3":                              "1000",
		"1.5e3":                             "1500",
		"1.2345e2":                          "123.45",
		"-0.25":                             "-0.25",
		"123456789012345678901":             "123456789012345678901",
		"0.1234567890123456789012345678901": "0.1234567890123456789012345678901",
	} {
		p, ok := pipeline.ParsePrice(in)
		if got := p.String(); !ok || !p.Known() || got != want {
			t.Errorf("%q: got %q, %v; want %q", in, got, ok, want)
		}
	}
}

// TestPriceSkipped checks what is no price: neither words, nor what would take memory or time to add.
func TestPriceSkipped(t *testing.T) {
	for _, in := range []string{
		"", " ", "NaN", "nan", "sNaN", "Infinity", "-Infinity", "inf", "free", "$0.10", "0,10", "1_000", "0x10", "1.2.3", "1e", "e5", ".", "-", "--1", "1 2",
		"1e65", "1e-65", "1e999999", "1e-999999", "1e99999999999999999999", "null", "true", "\x00", "０.１",
		strings.Repeat("9", 65), "0." + strings.Repeat("0", 1_000_000) + "1",
	} {
		p, ok := pipeline.ParsePrice(in)
		if ok || p.Known() || p.String() != "" || p.Decimal() != nil {
			t.Errorf("%.40q: got %q", in, p)
		}
	}
}

func TestPriceAdd(t *testing.T) {
	for in, want := range map[string]string{
		"":                     "",
		"0":                    "0",
		"0.1 0.2":              "0.3",
		"0.1 0.20":             "0.30",
		"0.50 0.5":             "1.00",
		"1 0.000065598":        "1.000065598",
		"0.5 ? 0.5":            "1.0",
		"?":                    "",
		"? 0.5":                "0.5",
		"1E+3 0.01":            "1000.01",
		"1e-64 1e64":           "1" + strings.Repeat("0", 64) + "." + strings.Repeat("0", 63) + "1",
		"0.1 -0.1":             "0.0",
		"0.0421 0.0421 0.0421": "0.1263",
	} {
		var sum pipeline.Price
		for _, f := range strings.Fields(in) {
			p, _ := pipeline.ParsePrice(f)
			sum = sum.Add(p)
		}
		if got := sum.String(); got != want || sum.Known() != (want != "") {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	// A million cents are ten thousand dollars, to the last digit.
	cent, _ := pipeline.ParsePrice("0.01")
	var sum pipeline.Price
	for range 1_000_000 {
		sum = sum.Add(cent)
	}
	if sum.String() != "10000.00" || sum.Decimal().String() != "10000" {
		t.Errorf("got %s", sum)
	}
}

// TestPriceDecimal checks that what Decimal hands out is the caller's.
func TestPriceDecimal(t *testing.T) {
	p, _ := pipeline.ParsePrice("0.10")
	d := p.Decimal()
	*d = d.Add(*d)
	if p.String() != "0.10" || d.String() != "0.2" {
		t.Errorf("got %s and %s", p, d)
	}
}

func TestUsageAdd(t *testing.T) {
	a := pipeline.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Reasoning: 5, Has: pipeline.HasInput | pipeline.HasCache}
	b := pipeline.Usage{Input: 10, CacheRead: 20, CacheWrite: 30, Output: 40, Reasoning: 50, Has: pipeline.HasOutput | pipeline.HasInput}
	want := pipeline.Usage{Input: 11, CacheRead: 22, CacheWrite: 33, Output: 44, Reasoning: 55, Has: pipeline.HasInput | pipeline.HasCache | pipeline.HasOutput}
	if got := a.Add(b); got != want || got != b.Add(a) {
		t.Errorf("got %+v", got)
	}
	if got := a.Add(pipeline.Usage{}); got != a {
		t.Errorf("with nothing: %+v", got)
	}
	if (pipeline.Usage{}).Known() || !a.Known() || !(pipeline.Usage{Has: pipeline.HasOutput}).Known() {
		t.Error("zero is not unknown")
	}
	if got := want.Prompt(); got != 66 {
		t.Errorf("prompt is %d", got)
	}
}

func TestInclusiveUsage(t *testing.T) {
	for _, row := range []struct{ total, read, write, input, cacheRead, cacheWrite int64 }{
		{0, 0, 0, 0, 0, 0},
		{23, 0, 0, 23, 0, 0},
		{1000, 960, 0, 40, 960, 0},
		{1000, 900, 60, 40, 900, 60},
		{1000, 1000, 0, 0, 1000, 0},
		{1000, 900, 200, 0, 900, 100}, // more than there are: cut
		{1000, 2000, 5, 0, 1000, 0},
		{0, 7, 7, 0, 0, 0},
	} {
		u := pipeline.InclusiveUsage(row.total, row.read, row.write)
		if u.Input != row.input || u.CacheRead != row.cacheRead || u.CacheWrite != row.cacheWrite || u.Prompt() != row.total || u.Has != 0 {
			t.Errorf("%+v: got %+v", row, u)
		}
	}
}

func ExamplePrice() {
	var sum pipeline.Price // unknown, which is not zero
	fmt.Println(sum.Known())
	for _, s := range []string{"0.0421", "6.5598e-05", "free"} {
		if p, ok := pipeline.ParsePrice(s); ok {
			sum = sum.Add(p)
		}
	}
	fmt.Println(sum)
	// Output:
	// false
	// 0.042165598
}

// BenchmarkPrice is what a round with two model calls does: it reads two prices, sums them and spells the sum.
func BenchmarkPrice(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		p, _ := pipeline.ParsePrice("0.000065598")
		q, _ := pipeline.ParsePrice("0.0421")
		if p.Add(q).String() == "" {
			b.Fatal("no sum")
		}
	}
}
