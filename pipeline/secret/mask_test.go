package secret_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"amplifier-agent/pipeline/secret"
)

// odd is a secret that looks different wherever it is escaped.
const odd = "p/w+\"<é>\\&\t☃:@ %=?"

func TestMask(t *testing.T) {
	m := new(secret.Mask)
	m.Add("sk-0123456789", odd, "abcd", "cdef", "abc", "", "aaaa")
	request, err := http.NewRequest(http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth("user", "sk-0123456789")
	basic := request.Header.Get("Authorization")
	encoded, err := json.Marshal(map[string]string{"key": odd})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct{ name, given, want string }{
		{"nothing", "no secret here: sk-012345678", "no secret here: sk-012345678"},
		{"empty", "", ""},
		{"all of it", "sk-0123456789", "***"},
		{"inside", "key=sk-0123456789.", "key=***."},
		{"twice", "sk-0123456789 sk-0123456789", "*** ***"},
		{"side by side", "sk-0123456789sk-0123456789", "***"},
		{"too short to be one", "abc", "abc"},
		{"two that overlap", "xabcdefx", "x***x"},
		{"one that overlaps itself", "xaaaaaaax", "x***x"},
		{"odd", "<" + odd + ">", "<***>"},
		{"JSON", string(encoded), `{"key":"***"}`},
		{"JSON without HTML escapes", `{"key":"p/w+\"<é>\\&\t☃:@ %=?"}`, `{"key":"***"}`},
		{"JSON with escaped slashes", `{"key":"p\/w+\"<é>\\&\t☃:@ %=?"}`, `{"key":"***"}`},
		{"%q", fmt.Sprintf("%q", odd), `"***"`},
		{"%+q", fmt.Sprintf("%+q", odd), `"***"`},
		{"query", "?a=" + url.QueryEscape(odd) + "&b", "?a=***&b"},
		{"query, lower case", "?a=" + lower(url.QueryEscape(odd)) + "&b", "?a=***&b"},
		{"path", "/" + url.PathEscape(odd) + "/b", "/***/b"},
		{"URL user", (&url.URL{Scheme: "http", User: url.UserPassword("u", odd), Host: "h"}).String(), "http://u:***@h"},
		{"base64", base64.StdEncoding.EncodeToString([]byte(odd)), "***"},
		{"base64 without padding", base64.RawStdEncoding.EncodeToString([]byte(odd)) + ".", "***."},
		{"base64 for URLs", base64.URLEncoding.EncodeToString([]byte(odd)), "***"},
		{"base64 of a short one", base64.StdEncoding.EncodeToString([]byte("abcd")), "***"},
	} {
		if got := m.String(r.given); got != r.want {
			t.Errorf("%s: %q\n got %q\nwant %q", r.name, r.given, got, r.want)
		}
	}
	if got := m.String(basic); !strings.HasPrefix(got, "Basic ") || !strings.Contains(got, "***") || len(got) > len("Basic dXNlcjo***xx==") {
		t.Errorf("%s: got %s", basic, got)
	}
	for before := range 7 {
		for after := range 7 {
			text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("b", before) + "sk-0123456789" + strings.Repeat("a", after)))
			left := strings.NewReplacer("***", "", "=", "").Replace(m.String(text))
			// What is left holds the neighbours and at most 10 bits of the secret.
			if most := (before*8+4+5)/6 + (after*8+4+5)/6; len(left) > most {
				t.Errorf("%d before and %d behind: %s: %s is left", before, after, text, left)
			}
		}
	}
}

func lower(s string) string {
	for _, c := range "ABCDEF" {
		for _, d := range "0123456789abcdefABCDEF" {
			s = strings.ReplaceAll(s, "%"+string(c)+string(d), "%"+strings.ToLower(string(c)+string(d)))
			s = strings.ReplaceAll(s, "%"+string(d)+string(c), "%"+strings.ToLower(string(d)+string(c)))
		}
	}
	return s
}

// TestMaskOfNothing: a nil Mask and one that knows nothing change nothing.
func TestMaskOfNothing(t *testing.T) {
	var none *secret.Mask
	none.Add("sk-0123456789")
	for _, m := range []*secret.Mask{none, new(secret.Mask)} {
		if got := m.String("sk-0123456789"); got != "sk-0123456789" {
			t.Errorf("got %s", got)
		}
	}
}

// TestMaskAllocs: a text without a secret costs a look and no memory.
func TestMaskAllocs(t *testing.T) {
	m := new(secret.Mask)
	m.Add("sk-0123456789", odd)
	text := strings.Repeat("nothing to see here ", 100)
	if n := testing.AllocsPerRun(100, func() { _ = m.String(text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestMaskConcurrently adds and masks at the same time; the race detector watches, and what was added counts.
func TestMaskConcurrently(t *testing.T) {
	m := new(secret.Mask)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s := fmt.Sprintf("secret-%d", i)
			m.Add(s)
			if got := m.String(s + "."); got != "***." {
				t.Errorf("%s: got %s", s, got)
			}
		})
	}
	wg.Wait()
	for i := range 8 {
		if s := fmt.Sprintf("secret-%d", i); m.String(s) != "***" {
			t.Errorf("%s was forgotten", s)
		}
	}
}

// FuzzMask: no secret survives, and what is around it does.
func FuzzMask(f *testing.F) {
	f.Add("sk-0123456789", "key: ", " and more")
	f.Add("aaaa", "aa", "aaaaa")
	f.Add(odd, `"`, `"`)
	f.Fuzz(func(t *testing.T, s, before, after string) {
		if len(s) < 4 || strings.Contains(s, "*") {
			t.Skip()
		}
		m := new(secret.Mask)
		m.Add(s)
		text := before + s + after
		got := m.String(text)
		if strings.Contains(got, s) || !strings.Contains(got, "***") {
			t.Fatalf("%q: got %q", text, got)
		}
		if !strings.Contains(text, "*") && m.String(got) != got {
			t.Fatalf("%q: got %q, which is masked to %q", text, got, m.String(got))
		}
		if quoted := fmt.Sprintf("%q", s); strings.Contains(m.String(quoted), quoted[1:len(quoted)-1]) {
			t.Fatalf("%s is not found", quoted)
		}
	})
}
