package upstream

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// words is a Decoder for which each line is a text, "-" an empty one, "!" fails in passing, "." ends the round, and "?" ends it in a fault.
type words struct{ ended bool }

func (w *words) Line(line []byte, out *Emitter) {
	switch string(line) {
	case "!":
		out.Fail(&pipeline.Error{Code: pipeline.CodeUpstream, Origin: pipeline.OriginUpstream, Retry: true, Message: "overloaded"})
	case ".":
		w.ended = true
		out.Emit(pipeline.Event{Kind: pipeline.Finish, Step: &pipeline.StepInfo{}})
	case "?":
		w.ended = true
		out.Emit(pipeline.Event{Kind: pipeline.Finish, Step: &pipeline.StepInfo{Reason: pipeline.ReasonFault, Raw: "network-error"}})
	case "-":
		out.Delta(pipeline.Text, nil, true)
	default:
		out.Delta(pipeline.Text, codec.Text(line), true)
	}
}
func (*words) Tail() time.Duration { return 0 }
func (w *words) End(out *Emitter) {
	if !w.ended {
		out.Fail(&pipeline.Error{Code: pipeline.CodeTruncated, Origin: pipeline.OriginUpstream, Retry: true, Message: "cut off"})
	}
}

// asked runs a turn against a gateway whose n-th answer is answers[n], "STATUS [HEADER] BODY". It returns what came, as words.
func asked(t *testing.T, ctx context.Context, answers []string, on func(*pipeline.Event) bool) (got string, times int) {
	t.Helper()
	var n atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var status int
		answer := answers[min(int(n.Add(1)), len(answers))-1]
		var body string
		_, _ = fmt.Sscanf(answer, "%d", &status)
		_, body, _ = strings.Cut(answer, " ")
		if after, rest, ok := strings.Cut(body, ";"); ok {
			w.Header().Set("Retry-After", after)
			body = rest
		}
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(strings.ReplaceAll(body, " ", "\n")))
	}))
	defer s.Close()
	tr, err := NewTransport(TransportConfig{BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var list []string
	out := NewEmitter(func(ev *pipeline.Event, err error) bool {
		switch {
		case err != nil:
			list = append(list, "error:"+err.Error())
		case ev.Kind == pipeline.Text:
			list = append(list, string(ev.Text))
		case ev.Kind == pipeline.Finish:
			list = append(list, "finish")
		case ev.Kind == pipeline.Idle:
			list = append(list, "idle")
		}
		return err == nil && (on == nil || on(ev))
	})
	tr.Stream(ctx, &Call{Method: "GET", Path: "/"}, codec.LineOptions{MaxBytes: 1 << 20}, func() Decoder { return new(words) }, out, func(r *Reply) error {
		e, _ := Refusal(r, nil)
		return e
	})
	return strings.Join(list, " "), int(n.Load())
}

// TestRetries: what fails in passing is asked again, at most three times, and only as long as nothing was said. The face hears of no
// silence meanwhile, so that it still can answer with a status.
func TestRetries(t *testing.T) {
	for name, row := range map[string]struct {
		answers []string
		want    string
		times   int
	}{
		"at once":                {[]string{"200 a ."}, "a finish", 1},
		"second try":             {[]string{"500 x", "200 a ."}, "a finish", 2},
		"third try":              {[]string{"429 x", "529 x", "200 a ."}, "a finish", 3},
		"three times":            {[]string{"503 down"}, "error:the upstream answered 503: down", 3},
		"reset":                  {[]string{"0", "200 a ."}, "a finish", 2},
		"fault before any word":  {[]string{"200 !", "200 a ."}, "a finish", 2},
		"ends in a fault":        {[]string{"200 ?", "200 a ."}, "a finish", 2},
		"always in a fault":      {[]string{"200 ?"}, "error:the upstream's provider failed (finish reason network-error)", 3},
		"a fault behind a word":  {[]string{"200 a ?", "200 b ."}, "a finish", 1}, // which a stage takes for an error
		"nothing at all":         {[]string{"200 ", "200 a ."}, "a finish", 2},
		"fault behind no word":   {[]string{"200 - !", "200 - a ."}, "a finish", 2},
		"fault behind a word":    {[]string{"200 a !", "200 b ."}, "a error:overloaded", 1},
		"cut behind a word":      {[]string{"200 a", "200 b ."}, "a error:cut off", 1},
		"refused":                {[]string{"400 no", "200 a ."}, "error:the upstream answered 400: no", 1},
		"no such key":            {[]string{"401 no", "200 a ."}, "error:the upstream answered 401: no", 1},
		"waits as long as asked": {[]string{"429 1;slow", "200 a ."}, "a finish", 2},
		"does not wait for ever": {[]string{"429 60;slow", "200 a ."}, "error:the upstream answered 429: slow", 1},
		"another fault the next": {[]string{"500 x", "400 no"}, "error:the upstream answered 400: no", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, times := asked(t, t.Context(), row.answers, nil); got != row.want || times != row.times {
				t.Errorf("got %q after %d, want %q after %d", got, times, row.want, row.times)
			}
		})
	}
}

// TestRetryEnds: a client that leaves, and a turn that is cancelled, end the wait.
func TestRetryEnds(t *testing.T) {
	t.Run("client", func(t *testing.T) {
		t.Parallel()
		flushes := 0
		got, times := asked(t, t.Context(), []string{"429 9;slow"}, func(ev *pipeline.Event) bool {
			if ev.Kind == pipeline.Flush {
				flushes++
			}
			return flushes < 3
		})
		if got != "" || times != 1 {
			t.Errorf("got %q after %d", got, times)
		}
	})
	t.Run("turn", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(pipeline.ErrShutdown) })
		got, times := asked(t, ctx, []string{"429 9;slow"}, nil)
		if !strings.Contains(got, pipeline.ErrShutdown.Error()) || times != 1 {
			t.Errorf("got %q after %d", got, times)
		}
	})
}

func TestAgain(t *testing.T) {
	passing := &pipeline.Error{Origin: pipeline.OriginUpstream, Retry: true}
	for try, want := range map[int]time.Duration{1: firstPause, 2: 2 * firstPause} {
		for range 100 {
			if d, ok := again(passing, try, DefaultTries, 0); !ok || d < want/2 || d > want*3/2 {
				t.Fatalf("try %d: %v, %v", try, d, ok)
			}
		}
	}
	for name, row := range map[string]struct {
		err   *pipeline.Error
		try   int
		spent time.Duration
	}{
		"tried enough":   {passing, DefaultTries, 0},
		"took too long":  {passing, 1, maxTrying},
		"ours":           {&pipeline.Error{Retry: true}, 1, 0},
		"for good":       {&pipeline.Error{Origin: pipeline.OriginUpstream}, 1, 0},
		"wants too much": {&pipeline.Error{Origin: pipeline.OriginUpstream, Retry: true, RetryAfter: maxHonoured + 1}, 1, 0},
	} {
		if d, ok := again(row.err, row.try, DefaultTries, row.spent); ok {
			t.Errorf("%s: asked again after %v", name, d)
		}
	}
}

// TestHoldEnds: once a second try is answered, the face hears of silence again, so that its client gets its header and is kept.
func TestHoldEnds(t *testing.T) {
	var n atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 1 {
			w.WriteHeader(503)
			return
		}
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		time.Sleep(2 * tick)
		_, _ = w.Write([]byte("a\n.\n"))
	}))
	defer s.Close()
	tr, err := NewTransport(TransportConfig{BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	idles := 0
	out := NewEmitter(func(ev *pipeline.Event, err error) bool {
		if err == nil && ev.Kind == pipeline.Idle {
			idles++
		}
		return err == nil
	})
	tr.Stream(t.Context(), &Call{Method: "GET", Path: "/"}, codec.LineOptions{MaxBytes: 1 << 20}, func() Decoder { return new(words) }, out, func(r *Reply) error {
		e, _ := Refusal(r, nil)
		return e
	})
	if idles == 0 || n.Load() != 2 {
		t.Errorf("%d times silent, asked %d times", idles, n.Load())
	}
}
