package upstream

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

var lineOptions = codec.LineOptions{MaxBytes: 1 << 20}

func TestEmitterNeverYieldsOnceDead(t *testing.T) {
	acts := map[string]func(*Emitter) bool{
		"emit":    func(e *Emitter) bool { return e.Emit(pipeline.Event{Kind: pipeline.Step}) },
		"delta":   func(e *Emitter) bool { return e.Delta(pipeline.Text, codec.Text("x"), true) },
		"fail":    func(e *Emitter) bool { e.Fail(io.EOF); return !e.Dead() },
		"reading": func(e *Emitter) bool { return e.Reading() },
		"silent":  func(e *Emitter) bool { d := tick; return e.Silent(&d) },
	}
	for first, kill := range acts {
		calls := 0
		e := NewEmitter(func(ev *pipeline.Event, err error) bool {
			calls++
			if (ev == nil) == (err == nil) {
				t.Errorf("%s: event %v beside error %v", first, ev, err)
			}
			return false
		})
		if kill(e) || !e.Dead() || calls != 1 {
			t.Errorf("%s: alive", first)
		}
		for then, act := range acts {
			if act(e) || calls != 1 {
				t.Errorf("%s after %s: a yield behind the end", then, first)
			}
		}
	}
}

// TestEmitterErrorIsLast even if the consumer would go on.
func TestEmitterErrorIsLast(t *testing.T) {
	calls := 0
	e := NewEmitter(func(*pipeline.Event, error) bool { calls++; return true })
	e.Fail(io.EOF)
	e.Fail(io.EOF)
	if e.Emit(pipeline.Event{}) || calls != 1 {
		t.Errorf("%d calls", calls)
	}
}

func TestEmitterSilentTakesWake(t *testing.T) {
	e := NewEmitter(func(ev *pipeline.Event, _ error) bool {
		if ev.Kind != pipeline.Idle || ev.Wake != tick {
			t.Errorf("%+v", ev)
		}
		ev.Wake = time.Second
		return true
	})
	if next := tick; !e.Silent(&next) || next != time.Second {
		t.Error(next)
	}
}

// drive runs a body through Drive and tells what came.
func drive(body io.Reader, d Decoder, limit func(time.Duration)) (got string, done bool, err error) {
	var b strings.Builder
	out := NewEmitter(func(ev *pipeline.Event, err error) bool {
		switch {
		case err != nil:
			fmt.Fprintf(&b, "(%v)", err)
		case ev.Kind == pipeline.Finish:
			b.WriteString("(finish)")
		default:
			b.WriteString(string(ev.Text) + " ")
		}
		return true
	})
	done, err = Drive(body, lineOptions, d, out, limit)
	return b.String(), done, err
}

// with is a reader of s that ends in err.
func with(s string, err error) io.Reader {
	return io.MultiReader(strings.NewReader(s), iotest.ErrReader(err))
}

func TestDrive(t *testing.T) {
	boom := errors.New("boom")
	rows := []struct {
		name string
		body io.Reader
		got  string
		done bool
		err  error
	}{
		{"whole", strings.NewReader("a\nb\nfinish\n"), "a b (finish)", true, nil},
		{"no newline at the end", strings.NewReader("a\nfinish"), "a (finish)", true, nil},
		{"one byte a read", iotest.OneByteReader(strings.NewReader("a\r\n\r\nb\r\nfinish")), "a b (finish)", true, nil},
		{"end beside the last bytes", iotest.DataErrReader(strings.NewReader("a\nfinish")), "a (finish)", true, nil},
		{"empty", strings.NewReader(""), "(not finished)", true, nil},
		{"no finish", strings.NewReader("a\nb"), "a b (not finished)", true, nil},
		{"cut behind finish", with("a\nfinish\n", io.ErrUnexpectedEOF), "a (finish)", false, nil},
		{"cut before finish", with("a\nfini", io.ErrUnexpectedEOF), "a (not finished)", false, nil},
		{"broken", with("a\nfini", boom), "a ", false, boom},
		{"lines beside an error", iotest.DataErrReader(with("a\nb\nhalf", boom)), "a b ", false, boom},
		{"too long", strings.NewReader("a\n" + strings.Repeat("x", 2<<20)), "a ", false, codec.ErrLineTooLong},
		{"too long with newline", strings.NewReader("a\n" + strings.Repeat("x", 2<<20) + "\nfinish\n"), "a ", false, codec.ErrLineTooLong},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got, done, err := drive(row.body, &texts{}, nil)
			if got != row.got || done != row.done || !errors.Is(err, row.err) || (err == nil) != (row.err == nil) {
				t.Errorf("%q %v %v", got, done, err)
			}
		})
	}
}

func TestDriveSplitAtEveryByte(t *testing.T) {
	const body = "\xEF\xBB\xBFone\r\n: comment\n\ndata: two\n[DONE]\ndrei ä€😀\nfinish"
	want, _, _ := drive(strings.NewReader(body), &texts{}, nil)
	if want != "one two drei ä€😀 (finish)" {
		t.Fatal(want)
	}
	for i := range body {
		got, done, err := drive(io.MultiReader(strings.NewReader(body[:i]), strings.NewReader(body[i:])), &texts{}, nil)
		if got != want || !done || err != nil {
			t.Errorf("cut at %d: %q %v %v", i, got, done, err)
		}
	}
}

// TestDriveTail: the limit is set once, when the decoder first asks for it, and what ends the tail is no error.
func TestDriveTail(t *testing.T) {
	var limits []time.Duration
	body := io.MultiReader(strings.NewReader("a\n"), strings.NewReader("finish\n"), strings.NewReader("tail\n"), iotest.ErrReader(os.ErrDeadlineExceeded))
	got, done, err := drive(body, &texts{tail: time.Minute}, func(d time.Duration) { limits = append(limits, d) })
	if got != "a tail (finish)" || done || err != nil {
		t.Errorf("%q %v %v", got, done, err)
	}
	if len(limits) != 1 || limits[0] != time.Minute {
		t.Errorf("limits %v", limits)
	}
}

// TestDriveStopsReading once the consumer has stopped.
func TestDriveStopsReading(t *testing.T) {
	reads := 0
	body := readerFunc(func(p []byte) (int, error) { reads++; return copy(p, "line\n"), nil })
	left := 3
	done, err := Drive(body, lineOptions, &texts{}, NewEmitter(func(*pipeline.Event, error) bool { left--; return left > 0 }), nil)
	if done || err != nil || reads != 3 || left != 0 {
		t.Errorf("%v %v, %d reads, %d left", done, err, reads, left)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestDriveAllocatesNothing a line.
func TestDriveAllocatesNothing(t *testing.T) {
	short, long := strings.Repeat("a line\n", 10)+"finish\n", strings.Repeat("a line\n", 1000)+"finish\n"
	out := NewEmitter(func(*pipeline.Event, error) bool { return true })
	run := func(s string) float64 {
		return testing.AllocsPerRun(50, func() { _, _ = Drive(strings.NewReader(s), lineOptions, &texts{}, out, nil) })
	}
	if a, b := run(short), run(long); b > a+1 {
		t.Errorf("%v allocations for 10 lines, %v for 1000", a, b)
	}
}

// TestBodyIsGivenUp once something of an answer has come, and no sooner: until then it may have to be sent again.
func TestBodyIsGivenUp(t *testing.T) {
	call := &Call{Body: []byte("a request")}
	out := NewEmitter(func(*pipeline.Event, error) bool { return true })
	out.call = call
	out.Emit(pipeline.Event{Kind: pipeline.Flush})
	out.Emit(pipeline.Event{Kind: pipeline.Idle})
	out.Delta(pipeline.Text, nil, true)
	if call.Body == nil {
		t.Error("the body is gone before anything was said")
	}
	out.Delta(pipeline.Text, codec.Text("a word"), true)
	if call.Body != nil {
		t.Error("the body is held")
	}
}
