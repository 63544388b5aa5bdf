package commandcode

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"amplifier-agent/pipeline"
	"amplifier-agent/upstream/simulator"
)

const (
	reply = "0123456789abcdefghijklmnopqrstuv"
	half  = "0123456789abcdef"
)

func faultPrompt(f simulator.Fault) string {
	return "[fault:" + string(f) + "] Reply with exactly: " + reply
}

// wanted is how a fault ends: in an error, or in a finish.
type wanted struct {
	text    string
	code    pipeline.Code // "" for a finish
	status  int
	message string
	retry   bool
	reason  string // of a finish, "" is stop
	cost    bool
	noUsage bool
	cut     bool // the text may be shorter
	idle    time.Duration
	timed   bool // whether there is a cost is a question of time
}

var faults = map[simulator.Fault]wanted{
	simulator.FaultErrorString:  {text: half, code: pipeline.CodeUpstream, status: 502, message: "Network connection lost.", retry: true},
	simulator.FaultErrorObject:  {text: half, code: pipeline.CodeUpstream, status: 529, message: "Overloaded", retry: true},
	simulator.FaultErrorMessage: {text: half, code: pipeline.CodeUpstream, status: 502, message: "upstream exploded", retry: true},
	simulator.FaultErrorFirst:   {code: pipeline.CodePlan, status: 403, message: "MODEL_NOT_IN_PLAN: "},
	simulator.FaultErrorEarly:   {code: pipeline.CodeRateLimit, status: 429, message: "providers are currently at capacity", retry: true},
	simulator.FaultErrorLate:    {code: pipeline.CodeUpstream, status: 502, message: "Gateway request failed", retry: true},

	simulator.FaultEOF:            {text: half, code: pipeline.CodeTruncated, message: "cut off", retry: true},
	simulator.FaultEOFTool:        {code: pipeline.CodeTruncated, message: "cut off", retry: true},
	simulator.FaultFinishStepOnly: {text: reply, cost: true},
	simulator.FaultStall:          {text: half, code: pipeline.CodeStalled, message: "silent for 3s", retry: true, idle: 3 * time.Second},
	simulator.FaultStallHeaders:   {code: pipeline.CodeStalled, message: "silent for 3s", retry: true, idle: 3 * time.Second},
	simulator.FaultReset:          {code: pipeline.CodeUpstream, message: "", retry: true},
	simulator.FaultResetMid:       {text: half, code: pipeline.CodeUpstream, message: "closed the connection", retry: true, cut: true},
	simulator.FaultCut:            {text: half, code: pipeline.CodeTruncated, message: "cut off", retry: true},

	simulator.FaultGarbage:        {text: reply, cost: true},
	simulator.FaultSSEFraming:     {text: reply, cost: true},
	simulator.FaultHTML:           {code: pipeline.CodeTruncated, message: "holds no event", retry: true},
	simulator.FaultHugeLine:       {text: reply, cost: true},
	simulator.FaultHugeDelta:      {code: pipeline.CodeUpstream, message: "a line that is too long"},
	simulator.FaultNoNewline:      {code: pipeline.CodeUpstream, message: "a line that is too long"},
	simulator.FaultInvalidUTF8:    {text: "before \uFFFD\uFFFD \uFFFD( \uFFFD\uFFFD \uFFFD\uFFFD\uFFFD after", cost: true},
	simulator.FaultLoneSurrogate:  {text: "before \uFFFD alone after", cost: true},
	simulator.FaultSplitSurrogate: {text: "before a 😀 b after", cost: true},
	simulator.FaultSplitLines:     {text: reply, cost: true},
	simulator.FaultGzip:           {text: reply, cost: true},
	simulator.FaultDeflate:        {text: reply, cost: true},
	simulator.FaultZstd:           {text: reply, cost: true},
	simulator.FaultBrotli:         {text: reply, cost: true},

	simulator.FaultStatus400:      {code: pipeline.CodeUpstreamRequest, status: 400, message: "Validation error"},
	simulator.FaultStatus401:      {code: pipeline.CodeUpstreamAuth, status: 401, message: "Invalid or missing API key"},
	simulator.FaultStatus403:      {code: pipeline.CodePlan, status: 403, message: "MODEL_NOT_IN_PLAN"},
	simulator.FaultStatus404:      {code: pipeline.CodeUpstreamRequest, status: 404, message: "Route not found"},
	simulator.FaultStatus413:      {code: pipeline.CodeUpstreamRequest, status: 413, message: "too large"},
	simulator.FaultStatus422:      {code: pipeline.CodeUpstreamRequest, status: 422, message: "zero data retention"},
	simulator.FaultStatus429:      {code: pipeline.CodeRateLimit, status: 429, message: "five hour limit"}, // a window of the plan: no retry (rulings 14)
	simulator.FaultStatus429Plain: {code: pipeline.CodeRateLimit, status: 429, message: "Rate limit exceeded", retry: true},
	simulator.FaultStatus500:      {code: pipeline.CodeUpstream, status: 500, message: "Internal Server Error", retry: true},
	simulator.FaultStatus503:      {code: pipeline.CodeUpstream, status: 503, message: "(an HTML page)", retry: true},
	simulator.FaultStatus529:      {code: pipeline.CodeUpstream, status: 529, message: "Overloaded", retry: true},
	simulator.FaultProxyUse:       {code: pipeline.CodeUpstreamRequest, status: 400, message: "Proxy use detected"},
	simulator.FaultCredits:        {code: pipeline.CodePlan, status: 402, message: "Insufficient credits"},
	simulator.FaultAuthFlaky:      {code: pipeline.CodeUpstream, status: 403, message: "Authentication failed", retry: true},

	simulator.FaultNetworkError:  {code: pipeline.CodeUpstream, message: "network-error", retry: true},
	simulator.FaultEmpty:         {code: pipeline.CodeEmpty, message: "without any output", retry: true},
	simulator.FaultOther:         {code: pipeline.CodeTruncated, message: "without a usable reason", retry: true},
	simulator.FaultLength:        {text: half, reason: "length", cost: true},
	simulator.FaultContentFilter: {text: half, reason: "content_filter", cost: true},
	simulator.FaultAbort:         {text: half, code: pipeline.CodeAborted, status: 499, message: "request aborted"},
	simulator.FaultLateCost:      {text: reply, cost: true, timed: true},
	simulator.FaultCostTooLate:   {text: reply, timed: true},
	simulator.FaultNoCost:        {text: reply},
	simulator.FaultNoUsage:       {text: reply, noUsage: true},
}

// TestFaults runs every fault of the simulator over a socket, twice, so that what one leaves behind cannot hurt the next.
func TestFaults(t *testing.T) {
	if len(faults) != len(simulator.Faults()) {
		t.Errorf("%d faults are known here, %d there", len(faults), len(simulator.Faults()))
	}
	s := simulate(t, simulator.Options{})
	for _, f := range simulator.Faults() {
		t.Run(string(f), func(t *testing.T) {
			w, ok := faults[f]
			if !ok {
				t.Fatal("not known here")
			}
			s := s
			if w.idle > 0 { // so long that only a stall is a stall, however busy the machine is
				t.Parallel()
				s = simulate(t, simulator.Options{})
			}
			p := connect(t, s.URL(), func(c *Config) { c.Idle = w.idle })
			for range 2 {
				r := ask(faultPrompt(f))
				if w.idle > 0 {
					r.Silence = 10 * time.Millisecond
				}
				res := run(t, p, r)
				// On a busy machine a late cost may come too late, and the other way round.
				for tries := 1; w.timed && tries < 5 && res.Err == nil && res.Turn.Cost.Known() != w.cost; tries++ {
					res = run(t, p, r)
				}
				w.check(t, res)
			}
			if f == simulator.FaultProxyUse { // the surface stays off, and the gateway is not asked again
				asked := len(s.Requests())
				if e := wantError(t, run(t, p, ask("Reply with exactly: "+reply)).Err, w.code, w.status, "switched off"); e.Retry || len(s.Requests()) != asked {
					t.Errorf("%v after %d requests, then %d", e, asked, len(s.Requests()))
				}
				return
			}
			if w.idle == 0 { // and an ordinary turn behind it
				if r := run(t, p, ask("Reply with exactly: "+reply)); r.Err != nil || r.Text != reply {
					t.Errorf("%q, %v", r.Text, r.Err)
				}
			}
			until(t, "the exchanges over", func() bool { return s.Active() == 0 })
		})
	}
}

func (w wanted) check(t *testing.T, r result) {
	t.Helper()
	if r.Text != w.text && !(w.cut && strings.HasPrefix(w.text, r.Text)) {
		t.Errorf("text %q, want %q", r.Text, w.text)
	}
	if len(r.Calls) != 0 {
		t.Errorf("calls %v", r.Calls)
	}
	if w.code != "" {
		e := wantError(t, r.Err, w.code, w.status, w.message)
		if e.Retry != w.retry {
			t.Errorf("retry %v", e.Retry)
		}
		if len(e.Error()) > 400 || strings.Contains(e.Error(), "Ray ID") {
			t.Errorf("message %q", e.Error())
		}
		return
	}
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	reason := w.reason
	if reason == "" {
		reason = "stop"
	}
	if r.Finish.Reason.String() != reason {
		t.Errorf("finish %q, want %q", r.Finish.Reason, reason)
	}
	if r.Turn.Cost.Known() != w.cost || r.Turn.Usage.Known() == w.noUsage {
		t.Errorf("cost %q, usage %+v", r.Turn.Cost, r.Turn.Usage)
	}
}

// TestFaultTimes: a late error and a late cost are waited for. TestFaults shows that one that is too late is not.
func TestFaultTimes(t *testing.T) {
	s := simulate(t, simulator.Options{})
	p := connect(t, s.URL())
	for f, low := range map[simulator.Fault]time.Duration{simulator.FaultLateCost: 100 * time.Millisecond, simulator.FaultCostTooLate: costWait, simulator.FaultErrorLate: 200 * time.Millisecond} {
		start := time.Now()
		run(t, p, ask(faultPrompt(f)))
		if d := time.Since(start); d < low {
			t.Errorf("%s took %s", f, d)
		}
	}
}

// TestFaultsCancelled cancels each fault at some moment: the exchange ends soon and nothing is left of it.
func TestFaultsCancelled(t *testing.T) {
	s := simulate(t, simulator.Options{})
	p := connect(t, s.URL())
	cause := errors.New("the cause")
	var wg sync.WaitGroup
	limit := make(chan bool, 8) // the machine is small
	for i, f := range simulator.Faults() {
		wg.Go(func() {
			limit <- true
			defer func() { <-limit }()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			timer := time.AfterFunc(time.Duration(i%7)*10*time.Millisecond, func() { cancel(cause) })
			defer timer.Stop()
			start := time.Now()
			r := collect(t, p.Stream(ctx, ask(faultPrompt(f))))
			if d := time.Since(start); d > never {
				t.Errorf("%s took %s", f, d)
			}
			if e, ok := errors.AsType[*pipeline.Error](r.Err); ok && e.Code == pipeline.CodeAborted && e.Status == 0 && !errors.Is(e, cause) {
				t.Errorf("%s: %v", f, e)
			}
		})
	}
	wg.Wait()
	p.Close()
	until(t, "the exchanges over", func() bool { return s.Active() == 0 })
}

// TestCrossTalk runs turns side by side, each with a marker of its own in text, reasoning and usage, and cancels some (T-CROSS).
func TestCrossTalk(t *testing.T) {
	turns := 300
	if testing.Short() {
		turns = 50
	}
	s := simulate(t, simulator.Options{})
	p := connect(t, s.URL())
	var wg sync.WaitGroup
	limit := make(chan bool, 100)
	for i := range turns {
		wg.Go(func() {
			limit <- true
			defer func() { <-limit }()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%3 == 0 {
				time.AfterFunc(time.Duration(i%11)*time.Millisecond, cancel)
			}
			marker := fmt.Sprintf("marker-%d-", i)
			want := strings.Repeat(marker, 200)
			r := collect(t, p.Stream(ctx, ask("Reply with exactly: "+want)))
			if !strings.HasPrefix(want, r.Text) || r.Err == nil && r.Text != want || r.Err != nil && i%3 != 0 {
				t.Errorf("turn %d: %d bytes of text, %v", i, len(r.Text), r.Err)
			}
		})
	}
	wg.Wait()
	p.Close()
	until(t, "the exchanges over", func() bool { return s.Active() == 0 })
}

// TestClientLeaves at every event of an answer: nothing is yielded behind it, and the gateway sees the close.
func TestClientLeaves(t *testing.T) {
	s := simulate(t, simulator.Options{})
	p := connect(t, s.URL())
	for n := 1; ; n++ {
		count, ended := 0, false
		for ev, err := range p.Stream(t.Context(), ask(faultPrompt(simulator.FaultStall))) {
			if err != nil {
				t.Fatal(err)
			}
			ev.Wake = 10 * time.Millisecond
			if count++; count == n {
				ended = true
				break
			}
		}
		if !ended {
			t.Fatalf("ended by itself after %d", count)
		}
		until(t, "the exchange over", func() bool { return s.Active() == 0 })
		if n > 12 {
			return
		}
	}
}
