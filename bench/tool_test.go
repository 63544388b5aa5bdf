package bench

import (
	"fmt"
	"testing"

	"amplifier-agent/bench/metric"
	"amplifier-agent/codec"
	"amplifier-agent/routes/chat"
)

// toolFragment is how much of a call's arguments models stream at a time, in bytes.
const toolFragment = 16

// toolBody is an answer that calls a tool with a file's content of about size bytes: in fragments that the whole call follows, as
// the gateway sends calls, or as a whole call alone.
func toolBody(size int, fragments bool) (answer []byte, events int) {
	content := ""
	for i := 0; len(content) < size; i++ {
		content += fmt.Sprintf("\tif err := s.put(%d, \"é\"); err != nil {\n\t\treturn err\n\t}\n", i)
	}
	arguments := append(codec.AppendString([]byte(`{"path":"pkg/store/file.go","content":`), content), '}')
	b := []byte(`{"type":"start"}` + "\n")
	if fragments {
		b = append(b, `{"type":"tool-input-start","id":"call_0","toolName":"write"}`+"\n"...)
		runes := []rune(string(arguments))
		for i := 0; i < len(runes); i += toolFragment {
			b = codec.AppendString(append(b, `{"type":"tool-input-delta","id":"call_0","delta":`...), string(runes[i:min(i+toolFragment, len(runes))]))
			b = append(b, "}\n"...)
			events++
		}
		b = append(b, `{"type":"tool-input-end","id":"call_0"}`+"\n"...)
	}
	b = append(append(append(b, `{"type":"tool-call","toolCallId":"call_0","toolName":"write","input":`...), arguments...), "}\n"...)
	return append(b, `{"type":"finish","finishReason":"tool-calls","totalUsage":{"inputTokens":3,"outputTokens":4}}`+"\n"...), events + 1
}

// BenchmarkToolArguments is the translation of an answer that calls a tool: arguments are gathered, and go out as one piece that is
// byte for byte what the model wrote.
func BenchmarkToolArguments(b *testing.B) {
	for _, size := range []int{200, 64 << 10} {
		for _, way := range []string{"fragments", "whole"} {
			b.Run(fmt.Sprintf("bytes=%d/%s", size, way), func(b *testing.B) {
				src, events := toolBody(size, way == "fragments")
				b.SetBytes(int64(len(src)))
				b.ReportAllocs()
				frames := 0
				for b.Loop() {
					frames = translate(src, 4<<10, chat.SSE, drop)
				}
				metric.Events(b, events)
				metric.Writes(b, frames, events)
			})
		}
	}
}
