package metrics

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"runtime"
	"strings"
	"sync"

	"github.com/VictoriaMetrics/metrics"

	"amplifier-agent/pipeline"
)

const (
	prefix = "amplifier_agent_"

	// Limits of the combinations of label values, by family. A model comes with five kinds of tokens and a cost.
	maxTurns    = 250
	maxModels   = 60
	maxRejected = 40
	maxLabel    = 100 // bytes of a value

	other = "other" // stands for what is beyond a limit
	none  = "none"  // stands for what a turn does not have, such as a provider if it was rejected
)

// Bounds of the buckets of histograms, in seconds.
var (
	turnBounds  = []float64{.1, .25, .5, 1, 2.5, 5, 10, 25, 60, 120, 300, 900}
	firstBounds = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 25, 60}
)

// family says what a metric is.
type family struct{ kind, help string }

// families are the metrics of ours, by name without prefix.
var families = map[string]family{
	"build_info":               {"gauge", "The version of the program; always 1."},
	"turns_running":            {"gauge", "Turns that have begun and not ended."},
	"turns_total":              {"counter", "Turns that have ended, by how."},
	"turn_duration_seconds":    {"histogram", "Time from a request to the end of its turn, of turns that reached an upstream."},
	"turn_first_chunk_seconds": {"histogram", "Time from a request to the first thing that its client saw of the answer."},
	"turn_tokens_total":        {"counter", "Tokens, by kind; those of kind reasoning are also among those of kind output."},
	"turn_cost_usd_total":      {"counter", "Cost that upstreams reported, in US dollars. A sum of floats: the ledger is exact."},
	"requests_rejected_total":  {"counter", "Requests and connections that were refused before a turn began, by code."},
}

// Metrics are the counters of a process, or of as much of it as shares them. Its methods may be called concurrently.
type Metrics struct {
	set     *metrics.Set
	running *metrics.Gauge
	took    *metrics.PrometheusHistogram
	first   *metrics.PrometheusHistogram

	mu                      sync.Mutex
	turns, models, rejected limited
	counters                map[series]*metrics.Counter
	costs                   map[series]*metrics.FloatCounter
}

// series is a counter by its family and the values of its labels.
type series struct{ family, a, b, c string }

// New returns counters at zero.
func New() *Metrics {
	s := metrics.NewSet()
	return &Metrics{
		set:      s,
		running:  s.NewGauge(prefix+"turns_running", nil),
		took:     s.NewPrometheusHistogramExt(prefix+"turn_duration_seconds", turnBounds),
		first:    s.NewPrometheusHistogramExt(prefix+"turn_first_chunk_seconds", firstBounds),
		turns:    limited{max: maxTurns},
		models:   limited{max: maxModels},
		rejected: limited{max: maxRejected},
		counters: map[series]*metrics.Counter{},
		costs:    map[series]*metrics.FloatCounter{},
	}
}

// Build says which version of the program runs.
func (m *Metrics) Build(version string) {
	m.set.GetOrCreateGauge(name("build_info", "version", clean(version), "goversion", clean(runtime.Version())), func() float64 { return 1 })
}

// Running is a stage that counts the turns that run. It stands outermost.
func (m *Metrics) Running() pipeline.Stage {
	dec := m.running.Dec
	return pipeline.Stage{Name: "running", Request: func(_ context.Context, t *pipeline.Turn) error {
		m.running.Inc()
		t.AtEnd(dec)
		return nil
	}}
}

// Record counts a turn that has ended. It may be called once a turn.
func (m *Metrics) Record(t *pipeline.Turn, o pipeline.Outcome) {
	status, code := clean(string(o.Status)), clean(string(o.Code))
	provider, model := none, none
	if t.Provider != nil {
		provider, model = clean(t.Provider.Name()), clean(t.UpstreamID) // which names a model that is served
	}
	m.mu.Lock()
	turn, served := m.turns.admit([3]string{status, code, provider}), m.models.admit([3]string{provider, model})
	m.mu.Unlock()
	by := provider
	if !turn {
		code, by = other, other
	}
	if !served {
		provider, model = other, other
	}
	m.counter(series{"turns_total", status, code, by}, "status", "code", "provider").Inc()
	if o.Status == pipeline.StatusRejected {
		return
	}
	m.took.Update(o.Took.Seconds())
	if o.First > 0 {
		m.first.Update(o.First.Seconds())
	}
	for _, k := range kinds {
		if n := k.of(t.Usage); t.Usage.Has&k.has != 0 && n >= 0 {
			m.counter(series{"turn_tokens_total", k.name, provider, model}, "kind", "provider", "model").AddInt64(n)
		}
	}
	if d := t.Cost.Decimal(); d != nil && !d.IsNegative() {
		m.cost(provider, model).Add(d.InexactFloat64())
	}
}

// counter is that of a series, whose labels have these names. Their values are among those that were admitted, so that there are few.
func (m *Metrics) counter(s series, a, b, c string) *metrics.Counter {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.counters[s]; n != nil {
		return n
	}
	n := m.set.GetOrCreateCounter(name(s.family, a, s.a, b, s.b, c, s.c))
	m.counters[s] = n
	return n
}

// cost is the counter of what a model has cost.
func (m *Metrics) cost(provider, model string) *metrics.FloatCounter {
	s := series{family: "turn_cost_usd_total", a: provider, b: model}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.costs[s]; n != nil {
		return n
	}
	n := m.set.GetOrCreateFloatCounter(name(s.family, "provider", provider, "model", model))
	m.costs[s] = n
	return n
}

// Rejected counts a request, or a connection, that was refused before a turn began.
func (m *Metrics) Rejected(code pipeline.Code) {
	value := clean(string(code))
	m.mu.Lock()
	ok := m.rejected.admit([3]string{value})
	m.mu.Unlock()
	if !ok {
		value = other
	}
	m.set.GetOrCreateCounter(name("requests_rejected_total", "code", value)).Inc()
}

// kinds are the buckets of a usage.
var kinds = []struct {
	name string
	has  pipeline.Fields
	of   func(pipeline.Usage) int64
}{
	{"input", pipeline.HasInput, func(u pipeline.Usage) int64 { return u.Input }},
	{"cache_read", pipeline.HasCache, func(u pipeline.Usage) int64 { return u.CacheRead }},
	{"cache_write", pipeline.HasCache, func(u pipeline.Usage) int64 { return u.CacheWrite }},
	{"output", pipeline.HasOutput, func(u pipeline.Usage) int64 { return u.Output }},
	{"reasoning", pipeline.HasReasoning, func(u pipeline.Usage) int64 { return u.Reasoning }},
}

// Write writes all counters in the text format, and those of the process and the Go runtime behind them.
func (m *Metrics) Write(w io.Writer) {
	var b bytes.Buffer
	m.set.WritePrometheus(&b)
	out := bufio.NewWriter(w)
	last := ""
	for line := range strings.Lines(b.String()) {
		// The library describes metrics only by a switch of the whole process, and without a word of help.
		if f := familyOf(line); f != last && families[f].kind != "" {
			last = f
			_, _ = out.WriteString("# HELP " + prefix + f + " " + families[f].help + "\n# TYPE " + prefix + f + " " + families[f].kind + "\n")
		}
		_, _ = out.WriteString(line)
	}
	_ = out.Flush()
	metrics.WriteProcessMetrics(w)
}

// familyOf is the key in families of a line.
func familyOf(line string) string {
	f := strings.TrimPrefix(line[:max(0, strings.IndexAny(line, "{ "))], prefix)
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if s, ok := strings.CutSuffix(f, suffix); ok && families[s].kind == "histogram" {
			return s
		}
	}
	return f
}

// name is a series of the family: labels are names and values in turn, the values clean.
func name(family string, labels ...string) string {
	var b strings.Builder
	b.WriteString(prefix + family + "{")
	for i := 0; i < len(labels); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(labels[i] + `="` + labels[i+1] + `"`)
	}
	b.WriteByte('}')
	return b.String()
}

// limited are the combinations of values that a family's labels have had.
type limited struct {
	seen map[[3]string]bool
	max  int
}

// admit reports whether values are among the first max combinations.
func (l *limited) admit(values [3]string) bool {
	if l.seen[values] {
		return true
	}
	if len(l.seen) >= l.max {
		return false
	}
	if l.seen == nil {
		l.seen = map[[3]string]bool{}
	}
	l.seen[values] = true
	return true
}

// clean is v without what would need escaping.
func clean(v string) string {
	if v == "" {
		return none
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '_'
		}
		return r
	}, v[:min(len(v), maxLabel)])
}
