package codec_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"amplifier-agent/codec"
)

// frame reads src to its end, as a caller does, and returns copies of the lines and what ended it.
func frame(r *codec.LineReader, src io.Reader) (lines []string, err error) {
	for {
		for line, ok := r.Next(); ok; line, ok = r.Next() {
			lines = append(lines, string(line))
		}
		if err != nil {
			return lines, err
		}
		err = r.Fill(src)
	}
}

func frameAll(opt codec.LineOptions, src io.Reader) ([]string, error) {
	var r codec.LineReader
	r.Reset(opt)
	return frame(&r, src)
}

// parts yields its elements, one to a read.
type parts [][]byte

func (p *parts) Read(b []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*p)[0])
	if (*p)[0] = (*p)[0][n:]; len((*p)[0]) == 0 {
		*p = (*p)[1:]
	}
	return n, nil
}

func TestFraming(t *testing.T) {
	for _, row := range []struct {
		name, body string
		want       []string
	}{
		{"nothing", "", nil},
		{"a line", "{\"a\":1}\n", []string{`{"a":1}`}},
		{"no newline at the end", "{\"a\":1}", []string{`{"a":1}`}},
		{"no newline at the end of the second", "1\n2", []string{"1", "2"}},
		{"blank lines", "\n\n1\n \n\t\r\n2\n\n", []string{"1", "2"}},
		{"only blank lines", "\n \n\r\n", nil},
		{"CRLF", "1\r\n2\r\n", []string{"1", "2"}},
		{"CR at the end of the stream", "1\r\n2\r", []string{"1", "2"}},
		{"mixed", "1\n2\r\n3\n\r\n4\r\r\n", []string{"1", "2", "3", "4"}},
		{"surrounding space", " \t{ \"a\" : 1 } \t\r\n", []string{`{ "a" : 1 }`}},
		{"byte order mark", "\xEF\xBB\xBF{\"a\":1}\n", []string{`{"a":1}`}},
		{"byte order mark alone", "\xEF\xBB\xBF\n1\n", []string{"1"}},
		{"byte order mark before data", "\xEF\xBB\xBFdata: 1\n", []string{"1"}},
		{"byte order mark later", "1\n\xEF\xBB\xBF2\n", []string{"1", "\xEF\xBB\xBF2"}},
		{"cut byte order mark", "\xEF\xBB", []string{"\xEF\xBB"}},
		{"comments", ": ping\n:\n : ping\n:{\"a\":1}\n1\n", []string{"1"}},
		{"data", "data: {\"a\":1}\ndata:{\"b\":2}\ndata:\t3 \r\n data : 4\n", []string{`{"a":1}`, `{"b":2}`, "3", "data : 4"}},
		{"empty data", "data:\ndata: \n1\n", []string{"1"}},
		{"a comment within data is no comment", "data: : ping\n", []string{": ping"}},
		{"only one data is stripped", "data: data: 1\n", []string{"data: 1"}},
		{"other fields", "event: delta\nid: 5\nretry: 100\nevent:\n1\nevents: 2\nDATA: 3\n", []string{"1", "events: 2", "DATA: 3"}},
		{"fields within JSON", "\"event: x\"\n{\"event\": 1}\n", []string{`"event: x"`, `{"event": 1}`}},
		{"done", "1\n[DONE]\ndata: [DONE]\ndata:[DONE]\n [DONE] \r\n2", []string{"1", "2"}},
		{"done as part of something", "[\"DONE\"]\n[DONE],\n", []string{`["DONE"]`, "[DONE],"}},
		{"events with blank lines between", "event: m\ndata: {\"a\":1}\n\n: ping\n\nid: 5\ndata: {\"b\":2}\n\ndata: [DONE]\n\n", []string{`{"a":1}`, `{"b":2}`}},
		{"rubbish is for the caller", "<html>\nnull\n\x00\n", []string{"<html>", "null", "\x00"}},
		{"multibyte", "{\"a\":\"北 😀\"}\n{\"b\":\"é\"}", []string{`{"a":"北 😀"}`, `{"b":"é"}`}},
		{"line breaks of other alphabets", "\"a\u0085b\u2028c\vd\fe\"\n", []string{"\"a\u0085b\u2028c\vd\fe\""}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got, err := frameAll(codec.LineOptions{}, strings.NewReader(row.body)); err != io.EOF || !slices.Equal(got, row.want) {
				t.Fatalf("%q, %v, want %q", got, err, row.want)
			}
			split(t, codec.LineOptions{}, row.body, row.want, io.EOF)
		})
	}
}

// split is T-SPLIT: it cuts body at every byte (a long one at some), reads it one and three bytes at a time and with the end of the stream reported
// together with the last bytes, all with one reader, and expects the same lines and the same end of it each time.
func split(t *testing.T, opt codec.LineOptions, body string, want []string, end error) {
	t.Helper()
	var r codec.LineReader
	check := func(name string, at int, src io.Reader) {
		t.Helper()
		r.Reset(opt)
		if got, err := frame(&r, src); err != end || !slices.Equal(got, want) {
			t.Fatalf("%s %d: %.200q, %v, want %.200q, %v", name, at, got, err, want, end)
		}
	}
	b := []byte(body)
	step := 1
	if len(b) > 4096 {
		step = len(b)/400 | 1
	}
	for i := 0; i <= len(b); i += step {
		check("cut at", i, &parts{b[:i:i], b[i:]})
		check("cut twice from", i, &parts{b[:i:i], b[i:min(i+1, len(b))], b[min(i+1, len(b)):]})
	}
	check("bytes a read:", 1, iotest.OneByteReader(bytes.NewReader(b)))
	check("all but bytes:", 1, iotest.DataErrReader(bytes.NewReader(b)))
	check("one by one, end with the last:", 1, iotest.DataErrReader(iotest.OneByteReader(bytes.NewReader(b))))
	check("halves:", 2, iotest.HalfReader(bytes.NewReader(b)))
	var threes parts
	for c := range slices.Chunk(b, 3) {
		threes = append(threes, c)
	}
	check("bytes a read:", 3, &threes)
}

func TestSplit(t *testing.T) {
	body := "\xEF\xBB\xBF: hello\n{\"type\":\"start\"}\n\n{\"type\":\"text-delta\",\"text\":\"naïve 北京 😀 \\ud83d\\ude00\"}\ndata: {\"a\":1}\n" +
		"event: x\n{\"type\":\"finish-step\",\"usage\":{\"inputTokens\":1}} \n[DONE]\n\n{\"last\":true}"
	want := []string{`{"type":"start"}`, "{\"type\":\"text-delta\",\"text\":\"naïve 北京 😀 \\ud83d\\ude00\"}", `{"a":1}`,
		`{"type":"finish-step","usage":{"inputTokens":1}}`, `{"last":true}`}
	mixed, n := "", 0
	for line := range strings.Lines(body) {
		if n++; n%2 == 0 {
			line = strings.Replace(line, "\n", "\r\n", 1)
		}
		mixed += line
	}
	for name, b := range map[string]string{"LF": body, "CRLF": strings.ReplaceAll(body, "\n", "\r\n"), "mixed": mixed, "closed": body + "\n"} {
		t.Run(name, func(t *testing.T) { split(t, codec.LineOptions{}, b, want, io.EOF) })
	}
	t.Run("longer than the buffer", func(t *testing.T) {
		long := []string{strings.Repeat("a", 4095), strings.Repeat("b", 4096), strings.Repeat("c", 4097), `{"d":"` + strings.Repeat("d", 70_000) + `"}`, "e"}
		split(t, codec.LineOptions{}, strings.Join(long, "\r\n"), long, io.EOF)
	})
}

// TestLimit: whether a line is too long depends on the line, not on how its bytes arrive.
func TestLimit(t *testing.T) {
	const limit = 100
	fits, over := strings.Repeat("x", limit), strings.Repeat("y", limit+1)
	for _, row := range []struct {
		name, body string
		want       []string
		end        error
	}{
		{"exactly", fits + "\n" + fits + "\n", []string{fits, fits}, io.EOF},
		{"exactly, no newline", "1\n" + fits, []string{"1", fits}, io.EOF},
		{"exactly, with CR", fits[1:] + "\r\n" + fits[1:] + "\r", []string{fits[1:], fits[1:]}, io.EOF},
		{"one over", "1\n" + over + "\n2\n", []string{"1"}, codec.ErrLineTooLong},
		{"one over, no newline", "1\n" + over, []string{"1"}, codec.ErrLineTooLong},
		{"one over with CR", "1\n" + fits + "\r\n2\n", []string{"1"}, codec.ErrLineTooLong},
		{"one over with space", "1\n " + fits + "\n2\n", []string{"1"}, codec.ErrLineTooLong},
		{"a comment over", ":" + fits + "\n2\n", nil, codec.ErrLineTooLong},
		{"far over", "1\n" + strings.Repeat(over, 1000) + "\n2\n", []string{"1"}, codec.ErrLineTooLong},
		{"many lines", strings.Repeat(fits+"\n", 500), slices.Repeat([]string{fits}, 500), io.EOF},
	} {
		t.Run(row.name, func(t *testing.T) { split(t, codec.LineOptions{MaxBytes: limit}, row.body, row.want, row.end) })
	}
	t.Run("asked again", func(t *testing.T) {
		var r codec.LineReader
		r.Reset(codec.LineOptions{MaxBytes: limit})
		src := strings.NewReader(over + "\n1\n")
		for range 3 {
			lines, err := frame(&r, src)
			if len(lines) > 0 || err != codec.ErrLineTooLong {
				t.Fatalf("%q, %v", lines, err)
			}
		}
	})
}

func TestSkip(t *testing.T) {
	const skippable = 8 << 10
	long := func(head string, n int) string { return head + strings.Repeat("s", n-len(head)) }
	asked := map[string]int{}
	opt := codec.LineOptions{MaxBytes: skippable + 500, Skip: func(head []byte) bool {
		if len(head) < skippable {
			t.Errorf("asked about a line of which %d bytes have arrived", len(head))
		}
		asked[string(head[:4])]++
		return bytes.HasPrefix(head, []byte("skip"))
	}}
	keep := long("keep", skippable)
	for _, row := range []struct {
		name, body string
		want       []string
		end        error
	}{
		{"between others", "1\n" + long("skip", skippable) + "\n2\n", []string{"1", "2"}, io.EOF},
		{"at the end", "1\n" + long("skip", skippable+1) + "\n", []string{"1"}, io.EOF},
		{"unfinished", "1\n" + long("skip", skippable+1), []string{"1"}, io.EOF},
		{"at the beginning", long("skip", skippable) + "\r\n\xEF\xBB\xBF2\n", []string{"\xEF\xBB\xBF2"}, io.EOF},
		{"beyond the limit", "1\n" + long("skip", 5*skippable) + "\n2\n", []string{"1", "2"}, io.EOF},
		{"twice", long("skip", skippable) + "\n" + long("skip", 2*skippable) + "\n2", []string{"2"}, io.EOF},
		{"too short", long("skip", skippable-1) + "\n2\n", []string{long("skip", skippable-1), "2"}, io.EOF},
		{"not this one", "1\n" + keep + "\n2\n", []string{"1", keep, "2"}, io.EOF},
		{"not this one and too long", "1\n" + keep + keep + "\n2\n", []string{"1"}, codec.ErrLineTooLong},
		{"followed by one that is too long", long("skip", 2*skippable) + "\n" + keep + keep + "\n2\n", nil, codec.ErrLineTooLong},
	} {
		t.Run(row.name, func(t *testing.T) {
			clear(asked)
			if got, err := frameAll(opt, iotest.OneByteReader(strings.NewReader(row.body))); err != row.end || !slices.Equal(got, row.want) {
				t.Fatalf("one byte a read: %.200q, %v", got, err)
			}
			if asked["keep"] > 1 || asked["skip"] > 2 || row.name != "twice" && asked["skip"] > 1 {
				t.Errorf("asked more than once: %v", asked)
			}
			at := []int{0, 1, 2, 3, 4095, 4096, 4097, skippable - 1, skippable, skippable + 1, skippable + 2, skippable + 3, skippable + 4, len(row.body) - 3, len(row.body) - 2, len(row.body) - 1}
			for i := 0; i < len(row.body); i += 1009 {
				at = append(at, i)
			}
			var r codec.LineReader
			for _, i := range at {
				r.Reset(opt)
				b := []byte(row.body)
				if i = min(i, len(b)); i < 0 {
					continue
				}
				if got, err := frame(&r, &parts{b[:i:i], b[i:]}); err != row.end || !slices.Equal(got, row.want) {
					t.Fatalf("cut at %d: %.200q, %v", i, got, err)
				}
			}
		})
	}
}

var as = strings.Repeat("a", 32<<10)

// endless yields head, then n times 'a', then tail, and never much at once.
type endless struct {
	head string
	n    int
	tail string
}

func (e *endless) Read(b []byte) (n int, err error) {
	switch {
	case len(e.head) > 0:
		n = copy(b, e.head)
		e.head = e.head[n:]
	case e.n > 0:
		n = copy(b[:min(len(b), e.n)], as)
		e.n -= n
	case len(e.tail) > 0:
		n = copy(b, e.tail)
		e.tail = e.tail[n:]
	default:
		return 0, io.EOF
	}
	return n, nil
}

// allocated is how many bytes f allocates in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestEndlessLine(t *testing.T) {
	const limit = 1 << 20
	src := &endless{n: 200 << 20}
	n := allocated(func() {
		if lines, err := frameAll(codec.LineOptions{MaxBytes: limit}, src); len(lines) > 0 || err != codec.ErrLineTooLong {
			t.Errorf("%d lines, %v", len(lines), err)
		}
	})
	if n > 4*limit {
		t.Errorf("%d bytes were allocated", n)
	}
	if read := 200<<20 - src.n; read > limit+64<<10 {
		t.Errorf("%d bytes were read before it gave up", read)
	}
}

func TestEndlessLineSkipped(t *testing.T) {
	opt := codec.LineOptions{MaxBytes: 1 << 20, Skip: func(head []byte) bool { return bytes.HasPrefix(head, []byte(`{"type":"start-step"`)) }}
	var lines []string
	var err error
	n := allocated(func() {
		lines, err = frameAll(opt, &endless{head: "1\n" + `{"type":"start-step","body":"`, n: 200 << 20, tail: "\"}\n2\n"})
	})
	if err != io.EOF || !slices.Equal(lines, []string{"1", "2"}) {
		t.Errorf("%.200q, %v", lines, err)
	}
	if n > 512<<10 {
		t.Errorf("%d bytes were allocated", n)
	}
}

// TestReadErrors: an error of the source comes out as it is, stays, and costs no line that came before it or with it. What
// stands behind the last newline is no line then.
func TestReadErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, end := range []error{broken, io.ErrUnexpectedEOF} {
		for name, src := range map[string]io.Reader{
			"after the bytes":  io.MultiReader(strings.NewReader("1\n2\n{\"cut"), iotest.ErrReader(end)),
			"with the bytes":   &together{"1\n2\n{\"cut", end},
			"one by one":       iotest.OneByteReader(io.MultiReader(strings.NewReader("1\n2\n{\"cut"), iotest.ErrReader(end))),
			"with some of the": io.MultiReader(strings.NewReader("1\n"), &together{"2\n{\"cut", end}),
		} {
			var r codec.LineReader
			if lines, err := frame(&r, src); err != end || !slices.Equal(lines, []string{"1", "2"}) {
				t.Errorf("%s: %q, %v", name, lines, err)
			}
			if err := r.Fill(strings.NewReader("3\n")); err != end {
				t.Errorf("%s: then %v", name, err)
			}
		}
	}
	var r codec.LineReader
	if _, err := frame(&r, strings.NewReader("")); err != io.EOF {
		t.Error(err)
	}
	if err := r.Fill(strings.NewReader("1\n")); err != io.EOF {
		t.Errorf("behind the end: %v", err)
	}
}

// together gives its bytes and its error in one read, as decompressors do.
type together struct {
	bytes string
	err   error
}

func (s *together) Read(b []byte) (int, error) {
	n := copy(b, s.bytes)
	s.bytes = s.bytes[n:]
	if len(s.bytes) > 0 {
		return n, nil
	}
	return n, s.err
}

// TestTruncatedGzipLines: all that was decoded of a body that breaks off is framed.
func TestTruncatedGzipLines(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = io.WriteString(w, "1\n2\n3\n")
	_ = w.Flush()
	src, err := codec.Decompress("gzip", bytes.NewReader(z.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if lines, err := frameAll(codec.LineOptions{}, src); err != io.ErrUnexpectedEOF || !slices.Equal(lines, []string{"1", "2", "3"}) {
		t.Errorf("%q, %v", lines, err)
	}
}

// TestOneReadAFill: Fill reads once, so that a caller may act before each read that can block, and Next never reads.
func TestOneReadAFill(t *testing.T) {
	reads := 0
	src := readFunc(func(b []byte) (int, error) {
		reads++
		return copy(b, "1\n2\n3"), nil
	})
	var r codec.LineReader
	if _, ok := r.Next(); ok {
		t.Error("a line before the first read")
	}
	for i := 1; i <= 3; i++ {
		if err := r.Fill(src); err != nil || reads != i {
			t.Fatalf("%d reads after %d fills, %v", reads, i, err)
		}
		for _, ok := r.Next(); ok; _, ok = r.Next() {
		}
		if reads != i {
			t.Error("Next reads")
		}
	}
}

type readFunc func(b []byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

// TestFillBeforeNext: filling although lines are buffered loses nothing, and the limit is still that of one line.
func TestFillBeforeNext(t *testing.T) {
	var r codec.LineReader
	r.Reset(codec.LineOptions{MaxBytes: 5})
	src := iotest.OneByteReader(strings.NewReader("12345\n123\n45\n"))
	for range 13 {
		if err := r.Fill(src); err != nil {
			t.Fatal(err)
		}
	}
	if lines, err := frame(&r, src); err != io.EOF || !slices.Equal(lines, []string{"12345", "123", "45"}) {
		t.Errorf("%q, %v", lines, err)
	}
}

// TestReset: nothing of one stream reaches the next.
func TestReset(t *testing.T) {
	var r codec.LineReader
	skip := func([]byte) bool { return true }
	for name, start := range map[string]func(){
		"rest of a line":  func() { _ = r.Fill(strings.NewReader("1\n2")); r.Next() },
		"lines not taken": func() { _ = r.Fill(strings.NewReader("1\n2\n3\n")); r.Next() },
		"at the end":      func() { _, _ = frame(&r, strings.NewReader("1")) },
		"an error":        func() { _, _ = frame(&r, iotest.ErrReader(errors.New("broken"))) },
		"too long":        func() { r.Reset(codec.LineOptions{MaxBytes: 1}); _, _ = frame(&r, strings.NewReader("12\n")) },
		"skipping": func() {
			r.Reset(codec.LineOptions{Skip: skip})
			_, _ = frame(&r, &endless{n: 100 << 10, tail: "x"})
		},
	} {
		r.Reset(codec.LineOptions{})
		start()
		r.Reset(codec.LineOptions{})
		if lines, err := frame(&r, strings.NewReader("\xEF\xBB\xBFa\nb")); err != io.EOF || !slices.Equal(lines, []string{"a", "b"}) {
			t.Errorf("after %s: %q, %v", name, lines, err)
		}
	}
}

// TestLineReaderAllocs: a reader that is used again neither allocates nor keeps what one long line made it grow to.
func TestLineReaderAllocs(t *testing.T) {
	body := []byte(strings.Repeat(textDelta+"\n", 200) + ": ping\ndata: " + finishStep + "\r\n")
	var r codec.LineReader
	var src bytes.Reader
	lines := 0
	stream := func() {
		lines = 0
		r.Reset(codec.LineOptions{MaxBytes: 16 << 20})
		src.Reset(body)
		for {
			for _, ok := r.Next(); ok; _, ok = r.Next() {
				lines++
			}
			if r.Fill(&src) == io.EOF {
				break
			}
		}
	}
	if n := testing.AllocsPerRun(50, stream); n != 0 || lines != 201 {
		t.Errorf("%v allocations a stream, %d lines", n, lines)
	}
	r.Reset(codec.LineOptions{})
	_, _ = frame(&r, &endless{n: 1 << 20})
	if n := allocated(stream); n < 4<<10 {
		t.Errorf("a buffer of a megabyte was kept: only %d bytes were allocated", n)
	}
}
