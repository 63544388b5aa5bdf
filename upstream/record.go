package upstream

import (
	"io"
	"time"
)

// Recorder takes down exchanges. It is used by many at once, each Tape by one goroutine. It never fails an exchange.
type Recorder interface {
	// Begin is called when the header of an answer is there. It keeps nothing of e.
	Begin(e *Exchange) Tape
}

// Exchange is a call and the beginning of its answer. It holds whatever was sent and received: keys too.
type Exchange struct {
	Call   *Call
	Began  time.Time // when the answer did
	Status int
	Header func(name string) string // a field of the answer
	Echo   func(head []byte) bool   // recognises lines that repeat the request by their beginning; nil for none
}

// Tape takes down a body as it is read, decoded from its content encoding.
type Tape interface {
	io.Writer // whose error is ignored
	// Close ends it. Whole says that the body was read to its end.
	Close(whole bool)
}

// record lets the body run past rec. The function it returns ends that.
func (r *Reply) record(rec Recorder, call *Call, echo func([]byte) bool) (end func()) {
	tape := rec.Begin(&Exchange{Call: call, Began: time.Now(), Status: r.Status, Header: r.Header, Echo: echo})
	t := &taped{body: r.Body, tape: tape}
	r.Body = t
	return func() { tape.Close(t.whole) }
}

// taped is a body that is taken down.
type taped struct {
	body  io.Reader
	tape  Tape
	whole bool
}

func (t *taped) Read(p []byte) (int, error) {
	n, err := t.body.Read(p)
	if n > 0 {
		_, _ = t.tape.Write(p[:n])
	}
	t.whole = t.whole || err == io.EOF
	return n, err
}
