package simulator

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	brotli "github.com/molecule-man/go-brrr"
)

// faultReply is what the default answer says in these tests; half of it is "0123456789abcdef".
const faultReply = "0123456789abcdefghijklmnopqrstuv"

func faultPrompt(f Fault) m {
	return body(user("[fault:" + string(f) + "] Reply with exactly: " + faultReply))
}

func TestStreamFaults(t *testing.T) {
	const half = "0123456789abcdef"
	g := serve(t, Options{})
	rows := map[Fault]func(t *testing.T, a answer){
		FaultErrorString:  func(t *testing.T, a answer) { wantError(t, a, half, `"error":"Network connection lost."`) },
		FaultErrorObject:  func(t *testing.T, a answer) { wantError(t, a, half, `"statusCode":529`) },
		FaultErrorMessage: func(t *testing.T, a answer) { wantError(t, a, half, `{"type":"error","message":"upstream exploded"}`) },
		FaultErrorEarly: func(t *testing.T, a answer) {
			wantError(t, a, "", `"statusCode":429`)
			want(t, a.reasoning != "", "reasoning")
		},
		FaultErrorLate: func(t *testing.T, a answer) {
			wantError(t, a, "", `"statusCode":502`)
			want(t, a.types == "start start-step error", a.types)
		},
		FaultErrorFirst: func(t *testing.T, a answer) {
			wantError(t, a, "", `MODEL_NOT_IN_PLAN: `)
			want(t, a.types == "start error", a.types)
		},
		FaultEOF: func(t *testing.T, a answer) { want(t, a.text == half && a.reason == "" && a.stepCost == "", a.types) },
		FaultEOFTool: func(t *testing.T, a answer) {
			want(t, strings.HasSuffix(a.types, "tool-input-start tool-input-delta") && a.fragments == "{", a.types)
		},
		FaultFinishStepOnly: func(t *testing.T, a answer) {
			want(t, a.text == faultReply && strings.HasSuffix(a.types, "text-end finish-step"), a.types)
		},
		FaultGarbage:    func(t *testing.T, a answer) { wantWhole(t, a); want(t, a.bad > 8, a.types) },
		FaultHugeLine:   func(t *testing.T, a answer) { wantWhole(t, a); want(t, len(a.lines[1]) > hugeLineBytes, "short line") },
		FaultHugeDelta:  func(t *testing.T, a answer) { want(t, len(a.text) > 17<<20 && a.reason == "stop", a.types) },
		FaultSplitLines: wantWhole,
		FaultNetworkError: func(t *testing.T, a answer) {
			want(t, a.reason == "" && a.raw == "network-error" && a.text == "", a.types)
		},
		FaultEmpty: func(t *testing.T, a answer) {
			want(t, a.reason == "stop" && a.types == "start start-step finish-step finish provider-metadata" && a.usage["outputTokens"] == 0.0, a.types)
		},
		FaultOther: func(t *testing.T, a answer) {
			want(t, a.reason == "other" && a.raw == "" && a.types == "start start-step finish", a.types)
		},
		FaultLength:        func(t *testing.T, a answer) { want(t, a.reason == "length" && a.text == half, a.types) },
		FaultContentFilter: func(t *testing.T, a answer) { want(t, a.reason == "content-filter" && a.text == half, a.types) },
		FaultAbort: func(t *testing.T, a answer) {
			want(t, a.text == half && strings.HasSuffix(a.types, "text-delta abort"), a.types)
		},
		FaultNoCost: func(t *testing.T, a answer) {
			want(t, a.text == faultReply && a.cost+a.stepCost == "" && a.usage != nil, a.types)
		},
		FaultNoUsage: func(t *testing.T, a answer) {
			want(t, a.text == faultReply && a.usage == nil && a.reason == "stop" && !strings.Contains(strings.Join(a.lines, ""), "sage\":"), a.types)
		},
		FaultLateCost: func(t *testing.T, a answer) {
			want(t, a.text == faultReply && a.stepCost == "" && a.cost != "", a.types)
		},
		FaultCostTooLate: func(t *testing.T, a answer) {
			want(t, a.text == faultReply && a.stepCost == "" && a.cost != "", a.types)
		},
		FaultInvalidUTF8: func(t *testing.T, a answer) {
			bad := 0
			for _, l := range a.lines {
				if !utf8.ValidString(l) {
					bad++
				}
			}
			want(t, bad == 1 && a.reason == "stop", a.types)
		},
		FaultLoneSurrogate: func(t *testing.T, a answer) {
			want(t, strings.Count(strings.Join(a.lines, ""), `\ud83d alone`) == 1 && a.reason == "stop", a.types)
		},
		FaultSplitSurrogate: func(t *testing.T, a answer) {
			want(t, strings.Contains(strings.Join(a.lines, "\n"), `\ud83d"}`+"\n") && strings.Contains(strings.Join(a.lines, ""), `"\ude00 b"`), a.types)
		},
	}
	least := map[Fault]time.Duration{FaultErrorLate: errorLateAfter, FaultLateCost: lateCostAfter, FaultCostTooLate: costTooLateAfter}
	for f, check := range rows {
		t.Run(string(f), func(t *testing.T) {
			start := time.Now()
			check(t, g.events(faultPrompt(f)))
			if d := time.Since(start); d < least[f] {
				t.Errorf("took %v", d)
			}
		})
	}
	for _, f := range Faults() {
		if rows[f] == nil && !testedElsewhere[f] {
			t.Errorf("%s has no test", f)
		}
	}
}

// testedElsewhere are the faults of the tests below and of TestClientLeaves.
var testedElsewhere = map[Fault]bool{
	FaultStall: true, FaultStallHeaders: true, FaultNoNewline: true, FaultReset: true, FaultResetMid: true, FaultCut: true, FaultHTML: true,
	FaultSSEFraming: true, FaultGzip: true, FaultDeflate: true, FaultZstd: true, FaultBrotli: true, FaultStatus400: true, FaultStatus401: true,
	FaultStatus403: true, FaultStatus404: true, FaultStatus413: true, FaultStatus422: true, FaultStatus429: true, FaultStatus429Plain: true,
	FaultStatus500: true, FaultStatus503: true, FaultStatus529: true, FaultProxyUse: true, FaultCredits: true, FaultAuthFlaky: true,
}

func want(t *testing.T, ok bool, context string) {
	t.Helper()
	if !ok {
		t.Error(context)
	}
}

func wantWhole(t *testing.T, a answer) {
	t.Helper()
	want(t, a.text == faultReply && a.reason == "stop" && a.cost != "", a.types)
}

func wantError(t *testing.T, a answer, text, part string) {
	t.Helper()
	if a.text != text || len(a.errors) != 1 || !strings.Contains(a.errors[0], part) || !strings.HasSuffix(a.types, "error") || a.reason != "" {
		t.Errorf("%s %q %v", a.types, a.text, a.errors)
	}
}

func TestConnectionFaults(t *testing.T) {
	g := serve(t, Options{})
	_, err := g.client.Do(g.request(t.Context(), faultPrompt(FaultReset)))
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reset: %v", err)
	}
	a := readAnswer(g.post(faultPrompt(FaultResetMid)).Body)
	if !errors.Is(a.err, syscall.ECONNRESET) || a.bad != 1 || a.text != "0123456789abcdef" {
		t.Errorf("reset-mid: %v, %s", a.err, a.types)
	}
	a = readAnswer(g.post(faultPrompt(FaultCut)).Body)
	if !errors.Is(a.err, io.ErrUnexpectedEOF) || a.bad != 0 || a.text == "" {
		t.Errorf("cut: %v, %s", a.err, a.types)
	}
	if g.Gone() != 0 {
		t.Errorf("it was not the client that left: %d", g.Gone())
	}
}

func TestNoNewlineFault(t *testing.T) {
	g := serve(t, Options{})
	resp := g.post(faultPrompt(FaultNoNewline))
	var tail [4]byte
	n, newlines := 0, 0
	buf := make([]byte, 1<<20)
	for {
		k, err := resp.Body.Read(buf)
		newlines += bytes.Count(buf[:k], []byte{'\n'})
		if n += k; k >= 4 {
			copy(tail[:], buf[k-4:k])
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < noNewlineBytes || newlines > 10 || string(tail[:]) != "xxxx" {
		t.Errorf("%d bytes, %d newlines, end %q", n, newlines, tail)
	}
}

func TestSSEFramingFault(t *testing.T) {
	g := serve(t, Options{})
	raw, err := io.ReadAll(g.post(faultPrompt(FaultSSEFraming)).Body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(raw), "data: [DONE]\r\n\r\n") || !strings.Contains(string(raw), ": comment\r\ndata: {\"type\":\"start\"}\r\n\r\n") {
		t.Errorf("%s", raw)
	}
	var lines []string
	for _, l := range strings.Split(string(raw), "\r\n") {
		if rest, ok := strings.CutPrefix(l, "data: {"); ok {
			lines = append(lines, "{"+rest)
		}
	}
	wantWhole(t, readAnswer(strings.NewReader(strings.Join(lines, "\n"))))
}

func TestEncodingFaults(t *testing.T) {
	g := serve(t, Options{Pace: time.Microsecond})
	for f, open := range map[Fault]func(io.Reader) (io.Reader, error){
		FaultGzip:    func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		FaultDeflate: func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
		FaultZstd:    func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r, zstd.WithDecoderConcurrency(1)) },
		FaultBrotli:  func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil },
	} {
		t.Run(string(f), func(t *testing.T) {
			resp := g.post(faultPrompt(f))
			if got := resp.Header.Get("Content-Encoding"); got != string(f) {
				t.Fatalf("encoding %q", got)
			}
			r, err := open(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			a := readAnswer(r)
			if a.err != nil {
				t.Error(a.err)
			}
			wantWhole(t, a)
		})
	}
}

func TestStatusFaults(t *testing.T) {
	g := serve(t, Options{})
	for f, row := range map[Fault]struct {
		status int
		retry  string
		parts  []string
	}{
		FaultStatus400:      {400, "", []string{"Validation error: "}},
		FaultStatus401:      {401, "", []string{"UNAUTHORIZED"}},
		FaultStatus403:      {403, "", []string{"MODEL_NOT_IN_PLAN: "}},
		FaultStatus404:      {404, "", []string{"NOT_FOUND"}},
		FaultStatus413:      {413, "", []string{"too large"}},
		FaultStatus422:      {422, "", []string{"CMD_ZDR_NO_PROVIDERS"}},
		FaultStatus429:      {429, "3600", []string{"RATE_LIMITED", `"rateLimit":{`, `"window":"fiveHour"`, `"reset":`}},
		FaultStatus429Plain: {429, "1", []string{"rate_limit_error"}},
		FaultStatus500:      {500, "1", []string{"Internal Server Error"}},
		FaultStatus503:      {503, "1", []string{"<!DOCTYPE html>", "Cloudflare"}},
		FaultStatus529:      {529, "", []string{`"type":"error"`, "overloaded_error"}},
		FaultProxyUse:       {400, "", []string{"BAD_REQUEST", "Proxy use detected"}},
		FaultCredits:        {400, "", []string{"Insufficient credits"}},
		FaultAuthFlaky:      {403, "", []string{"Authentication failed", "permission_error"}},
		FaultHTML:           {200, "", []string{"<!DOCTYPE html>"}},
	} {
		t.Run(string(f), func(t *testing.T) {
			resp := g.post(faultPrompt(f))
			raw, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != row.status || resp.Header.Get("Retry-After") != row.retry {
				t.Errorf("%d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
			}
			for _, part := range row.parts {
				if !strings.Contains(string(raw), part) {
					t.Errorf("no %s in %s", part, raw)
				}
			}
			if html := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"); html != bytes.HasPrefix(raw, []byte("<")) {
				t.Errorf("content type %q", resp.Header.Get("Content-Type"))
			}
		})
	}
}

func TestFaultChoice(t *testing.T) {
	g := serve(t, Options{Fault: FaultEmpty})
	if a := g.ask("Reply with exactly: x"); a.text != "" {
		t.Errorf("Options.Fault: %q", a.text)
	}
	if a := g.ask("[fault:length] Reply with exactly: x"); a.reason != "length" {
		t.Errorf("the prompt's fault comes first: %q", a.reason)
	}
	resp := g.post(body(user("[fault:nonsense]")))
	if e := readRefusal(t, resp).Error; resp.StatusCode != http.StatusBadRequest || !strings.Contains(e.Message, "nonsense; known: error-string, ") {
		t.Errorf("%+v", e)
	}
	if a := g.events(body(user("[fault:reset] x"), assistant(m{"type": "text", "text": "y"}), user("[fault:other]"))); a.reason != "other" {
		t.Errorf("an old fault counts: %q", a.reason)
	}
	// A fault that needs text has some, also where the default is a call.
	call := withTools(body(user(`[fault:eof] Call the tool f once with these arguments: {}.`)), tool("f", m{}))
	if a := g.events(call); a.text == "" || len(a.calls) > 0 {
		t.Errorf("%s", a.types)
	}
}
