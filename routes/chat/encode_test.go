package chat_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
	"amplifier-agent/pipeline/engine"
	"amplifier-agent/routes/chat"
	"amplifier-agent/routes/chat/chattest"
	"amplifier-agent/upstream"
	"amplifier-agent/upstream/commandcode"
)

// silent is an upstream that says nothing for d, calling back as a connection does, and then finishes.
func silent(first, d time.Duration) pipeline.Stream {
	return func(yield func(*pipeline.Event, error) bool) {
		wait := first
		for start := time.Now(); time.Since(start) < d; {
			time.Sleep(wait)
			ev := pipeline.Event{Kind: pipeline.Idle, Wake: 500 * time.Millisecond}
			if !yield(&ev, nil) {
				return
			}
			wait = ev.Wake
		}
		if yield(&pipeline.Event{Kind: pipeline.Text, Clean: true, Text: codec.Text("awake")}, nil) {
			yield(&pipeline.Event{Kind: pipeline.Finish, Step: &pipeline.StepInfo{Reason: pipeline.ReasonStop}}, nil)
		}
	}
}

func wire(alive func() bool) chat.Wire {
	if alive == nil {
		alive = func() bool { return true }
	}
	return chat.Wire{Label: "amplifier", Alive: alive, Log: quietLog}
}

// TestKeepaliveEveryThreeSeconds: 15 minutes of silence, on a fake clock.
func TestKeepaliveEveryThreeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		var out []byte
		for frame, err := range chat.SSE(&pipeline.Turn{}, silent(50*time.Millisecond, 15*time.Minute), wire(nil)) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, frame...)
			if string(frame) == ": keepalive\n\n" {
				at = append(at, time.Since(start))
			} else if len(at) == 0 && time.Since(start) != 50*time.Millisecond {
				t.Errorf("the role chunk came after %s", time.Since(start))
			}
		}
		if len(at) != 300 {
			t.Errorf("%d keepalives in 15 minutes", len(at))
		}
		for i := 1; i < len(at); i++ {
			if gap := at[i] - at[i-1]; gap < 2800*time.Millisecond || gap > 3200*time.Millisecond {
				t.Fatalf("keepalive %d came %s after the one before", i, gap)
			}
		}
		if a, err := chattest.ParseSSE(out); err != nil || a.Content != "awake" {
			t.Errorf("answer %+v, error %v", a, err)
		}
	})
}

// TestKeepaliveCountsFromTheLastWrite: deltas put keepalives off.
func TestKeepaliveCountsFromTheLastWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := func(yield func(*pipeline.Event, error) bool) {
			for range 20 {
				ok := yield(&pipeline.Event{Kind: pipeline.Text, Clean: true, Text: codec.Text("x")}, nil) &&
					yield(&pipeline.Event{Kind: pipeline.Flush}, nil)
				time.Sleep(2900 * time.Millisecond)
				if !ok || !yield(&pipeline.Event{Kind: pipeline.Idle, Wake: time.Second}, nil) {
					return
				}
			}
			yield(&pipeline.Event{Kind: pipeline.Finish, Step: &pipeline.StepInfo{}}, nil)
		}
		for frame := range chat.SSE(&pipeline.Turn{}, in, wire(nil)) {
			if bytes.Contains(frame, []byte("keepalive")) {
				t.Error("a keepalive within 3 s of a delta")
			}
		}
	})
}

func TestKeepaliveLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wire(nil)
		w.KeepaliveLine = true
		var out []byte
		for frame := range chat.SSE(&pipeline.Turn{}, silent(time.Second, 7*time.Second), w) {
			out = append(out, frame...)
		}
		if n := strings.Count(string(out), ": keepalive\n"); n != 2 {
			t.Errorf("%d keepalives in %q", n, out)
		}
		if strings.Contains(string(out), ": keepalive\n\n") {
			t.Error("a keepalive has a blank line of its own")
		}
		if _, err := chattest.ParseSSE(out); err != nil {
			t.Error(err)
		}
	})
}

// TestDeadClientEndsTheStream: a look that finds nobody ends the stream without a frame.
func TestDeadClientEndsTheStream(t *testing.T) {
	for name, encode := range map[string]func(*pipeline.Turn, pipeline.Stream, chat.Wire) pipeline.Frames{"sse": chat.SSE, "json": chat.JSON} {
		synctest.Test(t, func(t *testing.T) {
			for range encode(&pipeline.Turn{}, silent(time.Second, time.Hour), wire(func() bool { return false })) {
				t.Errorf("%s: a frame for nobody", name)
			}
		})
	}
}

// TestStoppedConsumer: when no more frames are wanted, the stream ends there and nothing panics.
func TestStoppedConsumer(t *testing.T) {
	ended := false
	in := func(yield func(*pipeline.Event, error) bool) {
		defer func() { ended = true }()
		for yield(&pipeline.Event{Kind: pipeline.Text, Clean: true, Text: codec.Text("x")}, nil) && yield(&pipeline.Event{Kind: pipeline.Flush}, nil) {
		}
	}
	for range chat.SSE(&pipeline.Turn{}, in, wire(nil)) {
		break
	}
	if !ended {
		t.Error("the stream goes on")
	}
}

// TestStreamWithoutFinish: a source that breaks its promise gives an error, never a clean end.
func TestStreamWithoutFinish(t *testing.T) {
	none := func(func(*pipeline.Event, error) bool) {}
	for _, err := range chat.SSE(&pipeline.Turn{}, none, wire(nil)) {
		if err == nil {
			t.Error("a frame of nothing")
		}
	}
	some := func(yield func(*pipeline.Event, error) bool) {
		yield(&pipeline.Event{Kind: pipeline.Text, Clean: true, Text: codec.Text("x")}, nil)
	}
	var out []byte
	for frame := range chat.SSE(&pipeline.Turn{}, some, wire(nil)) {
		out = append(out, frame...)
	}
	if a, err := chattest.ParseSSE(out); err != nil || !strings.Contains(a.Content, "InternalError") {
		t.Errorf("answer %+v, error %v", a, err)
	}
}

// reads counts the reads of a body.
type reads struct {
	io.Reader
	n int
}

func (r *reads) Read(p []byte) (int, error) {
	r.n++
	return r.Reader.Read(p[:min(len(p), 300)])
}

// TestAtMostOneFrameARead: what one read of the upstream brings is one write to the client.
func TestAtMostOneFrameARead(t *testing.T) {
	var counted *reads
	var texts []string
	for range 500 {
		texts = append(texts, "some words ")
	}
	out, frames, err := translate(deltas(texts...), true, func(r io.Reader) io.Reader {
		counted = &reads{Reader: r}
		return counted
	})
	if err != nil {
		t.Fatal(err)
	}
	if frames > counted.n {
		t.Errorf("%d frames of %d reads", frames, counted.n)
	}
	if a, err := chattest.ParseSSE(out); err != nil || a.Content != strings.Repeat("some words ", 500) {
		t.Errorf("answer %+v, error %v", a, err)
	}
}

// endless is the body of a stream of which only n deltas are read. It hands out whole lines.
type endless struct {
	lines []byte
	n     int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	e.n--
	return copy(p, e.lines), nil
}

// line2frame translates n reads of a stream in steady state.
func line2frame(n int, lines []byte) {
	out := upstream.NewEmitter(nil)
	t := &pipeline.Turn{ID: "0123456789abcdef01234567", Received: time.Unix(1_700_000_000, 0)}
	t.Provider = source(func(yield func(*pipeline.Event, error) bool) {
		*out = *upstream.NewEmitter(yield)
		_, err := upstream.Drive(flusher{out, &endless{lines, n}}, codec.LineOptions{}, commandcode.NewDecoder(nil), out, nil)
		if err != nil {
			out.Fail(err)
		}
	})
	runner := &engine.Runner{Round: round(quietLog)}
	for range chat.SSE(t, pipeline.Chain(turnStages(), t, runner.Run(context.Background(), t)), wire(nil)) {
	}
}

type flusher struct {
	out *upstream.Emitter
	r   io.Reader
}

func (f flusher) Read(p []byte) (int, error) {
	if !f.out.Reading() {
		return 0, errors.New("stopped")
	}
	return f.r.Read(p)
}

// source is a provider of one stream.
type source pipeline.Stream

func (s source) Name() string                                            { return "source" }
func (s source) Models(context.Context) ([]pipeline.Model, error)        { return nil, nil }
func (s source) Stream(context.Context, *pipeline.Round) pipeline.Stream { return pipeline.Stream(s) }

// FuzzTranslate: whatever the upstream sends, the client gets a stream that every parser reads, or a status.
func FuzzTranslate(f *testing.F) {
	for _, s := range []string{
		"", "\n", `{"type":"text-delta","id":"t","text":"x"}` + "\n" + `{"type":"finish","finishReason":"stop"}`,
		`{"type":"tool-call","toolCallId":"a","toolName":"f","input":{"a":1}}` + "\n" + `{"type":"finish"}`,
		`{"type":"text-delta","text":"\ud83d"}` + "\n" + `{"type":"text-delta","text":"\ude00` + "\xff\xc2\x85" + `"}` + "\n" + `{"type":"finish-step","finishReason":"length"}`,
		`{"type":"tool-input-start","id":"a","toolName":"f"}` + "\n" + `{"type":"tool-input-delta","id":"a","delta":"{}"}` + "\n" + `{"type":"finish"}`,
		`{"type":"error","error":{"message":"<b>"}}`, `{"type":"abort"}`,
	} {
		f.Add([]byte(s), uint16(3))
	}
	f.Fuzz(func(t *testing.T, body []byte, cut uint16) {
		reader := func(io.Reader) io.Reader { return &cutter{body, int(cut)} }
		stream, _, streamErr := translate(body, true, reader)
		whole, _, wholeErr := translate(body, false, reader)
		if (streamErr == nil) != (wholeErr == nil) {
			t.Fatalf("stream fails with %v, json with %v", streamErr, wholeErr)
		}
		if streamErr != nil {
			return
		}
		if !utf8.Valid(stream) || !utf8.Valid(whole) {
			t.Fatal("invalid UTF-8 goes out")
		}
		a, err := chattest.ParseSSE(stream)
		if err != nil {
			t.Fatal(err)
		}
		b, err := chattest.ParseJSON(whole)
		if err != nil {
			t.Fatal(err)
		}
		if a.Content != b.Content || a.Reasoning != b.Reasoning || a.Finish != b.Finish || len(a.Calls) != len(b.Calls) {
			t.Fatalf("the transports differ:\n%+v\n%+v", a, b)
		}
		for i := range a.Calls {
			if a.Calls[i].Function != b.Calls[i].Function || *a.Calls[i].Index != i {
				t.Fatalf("call %d differs: %+v %+v", i, a.Calls[i], b.Calls[i])
			}
		}
	})
}

// FuzzTexts: the texts that go in come out, in order, whatever they are and however the bytes arrive.
func FuzzTexts(f *testing.F) {
	f.Add("a", "b", "c", uint16(10))
	f.Add("naïve \u2028", "\"\\\n\t\x00\x7f", "😀", uint16(77))
	f.Add("", "[DONE]", "data: x\n\n", uint16(1))
	f.Fuzz(func(t *testing.T, one, two, three string, cut uint16) {
		var body []byte
		body = append(body, `{"type":"text-delta","id":"t","text":`...)
		for i, s := range []string{one, two, three} {
			q, err := json.Marshal(s) // as strict a writer as any
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 {
				body = append(body, `{"text":`...)
			}
			body = append(body, q...)
			if i > 0 {
				body = append(body, `,"id":"t","type":"text-delta"`...)
			}
			body = append(body, "}\n"...)
		}
		body = append(body, `{"type":"text-delta","id":"t","text":"."}`+"\n"+`{"type":"finish","finishReason":"stop"}`...)
		out, _, err := translate(body, true, func(io.Reader) io.Reader { return &cutter{body, int(cut)} })
		if err != nil {
			t.Fatal(err)
		}
		a, err := chattest.ParseSSE(out)
		if err != nil {
			t.Fatal(err)
		}
		var parts string
		for _, s := range []string{one, two, three} {
			q, _ := json.Marshal(s)
			var back string
			_ = json.Unmarshal(q, &back)
			parts += back
		}
		if a.Content != parts+"." {
			t.Fatalf("content %q, want %q", a.Content, parts+".")
		}
	})
}

// chatter is an upstream that sends without pause, but nothing for the client, for d. It is never silent.
func chatter(d time.Duration) pipeline.Stream {
	return func(yield func(*pipeline.Event, error) bool) {
		ok := yield(&pipeline.Event{Kind: pipeline.Text, Clean: true, Text: codec.Text("x")}, nil)
		for start := time.Now(); ok && time.Since(start) < d; time.Sleep(100 * time.Millisecond) {
			ok = yield(&pipeline.Event{Kind: pipeline.Flush}, nil) &&
				yield(&pipeline.Event{Kind: pipeline.ToolDelta, ID: []byte("a"), Clean: true, Text: codec.Text("1")}, nil)
		}
		if ok {
			yield(&pipeline.Event{Kind: pipeline.Finish, Step: &pipeline.StepInfo{}}, nil)
		}
	}
}

// TestKeepaliveWhileTheUpstreamIsBusy: what brings the client nothing is silence to it.
func TestKeepaliveWhileTheUpstreamIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, last := 0, time.Now()
		for frame := range chat.SSE(&pipeline.Turn{}, chatter(time.Minute), wire(nil)) {
			if gap := time.Since(last); gap > 3200*time.Millisecond {
				t.Errorf("nothing was written for %s", gap)
			}
			last = time.Now()
			n += bytes.Count(frame, []byte(": keepalive\n\n"))
		}
		if n < 18 || n > 20 {
			t.Errorf("%d keepalives in a minute", n)
		}
	})
}

// TestDeadClientWhileTheUpstreamIsBusy: the client is looked at all the same.
func TestDeadClientWhileTheUpstreamIsBusy(t *testing.T) {
	for name, encode := range map[string]func(*pipeline.Turn, pipeline.Stream, chat.Wire) pipeline.Frames{"sse": chat.SSE, "json": chat.JSON} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			for range encode(&pipeline.Turn{}, chatter(time.Hour), wire(func() bool { return time.Since(start) < 10*time.Second })) {
			}
			if d := time.Since(start); d > 11*time.Second {
				t.Errorf("%s: the stream went on until %s", name, d)
			}
		})
	}
}
