package upstream

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"amplifier-agent/pipeline"
)

// TestWorkedOnIsNotSentAgain: a request that the gateway may have worked on is not sent again, however the connection ends.
func TestWorkedOnIsNotSentAgain(t *testing.T) {
	tick := make(chan bool)
	g := serve(t, func(p *peer) {
		p.request()
		p.plain("first")
		if p.request() {
			<-tick // the consumer has heard of silence: it may have told its client
		}
	})
	tr := transport(t, g.url, 0)
	if got := exchange(t, tr, get()); got != "first" {
		t.Fatalf("%q", got)
	}
	call := get()
	call.Silence = time.Millisecond
	once := false
	_, err := tr.Open(t.Context(), call, &watch{onSilent: func(*time.Duration) bool {
		if !once {
			once = true
			close(tick)
		}
		return true
	}})
	wantError(t, err, pipeline.CodeUpstream, "closed the connection")
	if n := g.requests.Load(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

// TestSlowRefusal: while the body of a refusal is awaited, nothing is handed over that would commit an answer.
func TestSlowRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := piped(t, 0, func(p *peer) {
			p.request()
			p.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\n")
			time.Sleep(800 * time.Millisecond)
			p.send("nope")
		})
		call := get()
		call.Silence = 50 * time.Millisecond
		idles, ended := 0, error(nil)
		out := NewEmitter(func(ev *pipeline.Event, err error) bool {
			if ended = err; err == nil && ev.Kind == pipeline.Idle {
				idles++
			}
			return true
		})
		tr.Stream(context.Background(), call, lineOptions, func() Decoder { return &texts{} }, out, func(r *Reply) error {
			b, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			return &pipeline.Error{Code: pipeline.CodeUpstreamAuth, Message: string(b)}
		})
		if ended == nil || ended.Error() != "nope" || idles > 0 {
			t.Errorf("error %v after %d Idle", ended, idles)
		}
		tr.Close()
	})
}

// TestRedirect: where a redirect leads is told and not followed, without what may be a credential in it.
func TestRedirect(t *testing.T) {
	for location, want := range map[string]string{
		"Location: https://h/v1/models?key=x#y\r\n": "the upstream answered 308: no message (it redirects to https://h/v1/models, which is not followed: is its base URL right?)",
		"Location: https://u:p@h/\r\n":              "the upstream answered 308: no message (it redirects to https://h/, which is not followed: is its base URL right?)",
		"Location: /v2/\r\n":                        "the upstream answered 308: no message (it redirects to /v2/, which is not followed: is its base URL right?)",
		"Location: http://h:a/\r\n":                 "the upstream answered 308: no message (is its base URL right?)",
		"":                                          "the upstream answered 308: no message (is its base URL right?)",
	} {
		g := serve(t, func(p *peer) {
			for p.request() {
				p.send("HTTP/1.1 308 Permanent Redirect\r\nContent-Length: 0\r\n%s\r\n", location)
			}
		})
		var ended error
		out := NewEmitter(func(_ *pipeline.Event, err error) bool { ended = err; return true })
		transport(t, g.url, 0).Stream(t.Context(), get(), lineOptions, func() Decoder { return &texts{} }, out, func(r *Reply) error {
			e, _ := Refusal(r, nil)
			return e
		})
		if ended == nil || ended.Error() != want || g.requests.Load() != 1 {
			t.Errorf("%q: got %v after %d requests, want %s", location, ended, g.requests.Load(), want)
		}
	}
}

// TestLongHeader: a header may outgrow the connection's buffer, within bounds.
func TestLongHeader(t *testing.T) {
	g := serve(t, func(p *peer) {
		for p.request() {
			if p.last.URL.Path == "/too-long" {
				p.plain("x", "X-Long: "+strings.Repeat("x", 2*maxHeaderBytes))
				return
			}
			p.plain("whole", "X-Long: "+strings.Repeat("x", 3*readBufferBytes))
		}
	})
	tr := transport(t, g.url, 0)
	for range 2 {
		if got := exchange(t, tr, get()); got != "whole" {
			t.Errorf("%q", got)
		}
	}
	call := get()
	call.Path = "/too-long"
	_, err := tr.Open(t.Context(), call, &watch{})
	wantError(t, err, pipeline.CodeUpstream, "64 KiB")
}

// TestWishStands: a tick that the watcher asked for comes whatever arrives until then.
func TestWishStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := piped(t, 0, func(p *peer) {
			p.request()
			p.begin()
			for range 100 {
				p.chunk("x")
				time.Sleep(100 * time.Millisecond)
			}
			p.end()
		})
		w := &watch{onSilent: func(next *time.Duration) bool {
			*next = 330 * time.Millisecond
			return true
		}}
		r, err := tr.Open(t.Context(), get(), w)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r.Body); err != nil || len(b) != 100 {
			t.Errorf("%q, error %v", b, err)
		}
		r.Close(true)
		if w.silent < 28 || w.silent > 32 { // ten seconds
			t.Errorf("%d ticks", w.silent)
		}
		tr.Close()
	})
}
