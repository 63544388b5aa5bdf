package codec_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"amplifier-agent/codec"

	"github.com/klauspost/compress/zstd"
	"github.com/molecule-man/go-brrr"
)

type flusher interface {
	io.WriteCloser
	Flush() error
}

// encodings are the encoders of other hands where the standard library has one.
var encodings = []struct {
	name, encoding string
	writer         func(w io.Writer) (flusher, error)
}{
	{"gzip", "gzip", func(w io.Writer) (flusher, error) { return gzip.NewWriter(w), nil }},
	{"x-gzip", " X-GZip ", func(w io.Writer) (flusher, error) { return gzip.NewWriter(w), nil }},
	{"zlib", "deflate", func(w io.Writer) (flusher, error) { return zlib.NewWriter(w), nil }},
	{"zlib, stored", "deflate", func(w io.Writer) (flusher, error) { return zlib.NewWriterLevel(w, zlib.NoCompression) }},
	{"deflate", "Deflate", func(w io.Writer) (flusher, error) { return flate.NewWriter(w, 6) }},
	{"deflate, stored", "deflate", func(w io.Writer) (flusher, error) { return flate.NewWriter(w, 0) }},
	{"deflate, fixed", "deflate", func(w io.Writer) (flusher, error) { return flate.NewWriter(w, flate.HuffmanOnly) }},
	{"zstd", "zstd", func(w io.Writer) (flusher, error) { return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) }},
	{"br", "br", func(w io.Writer) (flusher, error) { return brrr.NewWriter(w, 5) }},
}

func compress(t testing.TB, writer func(w io.Writer) (flusher, error), plain io.Reader) []byte {
	t.Helper()
	var z bytes.Buffer
	w, err := writer(&z)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return z.Bytes()
}

// decompress reads all of a compressed body.
func decompress(encoding string, src io.Reader) ([]byte, error) {
	r, err := codec.Decompress(encoding, src)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	return b, err
}

func TestDecompress(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 100_000)
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			for _, plain := range []string{"", "x", textDelta + "\n", strings.Repeat(textDelta+"\n", 3000), string(noise)} {
				z := compress(t, e.writer, strings.NewReader(plain))
				for name, src := range map[string]io.Reader{
					"at once": bytes.NewReader(z), "one by one": iotest.OneByteReader(bytes.NewReader(z)), "end with the last": iotest.DataErrReader(bytes.NewReader(z)),
				} {
					if b, err := decompress(e.encoding, src); err != nil || string(b) != plain {
						t.Errorf("%s: %d bytes, %v, want %d", name, len(b), err, len(plain))
					}
				}
			}
		})
	}
	for _, encoding := range []string{"", "identity", "Identity", " "} {
		if b, err := decompress(encoding, strings.NewReader("plain")); err != nil || string(b) != "plain" {
			t.Errorf("%q: %q, %v", encoding, b, err)
		}
	}
}

func TestUnknownEncoding(t *testing.T) {
	for _, encoding := range []string{"compress", "lzma", "gzip, br", "gzip,gzip", "brotli", "x", "*"} {
		src := strings.NewReader("body")
		if r, err := codec.Decompress(encoding, src); r != nil || !errors.Is(err, codec.ErrEncoding) || src.Len() != 4 {
			t.Errorf("%q: %v, %v, %d bytes left", encoding, r, err, src.Len())
		}
	}
}

// TestTruncatedBody cuts a body everywhere: that is an error, and what comes before it is right.
func TestTruncatedBody(t *testing.T) {
	plain := strings.Repeat(textDelta+"\n", 20)
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			z := compress(t, e.writer, strings.NewReader(plain))
			for i := range len(z) {
				b, err := decompress(e.encoding, bytes.NewReader(z[:i]))
				if !strings.HasPrefix(plain, string(b)) {
					t.Fatalf("cut at %d of %d: wrong bytes", i, len(z))
				}
				if err == nil && !(e.name == "zstd" && i == 0) { // to zstd, nothing is no frames
					t.Errorf("cut at %d of %d: no error", i, len(z))
				}
			}
		})
	}
}

func TestDamagedBody(t *testing.T) {
	for _, e := range encodings {
		if strings.HasPrefix(e.name, "deflate") || e.name == "br" {
			continue // they carry no checksum
		}
		z := compress(t, e.writer, strings.NewReader(strings.Repeat(textDelta, 20)))
		for i := len(z) / 2; i < len(z)-4; i++ {
			damaged := bytes.Clone(z)
			damaged[i] ^= 0x55
			if b, err := decompress(e.encoding, bytes.NewReader(damaged)); err == nil {
				t.Errorf("%s: damage at %d was not noticed: %q", e.name, i, b)
			}
		}
	}
	for _, encoding := range []string{"gzip", "deflate", "zstd", "br"} {
		if b, err := decompress(encoding, strings.NewReader(`{"this":"is not compressed, whatever the header says"}`)); err == nil {
			t.Errorf("%s: plain JSON was decoded to %q", encoding, b)
		}
	}
}

// TestFlushedBytesArrive: what the other side has flushed can be read before it sends more, or streaming would stutter.
func TestFlushedBytesArrive(t *testing.T) {
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			var z bytes.Buffer
			w, err := e.writer(&z)
			if err != nil {
				t.Fatal(err)
			}
			events := []string{textDelta + "\n", finishStep + "\n", "{}\n"}
			next := 0
			src := readFunc(func(b []byte) (int, error) {
				if z.Len() == 0 {
					if next == len(events) {
						return 0, errors.New("read on although all was flushed")
					}
					_, _ = io.WriteString(w, events[next])
					_ = w.Flush()
					next++
				}
				return z.Read(b)
			})
			r, err := codec.Decompress(e.encoding, src)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range events {
				got := make([]byte, len(want))
				if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
					t.Fatalf("event %d: %q, %v", i, got, err)
				}
				if next > i+1 {
					t.Errorf("event %d came only once event %d was sent", i, next-1)
				}
			}
			_ = r.Close()
		})
	}
}

// TestBombs: a small body that decodes to much is read in bounded memory, as far as the caller goes.
func TestBombs(t *testing.T) {
	const size, take, most = 16 << 20, 15 << 20, 10 << 20
	for _, e := range encodings {
		if strings.Contains(e.name, ",") || e.name == "x-gzip" {
			continue // nothing new
		}
		t.Run(e.name, func(t *testing.T) {
			z := compress(t, e.writer, &endless{n: size})
			if len(z) > size/50 {
				t.Fatalf("%d bytes are no bomb", len(z))
			}
			n := allocated(func() {
				r, err := codec.Decompress(e.encoding, bytes.NewReader(z))
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.Copy(io.Discard, io.LimitReader(r, take))
				if err != nil || got != take {
					t.Errorf("%d bytes, %v", got, err)
				}
				_ = r.Close()
			})
			if t.Logf("%d bytes were allocated", n); n > most {
				t.Errorf("more than %d", most)
			}
		})
	}
	t.Run("into Read", func(t *testing.T) {
		z := compress(t, encodings[0].writer, &endless{head: `"`, n: size, tail: `"`})
		r, err := codec.Decompress("gzip", bytes.NewReader(z))
		if err != nil {
			t.Fatal(err)
		}
		var s string
		if err := codec.Read(r, 1<<20, &s); err != codec.ErrTooLarge {
			t.Errorf("%v", err)
		}
	})
}

// TestZstdWindow: a frame that asks for more memory than a decoder may have is refused.
func TestZstdWindow(t *testing.T) {
	for window, fits := range map[int]bool{8 << 20: true, 16 << 20: false} {
		z := compress(t, func(w io.Writer) (flusher, error) {
			return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window), zstd.WithSingleSegment(false))
		}, &endless{n: 32 << 20})
		if b, err := decompress("zstd", bytes.NewReader(z)); fits != (err == nil) || !fits && len(b) > 0 {
			t.Errorf("window of %d: %d bytes, %v", window, len(b), err)
		}
	}
}

// TestDecompressClose: closing in the middle is fine and does not close the source.
func TestDecompressClose(t *testing.T) {
	for _, e := range encodings {
		z := compress(t, e.writer, strings.NewReader(strings.Repeat(textDelta, 5000)))
		src := &closing{Reader: bytes.NewReader(z)}
		r, err := codec.Decompress(e.encoding, src)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
			t.Errorf("%s: %v", e.name, err)
		}
		if err := r.Close(); err != nil || src.closed {
			t.Errorf("%s: %v, source closed %v", e.name, err, src.closed)
		}
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}
