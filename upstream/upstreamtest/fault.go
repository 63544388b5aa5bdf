package upstreamtest

import (
	"net"
	"strings"
	"testing"
	"time"

	"amplifier-agent/pipeline"
)

// testErrorsInAnswers: an error that stands inside an answer with status 200, wherever it stands.
func (s *suite) testErrorsInAnswers(t *testing.T) {
	shown := Key
	if _, lacks := s.d.Lacks[Keys]; lacks {
		shown = "***"
	}
	busy := s.d.Event(s.d.Fault(529, "Overloaded, said "+shown))
	_, end := s.d.Write(&Script{Parts: []Part{{Text: "hello"}}, Finish: pipeline.ReasonStop})
	overloaded := want{code: pipeline.CodeUpstream, status: 529, retry: true, says: "Overloaded, said ***"}
	for name, body := range map[string]string{
		"first":             busy,
		"behind its start":  s.d.said() + busy,
		"in mid-stream":     s.d.said("hello") + busy,
		"instead of an end": s.d.said("hello") + busy + strings.Join(end, ""),
		"behind reasoning":  s.pieces(Part{Reasoning: "hm"}) + busy,
		"behind a call":     s.pieces(Part{Calls: []Call{{"a", "f", []string{`{"x":`}}}}) + busy,
	} {
		o := s.play(t, body)
		overloaded.check(t, o)
		if strings.Contains(body, "hello") != (o.Text == "hello") || len(o.Calls) != 0 {
			t.Errorf("%s: %s", name, o)
		}
	}
	if o := s.play(t, s.d.Refusal(500, "so it is")+"\n"); o.err == nil || !strings.Contains(o.err.Message, "so it is") {
		t.Errorf("a refusal that is called a success: %s", o)
	}
	for status, row := range faults {
		o := s.play(t, s.d.said("hello")+s.d.Event(s.d.Fault(status, "so it is")))
		want{code: row.code, status: status, retry: row.retry, says: "so it is"}.check(t, o)
	}
}

func (s *suite) pieces(parts ...Part) string {
	said, _ := s.d.Write(&Script{Parts: parts})
	return strings.Join(said, "")
}

// faults are what statuses mean that need no words.
var faults = map[int]struct {
	code  pipeline.Code
	retry bool
}{
	400: {pipeline.CodeUpstreamRequest, false},
	401: {pipeline.CodeUpstreamAuth, false},
	402: {pipeline.CodePlan, false},
	413: {pipeline.CodeUpstreamRequest, false},
	429: {pipeline.CodeRateLimit, true},
	500: {pipeline.CodeUpstream, true},
	529: {pipeline.CodeUpstream, true},
}

// testBroken: bodies that are not what they should be.
func (s *suite) testBroken(t *testing.T) {
	hello, whole := s.d.said("hello"), s.d.hello()
	for name, row := range map[string]struct {
		body string
		want want // if it is an error
		text string
	}{
		"no end":             {hello, truncated, "hello"},
		"cut inside a line":  {hello[:len(hello)-4], truncated, ""},
		"empty":              {"", foreign, ""},
		"blank":              {"\n\n\r\n", foreign, ""},
		"a page":             {"<!DOCTYPE html>\n<html>\n<body>Sign in</body>\n</html>\n", foreign, ""},
		"text":               {"please sign in", foreign, ""},
		"garbage":            {"\x00\xff\xfe\x01\n" + strings.Repeat("\x80", 9999) + "\n", foreign, ""},
		"garbage in between": {hello + "nonsense\n\n" + s.d.Event(`{"half":`) + s.d.Event("[1,2]") + s.d.Event(`"text"`) + s.d.Event(`{"type":"from_the_future","x":{"y":[1]}}`) + ": comment\n\n" + s.ended(), want{}, "hello"},
		"carriage returns":   {strings.ReplaceAll(whole, "\n", "\r\n"), want{}, "hello"},
		"behind the end":     {whole + "nonsense\n" + s.d.said("more"), want{}, "hello"},
		"no last line end":   {strings.TrimRight(whole, "\n"), want{}, "hello"},
		"a byte order mark":  {"\xEF\xBB\xBF" + whole, want{}, "hello"},
	} {
		o := s.play(t, row.body)
		if row.want.code != "" {
			row.want.check(t, o)
		} else if o.err != nil {
			t.Errorf("%s: %s", name, o)
		}
		if row.text != "" && o.Text != row.text {
			t.Errorf("%s: %s, want %q", name, o, row.text)
		}
	}

	lines := s.d.said("hello") + s.d.said(strings.Repeat("long ", 9000)) + s.ended()
	up := serve(t, func(p *peer) bool { return p.plain(200, lines) })
	o := s.ask(t, s.make(t, up.url, func(o *Options) { o.MaxLine = 16 << 10 }))
	long.check(t, o)
	if o.Text != "hello" {
		t.Errorf("in front of a long line: %s", o)
	}
}

// ended is the end of an answer that said something.
func (s *suite) ended() string {
	_, end := s.d.Write(&Script{Parts: []Part{{Text: "hello"}}, Finish: pipeline.ReasonStop})
	return strings.Join(end, "")
}

// connectionFault is a row of the table of what can go wrong on the way.
type connectionFault struct {
	name string
	say  func(p *peer, hello string) // hello is an answer that says so, and has no end; the connection is closed behind it
	want want
	told bool // the answer came before
}

// connectionFaults is the table, for all providers.
var connectionFaults = []connectionFault{
	{"closed before the header", func(*peer, string) {}, closed, false},
	{"reset before the header", func(p *peer, _ string) { p.reset() }, closed, false},
	{"closed inside the header", func(p *peer, _ string) { p.send("HTTP/1.1 200 OK\r\nContent-Ty") }, closed, false},
	{"reset inside the header", func(p *peer, _ string) {
		p.send("HTTP/1.1 200 OK\r\nContent-Ty")
		p.reset()
	}, closed, false},
	{"a header of more than 64 KiB", func(p *peer, hello string) { p.plain(200, hello, "X-Long: "+strings.Repeat("x", 100<<10)) }, noHTTP, false},
	{"no HTTP", func(p *peer, _ string) { p.send("SSH-2.0-OpenSSH_9.9\r\n\r\n") }, noHTTP, false},
	{"a page without a header", func(p *peer, _ string) { p.send("<html>no</html>\r\n\r\n") }, noHTTP, false},
	{"cut inside a line", func(p *peer, hello string) {
		p.send("HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n%s", hello+hello[:len(hello)-4])
	}, truncated, true},
	{"cut inside a chunk", func(p *peer, hello string) {
		p.begin()
		p.chunk(hello)
		p.send("400\r\n%s", hello[:len(hello)-4])
	}, truncated, true},
	{"cut between chunks", func(p *peer, hello string) {
		p.begin()
		p.chunk(hello)
	}, truncated, true},
	{"a chunk whose length is none", func(p *peer, hello string) {
		p.begin()
		p.chunk(hello)
		p.send("chunk\r\n%s\r\n", hello)
	}, malformed, true},
	{"a chunk that is longer than it says", func(p *peer, hello string) {
		p.begin()
		p.send("%x\r\n%sxx\r\n", len(hello), hello)
	}, malformed, true},
	{"an encoding that nobody knows", func(p *peer, hello string) { p.plain(200, hello, "Content-Encoding: compress") },
		want{code: pipeline.CodeUpstream, says: "cannot be read"}, false},
	{"another encoding than it says", func(p *peer, hello string) { p.plain(200, hello, "Content-Encoding: gzip") },
		want{code: pipeline.CodeUpstream, retry: true, says: "body with content encoding \"gzip\""}, false},
}

var (
	closed    = want{code: pipeline.CodeUpstream, retry: true, says: "it closed the connection"}
	noHTTP    = want{code: pipeline.CodeUpstream, retry: true, says: "its answer is not HTTP/1.1, or its header is longer than 64 KiB"}
	truncated = want{code: pipeline.CodeTruncated, retry: true, says: "cut off"}
	foreign   = want{code: pipeline.CodeTruncated, retry: true, says: "the upstream's answer holds no event: is its base URL right?"}
	malformed = want{code: pipeline.CodeUpstream, retry: true, says: "its chunked body is malformed"}
	long      = want{code: pipeline.CodeUpstream, says: "line"}
)

// testConnectionFaults runs the rows of the table.
func (s *suite) testConnectionFaults(t *testing.T) {
	hello := s.d.said("hello")
	for _, row := range connectionFaults {
		t.Run(row.name, func(t *testing.T) {
			if row.want != truncated {
				s.needs(t, Connections)
			}
			up := serve(t, func(p *peer) bool {
				row.say(p, hello)
				return false
			})
			o := s.ask(t, s.make(t, up.url))
			row.want.check(t, o)
			if strings.HasPrefix(o.Text, "hello") != row.told {
				t.Error(o)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		s.needs(t, Connections)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = ln.Close()
		o := s.ask(t, s.make(t, "http://"+ln.Addr().String()))
		want{code: pipeline.CodeUpstream, retry: true, says: "connect to the upstream"}.check(t, o)
	})
	t.Run("reset in mid-stream", func(t *testing.T) {
		s.needs(t, Connections)
		seen := make(chan bool, 1)
		up := serve(t, func(p *peer) bool {
			p.begin()
			p.chunk(hello)
			select { // else the reset could overtake what was said
			case <-seen:
			case <-time.After(never):
			}
			p.reset()
			return false
		})
		o := run(t.Context(), t, s.make(t, up.url), s.turn(), func(ev *pipeline.Event) bool {
			if ev.Kind == pipeline.Text {
				seen <- true
			}
			return true
		})
		closed.check(t, o)
	})
}

// testRefusals: statuses in front of bodies of every kind. What a status means does not depend on the body, unless that has words
// for something else (see Errors).
func (s *suite) testRefusals(t *testing.T) {
	for status, row := range faults {
		for kind, body := range map[string]struct{ body, says string }{
			"its own": {s.d.Refusal(status, "so it is, "+Key), ": so it is, ***"},
			"text":    {"so it is, " + Key + "\n", ": so it is, ***"},
			"a page":  {"<html><head><title>so it is</title></head></html>", ": (an HTML page)"},
			"nothing": {"", ": no message"},
			"binary":  {"\xff\xfe\x00\x1b[2J", "\uFFFD"},
		} {
			up := serve(t, func(p *peer) bool { return p.plain(status, body.body, "Content-Type: text/html") })
			o := s.ask(t, s.make(t, up.url))
			want{code: row.code, status: status, retry: row.retry, says: body.says}.check(t, o)
			if o.late {
				t.Errorf("%d with %s: the refusal is not the first thing", status, kind)
			}
		}
	}
	for field, after := range map[string]time.Duration{"7": 7 * time.Second, "0": 0, "-1": 0, "soon": 0, "3600": time.Hour} {
		for _, status := range []int{429, 503} {
			up := serve(t, func(p *peer) bool { return p.plain(status, s.d.Refusal(status, "wait"), "Retry-After: "+field) })
			o := s.ask(t, s.make(t, up.url))
			want{code: faultOf(status), status: status, retry: true, after: after, says: "wait"}.check(t, o)
		}
	}
}

func faultOf(status int) pipeline.Code {
	if status == 429 {
		return pipeline.CodeRateLimit
	}
	return pipeline.CodeUpstream
}
