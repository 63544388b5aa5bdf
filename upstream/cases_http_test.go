package upstream

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"amplifier-agent/codec"
	"amplifier-agent/pipeline"
)

// TestCaseReadAfterEnd: B042. A read behind the end of a body says so at once, however the body is framed, while the gateway keeps
// the connection open; and the connection serves the next exchange.
func TestCaseReadAfterEnd(t *testing.T) {
	for _, row := range []struct {
		name, answer, body string
		reused             bool
	}{
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "hello", true},
		{"chunked, with a trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n", "hello", true},
		{"no chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", true},
		{"of known length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", true},
		{"empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", true},
		{"none", "HTTP/1.1 204 No Content\r\n\r\n", "", true},
		{"compressed", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + chunkOf(compressed(t, "gzip", "hello")) + "0\r\n\r\n", "hello", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := serve(t, func(p *peer) {
				for p.request() {
					p.send("%s", row.answer)
				}
			})
			tr := transport(t, g.url, 0)
			for range 2 {
				r, err := tr.Open(t.Context(), get(), &watch{})
				if err != nil {
					t.Fatal(err)
				}
				if b, err := io.ReadAll(r.Body); string(b) != row.body || err != nil {
					t.Fatalf("%q %v", b, err)
				}
				for range 3 {
					if n, err := r.Body.Read(make([]byte, 9)); n != 0 || err != io.EOF {
						t.Errorf("%d, %v", n, err)
					}
				}
				r.Close(true)
			}
			if n := g.conns.Load(); (n == 1) != row.reused {
				t.Errorf("%d connections", n)
			}
		})
	}
}

func chunkOf(s string) string { return strconv.FormatInt(int64(len(s)), 16) + "\r\n" + s + "\r\n" }

// TestCaseBoundedBodies: B043. Of a body that does not end no more is read than its use allows, by our own count, however it is
// framed; then the gateway's connection is closed.
func TestCaseBoundedBodies(t *testing.T) {
	const limit, much = 1 << 20, 1 << 30 // bytes: of a document and of a line, and that the gateway would send
	block := strings.Repeat("a", 64<<10)
	bomb := compressed(t, "gzip", strings.Repeat("a", 64*limit))
	framings := map[string]struct {
		header string
		chunk  func(string) string
	}{
		"chunked":         {"Transfer-Encoding: chunked\r\n", chunkOf},
		"of known length": {"Content-Length: " + strconv.Itoa(much) + "\r\n", nil},
		"until the close": {"", nil},
		"compressed":      {"Content-Encoding: gzip\r\nContent-Length: " + strconv.Itoa(len(bomb)) + "\r\n", nil},
	}
	uses := map[string]struct {
		status string
		use    func(t *testing.T, tr *Transport) error
		check  func(t *testing.T, err error)
	}{
		"refusal": {"500 No", func(t *testing.T, tr *Transport) (err error) {
			out := NewEmitter(func(_ *pipeline.Event, e error) bool { err = e; return true })
			tr.Stream(t.Context(), get(), lineOptions, func() Decoder { return &texts{} }, out, func(r *Reply) error {
				e, f := Refusal(r, nil)
				if len(f.Message) > maxFaultBytes {
					t.Errorf("%d bytes were read", len(f.Message))
				}
				return e
			})
			return err
		}, func(t *testing.T, err error) {
			if e := wantError(t, err, pipeline.CodeUpstream, "the upstream answered 500: aaa"); len(e.Message) > 2*maxMessageBytes {
				t.Errorf("%d bytes are shown", len(e.Message))
			}
		}},
		"document": {"200 OK", func(t *testing.T, tr *Transport) error {
			var v any
			return tr.Get(t.Context(), get(), limit, &v, func(*Reply) error { return errors.New("refused") })
		}, func(t *testing.T, err error) {
			if !errors.Is(err, codec.ErrTooLarge) {
				t.Errorf("error %v", err)
			}
		}},
		"line": {"200 OK", func(t *testing.T, tr *Transport) error {
			return stream(t.Context(), tr, get(), &texts{}, nil).err
		}, func(t *testing.T, err error) {
			wantError(t, err, pipeline.CodeUpstream, "a line that is too long")
		}},
	}
	for framing, f := range framings {
		for name, u := range uses {
			t.Run(name+" "+framing, func(t *testing.T) {
				var sent atomic.Int64
				gone := make(chan bool)
				g := serve(t, func(p *peer) {
					defer close(gone)
					if !p.request() {
						return
					}
					p.send("HTTP/1.1 %s\r\n%s\r\n", u.status, f.header)
					if framing == "compressed" {
						_, _ = io.WriteString(p, bomb)
						p.wait()
						return
					}
					b := block
					if f.chunk != nil {
						b = f.chunk(block)
					}
					for sent.Load() < much {
						if _, err := io.WriteString(p, b); err != nil {
							return
						}
						sent.Add(int64(len(block)))
					}
				})
				tr := transport(t, g.url, 0)
				u.check(t, u.use(t, tr))
				<-gone
				if n := sent.Load(); n > much/4 { // what fits into sockets is little beside it
					t.Errorf("the gateway could send %d bytes", n)
				}
			})
		}
	}
}

// TestCaseBoundedTrailer: B043 too. Lines behind the last chunk are part of no body, and of no use.
func TestCaseBoundedTrailer(t *testing.T) {
	for lines, ok := range map[int]bool{maxTrailerLines: true, maxTrailerLines + 1: false, 1 << 20: false} {
		g := serve(t, func(p *peer) {
			if p.request() {
				p.begin()
				p.chunk("hello")
				p.send("0\r\n%s\r\n", strings.Repeat("X: y\r\n", lines))
				p.wait()
			}
		})
		r, err := transport(t, g.url, 0).Open(t.Context(), get(), &watch{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		r.Close(err == nil)
		if string(b) != "hello" || (err == nil) != ok || !ok && err != errBadChunk {
			t.Errorf("%d lines: %q, %v", lines, b, err)
		}
	}
}
