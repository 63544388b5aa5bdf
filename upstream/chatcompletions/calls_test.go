package chatcompletions

import (
	"strings"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
)

// TestCalls holds what fragments mean behind the stages, in all the ways in which upstreams name the call they belong to.
func TestCalls(t *testing.T) {
	for name, row := range map[string]struct {
		lines []string
		want  string // id name(arguments), or an error's code
	}{
		"fragments":                 {[]string{callDelta(`"index":0,"id":"a","function":{"name":"f","arguments":""}`), callDelta(`"index":0,"function":{"arguments":"{\"x\": "}`), callDelta(`"index":0,"function":{"arguments":"1.50}"}`), tools}, `a f({"x": 1.50})`},
		"whole in one":              {[]string{callDelta(`"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}`), tools}, `a f({"x":1})`},
		"two in one":                {[]string{delta(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"b","function":{"name":"g","arguments":"[]"}}]`), tools}, `a f({}) b g([])`},
		"interleaved":               {[]string{callDelta(`"index":0,"id":"a","function":{"name":"f"}`), callDelta(`"index":1,"id":"b","function":{"name":"g"}`), callDelta(`"index":0,"function":{"arguments":"{\"x\""}`), callDelta(`"index":1,"function":{"arguments":"{\"y\""}`), callDelta(`"index":0,"function":{"arguments":":1}"}`), callDelta(`"index":1,"function":{"arguments":":2}"}`), tools}, `a f({"x":1}) b g({"y":2})`},
		"index from 1, backwards":   {[]string{callDelta(`"index":2,"id":"a","function":{"name":"f","arguments":"{}"}`), callDelta(`"index":1,"id":"b","function":{"name":"g","arguments":"{}"}`), tools}, `a f({}) b g({})`},
		"no index, ids":             {[]string{callDelta(`"id":"a","function":{"name":"f","arguments":"{"}`), callDelta(`"id":"b","function":{"name":"f","arguments":"{}"}`), callDelta(`"id":"a","function":{"arguments":"}"}`), tools}, `a f({}) b f({})`},
		"no index, id once":         {[]string{callDelta(`"id":"a","function":{"name":"f"}`), callDelta(`"function":{"arguments":"{}"}`), callDelta(`"id":"b","function":{"name":"g","arguments":"{"}`), callDelta(`"function":{"arguments":"}"}`), tools}, `a f({}) b g({})`},
		"no index, no ids":          {[]string{callDelta(`"function":{"name":"f","arguments":"{}"}`), callDelta(`"function":{"name":"f","arguments":"[]"}`), tools}, `<id> f({}) <id> f([])`},
		"no ids":                    {[]string{callDelta(`"index":0,"function":{"name":"f"}`), callDelta(`"index":1,"function":{"name":"f"}`), callDelta(`"index":0,"id":"","function":{"arguments":"{}"}`), callDelta(`"index":1,"function":{"arguments":"[]"}`), tools}, `<id> f({}) <id> f([])`},
		"index 0 for all":           {[]string{callDelta(`"index":0,"id":"a","function":{"name":"f","arguments":"{}"}`), callDelta(`"index":0,"id":"b","function":{"name":"f","arguments":"[]"}`), tools}, `a f({}) b f([])`},
		"index 0 for all, no ids":   {[]string{callDelta(`"index":0,"function":{"name":"f","arguments":"{}"}`), callDelta(`"index":0,"function":{"name":"g","arguments":"[]"}`), tools}, `<id> f({}) <id> g([])`},
		"one id for all":            {[]string{callDelta(`"index":0,"id":"a","function":{"name":"f","arguments":"{}"}`), callDelta(`"index":1,"id":"a","function":{"name":"g","arguments":"["}`), callDelta(`"index":1,"function":{"arguments":"]"}`), tools}, `a f({}) <id> g([])`},
		"id and name in each":       {[]string{callDelta(`"index":0,"id":"a","function":{"name":"f","arguments":"{"}`), callDelta(`"index":0,"id":"a","function":{"name":"f","arguments":"}"}`), tools}, `a f({})`},
		"another id in each":        {[]string{callDelta(`"index":0,"id":"a","function":{"name":"f","arguments":"{"}`), callDelta(`"index":0,"id":"b","function":{"name":null,"arguments":"}"}`), tools}, `a f({})`},
		"id late":                   {[]string{callDelta(`"index":0,"function":{"name":"f","arguments":"{"}`), callDelta(`"index":0,"id":"a","function":{"arguments":"}"}`), tools}, `<id> f({})`},
		"name late":                 {[]string{callDelta(`"index":0,"id":"a","function":{"arguments":"{"}`), callDelta(`"index":0,"function":{"name":"f","arguments":"}"}`), tools}, `a f({})`},
		"never a name":              {[]string{callDelta(`"index":0,"id":"a","function":{"arguments":"{}"}`), tools}, `invalid_tool_call`},
		"no arguments":              {[]string{callDelta(`"index":0,"id":"a","function":{"name":"f"}`), tools}, `a f({})`},
		"half":                      {[]string{callDelta(`"index":0,"id":"a","function":{"name":"f","arguments":"{"}`), tools}, `invalid_tool_call`},
		"half, cut off by length":   {[]string{hello, callDelta(`"index":0,"id":"a","function":{"name":"f","arguments":"{}"}`), callDelta(`"index":1,"id":"b","function":{"name":"g"}`), length}, `a f({})`},
		"stop for tool calls":       {[]string{callDelta(`"index":0,"id":"a","function":{"name":"f","arguments":"{}"}`), stop}, `a f({})`},
		"beside the finish":         {[]string{`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`}, `a f({})`},
		"pair split over fragments": {[]string{callDelta(`"index":0,"id":"a","function":{"name":"f","arguments":"\"\ud83d"}`), callDelta(`"index":0,"function":{"arguments":"\ude00\""}`), tools}, `a f("😀")`},
		"function_call":             {[]string{delta(`"function_call":{"name":"f","arguments":""}`), delta(`"function_call":{"arguments":"{\"x\""}`), delta(`"function_call":{"arguments":":1}"}`), strings.Replace(stop, "stop", "function_call", 1)}, `<id> f({"x":1})`},
		"arguments byte by byte":    {[]string{callDelta(`"index":0,"id":"a","function":{"name":"f","arguments":{"n": 12345678901234567890123, "m":1e400}}`), tools}, `a f({"n": 12345678901234567890123, "m":1e400})`},
		"text and calls in two":     {[]string{`{"choices":[{"index":0,"delta":{"content":"hm"}},{"index":1,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`}, `a f({})`},
	} {
		r := body(t, script(row.lines...))
		if want := pipeline.ReasonToolCalls; r.Err == nil && r.Finish.Reason != want {
			t.Errorf("%s: finish %s", name, r.Finish.Reason)
		}
		if s := madeID.ReplaceAllString(r.Told(), "<id>"); s != row.want {
			t.Errorf("%s\n is %s\nnot %s", name, s, row.want)
		}
		ids := map[string]bool{}
		for _, c := range r.Calls {
			if ids[c.ID] {
				t.Errorf("%s: id %s twice", name, c.ID)
			}
			ids[c.ID] = true
		}
	}
}

// TestCallsEndWithTheConsumer: a line full of calls is not worked through for nobody.
func TestCallsEndWithTheConsumer(t *testing.T) {
	line := delta(`"tool_calls":[{"function":{"name":"f"}}` + strings.Repeat(`,{"function":{"name":"f"}}`, 999) + `]`)
	d := NewDecoder(nil)
	left := 3
	d.Line([]byte(line), upstream.NewEmitter(func(*pipeline.Event, error) bool { left--; return left > 0 }))
	if n := len(d.calls.list); n != 3 || left != 0 {
		t.Errorf("%d calls, %d left", n, left)
	}
}
