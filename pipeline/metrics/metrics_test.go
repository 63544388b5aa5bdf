package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"amplifier-agent/pipeline"
)

// named is a provider that only has a name.
type named struct {
	pipeline.Provider
	name string
}

func (n named) Name() string { return n.name }

var lineForm = regexp.MustCompile(`^([a-z_0-9]+(?:\{(?:[a-z_]+="[^"\\]*",?)+\})?) (\S+)$`)

// scrape reads what Write wrote, as strictly as it promises the format.
func scrape(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	var b bytes.Buffer
	m.Write(&b)
	series, described := map[string]float64{}, map[string]bool{}
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			if described[rest] {
				t.Errorf("%s twice", line)
			}
			described[rest] = true
			continue
		}
		if strings.HasPrefix(line, "# HELP ") {
			continue
		}
		parts := lineForm.FindStringSubmatch(line)
		if parts == nil {
			if strings.HasPrefix(line, prefix) {
				t.Errorf("malformed: %q", line)
			}
			continue
		}
		v, err := strconv.ParseFloat(parts[2], 64)
		if err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if _, twice := series[parts[1]]; twice {
			t.Errorf("%s twice", parts[1])
		}
		series[parts[1]] = v
		if f := familyOf(line); strings.HasPrefix(line, prefix) && !described[prefix+f+" "+families[f].kind] {
			t.Errorf("%q before its type is told", line)
		}
	}
	return series
}

func price(t *testing.T, s string) pipeline.Price {
	t.Helper()
	p, ok := pipeline.ParsePrice(s)
	if !ok {
		t.Fatalf("price %q", s)
	}
	return p
}

// TestRecord: counters agree with what was recorded, and what is unknown is not counted as zero.
func TestRecord(t *testing.T) {
	m := New()
	m.Build(`0.1 "x"`)
	p := named{name: "commandcode"}
	all := pipeline.HasInput | pipeline.HasCache | pipeline.HasOutput | pipeline.HasReasoning
	done := &pipeline.Turn{Model: "mode-plan", Provider: p, UpstreamID: "vendor/large", Cost: price(t, "0.25"),
		Usage: pipeline.Usage{Input: 10, CacheRead: 20, CacheWrite: 3, Output: 5, Reasoning: 2, Has: all}}
	m.Record(done, pipeline.Outcome{Status: pipeline.StatusDone, First: 60 * time.Millisecond, Took: 3 * time.Second})
	m.Record(done, pipeline.Outcome{Status: pipeline.StatusDone, Took: time.Hour})
	m.Record(&pipeline.Turn{Provider: p, UpstreamID: "vendor/large"}, pipeline.Outcome{Status: pipeline.StatusFailed, Code: pipeline.CodeTruncated, Took: time.Second})
	m.Record(&pipeline.Turn{Model: "made up"}, pipeline.Outcome{Status: pipeline.StatusRejected, Code: pipeline.CodeUnknownModel})
	m.Rejected(pipeline.CodeForbidden)
	m.Rejected(pipeline.CodeForbidden)
	got := scrape(t, m)
	labels := `provider="commandcode",model="vendor/large"}`
	for name, want := range map[string]float64{
		`turns_total{status="ok",code="none",provider="commandcode"}`:         2,
		`turns_total{status="error",code="truncated",provider="commandcode"}`: 1,
		`turns_total{status="rejected",code="unknown_model",provider="none"}`: 1,
		`turn_tokens_total{kind="input",` + labels:                            20,
		`turn_tokens_total{kind="cache_read",` + labels:                       40,
		`turn_tokens_total{kind="cache_write",` + labels:                      6,
		`turn_tokens_total{kind="output",` + labels:                           10,
		`turn_tokens_total{kind="reasoning",` + labels:                        4,
		`turn_cost_usd_total{` + labels:                                       0.5,
		`turn_duration_seconds_count`:                                         3,
		`turn_duration_seconds_bucket{le="5"}`:                                2,
		`turn_first_chunk_seconds_count`:                                      1,
		`turn_first_chunk_seconds_bucket{le="0.1"}`:                           1,
		`turn_first_chunk_seconds_bucket{le="0.05"}`:                          0,
		`requests_rejected_total{code="forbidden"}`:                           2,
		`turns_running`: 0,
	} {
		if v, ok := got[prefix+name]; !ok || v != want {
			t.Errorf("%s: %v, want %v", name, v, want)
		}
	}
	for series := range got {
		if strings.Contains(series, "made up") || strings.Contains(series, "mode-plan") {
			t.Errorf("%s: the client's words", series)
		}
	}
	fresh := New()
	fresh.Record(&pipeline.Turn{Provider: p, UpstreamID: "m", Usage: pipeline.Usage{Output: 1, Has: pipeline.HasOutput}}, pipeline.Outcome{Status: pipeline.StatusDone})
	for series := range scrape(t, fresh) {
		if strings.Contains(series, `kind="input"`) || strings.Contains(series, "cost") {
			t.Errorf("%s: nobody reported it", series)
		}
	}
}

// TestSeriesAreBounded: ten thousand models, a hundred providers and codes that nobody knows stay below a thousand series, and
// nothing is lost of the sums (T-METRIC).
func TestSeriesAreBounded(t *testing.T) {
	m := New()
	const turns = 10_000
	for i := range turns {
		turn := &pipeline.Turn{Model: fmt.Sprint("client", i), Provider: named{name: fmt.Sprintf("p%d\"}\n", i%100)}, UpstreamID: fmt.Sprintf("m%d\\é", i), Cost: price(t, "0.5"),
			Usage: pipeline.Usage{Input: 1, Output: 1, Has: pipeline.HasInput | pipeline.HasCache | pipeline.HasOutput | pipeline.HasReasoning}}
		m.Record(turn, pipeline.Outcome{Status: []pipeline.Status{pipeline.StatusDone, pipeline.StatusFailed, pipeline.StatusAborted}[i%3], Code: pipeline.Code(fmt.Sprint("c", i%77)), First: time.Second})
		m.Rejected(pipeline.Code(strings.Repeat("x", i)))
	}
	m.Build("1")
	sums := map[string]float64{}
	got := scrape(t, m)
	for series, v := range got {
		sums[familyOf(series+" ")] += v
	}
	if len(got) > 1000 {
		t.Errorf("%d series", len(got))
	}
	if sums["turns_total"] != turns || sums["turn_tokens_total"] != 2*turns || sums["turn_cost_usd_total"] != turns/2 || sums["requests_rejected_total"] != turns {
		t.Errorf("sums %v", sums)
	}
}

// TestRunning: the gauge goes down however a turn ends.
func TestRunning(t *testing.T) {
	m := New()
	failing := pipeline.Stage{Request: func(context.Context, *pipeline.Turn) error { return errors.New("no") }}
	var turns []*pipeline.Turn
	for i := range 3 {
		turn := &pipeline.Turn{}
		turns = append(turns, turn)
		list := []pipeline.Stage{m.Running(), failing}
		if err := pipeline.Prepare(t.Context(), list[:1+i%2], turn); (err != nil) != (i%2 == 1) {
			t.Fatal(err)
		}
	}
	if n := m.running.Get(); n != 3 {
		t.Errorf("%v running", n)
	}
	for _, turn := range turns {
		turn.End()
		turn.End()
	}
	if n := m.running.Get(); n != 0 {
		t.Errorf("%v running", n)
	}
}

func TestConcurrentUse(t *testing.T) {
	m := New()
	var g sync.WaitGroup
	for i := range 8 {
		g.Go(func() {
			for j := range 200 {
				m.Record(&pipeline.Turn{Provider: named{name: "p"}, UpstreamID: fmt.Sprint(i * j)}, pipeline.Outcome{Status: pipeline.StatusDone})
				m.Rejected(pipeline.CodeNotFound)
				if j%50 == 0 {
					m.Write(new(bytes.Buffer))
				}
			}
		})
	}
	g.Wait()
	if got := scrape(t, m)[prefix+`requests_rejected_total{code="not_found"}`]; got != 1600 {
		t.Errorf("%v", got)
	}
}
