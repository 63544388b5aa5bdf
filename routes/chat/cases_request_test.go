package chat_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"amplifier-agent/routes/chat/chattest"
	"amplifier-agent/upstream/simulator"
)

// sent writes the messages of a request of the upstream's as "role part part; role …".
func sent(r *simulator.Request) string {
	var all []string
	for _, m := range r.Messages {
		words := []string{m.Role}
		for _, p := range m.Parts {
			switch p.Type {
			case "text":
				words = append(words, p.Text)
			case "image":
				words = append(words, "<"+p.MediaType+" "+p.Image+">")
			case "tool-call":
				words = append(words, fmt.Sprintf("%s=%s(%s)", p.ToolCallID, p.ToolName, p.Input))
			case "tool-result":
				words = append(words, fmt.Sprintf("%s=%s:%s", p.ToolCallID, p.ToolName, p.Output.Value))
			default:
				words = append(words, p.Type)
			}
		}
		all = append(all, strings.Join(words, " "))
	}
	return strings.Join(all, "; ")
}

// TestCaseRequests: what messages of the client become on the way to the upstream, or at which of them they are refused.
func TestCaseRequests(t *testing.T) {
	const png = "data:image/png;base64,iVBORw0KGgo="
	s := start(t, setup{})
	asks := func(arguments string) string {
		return `{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f"` + arguments + `}}]},{"role":"tool","tool_call_id":"c","content":"r"}`
	}
	call := func(id, name string) string {
		return `{"role":"assistant","content":"","tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"` + name + `","arguments":"{}"}}]},{"role":"tool","tool_call_id":"` + id + `","content":"of ` + name + `"}`
	}
	image := func(url string) string {
		return `{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"` + url + `"}}]}`
	}
	for _, row := range []struct {
		name, messages string
		want           string // as sent writes it
		param          string // of what is refused
	}{
		{"B005 one id in two turns", `{"role":"user","content":"u"},` + call("call_0", "first") + `,{"role":"assistant","content":"a"},{"role":"user","content":"v"},` + call("call_0", "second"),
			"user u; assistant call_0=first({}); tool call_0=first:of first; assistant a; user v; assistant call_0=second({}); tool call_0=second:of second", ""},
		{"B007 empty arguments", asks(`,"arguments":""`), "user u; assistant c=f({}); tool c=f:r", ""},
		{"B007 null arguments", asks(`,"arguments":null`), "user u; assistant c=f({}); tool c=f:r", ""},
		{"B007 no arguments", asks(""), "user u; assistant c=f({}); tool c=f:r", ""},
		{"B007 arguments that are no JSON", asks(`,"arguments":"{\"cut"`), `user u; assistant c=f({"_raw_arguments":"{\"cut"}); tool c=f:r`, ""},
		{"B036 integers above 2^53", asks(`,"arguments":"{\"id\":9223372036854775807}"`), `user u; assistant c=f({"id":9223372036854775807}); tool c=f:r`, ""},
		{"B100 calls and null", asks(`,"arguments":"{}"`), "user u; assistant c=f({}); tool c=f:r", ""},
		{"B101 a data URL", image(png), "user see <image/png " + png + ">", ""},
		{"B101 wrapped twice", image("data:image/png;base64," + png), "", "messages[0].content[1].image_url.url"},
		{"B101 any image", image("data:image/*;base64,iVBORw0KGgo="), "", "messages[0].content[1].image_url.url"},
		{"B101 no base64", image("data:image/png,x"), "", "messages[0].content[1].image_url.url"},
		{"B103 a result without an id", `{"role":"tool","content":"x"}`, "", "messages[0].tool_call_id"},
		{"B103 an empty id", `{"role":"user","content":"u"},{"role":"tool","content":"x","tool_call_id":""}`, "", "messages[1].tool_call_id"},
		{"B103 a call without an id", `{"role":"assistant","tool_calls":[{"id":"","type":"function","function":{"name":"f","arguments":"{}"}}]}`, "", "messages[0].tool_calls[0].id"},
		{"B105 an image in a result", `{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
			`{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"drawn"},{"type":"image_url","image_url":{"url":"` + png + `"}}]}`,
			"user u; assistant c=f({}); tool c=f:drawn; user Images that the tools above returned: <image/png " + png + ">", ""},
	} {
		for _, stream := range []bool{true, false} {
			before := len(s.sim.Requests())
			resp, b := s.post(t, fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[%s]}`, model, stream, row.messages))
			requests := s.sim.Requests()
			if row.param != "" {
				if resp.StatusCode != 400 || orEmpty(parseError(t, b).Param) != row.param || len(requests) != before {
					t.Errorf("%s: status %d, %d requests: %s", row.name, resp.StatusCode, len(requests)-before, b)
				}
				continue
			}
			if _, err := chattest.Parser(stream)(b); resp.StatusCode != 200 || err != nil || len(requests) != before+1 {
				t.Errorf("%s: status %d, %d requests: %s", row.name, resp.StatusCode, len(requests)-before, b)
			} else if got := sent(last(requests)); got != row.want {
				t.Errorf("%s:\ngot  %s\nwant %s", row.name, got, row.want)
			}
		}
	}
	for _, r := range s.sim.Requests() { // B061: the gateway makes up thousands of tokens if there is none
		if !r.HasSystem || r.System == "" {
			t.Errorf("sent without a system prompt: %s", r.Raw)
		}
	}
}

// TestCaseBrokenBodies: B031, B033, B038. A body that is no JSON, or nested beyond reason, is a 400, and the next request is
// served as if nothing had been.
func TestCaseBrokenBodies(t *testing.T) {
	s := start(t, setup{})
	deep := strings.Repeat(`{"a":`, 100_000)
	bodies := []string{
		`{"\`, `{"h\A>\`, `{"` + strings.Repeat("\xAE", 1024), `{"messages":[{"role":"\u12`, `{"model":"` + model + `"`, "", "\x00",
		fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":%s1%s}}]}`, model, deep, strings.Repeat("}", 100_000)),
		deep, strings.Repeat("[", 100_000),
	}
	for round := range 20 {
		for _, body := range bodies {
			resp, b := s.post(t, body)
			if e := parseError(t, b); resp.StatusCode != 400 || orEmpty(e.Code) != "invalid_request" {
				t.Fatalf("%.40q: status %d: %s", body, resp.StatusCode, b)
			}
			stream := round%2 == 0
			if a := s.answer(t, ask(stream, "Reply with exactly: \"alive\" \\ é"), stream); a.Content != "\"alive\" \\ é" {
				t.Fatalf("behind %.40q: answer %+v", body, a)
			}
		}
	}
	if n := len(s.sim.Requests()); n != 20*len(bodies) {
		t.Errorf("the upstream was asked %d times", n)
	}
}

// TestCaseLongTexts: B034. Text survives at every length at which a decoder's buffer may end, both ways.
func TestCaseLongTexts(t *testing.T) {
	s := start(t, setup{})
	for n := 2600; n <= 2760; n++ {
		stream := n%2 == 0
		text := strings.Repeat("あ", n)
		if a := s.answer(t, ask(stream, "Reply with exactly: "+text), stream); a.Content != text {
			t.Fatalf("%d characters: %d bytes came back", n, len(a.Content))
		}
		if got := last(s.sim.Requests()).LastUser(); got != "Reply with exactly: "+text {
			t.Fatalf("%d characters: %d bytes were sent", n, len(got))
		}
	}
}

// TestCaseNulls: B039. Null is accepted for each optional field, and 30 MB that nobody looks at are no burden.
func TestCaseNulls(t *testing.T) {
	s := start(t, setup{})
	var fields []string
	for _, name := range []string{"stream", "tools", "tool_choice", "temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "stream_options", "user",
		"metadata", "n", "logprobs", "top_logprobs", "logit_bias", "response_format", "seed", "parallel_tool_calls", "service_tier", "store", "functions", "reasoning_effort"} {
		fields = append(fields, `"`+name+`":null`)
	}
	message := `{"role":"user","content":"Reply with exactly: x","name":null,"tool_calls":null,"tool_call_id":null,"refusal":null,"audio":null,"reasoning_content":null}`
	body := fmt.Sprintf(`{"model":%q,"messages":[%s],%s`, model, message, strings.Join(fields, ","))
	long, err := json.Marshal(strings.Repeat("all of it is text, あ\n", 1_200_000)) // 30 MB
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"}", `,"x":` + string(long) + "}", `,"x":[` + strings.Repeat(`{"metadata":null},`, 100_000) + "null]}"} {
		resp, b := s.post(t, body+end)
		if a, err := chattest.ParseSSE(b); resp.StatusCode != 200 || err != nil || a.Content != "x" {
			t.Errorf("status %d, error %v: %.300s", resp.StatusCode, err, b)
		}
	}
}
