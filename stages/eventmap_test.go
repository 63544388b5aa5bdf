package stages_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/stages"
)

// visible is what of a round reaches a client: starts, fragments and ends of calls do not.
func visible(seen []string) string {
	var kept []string
	for _, s := range seen {
		if word, _, _ := strings.Cut(s, " "); word != "start" && word != "fragment" && word != "end" {
			kept = append(kept, s)
		}
	}
	return strings.Join(kept, "; ")
}

func mapped(t *testing.T, items ...item) []string {
	t.Helper()
	return gather(t, stages.EventMap(slog.New(slog.DiscardHandler)).Events(&pipeline.Turn{ID: "turn"}, source(items...)), all)
}

const (
	stop    = pipeline.ReasonStop
	length  = pipeline.ReasonLength
	filter  = pipeline.ReasonContentFilter
	byCalls = pipeline.ReasonToolCalls
	none    = pipeline.ReasonNone
	fault   = pipeline.ReasonFault
)

func TestEventMapCalls(t *testing.T) {
	for name, row := range map[string]struct {
		in   []item
		want string
	}{
		"interleaved fragments": {[]item{start("A", "f"), start("B", "g"), fragment("A", `{\"x\":`), fragment("B", `{\"y\":`), fragment("A", "1}"), fragment("B", "2}"), finish(byCalls)},
			`call A f {\"x\":1}; call B g {\"y\":2}; finish tool_calls`},
		"first seen, not first done": {[]item{start("A", "f"), start("B", "g"), call("B", "g", `{\"b\":1}`), text("t"), call("A", "f", `{\"a\":1}`), finish(byCalls)},
			`text t; call A f {\"a\":1}; call B g {\"b\":1}; finish tool_calls`},
		"three, out of order": {[]item{start("A", "f"), start("B", "f"), start("C", "f"), call("C", "f", "{}"), call("B", "f", "{}"), call("A", "f", "{}"), finish(byCalls)},
			`call A f {}; call B f {}; call C f {}; finish tool_calls`},
		"no fragments": {[]item{call("A", "f", `{\"a\":1}`), call("B", "f", "{}"), call("C", "f", "{}"), finish(byCalls)},
			`call A f {\"a\":1}; call B f {}; call C f {}; finish tool_calls`},
		"call repeats fragments": {[]item{start("A", "f"), fragment("A", "{}"), end("A"), call("A", "f", "{}"), finish(byCalls)},
			`call A f {}; finish tool_calls`},
		"call before the end": {[]item{start("A", "f"), fragment("A", `{\"a\":`), call("A", "f", `{\"a\":1}`), fragment("A", "1}"), end("A"), finish(byCalls)},
			`call A f {\"a\":1}; finish tool_calls`},
		"call wins": {[]item{start("A", "f"), fragment("A", `{\"a\": 1}`), end("A"), call("A", "f", `{\"a\":2}`), finish(byCalls)},
			`call A f {\"a\":2}; finish tool_calls`},
		"never a call": {[]item{start("A", "f"), fragment("A", `{ \"b\" : 1.0,`), fragment("A", ` \"a\":1e2 }`), end("A"), finish(byCalls)},
			`call A f { \"b\" : 1.0, \"a\":1e2 }; finish tool_calls`},
		"no end either": {[]item{start("A", "f"), fragment("A", "{}"), finish(stop)},
			`call A f {}; finish tool_calls`},
		"fragment before start": {[]item{fragment("A", `{\"a\":`), start("A", "f"), fragment("A", "1}"), end("A"), finish(stop)},
			`call A f {\"a\":1}; finish tool_calls`},
		"start and fragment at once, repeated": {[]item{start("A", "f"), fragment("A", "{"), start("A", "f"), fragment("A", "}"), finish(stop)},
			`call A f {}; finish tool_calls`},
		"repeated call": {[]item{call("A", "f", "{}"), call("A", "f", "{}"), call("A", "g", `{\"x\":1}`), finish(byCalls)},
			`call A f {}; finish tool_calls`},
		"late start":     {[]item{call("A", "f", "{}"), start("A", "f"), fragment("A", "{}"), end("A"), finish(byCalls)}, `call A f {}; finish tool_calls`},
		"no arguments":   {[]item{start("A", "f"), end("A"), finish(byCalls)}, `call A f {}; finish tool_calls`},
		"bare call":      {[]item{bareCall("A", "f"), finish(byCalls)}, `call A f {}; finish tool_calls`},
		"empty call":     {[]item{call("A", "f", ""), finish(byCalls)}, `call A f {}; finish tool_calls`},
		"bare, complete": {[]item{start("A", "f"), fragment("A", `{\"a\":1}`), bareCall("A", "f"), finish(byCalls)}, `call A f {\"a\":1}; finish tool_calls`},
		"empty, complete": {[]item{start("A", "f"), fragment("A", `{\"a\":1}`), call("A", "f", ""), finish(byCalls)},
			`call A f {\"a\":1}; finish tool_calls`},
		"bare, too early": {[]item{start("A", "f"), fragment("A", `{\"a\":`), bareCall("A", "f"), fragment("A", "1}"), finish(byCalls)},
			`call A f {\"a\":1}; finish tool_calls`},
		"name comes late": {[]item{fragment("A", "{}"), end("A"), call("A", "", "{}"), call("B", "g", "{}"), start("A", "f"), finish(byCalls)},
			`call A f {}; call B g {}; finish tool_calls`},
		"name in a repetition": {[]item{call("A", "", "{}"), call("A", "f", "{}"), text("t"), finish(byCalls)}, `call A f {}; text t; finish tool_calls`},
		"never a name":         {[]item{call("A", "", "{}"), finish(byCalls)}, `error invalid_tool_call`},
		"first name stays":     {[]item{start("A", "f"), call("A", "g", "{}"), finish(byCalls)}, `call A f {}; finish tool_calls`},
		"numbers as written": {[]item{call("A", "f", `{\"id\":9223372036854775807, \"n\":1.50}`), finish(byCalls)},
			`call A f {\"id\":9223372036854775807, \"n\":1.50}; finish tool_calls`},
		"text between": {[]item{text("a"), call("A", "f", "{}"), text("b"), call("B", "f", "{}"), finish(stop)},
			`text a; call A f {}; text b; call B f {}; finish tool_calls`},

		"without ids":           {[]item{call("", "f", "{}"), call("", "g", "{}"), finish(byCalls)}, `call call_turn_0 f {}; call call_turn_1 g {}; finish tool_calls`},
		"without ids, streamed": {[]item{start("", "f"), fragment("", `{\"a\":`), fragment("", "1}"), end(""), start("", "g"), fragment("", "{}"), finish(byCalls)}, `call call_turn_0 f {\"a\":1}; call call_turn_1 g {}; finish tool_calls`},
		"without ids, whole": {[]item{start("", "f"), fragment("", "{}"), end(""), call("", "f", `{\"a\":1}`), start("", "g"), call("", "g", "{}"), finish(byCalls)},
			`call call_turn_0 f {\"a\":1}; call call_turn_1 g {}; finish tool_calls`},
		"without ids, in parallel": {[]item{start("", "f"), start("", "g"), call("", "g", `{\"g\":1}`), call("", "f", `{\"f\":1}`), finish(byCalls)},
			`call call_turn_0 f {\"f\":1}; call call_turn_1 g {\"g\":1}; finish tool_calls`},
		"one without an id":       {[]item{call("", "f", "{}"), call("call_0", "g", "{}"), finish(byCalls)}, `call call_turn_0 f {}; call call_0 g {}; finish tool_calls`},
		"id at the start only":    {[]item{start("A", "f"), start("B", "g"), call("", "g", `{\"b\":1}`), call("", "f", `{\"a\":1}`), finish(byCalls)}, `call A f {\"a\":1}; call B g {\"b\":1}; finish tool_calls`},
		"cancelled without an id": {[]item{cancel(""), call("", "f", "{}"), finish(byCalls)}, `call call_turn_1 f {}; finish tool_calls`},
		"without id and name":     {[]item{start("", "f"), call("", "", "{}"), finish(byCalls)}, `call call_turn_0 f {}; finish tool_calls`},
		"fragment of nobody":      {[]item{fragment("", "{}"), text("a"), finish(stop)}, `text a; finish stop`},

		"cancelled":              {[]item{start("A", "web"), fragment("A", "{}"), cancel("A"), call("A", "web", "{}"), text("t"), finish(stop)}, `text t; finish stop`},
		"cancelled at once":      {[]item{cancel("A"), fragment("A", "{"), end("A"), call("A", "web", "{}"), text("t"), finish(stop)}, `text t; finish stop`},
		"cancelled, half":        {[]item{start("A", "web"), fragment("A", "{"), cancel("A"), text("t"), finish(byCalls)}, `text t; finish stop`},
		"cancelled beside one":   {[]item{start("A", "web"), start("B", "f"), call("B", "f", "{}"), cancel("A"), finish(byCalls)}, `call B f {}; finish tool_calls`},
		"cancelled lets others":  {[]item{start("A", "web"), call("B", "f", "{}"), cancel("A"), text("t"), finish(byCalls)}, `call B f {}; text t; finish tool_calls`},
		"nothing but cancelled":  {[]item{cancel("A"), finish(byCalls)}, `error empty`},
		"cancelled when sent":    {[]item{call("A", "f", "{}"), cancel("A"), finish(stop)}, `call A f {}; finish tool_calls`},
		"cancelled, not by name": {[]item{call("A", "f", "{}"), cancel("B"), finish(stop)}, `call A f {}; finish tool_calls`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := visible(mapped(t, row.in...)); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

// TestEventMapUniqueIDs checks that an id that is given to a call is not that of another turn's call.
func TestEventMapUniqueIDs(t *testing.T) {
	ids := map[string]bool{}
	for _, turn := range []string{"a", "b"} {
		for ev := range stages.EventMap(slog.New(slog.DiscardHandler)).Events(&pipeline.Turn{ID: turn}, source(call("", "f", "{}"), finish(stop))) {
			if ev.Kind == pipeline.ToolCall {
				ids[string(ev.ID)] = true
			}
		}
	}
	if len(ids) != 2 {
		t.Errorf("got %v", ids)
	}
}

// TestEventMapEnd goes through what a round may have brought, and how the upstream may say that it ended.
func TestEventMapEnd(t *testing.T) {
	half := []item{start("A", "f"), fragment("A", `{\"pa`)}
	for _, row := range []struct {
		name string
		in   []item
		want map[pipeline.Reason]string
	}{
		{"text", []item{text("t")}, map[pipeline.Reason]string{
			stop: "text t; finish stop", byCalls: "text t; finish stop", none: "text t; finish stop",
			length: "text t; finish length", filter: "text t; finish content_filter", fault: "text t; error upstream_error"}},
		{"nothing", nil, map[pipeline.Reason]string{
			stop: "error empty", byCalls: "error empty", none: "error truncated",
			length: "finish length", filter: "finish content_filter", fault: "error upstream_error"}},
		{"empty text", []item{text(""), reasoning("")}, map[pipeline.Reason]string{stop: "error empty", none: "error truncated"}},
		{"reasoning", []item{reasoning("r")}, map[pipeline.Reason]string{
			stop: "reasoning r; finish stop", byCalls: "reasoning r; error empty", none: "reasoning r; error truncated",
			length: "reasoning r; finish length", filter: "reasoning r; finish content_filter", fault: "reasoning r; error upstream_error"}},
		{"call", []item{call("A", "f", "{}")}, map[pipeline.Reason]string{
			stop: "call A f {}; finish tool_calls", byCalls: "call A f {}; finish tool_calls", none: "call A f {}; finish tool_calls",
			length: "call A f {}; finish tool_calls", filter: "call A f {}; finish tool_calls", fault: "call A f {}; error upstream_error"}},
		{"half a call", half, map[pipeline.Reason]string{
			stop: "error invalid_tool_call", byCalls: "error invalid_tool_call", none: "error invalid_tool_call",
			length: "finish length", filter: "finish content_filter", fault: "error upstream_error"}},
		{"text and half a call", append([]item{text("t")}, half...), map[pipeline.Reason]string{
			stop: "text t; error invalid_tool_call", length: "text t; finish length", filter: "text t; finish content_filter"}},
		{"half, said to be whole", append(half[:2:2], end("A"), bareCall("A", "f")), map[pipeline.Reason]string{
			stop: "error invalid_tool_call", byCalls: "error invalid_tool_call", length: "finish length"}},
		{"start alone", []item{start("A", "f")}, map[pipeline.Reason]string{
			stop: "error invalid_tool_call", byCalls: "error invalid_tool_call", length: "finish length"}},
		{"whole behind half", append(half[:2:2], call("B", "g", "{}")), map[pipeline.Reason]string{
			stop: "error invalid_tool_call", length: "call B g {}; finish tool_calls"}},
		{"half behind whole", append([]item{call("B", "g", "{}")}, half...), map[pipeline.Reason]string{
			byCalls: "call B g {}; error invalid_tool_call", length: "call B g {}; finish tool_calls"}},
		{"no call", []item{text("t")}, map[pipeline.Reason]string{byCalls: "text t; finish stop"}},
	} {
		for reason, want := range row.want {
			if got := visible(mapped(t, append(row.in[:len(row.in):len(row.in)], finish(reason))...)); got != want {
				t.Errorf("%s, %d (%s)\ngot  %s\nwant %s", row.name, reason, reason, got, want)
			}
		}
		for reason := range row.want { // an error of the source is the end, whatever came before
			got := mapped(t, append(row.in[:len(row.in):len(row.in)], fail(errBroken), finish(reason))...)
			if last := got[len(got)-1]; last != "error upstream_error" {
				t.Errorf("%s: got %q", row.name, got)
			}
		}
	}
}

func TestEventMapErrors(t *testing.T) {
	for reason, want := range map[pipeline.Reason]pipeline.Error{
		fault: {Code: pipeline.CodeUpstream, Retry: true},
		none:  {Code: pipeline.CodeTruncated, Retry: true},
		stop:  {Code: pipeline.CodeEmpty, Retry: true},
	} {
		for _, err := range stages.EventMap(slog.New(slog.DiscardHandler)).Events(&pipeline.Turn{}, source(finish(reason))) {
			if e := pipeline.AsError(err); e.Code != want.Code || e.Retry != want.Retry || e.Origin != pipeline.OriginUpstream || e.Message == "" {
				t.Errorf("%d: %+v", reason, e)
			}
		}
	}
	items := []item{start("call_q", "shell"), fragment("call_q", `{\"cmd\":\"rm -rf /tm`), finish(byCalls)}
	for _, err := range stages.EventMap(slog.New(slog.DiscardHandler)).Events(&pipeline.Turn{}, source(items...)) {
		if e := pipeline.AsError(err); err != nil && (e.Retry || !strings.Contains(e.Message, "call_q")) {
			t.Errorf("half a call: %+v", e)
		}
	}
}

// TestEventMapLogs checks that a reason that was not taken as it came is logged, and a healthy one is not.
func TestEventMapLogs(t *testing.T) {
	for reason, want := range map[pipeline.Reason]bool{stop: false, length: false, filter: false, none: true, byCalls: true} {
		var out bytes.Buffer
		for range stages.EventMap(slog.New(slog.NewTextHandler(&out, nil))).Events(&pipeline.Turn{ID: "turn"}, source(text("t"), finish(reason))) {
		}
		if got := strings.Contains(out.String(), "turn=turn") && strings.Contains(out.String(), "reason=raw"); got != want {
			t.Errorf("%d: %q", reason, out.String())
		}
	}
}

// TestEventMapText checks that text is safe to pass on, and that halves of characters are joined over deltas of their own kind.
func TestEventMapText(t *testing.T) {
	for name, row := range map[string]struct {
		in   []item
		want string
	}{
		"clean":           {[]item{text(`a\n\u00e9\ud83d\ude00`), finish(stop)}, `text a\n\u00e9\ud83d\ude00; finish stop`},
		"split pair":      {[]item{text(`a\ud83d`), text(`\ude00b`), finish(stop)}, `text a; text \ud83d\ude00b; finish stop`},
		"alone":           {[]item{text(`\ud83d`), text(`\ude00`), finish(stop)}, `text \ud83d\ude00; finish stop`},
		"reasoning":       {[]item{reasoning(`\ud83d`), reasoning(`\ude00`), text("t"), finish(stop)}, `reasoning \ud83d\ude00; text t; finish stop`},
		"kinds apart":     {[]item{reasoning(`\ud83d`), text(`\ud83c`), reasoning(`\ude00`), text(`\udf0d`), finish(stop)}, `reasoning \ud83d\ude00; text \ud83c\udf0d; finish stop`},
		"over an empty":   {[]item{text(`\ud83d`), text(""), text(`\ude00`), finish(stop)}, `text \ud83d\ude00; finish stop`},
		"over a flush":    {[]item{text(`\ud83d`), signal(pipeline.Flush), text(`\ude00`), finish(stop)}, `flush; text \ud83d\ude00; finish stop`},
		"over a call":     {[]item{text(`\ud83d`), call("A", "f", "{}"), text(`\ude00`), finish(stop)}, `call A f {}; text \ud83d\ude00; finish tool_calls`},
		"lone high":       {[]item{text(`\ud83d`), text("b"), finish(stop)}, "text \uFFFDb; finish stop"},
		"two highs":       {[]item{text(`\ud83d`), text(`\ud83d`), text(`\ude00`), finish(stop)}, "text \uFFFD; text \\ud83d\\ude00; finish stop"},
		"lone low":        {[]item{text(`\ude00b`), finish(stop)}, "text \uFFFDb; finish stop"},
		"half at the end": {[]item{text(`a\ud83d`), finish(stop)}, "text a; text \uFFFD; finish stop"},
		"half alone":      {[]item{text(`\ud83d`), finish(stop)}, "text \uFFFD; finish stop"},
		"both at the end": {[]item{reasoning(`r\ud83d`), text(`a\ud83d`), finish(length)}, "reasoning r; text a; reasoning \uFFFD; text \uFFFD; finish length"},
		"half, fault":     {[]item{text(`a\ud83d`), finish(fault)}, "text a; text \uFFFD; error upstream_error"},
		"half, error":     {[]item{text(`a\ud83d`), fail(errBroken)}, "text a; text \uFFFD; error upstream_error"},
		"halves, error":   {[]item{reasoning(`\ud83d`), text(`\ud83d`), fail(errBroken)}, "reasoning \uFFFD; text \uFFFD; error upstream_error"},
		"invalid UTF-8":   {[]item{text("a\xffb"), finish(stop)}, "text a\uFFFDb; finish stop"},
		"control":         {[]item{text("a\tb\x00"), finish(stop)}, `text a\tb\u0000; finish stop`},
		"line breaks":     {[]item{text("a\u2028b\u2029c\u0085"), finish(stop)}, `text a\u2028b\u2029c\u0085; finish stop`},

		"call":             {[]item{call("A", "f", `{\"a\":\"\ud83d\"}`), finish(stop)}, "call A f {\\\"a\\\":\\\"\uFFFD\\\"}; finish tool_calls"},
		"fragments":        {[]item{start("A", "f"), fragment("A", `{\"a\":\"\ud83d`), fragment("A", `\ude00\"}`), finish(stop)}, `call A f {\"a\":\"\ud83d\ude00\"}; finish tool_calls`},
		"fragments, two":   {[]item{start("A", "f"), start("B", "f"), fragment("A", `{\"a\":\"\ud83d`), fragment("B", `{\"a\":\"\ud83c`), fragment("A", `\ude00\"}`), fragment("B", `\udf0d\"}`), finish(stop)}, `call A f {\"a\":\"\ud83d\ude00\"}; call B f {\"a\":\"\ud83c\udf0d\"}; finish tool_calls`},
		"fragments, lone":  {[]item{start("A", "f"), fragment("A", `{\"a\":\"\ud83d`), fragment("A", `x\"}`), finish(stop)}, "call A f {\\\"a\\\":\\\"\uFFFDx\\\"}; finish tool_calls"},
		"fragments, half":  {[]item{start("A", "f"), fragment("A", `{}\ud83d`), finish(stop)}, "error invalid_tool_call"},
		"escapes in JSON":  {[]item{start("A", "f"), fragment("A", `{\"a\":\"\\`), fragment("A", `u00e9\"}`), finish(stop)}, `call A f {\"a\":\"\\u00e9\"}; finish tool_calls`},
		"breaks in a call": {[]item{call("A", "f", "{\\\"a\\\":\\\"\u2028\\\"}"), finish(stop)}, `call A f {\"a\":\"\u2028\"}; finish tool_calls`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := visible(mapped(t, row.in...)); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

// TestEventMapForwards checks what passes beside the calls, for those who show them as they come.
func TestEventMapForwards(t *testing.T) {
	got := strings.Join(mapped(t, start("A", "f"), fragment("A", "{"), fragment("A", "}"), end("A"), fragment("B", "{}"), start("B", "g"), call("A", "f", "{}"), fragment("A", "late"),
		info(pipeline.Step, pipeline.StepInfo{}), info(pipeline.Cost, pipeline.StepInfo{}), finish(byCalls), signal(pipeline.Idle), signal(pipeline.Flush)), "; ")
	if want := "start A f; fragment A {; fragment A }; end A; fragment B {}; start B g; call A f {}; step; cost; call B g {}; finish tool_calls; idle; flush"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestEventMapManyCalls checks order and bytes where calls come by the hundred, at random among each other.
func TestEventMapManyCalls(t *testing.T) {
	const n = 300
	var items []item
	var want []string
	id := func(i int) string { return "id" + strings.Repeat("x", i) }
	for i := range n {
		items = append(items, start(id(i), "f"))
		want = append(want, "call "+id(i)+` f {\"a\":1}`)
	}
	for _, s := range []string{`{\"`, `a\"`, `:1}`} {
		for i := range n {
			items = append(items, fragment(id(i*7%n), s)) // 7 and n have no common divisor
		}
	}
	want = append(want, "finish tool_calls")
	if got := visible(mapped(t, append(items, finish(stop))...)); got != strings.Join(want, "; ") {
		t.Errorf("got %.300s", got)
	}
}

// TestEventMapContext checks that the cause that a source reports reaches the end as it is.
func TestEventMapContext(t *testing.T) {
	for _, err := range stages.EventMap(slog.New(slog.DiscardHandler)).Events(&pipeline.Turn{}, source(fail(context.Canceled))) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

// TestEventMapLimits: what no model makes is not gathered for ever.
func TestEventMapLimits(t *testing.T) {
	var many []item
	for i := range 1100 {
		many = append(many, fragment(strconv.Itoa(i), "{"))
	}
	piece := strings.Repeat("x", 1<<20)
	var large []item
	for range 33 {
		large = append(large, fragment("A", piece))
	}
	for name, items := range map[string][]item{"calls": many, "bytes": large} {
		seen := mapped(t, append(items, finish(byCalls))...)
		if last := seen[len(seen)-1]; last != "error upstream_error" {
			t.Errorf("%s: the round ends in %q", name, last)
		}
	}
}
