package chatcompletions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"amplifier-agent/pipeline"
)

// open answers with lines and leaves the answer open until the client has gone, which it tells to gone.
func open(gone chan<- bool, lines ...string) http.HandlerFunc {
	answer := sse(lines...)
	return func(w http.ResponseWriter, r *http.Request) {
		answer(w, r)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		gone <- true
	}
}

// TestExchange is a whole answer over a socket, several times over one connection.
func TestExchange(t *testing.T) {
	var conns sync.Map
	answer := sse(role, delta(`"reasoning_content":"hm"`), hello, callDelta(`"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}`), callDelta(`"index":0,"function":{"arguments":"1}"}`), tools,
		strings.Replace(spent, `"usage":{`, `"usage":{"cost":"0.10","prompt_tokens_details":{"cached_tokens":2},`, 1), "[DONE]")
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conns.Store(r.RemoteAddr, true)
		answer(w, r)
	})
	p := connect(t, s.URL)
	for range 3 {
		r := run(t, p, ask("hi"))
		if r.Err != nil || r.Text != "hello" || r.Reasoning != "hm" || len(r.Calls) != 1 || string(r.Calls[0].Arguments) != `{"x":1}` || r.Calls[0].ID != "a" {
			t.Fatalf("%+v", r)
		}
		want := pipeline.Usage{Input: 5, CacheRead: 2, Output: 3, Has: pipeline.HasInput | pipeline.HasCache | pipeline.HasOutput}
		if r.Finish.Reason != pipeline.ReasonToolCalls || r.Turn.Usage != want || r.Turn.Cost.String() != "0.10" {
			t.Errorf("%+v, %+v, %s", r.Finish, r.Turn.Usage, r.Turn.Cost)
		}
	}
	n := 0
	conns.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d connections", n)
	}
	if p.Name() != Name {
		t.Errorf("name %q", p.Name())
	}
}

// TestTail: behind a finish reason the usage is waited for, but not for long, and the upstream is left then.
func TestTail(t *testing.T) {
	gone := make(chan bool, 1)
	for name, row := range map[string]struct {
		lines []string
		known bool
	}{
		"usage, and no end": {[]string{hello, stop, spent}, true},
		"neither":           {[]string{hello, stop}, false},
		"[DONE], no end":    {[]string{hello, stop, "[DONE]"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, open(gone, row.lines...))
			r := run(t, connect(t, s.URL), ask("hi"))
			if r.Err != nil || r.Text != "hello" || r.Turn.Usage.Known() != row.known {
				t.Errorf("%+v", r)
			}
			<-gone
		})
	}
}

// TestStall: an upstream that stays silent for too long is left.
func TestStall(t *testing.T) {
	t.Parallel()
	gone := make(chan bool, 1)
	s := serve(t, open(gone, hello))
	r := ask("hi")
	r.Silence = 10 * time.Millisecond
	res := run(t, connect(t, s.URL, func(c *Config) { c.Idle = 3 * time.Second }), r)
	if e := wantError(t, res.Err, pipeline.CodeStalled, 0, "silent for 3s"); !e.Retry || res.Text != "hello" {
		t.Errorf("%+v", res)
	}
	<-gone
}

// TestCancel: the end of the context ends the exchange, and its cause is what the error wraps.
func TestCancel(t *testing.T) {
	gone := make(chan bool, 1)
	s := serve(t, open(gone, hello))
	cause := errors.New("the cause")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	for ev, err := range connect(t, s.URL).Stream(ctx, ask("hi")) {
		if last = err; err == nil && ev.Kind == pipeline.Text {
			cancel(cause)
		}
	}
	if e := wantError(t, last, pipeline.CodeAborted, 0, "cancelled"); !errors.Is(e, cause) {
		t.Error(e)
	}
	<-gone
}

// TestConsumerLeaves at any event: nothing is yielded behind it, and the upstream sees the close.
func TestConsumerLeaves(t *testing.T) {
	gone := make(chan bool, 1)
	s := serve(t, open(gone, role, hello, callDelta(`"index":0,"id":"a","function":{"name":"f","arguments":"{}"}`), hello))
	p := connect(t, s.URL)
	for n := 1; n <= 5; n++ {
		count := 0
		for _, err := range p.Stream(t.Context(), ask("hi")) {
			if err != nil {
				t.Fatal(err)
			}
			if count++; count == n {
				break
			}
		}
		select {
		case <-gone:
		case <-time.After(never):
			t.Fatalf("the upstream was not left at event %d", n)
		}
	}
}

// TestCutOff: an answer whose connection ends in the midst.
func TestCutOff(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sse(hello)(w, r)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	res := run(t, connect(t, s.URL), ask("hi"))
	if e := pipeline.AsError(res.Err); !e.Retry || e.Code != pipeline.CodeTruncated && e.Code != pipeline.CodeUpstream {
		t.Errorf("%+v", e)
	}
}

// TestTriesAgain: what failed in passing before anything was said is asked again, in front of a stream and inside one (rulings 14).
func TestTriesAgain(t *testing.T) {
	var n atomic.Int64
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) {
		case 1:
			http.Error(w, "busy", http.StatusServiceUnavailable)
		case 2:
			sse(role, `{"error":{"message":"busy","code":503}}`)(w, r)
		default:
			sse(hello, stop)(w, r)
		}
	})
	res := run(t, connect(t, s.URL, func(c *Config) { c.Tries = 3 }), ask("hi"))
	if res.Err != nil || res.Text != "hello" || n.Load() != 3 {
		t.Errorf("%+v after %d", res, n.Load())
	}
}

// TestLazy: nothing is sent before the stream is ranged over.
func TestLazy(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("asked") })
	_ = connect(t, s.URL).Stream(t.Context(), ask("hi"))
}

// TestSideBySide runs turns at once, each with a marker of its own.
func TestSideBySide(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, marker, _ := strings.Cut(string(body), "marker-")
		marker, _, _ = strings.Cut(marker, `"`)
		lines := []string{callDelta(`"index":0,"id":"` + marker + `","function":{"name":"f","arguments":"{}"}`)}
		for range 50 {
			lines = append(lines, delta(`"content":"`+marker+`"`))
		}
		sse(append(lines, tools)...)(w, r)
	})
	p := connect(t, s.URL)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			id := fmt.Sprint(1000 + i)
			r := collect(t, p.Stream(t.Context(), ask("marker-"+id)))
			if r.Err != nil || r.Text != strings.Repeat(id, 50) || len(r.Calls) != 1 || r.Calls[0].ID != id {
				t.Errorf("%s: %+v", id, r)
			}
		})
	}
	wg.Wait()
}
