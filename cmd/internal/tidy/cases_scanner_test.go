package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestCaseNoLineLimit: B024. bufio.Scanner gives up at 64 KiB unless it is told otherwise, and that is forgotten in the second
// place that uses it. Lines of an upstream are read by codec.LineReader and nothing else.
func TestCaseNoLineLimit(t *testing.T) {
	files := 0
	err := filepath.WalkDir(filepath.Join("..", "..", ".."), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		files++
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && (s.Sel.Name == "NewScanner" || s.Sel.Name == "Scanner") {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "bufio" {
					t.Errorf("%s uses bufio.%s", name, s.Sel.Name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || files < 50 {
		t.Errorf("%d files, %v", files, err)
	}
}
