package stages_test

import (
	"log/slog"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/stages"
)

const hasAll = pipeline.HasInput | pipeline.HasCache | pipeline.HasOutput | pipeline.HasReasoning

func usage(input, read, write, output, reasoning int64, has pipeline.Fields) pipeline.Usage {
	return pipeline.Usage{Input: input, CacheRead: read, CacheWrite: write, Output: output, Reasoning: reasoning, Has: has}
}

func step(u pipeline.Usage, cost, generation string) item {
	return info(pipeline.Step, stepInfo(u, cost, generation))
}
func late(cost, generation string) item {
	return info(pipeline.Cost, stepInfo(pipeline.Usage{}, cost, generation))
}
func total(u pipeline.Usage, cost, generation string) item {
	return info(pipeline.Finish, stepInfo(u, cost, generation))
}

func stepInfo(u pipeline.Usage, cost, generation string) pipeline.StepInfo {
	p, _ := pipeline.ParsePrice(cost)
	return pipeline.StepInfo{Reason: pipeline.ReasonStop, Usage: u, Cost: p, Generation: generation}
}

func fold(turn *pipeline.Turn, items ...item) pipeline.Stream {
	return stages.UsageFold(slog.New(slog.DiscardHandler)).Events(turn, source(items...))
}

func TestUsageFoldTokens(t *testing.T) {
	var unknown pipeline.Usage
	a, b := usage(10, 5, 2, 7, 3, hasAll), usage(1, 0, 0, 2, 0, hasAll)
	inputAndOutput := pipeline.HasInput | pipeline.HasOutput
	for name, row := range map[string]struct {
		in   []item
		want pipeline.Usage
	}{
		"nothing":        {[]item{total(unknown, "", "")}, unknown},
		"one step":       {[]item{step(a, "", ""), total(unknown, "", "")}, a},
		"steps are sums": {[]item{step(a, "", ""), step(b, "", ""), total(unknown, "", "")}, usage(11, 5, 2, 9, 3, hasAll)},
		"total alone":    {[]item{total(a, "", "")}, a},
		"the same twice": {[]item{step(a, "", ""), total(a, "", "")}, a},
		"total wins":     {[]item{step(a, "", ""), step(usage(20, 5, 2, 20, 3, hasAll), "", ""), total(usage(20, 5, 2, 20, 3, hasAll), "", "")}, usage(20, 5, 2, 20, 3, hasAll)},
		"total of zero":  {[]item{step(a, "", ""), total(usage(0, 0, 0, 0, 0, hasAll), "", "")}, usage(0, 0, 0, 0, 0, hasAll)},
		"zero output":    {[]item{total(usage(3, 0, 0, 0, 0, inputAndOutput), "", "")}, usage(3, 0, 0, 0, 0, inputAndOutput)},
		"output alone":   {[]item{total(usage(0, 0, 0, 2, 0, pipeline.HasOutput), "", "")}, usage(0, 0, 0, 2, 0, pipeline.HasOutput)},
		// A total counts as far as it says; what it does not say is what the steps have said.
		"total of output":          {[]item{step(a, "", ""), total(usage(0, 0, 0, 9, 0, pipeline.HasOutput), "", "")}, usage(10, 5, 2, 9, 3, hasAll)},
		"total of input":           {[]item{step(a, "", ""), total(usage(0, 0, 0, 0, 0, pipeline.HasCache), "", "")}, a},
		"total without cache":      {[]item{step(a, "", ""), total(usage(30, 0, 0, 9, 0, inputAndOutput), "", "")}, usage(23, 5, 2, 9, 3, hasAll)},
		"total with writes alone":  {[]item{total(usage(3, 0, 7, 9, 0, inputAndOutput), "", "")}, usage(3, 0, 7, 9, 0, inputAndOutput)},
		"total below cache":        {[]item{step(a, "", ""), total(usage(4, 0, 0, 9, 0, inputAndOutput), "", "")}, usage(0, 4, 0, 9, 3, hasAll)},
		"total without reasoning":  {[]item{step(a, "", ""), total(usage(10, 5, 2, 7, 0, hasAll&^pipeline.HasReasoning), "", "")}, a},
		"total, nobody knows rest": {[]item{step(usage(0, 0, 0, 1, 0, pipeline.HasOutput), "", ""), total(usage(0, 0, 0, 2, 0, pipeline.HasOutput), "", "")}, usage(0, 0, 0, 2, 0, pipeline.HasOutput)},
	} {
		t.Run(name, func(t *testing.T) {
			turn := &pipeline.Turn{}
			finished := false
			for ev, err := range fold(turn, row.in...) {
				if err != nil {
					t.Fatal(err)
				}
				if ev.Kind == pipeline.Finish {
					finished = true
					if ev.Step.Usage != row.want || turn.Usage != row.want {
						t.Errorf("finish %+v, turn %+v\nwant %+v", ev.Step.Usage, turn.Usage, row.want)
					}
				}
			}
			if !finished || turn.Usage != row.want {
				t.Errorf("in the end %+v", turn.Usage)
			}
		})
	}
}

func TestUsageFoldCost(t *testing.T) {
	var u pipeline.Usage
	for name, row := range map[string]struct {
		in   []item
		want string
	}{
		"none":               {[]item{step(u, "", ""), total(u, "", "")}, ""},
		"step":               {[]item{step(u, "0.000065598", "g"), total(u, "", "")}, "0.000065598"},
		"zero is known":      {[]item{step(u, "0", ""), total(u, "", "")}, "0"},
		"trailing zeros":     {[]item{step(u, "0.10", ""), step(u, "0.200", ""), total(u, "", "")}, "0.300"},
		"exact":              {[]item{step(u, "0.1", ""), step(u, "0.2", ""), step(u, "0.0000000000000000001", ""), total(u, "", "")}, "0.3000000000000000001"},
		"plain notation":     {[]item{step(u, "1e-7", ""), total(u, "", "")}, "0.0000001"},
		"large":              {[]item{step(u, "1E+3", ""), step(u, "0.5", ""), total(u, "", "")}, "1000.5"},
		"no number":          {[]item{step(u, "NaN", ""), step(u, "1e999999", ""), step(u, "0.5", ""), total(u, "Infinity", "")}, "0.5"},
		"one unknown":        {[]item{step(u, "0.5", "a"), step(u, "", "b"), total(u, "", "")}, "0.5"},
		"late, repeated":     {[]item{step(u, "0.1", "g"), late("0.1", "g"), total(u, "0.1", "g")}, "0.1"},
		"late, replaced":     {[]item{step(u, "0.1", "g"), late("0.15", "g"), total(u, "", "")}, "0.15"},
		"late, unnamed":      {[]item{step(u, "0.1", "g"), late("0.1", ""), total(u, "", "")}, "0.1"},
		"late, step unnamed": {[]item{step(u, "0.1", ""), late("0.1", "g"), late("0.1", "g"), total(u, "", "")}, "0.1"},
		"late, first known":  {[]item{step(u, "", "g"), late("0.1", "g"), total(u, "", "")}, "0.1"},
		"late, another call": {[]item{step(u, "0.1", "a"), late("0.2", "b"), total(u, "", "")}, "0.3"},
		"late, no step":      {[]item{late("0.2", "a"), late("0.2", "a"), total(u, "", "")}, "0.2"},
		"late, before":       {[]item{late("0.2", "a"), step(u, "0.2", "a"), total(u, "", "")}, "0.2"},
		"late, kept":         {[]item{late("0.2", "a"), step(u, "", "a"), total(u, "", "")}, "0.2"},
		"late, two":          {[]item{step(u, "", "a"), step(u, "", "b"), late("0.1", "a"), late("0.2", "b"), total(u, "", "")}, "0.3"},
		"late, an older one": {[]item{step(u, "0.1", "a"), step(u, "0.2", "b"), late("0.1", "a"), late("0.2", "b"), total(u, "", "")}, "0.3"},
		"late, corrects":     {[]item{step(u, "0.1", "a"), step(u, "0.2", "b"), late("0.5", "a"), total(u, "", "")}, "0.7"},
		"late, unknown":      {[]item{step(u, "0.1", "a"), late("", "a"), late("x", "a"), total(u, "", "")}, "0.1"},
		"at finish":          {[]item{total(u, "0.5", "")}, "0.5"},
		"finish repeats":     {[]item{step(u, "0.25", "a"), step(u, "0.25", "b"), total(u, "0.25", "b")}, "0.50"},
		"free":               {[]item{step(u, "0.00", "a"), late("0.000", "a"), total(u, "", "")}, "0.000"},
	} {
		t.Run(name, func(t *testing.T) {
			turn := &pipeline.Turn{}
			for ev, err := range fold(turn, row.in...) {
				if err != nil {
					t.Fatal(err)
				}
				if ev.Kind == pipeline.Finish && ev.Step.Cost.String() != row.want {
					t.Errorf("finish %q, want %q", ev.Step.Cost, row.want)
				}
			}
			if turn.Cost.String() != row.want || turn.Cost.Known() != (row.want != "") {
				t.Errorf("turn %q, want %q", turn.Cost, row.want)
			}
		})
	}
}

// TestUsageFoldRounds checks that rounds add up, each once, also those that fail.
func TestUsageFoldRounds(t *testing.T) {
	turn := &pipeline.Turn{}
	a := usage(10, 0, 0, 1, 0, pipeline.HasInput|pipeline.HasOutput)
	gather(t, fold(turn, step(a, "0.1", "g"), total(a, "", ""), signal(pipeline.Flush), signal(pipeline.Idle)), all)
	gather(t, fold(turn, step(a, "0.20", "g"), late("0.20", "g"), fail(errBroken)), all)
	gather(t, fold(turn, step(a, "", ""), step(a, "", ""), text("x")), 3) // the consumer stops
	gather(t, fold(turn, text("x"), fail(errBroken)), all)
	if turn.Usage != usage(40, 0, 0, 4, 0, pipeline.HasInput|pipeline.HasOutput) || turn.Cost.String() != "0.30" {
		t.Errorf("got %+v, %s", turn.Usage, turn.Cost)
	}
}

// TestUsageFoldInTime checks when the sums are there: at Finish, and with an error, for who reports them then.
func TestUsageFoldInTime(t *testing.T) {
	a := usage(1, 0, 0, 1, 0, pipeline.HasInput|pipeline.HasOutput)
	for _, last := range []item{total(a, "", ""), fail(errBroken)} {
		turn := &pipeline.Turn{}
		for ev, err := range fold(turn, step(a, "0.1", ""), last) {
			if end := err != nil || ev.Kind == pipeline.Finish; end && (turn.Usage != a || turn.Cost.String() != "0.1") {
				t.Errorf("at %s: %+v, %q", show(ev, err), turn.Usage, turn.Cost)
			}
		}
	}
}

// TestUsageFoldBehindEventMap checks the two as the runner chains them: an end that EventMap takes for a fault is paid for, too.
func TestUsageFoldBehindEventMap(t *testing.T) {
	a := usage(120, 0, 0, 0, 0, pipeline.HasInput|pipeline.HasOutput)
	turn := &pipeline.Turn{}
	got := gather(t, pipeline.Chain(round(), turn, source(step(a, "0.1", "g"), total(a, "", ""))), all)
	if s := strings.Join(got, "; "); s != "step; error empty" || turn.Usage != a || turn.Cost.String() != "0.1" {
		t.Errorf("%s: %+v, %q", s, turn.Usage, turn.Cost)
	}
}
