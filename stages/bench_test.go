package stages_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"amplifier-agent/bench/metric"
	"amplifier-agent/pipeline"
	"amplifier-agent/stages"
)

// openCodeRequest is a request of about 30 kB as a coding agent sends it: a long system prompt, a dozen tools with schemas, and
// a conversation of calls and results.
func openCodeRequest() string {
	var b strings.Builder
	quoted := func(s string) string {
		q, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		return string(q)
	}
	b.WriteString(`{"model":"m","max_tokens":32000,"temperature":0,"stream":true,"stream_options":{"include_usage":true},"tool_choice":"auto","messages":[`)
	fmt.Fprintf(&b, `{"role":"system","content":%s}`, quoted(strings.Repeat("You are a coding agent.\nAnswer in \"short\" sentences – no preamble, no postamble.\n- Read files before you edit them.\n", 64)))
	fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"text","text":%s}]}`, quoted("Find out why the test in pkg/store fails, and mend it."))
	for i := range 8 {
		args := quoted(fmt.Sprintf(`{"filePath":"/home/dev/pkg/store/file%d.go","offset":%d,"limit":200}`, i, i*200))
		fmt.Fprintf(&b, `,{"role":"assistant","content":null,"reasoning_content":%s,"tool_calls":[{"id":"call_%024x","type":"function","function":{"name":"read","arguments":%s}}]}`,
			quoted(strings.Repeat("I should look at the next file. ", 6)), i, args)
		fmt.Fprintf(&b, `,{"role":"tool","tool_call_id":"call_%024x","content":%s}`, i,
			quoted(strings.Repeat(fmt.Sprintf("%05d| func (s *Store) Get(key string) ([]byte, error) {\n\treturn s.m[\"%d\"], nil\n", i, i), 12)))
	}
	b.WriteString(`,{"role":"user","content":"Go on."}],"tools":[`)
	for i := range 12 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"function","function":{"name":"tool_%d","description":%s,"parameters":{"type":"object","properties":{"filePath":{"type":"string","description":"The absolute path"},`+
			`"offset":{"type":"number"},"limit":{"type":"number","description":"How many lines"}},"required":["filePath"],"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}}}`,
			i, quoted(strings.Repeat("Reads a file of the project.\n", 12)))
	}
	b.WriteString(`]}`)
	return b.String()
}

// These mirror the contract's request table for encoding/json, the yardstick of BenchmarkDecode.
type (
	stdRequest struct {
		Model         string          `json:"model"`
		Messages      []stdMessage    `json:"messages"`
		Stream        *bool           `json:"stream"`
		Tools         []stdTool       `json:"tools"`
		ToolChoice    json.RawMessage `json:"tool_choice"`
		Temperature   *float64        `json:"temperature"`
		MaxTokens     *int            `json:"max_tokens"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	stdMessage struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		Reasoning  string          `json:"reasoning_content"`
		ToolCallID string          `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	}
	stdTool struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	}
	stdPart struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
)

// BenchmarkDecode compares the stage with encoding/json on the same request, which is decoded as far as the stage does.
func BenchmarkDecode(b *testing.B) {
	body := []byte(openCodeRequest())
	b.Run("stage", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(body)))
		stage := stages.Decode(stages.DecodeOptions{})
		for b.Loop() {
			if err := stage.Request(b.Context(), &pipeline.Turn{Body: body}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			var r stdRequest
			if err := json.Unmarshal(body, &r); err != nil {
				b.Fatal(err)
			}
			for i := range r.Messages {
				m := &r.Messages[i]
				var text string
				var parts []stdPart
				var err error
				switch c := m.Content; {
				case len(c) > 0 && c[0] == '"':
					err = json.Unmarshal(c, &text)
				case len(c) > 0 && c[0] == '[':
					err = json.Unmarshal(c, &parts)
				}
				for _, call := range m.ToolCalls {
					if !json.Valid([]byte(call.Function.Arguments)) {
						b.Fatal("arguments")
					}
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkEvent measures what one event costs in each stage of the way back, and in all of them. The bare source is there to
// subtract.
func BenchmarkEvent(b *testing.B) {
	kinds := map[string]item{"text": text("hello "), "dirty": text("a\u2028b"), "fragment": fragment("a", "x"), "flush": signal(pipeline.Flush)}
	chains := []struct {
		name string
		list []pipeline.Stage
	}{{"source", nil}, {"tool mount", []pipeline.Stage{stages.ToolMount()}}, {"event map", round()[:1]}, {"usage fold", round()[1:]}, {"chain", everyStage()}}
	for _, c := range chains {
		for _, kind := range []string{"text", "dirty", "fragment", "flush"} {
			b.Run(c.name+"/"+kind, func(b *testing.B) {
				b.ReportAllocs()
				it := kinds[kind]
				b.SetBytes(int64(len(it.ev.Text)))
				src := func(yield func(*pipeline.Event, error) bool) {
					var ev pipeline.Event
					for i := 0; b.Loop(); i++ {
						if kind == "fragment" && i%4096 == 0 { // a new call now and then, as arguments do not grow for ever
							opening := start(fmt.Sprint("call", i), "f").ev
							it.ev.ID = opening.ID
							yield(&opening, nil)
						}
						ev = it.ev
						yield(&ev, nil)
					}
				}
				for range pipeline.Chain(c.list, &pipeline.Turn{}, src) {
				}
				metric.Events(b, 1)
			})
		}
	}
}
