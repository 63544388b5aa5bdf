package upstreamtest

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"amplifier-agent/pipeline"
	"amplifier-agent/upstream/chatcompletions"
)

var update = flag.Bool("update", false, "rewrite the tables in docs/upstreams.md")

// wires are the providers that the tables speak of, in their order.
var wires = []string{"commandcode", "chat-completions", "anthropic"}

// quoted is s as code in a cell.
func quoted(s string) string {
	if s == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(strings.ReplaceAll(s, Key, "<the key>"), "`", "'") + "`"
}

func table(b *strings.Builder, head ...string) func(cells ...string) {
	b.WriteString(strings.ReplaceAll(fmt.Sprintf("| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat(" --- |", len(head))), "|  |", "| |"))
	return func(cells ...string) {
		for i, c := range cells {
			cells[i] = strings.ReplaceAll(strings.ReplaceAll(c, "|", `\|`), "\n", " ")
		}
		b.WriteString(strings.ReplaceAll("| "+strings.Join(cells, " | ")+" |\n", "|  |", "| |"))
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func errorTable(provider string) string {
	var b strings.Builder
	row := table(&b, "answer", "body", "code", "status", "message", "asked again")
	for _, e := range Errors {
		if e.Provider != provider {
			continue
		}
		answer := fmt.Sprint(e.Status)
		if e.Status == 0 {
			answer = "200"
		}
		row(answer, quoted(e.Body), quoted(string(e.Code)), fmt.Sprint(e.As), quoted(e.Message), string(e.Retry))
	}
	return b.String()
}

func connectionTable() string {
	var b strings.Builder
	row := table(&b, "what happens", "code", "message holds", "asked again")
	for _, f := range connectionFaults {
		again := yes(f.want.retry)
		if f.told {
			again = "only if nothing was said"
		}
		row(f.name, quoted(string(f.want.code)), quoted(f.want.says), again)
	}
	return b.String()
}

func usageTable(provider string) string {
	var b strings.Builder
	row := table(&b, "member", "bucket", "OpenAI usage")
	for _, u := range Usages {
		if u.Provider == provider {
			member, remark, _ := strings.Cut(u.Member, ", if")
			names := strings.Split(member, ", ")
			for i, n := range names {
				names[i] = quoted(n)
			}
			if member = strings.Join(names, ", "); remark != "" {
				member += ", if" + remark
			}
			row(member, quoted(string(u.Bucket)), u.Bucket.openAI())
		}
	}
	return b.String()
}

func finishTable() string {
	var b strings.Builder
	row := table(&b, "provider", "the upstream's word", "finish reason")
	for _, provider := range wires {
		for _, reason := range []pipeline.Reason{pipeline.ReasonStop, pipeline.ReasonLength, pipeline.ReasonContentFilter, pipeline.ReasonFault} {
			var words []string
			for _, e := range Ends {
				if e.Provider == provider && e.Reason == reason {
					words = append(words, quoted(e.Word))
				}
			}
			becomes := quoted(reason.String())
			if reason == pipeline.ReasonFault {
				becomes = "an error: " + quoted(string(pipeline.CodeUpstream))
			}
			if len(words) > 0 {
				row(provider, strings.Join(words, ", "), becomes)
			}
		}
	}
	return b.String()
}

func quirkTable() string {
	var b strings.Builder
	row := table(&b, "provider", "", "test")
	for _, q := range Quirks {
		row(q.Provider, q.What, quoted(q.Test))
	}
	return b.String()
}

// presetQuirk is what a field of a preset says, and the test that pins it; "" for nothing of note.
func presetQuirk(t *testing.T, field string, p *chatcompletions.Preset) (what, test string) {
	t.Helper()
	list := func(names []string) string {
		q := make([]string, len(names))
		for i, n := range names {
			q[i] = quoted(n)
		}
		return strings.Join(q, ", ")
	}
	if reflect.ValueOf(*p).FieldByName(field).IsZero() {
		switch field {
		case "BaseURL":
			return "Where it is must be configured.", "TestNew"
		case "Reasoning":
			return "Reasoning of earlier turns is not replayed.", "TestRequests"
		case "Developer":
			return "System and developer messages become part of the system prompt.", "TestRequests"
		}
		return "", ""
	}
	switch field {
	case "BaseURL":
		return "It is at " + quoted(p.BaseURL) + ".", "TestBaseURL"
	case "BaseVariables":
		return "Its base URL is read from " + list(p.BaseVariables) + ".", "TestPresetVariables"
	case "Scheme", "Port", "Path":
		return "A base URL without a " + strings.ToLower(field) + " gets " + quoted(reflect.ValueOf(*p).FieldByName(field).String()) + ".", "TestBaseURL"
	case "KeyVariables":
		return "Its key is read from " + list(p.KeyVariables) + ".", "TestPresetVariables"
	case "KeyOptional":
		return "It needs no key.", "TestNew"
	case "Placeholder":
		return "Without a key, " + quoted(p.Placeholder) + " is sent for one.", "TestWire"
	case "KeyHeader":
		return "The key goes into the field " + quoted(p.KeyHeader) + ", as it is.", "TestWire"
	case "Header":
		return "Each request brings " + quoted(p.Header[0][0]+": "+p.Header[0][1]) + ".", "TestWire"
	case "Reseller":
		return "Its models are those of others: they are always served under its name.", "TestResellers"
	case "Deployments":
		return "Models are deployments and stand in the path, unless the base URL ends in `/v1`; they cannot be listed, and must be configured.", "TestWire"
	case "Query":
		return "Requests to deployments bring " + quoted(p.Query) + ", unless the base URL has a query.", "TestWire"
	case "MaxTokens":
		return "The bound of an answer is called " + quoted(p.MaxTokens) + ".", "TestRequests"
	case "Reasoning":
		return "Reasoning of earlier turns is replayed as " + quoted(p.Reasoning) + ".", "TestRequests"
	case "Developer":
		return "System and developer messages stay what and where they are.", "TestRequests"
	case "Signature":
		return "Each call of the history brings the signature " + quoted(p.Signature) + ": its own does not reach clients.", "TestRequests"
	case "Initiator":
		return "`X-Initiator` says whether a person or a tool asks, `Copilot-Vision-Request` that there are images.", "TestInitiator"
	}
	t.Errorf("nobody has described %s of a preset", field)
	return "", ""
}

func presetTable(t *testing.T) string {
	var b strings.Builder
	row := table(&b, "preset", "", "test")
	for _, name := range slices.Sorted(maps.Keys(chatcompletions.Presets)) {
		p := chatcompletions.Presets[name]
		for f := range reflect.TypeFor[chatcompletions.Preset]().Fields() {
			if what, test := presetQuirk(t, f.Name, &p); what != "" {
				row(quoted(name), what, quoted(test))
			}
		}
	}
	return b.String()
}

// TestDocument: docs/upstreams.md says what the tables say.
func TestDocument(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "upstreams.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	tables := map[string]string{"connection faults": connectionTable(), "errors of all": errorTable(""), "finish reasons": finishTable(), "quirks": quirkTable(), "presets": presetTable(t)}
	for _, w := range wires {
		tables["errors of "+w], tables["usage of "+w] = errorTable(w), usageTable(w)
	}
	for name, want := range tables {
		start, end := "<!-- "+name+": written by go test ./upstream/upstreamtest -update -->\n", "<!-- end of "+name+" -->\n"
		before, rest, ok := strings.Cut(text, start)
		got, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no place for the table of %s", path, name)
		}
		if want = "\n" + want + "\n"; got != want {
			if !*update {
				t.Errorf("the table of %s in %s is stale: go test ./upstream/upstreamtest -update", name, path)
			}
			text = before + start + want + end + after
		}
	}
	codes := map[pipeline.Code]bool{pipeline.CodeEmpty: true, pipeline.CodeInvalidToolCall: true, pipeline.CodeStalled: true}
	for _, e := range Errors {
		codes[e.Code] = true
	}
	for _, f := range connectionFaults {
		codes[f.want.code] = true
	}
	for code := range codes {
		if !strings.Contains(text, "| `"+string(code)+"` | ") {
			t.Errorf("%s does not explain %s", path, code)
		}
	}
	if *update && text != string(b) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTables holds the tables together.
func TestTables(t *testing.T) {
	known := append([]string{"", "replay"}, wires...)
	seen := map[string]bool{}
	once := func(provider, what string) {
		if !slices.Contains(known, provider) {
			t.Errorf("%s is no provider", provider)
		}
		if key := provider + " " + what; seen[key] {
			t.Errorf("%s is there twice", key)
		} else {
			seen[key] = true
		}
	}
	for _, e := range Errors {
		once(e.Provider, fmt.Sprint(e.Status, e.Body))
		if e.Status != 0 && http.StatusText(e.Status) == "" && e.Status != 529 || http.StatusText(e.As) == "" && e.As != 529 && e.As != 499 {
			t.Errorf("%+v", e)
		}
	}
	for _, u := range Usages {
		once(u.Provider, "usage "+u.Member)
		if !strings.Contains(u.Sample, ":7") && u.Bucket != Output {
			t.Errorf("%s tells no 7", u.Sample)
		}
	}
	for _, e := range Ends {
		once(e.Provider, "finish "+e.Word)
	}
	for _, q := range Quirks {
		once(q.Provider, q.What)
		if !strings.HasSuffix(q.What, ".") || !testsOf(t, strings.ReplaceAll(q.Provider, "-", ""))[q.Test] {
			t.Errorf("%+v", q)
		}
	}
}

// testsOf are the names of the tests in a folder beside this one.
func testsOf(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files of tests, %v", folder, len(files), err)
	}
	names := map[string]bool{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllSubmatch(b, -1) {
			names[string(m[1])] = true
		}
	}
	return names
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
