// Package tidy holds tests of the tree itself.
package tidy

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "amplifier-agent/"

// rule says where a package may be imported from.
type rule struct {
	imported string   // path or prefix ending in /
	from     []string // folders that may, with what is below them
	reason   string
}

var thirdParty = []rule{
	{"github.com/valyala/fasthttp", []string{"routes", "upstream", "cmd/amplifier-agent", "bench"},
		"HTTP is known at the two ends only; stages and the pipeline are tested without it"},
	{"github.com/goccy/go-json", []string{"codec"}, "one place decides how JSON off the hot path is read and written"},
	{"github.com/klauspost/compress/", []string{"codec", "upstream/simulator", "upstream/upstreamtest"}, "one place decides what is decompressed, and with which bounds"},
	{"github.com/goccy/go-yaml", []string{"pipeline/catalog"}, "one place reads front matter, with its bounds"},
	{"github.com/VictoriaMetrics/metrics", []string{"pipeline/metrics"}, "one place knows the metrics library"},
	{"github.com/gofrs/flock", []string{"cmd/internal/lifecycle", "pipeline/config", "pipeline/ledger"}, "locks across processes guard files that several servers share, and nothing else"},
	{"encoding/json", []string{"upstream/commandcode/fixtures", "upstream/upstreamtest", "routes/chat/chattest"}, "JSON off the hot path goes through codec; fixtures serve tests, which want a second opinion"},
}

// layers are folders and what of this module they may import, besides what is below them. The first match counts, so that
// the more special one comes first.
var layers = []struct {
	folder string
	may    []string
	reason string
}{
	{"codec", nil, "bytes only"},
	{"pipeline/atomicfile", nil, "files only"},
	{"pipeline/secret", []string{"codec"}, "text only"},
	{"pipeline/config", []string{"codec", "pipeline/atomicfile", "pipeline/secret"}, "files and names; it knows nothing of turns"},
	{"pipeline/catalog", []string{"codec", "pipeline"}, "skills and modes are files"},
	{"pipeline/transcript", []string{"codec", "pipeline", "pipeline/atomicfile"}, "it stores what it is given"},
	{"pipeline/ledger", []string{"codec", "pipeline", "pipeline/atomicfile"}, "it writes down what it is told"},
	{"pipeline/metrics", []string{"pipeline"}, "it counts what it is told"},
	{"pipeline/fetch", []string{"codec", "pipeline"}, "a client of the web: it knows no face"},
	{"pipeline/engine", []string{"codec", "pipeline", "pipeline/tool"}, "the library knows neither faces nor providers"},
	{"pipeline/session", []string{"codec", "pipeline", "pipeline/engine"}, "sessions run turns through the engine"},
	{"pipeline", []string{"codec"}, "types and contracts: no I/O, no HTTP, no provider"},
	{"stages", []string{"codec", "pipeline"}, "a stage that needs more declares an interface of its own"},
	{"upstream/simulator", []string{"codec"}, "it must not share the mistakes of the client that it checks"},
	{"upstream/recording", []string{"codec", "pipeline/atomicfile", "pipeline/secret", "upstream"}, "recordings are files; it knows no provider"},
	{"upstream/upstreamtest", []string{"codec", "pipeline", "pipeline/engine", "stages"}, "it looks at rounds as turns do, and knows no provider"},
	{"upstream", []string{"codec", "pipeline", "pipeline/secret"}, "providers know neither stages nor faces"},
	{"routes", []string{"codec", "pipeline", "pipeline/engine", "pipeline/session", "pipeline/catalog", "pipeline/config", "pipeline/metrics"}, "faces know neither stages nor providers"},
}

// files calls f for each Go file that is not a test, with its folder below the module's root and its imports.
func files(t *testing.T, f func(folder, file string, imports []string)) {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		var imports []string
		for _, i := range file.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			imports = append(imports, p)
		}
		f(path.Dir(filepath.ToSlash(rel)), filepath.ToSlash(rel), imports)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// within reports whether folder is dir or below it.
func within(folder, dir string) bool { return folder == dir || strings.HasPrefix(folder, dir+"/") }

func TestImportDirection(t *testing.T) {
	seen := 0
	files(t, func(folder, file string, imports []string) {
		for _, layer := range layers {
			if !within(folder, layer.folder) {
				continue
			}
			for _, p := range imports {
				p, ours := strings.CutPrefix(p, module)
				if !ours {
					continue
				}
				seen++
				ok := within(p, layer.folder)
				for _, m := range layer.may {
					ok = ok || p == m
				}
				if !ok {
					t.Errorf("%s imports %s: %s", file, p, layer.reason)
				}
			}
			break
		}
	})
	if seen == 0 {
		t.Error("no import was checked: is the root right?")
	}
}

func TestThirdPartyImports(t *testing.T) {
	files(t, func(folder, file string, imports []string) {
		for _, p := range imports {
			for _, r := range thirdParty {
				if p != r.imported && !(strings.HasSuffix(r.imported, "/") && strings.HasPrefix(p, r.imported)) {
					continue
				}
				ok := false
				for _, dir := range r.from {
					ok = ok || within(folder, dir)
				}
				if !ok {
					t.Errorf("%s imports %s: %s", file, p, r.reason)
				}
			}
		}
	})
}

// TestStandardStreams: the library leaves stdin and stdout to whoever embeds it.
func TestStandardStreams(t *testing.T) {
	files(t, func(folder, file string, _ []string) {
		if !within(folder, "pipeline") {
			return
		}
		b, err := os.ReadFile(filepath.Join("..", "..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"os.Stdin", "os.Stdout", "fmt.Print"} {
			if strings.Contains(string(b), name) {
				t.Errorf("%s uses %s: all output of the library goes through what is injected", file, name)
			}
		}
	})
}

// TestTopLevel: the top level is fixed.
func TestTopLevel(t *testing.T) {
	allowed := map[string]bool{"pipeline": true, "codec": true, "stages": true, "routes": true, "upstream": true, "bench": true, "cmd": true, "docs": true}
	entries, err := os.ReadDir(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !allowed[e.Name()] {
			t.Errorf("the folder %s is none of the top level", e.Name())
		}
	}
}
