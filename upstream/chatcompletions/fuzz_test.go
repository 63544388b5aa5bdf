package chatcompletions

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
)

// FuzzDecoder feeds arbitrary bytes to the whole way from lines to events with meaning. Whatever they are, nothing panics, there
// is one end, and texts can stand in JSON (collect checks it); each call has a name and an id of its own; and however the bytes
// are cut, the outcome is the same.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte(stream(role, hello, stop, spent, "[DONE]")))
	f.Add([]byte(stream(delta(`"reasoning_content":"hm \ud83d"`), delta(`"reasoning":"\ude00"`), delta(`"refusal":"no"`), length)))
	f.Add([]byte(stream(callDelta(`"index":0,"id":"a","function":{"name":"f","arguments":"{"}`), callDelta(`"index":1,"id":"a","function":{"name":"f","arguments":{}}`), callDelta(`"function":{"arguments":"}"}`), tools)))
	f.Add([]byte(stream(delta(`"function_call":{"name":"f","arguments":"{}"}`), stop)))
	f.Add([]byte(stream(hello, `{"error":{"message":"529 {\"error\":\"<400> x\"}","code":"429"}}`)))
	f.Add([]byte(stream(delta(`"content":[{"type":"thinking","thinking":[{"text":"x"}]},{"text":"y"}],"reasoning_details":[{"summary":"z"}]`), `{"object":"chat.completion","choices":[{"message":{"content":"m"},"finish_reason":"x"}],"cost":"1e-3"}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		whole := fuzzed(t, bytes.NewReader(data))
		cut := fuzzed(t, iotest.OneByteReader(bytes.NewReader(data)))
		if (whole.Err == nil) != (cut.Err == nil) || whole.Text != cut.Text || whole.Reasoning != cut.Reasoning || len(whole.Calls) != len(cut.Calls) || whole.Turn.Usage != cut.Turn.Usage {
			t.Errorf("the outcome depends on the cuts:\n%+v\n%+v", whole, cut)
		}
		if whole.Err != nil && madeID.ReplaceAllString(whole.Err.Error(), "") != madeID.ReplaceAllString(cut.Err.Error(), "") {
			t.Errorf("%v; %v", whole.Err, cut.Err)
		}
		ids := map[string]bool{}
		for _, c := range whole.Calls {
			if len(c.Name) == 0 || len(c.ID) == 0 || ids[c.ID] {
				t.Errorf("call %+v", c)
			}
			ids[c.ID] = true
		}
	})
}

func fuzzed(t *testing.T, src io.Reader) result {
	return collect(t, func(yield func(*pipeline.Event, error) bool) {
		out := upstream.NewEmitter(yield)
		if _, err := upstream.Drive(src, codec.LineOptions{MaxBytes: 1 << 20}, NewDecoder(testMask()), out, nil); err != nil {
			out.Fail(err)
		}
	})
}
