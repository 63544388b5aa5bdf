package anthropic

import (
	"bytes"
	"reflect"
	"testing"
	"testing/iotest"
)

// FuzzDecoder feeds arbitrary bytes to the whole way from lines to events with meaning. Whatever they are, nothing panics, there
// is one end, and texts can stand in JSON (collect checks it); and however the bytes are cut, the outcome is the same.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte(recorded()))
	f.Add([]byte(framed(begun, hello, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)))
	f.Add([]byte("data: {\"error\":\"529 {\\\"error\\\":{}}\"}\r\n"))
	f.Add([]byte(framed(hello, `{"type":"content_block_delta","delta":{"type":"text_delta","text":"\ud83d"}}`, stopped)))
	f.Add([]byte("{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"\\\\\",\"name\":\"f\",\"input\":{\"a\":\"\x01\xff\"}}}\n" + stopped))
	f.Fuzz(func(t *testing.T, data []byte) {
		whole := collect(t, bodyStream(bytes.NewReader(data)))
		cut := collect(t, bodyStream(iotest.OneByteReader(bytes.NewReader(data))))
		if (whole.Err == nil) != (cut.Err == nil) || whole.Err != nil && whole.Err.Error() != cut.Err.Error() {
			t.Errorf("%v; %v", whole.Err, cut.Err)
		}
		whole.Err, cut.Err = nil, nil
		if !reflect.DeepEqual(whole, cut) {
			t.Errorf("the outcome depends on the cuts:\n%+v\n%+v", whole, cut)
		}
	})
}
