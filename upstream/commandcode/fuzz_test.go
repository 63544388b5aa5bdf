package commandcode

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/commandcode/fixtures"
)

// FuzzDecoder feeds arbitrary bytes to the whole way from lines to events with meaning. Whatever they are, nothing panics, there
// is one end, and texts can stand in JSON (collect checks it); and however the bytes are cut, the outcome is the same.
func FuzzDecoder(f *testing.F) {
	for _, name := range fixtures.Names() {
		if b := fixtures.Body(name); len(b) < 8<<10 {
			f.Add(b)
		}
	}
	f.Add([]byte(`{"type":"error","error":"529 {\"error\":{\"error\":\"<400> x\"}}"}`))
	f.Add([]byte("data: {\"type\":\"text-delta\",\"text\":\"\\ud83d\"}\r\n{\"type\":\"tool-result\",\"id\":\"\\ude00\"}\n"))
	f.Add([]byte("{\"type\":\"tool-call-delta\",\"data\":{\"toolCallId\":\"c\",\"name\":\"f\",\"arguments\":\"\x01\xff\"}}\n{\"type\":\"finish\"}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		whole := fuzzed(t, bytes.NewReader(data))
		cut := fuzzed(t, iotest.OneByteReader(bytes.NewReader(data)))
		if (whole.Err == nil) != (cut.Err == nil) || whole.Text != cut.Text || whole.Reasoning != cut.Reasoning || len(whole.Calls) != len(cut.Calls) || whole.Turn.Usage != cut.Turn.Usage {
			t.Errorf("the outcome depends on the cuts:\n%+v\n%+v", whole, cut)
		}
		if whole.Err != nil && whole.Err.Error() != cut.Err.Error() {
			t.Errorf("%v; %v", whole.Err, cut.Err)
		}
		for _, c := range whole.Calls {
			if len(c.Name) == 0 || len(c.ID) == 0 {
				t.Errorf("call %+v", c)
			}
		}
	})
}

func fuzzed(t *testing.T, src io.Reader) result {
	return collect(t, func(yield func(*pipeline.Event, error) bool) {
		out := upstream.NewEmitter(yield)
		lines := codec.LineOptions{MaxBytes: 1 << 20, Skip: IsEcho}
		if _, err := upstream.Drive(src, lines, NewDecoder(testMask()), out, nil); err != nil {
			out.Fail(err)
		}
	})
}
