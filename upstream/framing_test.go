package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestChunked(t *testing.T) {
	for name, row := range map[string]struct {
		in, want, rest string
		err            error
	}{
		"two":           {"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nnext", "hello world", "next", nil},
		"none":          {"0\r\n\r\n", "", "", nil},
		"hex":           {"A\r\n0123456789\r\nb\r\n0123456789a\r\n000\r\n\r\n", "01234567890123456789a", "", nil},
		"extension":     {"5;a=b;c=\"d\"\r\nhello\r\n0;x\r\n\r\n", "hello", "", nil},
		"trailer":       {"5\r\nhello\r\n0\r\nA: b\r\nC: d\r\n\r\nnext", "hello", "next", nil},
		"line ends":     {"4\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n", "", nil},
		"cut in a size": {"5\r\nhello\r\n6", "hello", "", io.ErrUnexpectedEOF},
		"cut in a body": {"5\r\nhel", "hel", "", io.ErrUnexpectedEOF},
		"cut behind":    {"5\r\nhello", "hello", "", io.ErrUnexpectedEOF},
		"no end":        {"5\r\nhello\r\n", "hello", "", io.ErrUnexpectedEOF},
		"no trailer":    {"5\r\nhello\r\n0\r\n", "hello", "", io.ErrUnexpectedEOF},
		"empty":         {"", "", "", io.ErrUnexpectedEOF},
		"no size":       {"\r\nhello", "", "", errBadChunk},
		"no number":     {"x\r\n", "", "", errBadChunk},
		"negative":      {"-5\r\n", "", "", errBadChunk},
		"huge":          {"fffffffffffffffff\r\n", "", "", errBadChunk},
		"too long":      {"3\r\nhello\r\n0\r\n\r\n", "hel", "", errBadChunk},
		"bare LF":       {"5\nhello\n0\n\n", "", "", errBadChunk},
		"long line":     {strings.Repeat("0", 100_000) + "\r\n", "", "", errBadChunk},
	} {
		t.Run(name, func(t *testing.T) {
			for cut := range min(len(row.in), 60) + 1 {
				src := io.MultiReader(strings.NewReader(row.in[:cut]), iotest.OneByteReader(strings.NewReader(row.in[cut:])))
				br := bufio.NewReader(src)
				c := &chunked{src: br}
				got, err := io.ReadAll(c)
				if string(got) != row.want || !errors.Is(err, row.err) {
					t.Fatalf("cut at %d: %q, error %v", cut, got, err)
				}
				if err != nil {
					continue
				}
				if n, err := c.Read(make([]byte, 9)); n != 0 || err != io.EOF {
					t.Errorf("a read after the end: %d bytes, error %v", n, err)
				}
				if rest, _ := io.ReadAll(br); c.extra != (row.rest != "") && string(rest) != row.rest {
					t.Errorf("left behind the body: %q, noticed %v", rest, c.extra)
				}
			}
		})
	}
}

// TestEndWithTheLastBytes: a connection that tells of its end together with the last bytes, as TLS does, has brought a whole body.
func TestEndWithTheLastBytes(t *testing.T) {
	end := func(s string) io.Reader { return iotest.DataErrReader(strings.NewReader(s)) }
	for name, r := range map[string]io.Reader{"chunked": &chunked{src: end("5\r\nhello\r\n0\r\n\r\n")}, "sized": &sized{src: end("hello"), left: 5}} {
		if got, err := io.ReadAll(r); string(got) != "hello" || err != nil {
			t.Errorf("%s: %q, error %v", name, got, err)
		}
	}
	for name, r := range map[string]io.Reader{"chunked": &chunked{src: end("5\r\nhello\r\n0\r\n")}, "sized": &sized{src: end("hello"), left: 6}} {
		if got, err := io.ReadAll(r); string(got) != "hello" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s, cut: %q, error %v", name, got, err)
		}
	}
}

// TestChunkedHoldsNothingBack: what has come of a chunk is returned although its line end has not.
func TestChunkedHoldsNothingBack(t *testing.T) {
	pr, pw := io.Pipe()
	defer pw.Close()
	go func() { _, _ = pw.Write([]byte("5\r\nhello")) }()
	buf := make([]byte, 100)
	if n, err := (&chunked{src: bufio.NewReader(pr)}).Read(buf); err != nil || string(buf[:n]) != "hello" {
		t.Errorf("%q, error %v", buf[:n], err)
	}
}

func TestSized(t *testing.T) {
	br := bufio.NewReader(strings.NewReader("hello, next"))
	if got, err := io.ReadAll(&sized{br, 5}); string(got) != "hello" || err != nil {
		t.Errorf("%q, error %v", got, err)
	}
	if got, err := io.ReadAll(&sized{br, 100}); string(got) != ", next" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, error %v", got, err)
	}
}

// FuzzChunked: whatever comes, the body is a part of it, and how it is cut does not matter.
func FuzzChunked(f *testing.F) {
	f.Add([]byte("5\r\nhello\r\n6;x\r\n world\r\n0\r\nA: b\r\n\r\n"))
	f.Add([]byte("ffffffffffffffff\r\nx"))
	f.Add([]byte("0\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		read := func(r io.Reader) ([]byte, error) { return io.ReadAll(&chunked{src: bufio.NewReader(r)}) }
		whole, err := read(bytes.NewReader(in))
		pieces, err2 := read(iotest.OneByteReader(bytes.NewReader(in)))
		if !bytes.Equal(whole, pieces) || !errors.Is(err, err2) && !errors.Is(err2, err) {
			t.Fatalf("%q, %v in one piece; %q, %v in pieces", whole, err, pieces, err2)
		}
		if len(whole) > len(in) {
			t.Fatalf("%d bytes of %d", len(whole), len(in))
		}
	})
}
