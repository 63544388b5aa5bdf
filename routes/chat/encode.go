package chat

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

const (
	// keepaliveEvery is how long nothing may be written to a client (http-face.md, "SSE chunk sequence"; rulings 28).
	keepaliveEvery = 3 * time.Second
	// maxFrameBytes is how much is gathered before it is written without waiting for Flush.
	maxFrameBytes = 32 << 10
	// lookEvery is how often a stream that writes nothing to its client looks whether the client is still there.
	lookEvery = 500 * time.Millisecond
)

// Wire is how one response is written.
type Wire struct {
	Label         string      // model of every chunk (rulings 21)
	KeepaliveLine bool        // keepalives without a blank line of their own (rulings 51)
	ErrorEvents   bool        // errors are objects of their own, not text in the content (rulings 26)
	Chunked       bool        // frames of a stream are chunks of an HTTP/1.1 body, the last one with its end
	Alive         func() bool // is the client still there?
	Mask          Mask
	Log           *slog.Logger
}

// Mask takes secrets out of a text before a client sees it; nil takes out none.
type Mask func(string) string

func (m Mask) text(e *pipeline.Error) string {
	if m == nil {
		return text(e)
	}
	return m(text(e))
}

// errUnfinished is a fault of ours: each stream ends in Finish or in an error.
var errUnfinished = errors.New("the stream ended without a finish")

// reading is what both encodings share: it runs a stream and tells its sink.
type reading struct {
	turn *pipeline.Turn
	sink sink
	wire Wire
	stop bool // the consumer of the frames has stopped
	done bool // Finish has come
	err  error
}

// sink takes the events of a stream; false ends it, because nobody wants more or because of an error that it has set.
type sink interface {
	event(ev *pipeline.Event) bool
}

// run runs in. A panic on the way becomes an error, so that it ends this stream and no other.
func (r *reading) run(in pipeline.Stream, s sink) {
	defer func() {
		if p := recover(); p != nil {
			r.wire.Log.Error("panic in a stream", "turn", r.turn.ID, "panic", p, "stack", string(debug.Stack()))
			if !r.done {
				r.err = &pipeline.Error{Code: pipeline.CodeInternal, Message: "internal error", Err: fmt.Errorf("panic: %v", p)}
			}
		}
	}()
	r.sink = s
	if in(r.take); !r.done && !r.stop && r.err == nil {
		r.err = errUnfinished
	}
}

func (r *reading) take(ev *pipeline.Event, err error) bool {
	if err != nil {
		if !r.done {
			r.err = err
		}
		return false
	}
	if r.sink.event(ev) {
		return true
	}
	r.stop = r.err == nil
	return false
}

// report is the error to show, logged once.
func (r *reading) report() *pipeline.Error {
	e := pipeline.AsError(r.err)
	r.wire.Log.Warn("turn failed after its answer had begun", "turn", r.turn.ID, "code", e.Code, "error", r.err)
	return e
}

// appendNotices appends what the client is told before the answer, as a JSON string body.
func (r *reading) appendNotices(dst []byte) []byte {
	for _, e := range r.turn.Notices {
		dst = append(r.appendInline(dst, e, false), `\n\n`...)
	}
	return dst
}

// appendInline appends the text that reports an error inside the content (rulings 26), as a JSON string body.
func (r *reading) appendInline(dst []byte, e *pipeline.Error, apart bool) []byte {
	if apart {
		dst = append(dst, `\n\n`...)
	}
	dst = append(append(append(dst, `[amplifier-agent error: `...), kindOf(e).inline...), `: `...)
	return append(codec.AppendText(dst, r.wire.Mask.text(e)), ']')
}

// appendHead appends the beginning of a chunk or of a body, up to the choice's index.
func appendHead(dst []byte, t *pipeline.Turn, object, label string) []byte {
	dst = append(append(dst, `{"id":"chatcmpl-`...), t.ID...)
	dst = append(append(append(dst, `","object":"`...), object...), `","created":`...)
	dst = strconv.AppendInt(dst, t.Received.Unix(), 10)
	dst = codec.AppendString(append(dst, `,"model":`...), label)
	return append(dst, `,"choices":[{"index":0,`...)
}

// appendTail appends activeMode and usage, which every terminal shape carries, and closes the object.
func appendTail(dst []byte, t *pipeline.Turn) []byte {
	dst = appendOrNull(append(dst, `],"activeMode":`...), t.Mode)
	dst = appendUsage(append(dst, `,"usage":`...), t.Usage, t.Cost)
	return append(dst, '}')
}

// appendUsage appends the usage block (rulings 22, 23). Details are there as far as they were reported.
func appendUsage(dst []byte, u pipeline.Usage, cost pipeline.Price) []byte {
	dst = appendNumber(dst, `{"prompt_tokens":`, u.Prompt())
	dst = appendNumber(dst, `,"completion_tokens":`, u.Output)
	dst = appendNumber(dst, `,"total_tokens":`, u.Prompt()+u.Output)
	if u.Has&(pipeline.HasInput|pipeline.HasCache) != 0 {
		dst = append(appendNumber(dst, `,"prompt_tokens_details":{"cached_tokens":`, u.CacheRead), '}')
	}
	if u.Has&pipeline.HasReasoning != 0 {
		dst = append(appendNumber(dst, `,"completion_tokens_details":{"reasoning_tokens":`, u.Reasoning), '}')
	}
	if cost.Known() {
		dst = codec.AppendString(append(dst, `,"cost_usd":`...), cost.String())
	}
	return append(dst, '}')
}

func appendNumber(dst []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(dst, name...), n, 10)
}

// appendCall appends one tool call; with index as a chunk has it, without as a message has it.
func appendCall(dst []byte, ev *pipeline.Event, index bool) []byte {
	dst = append(dst, '{')
	if index {
		dst = strconv.AppendInt(append(dst, `"index":`...), int64(ev.Index), 10)
		dst = append(dst, ',')
	}
	dst = codec.AppendString(append(dst, `"id":`...), ev.ID)
	dst = codec.AppendString(append(dst, `,"type":"function","function":{"name":`...), ev.Name)
	dst = append(append(append(dst, `,"arguments":"`...), ev.Text...), `"}}`...)
	return dst
}
