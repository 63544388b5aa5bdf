package ops

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"amplifier-agent/codec"
	"amplifier-agent/routes"
)

// document is OpenAPI 3.1. It is written by hand, and held against the routes by a test (Check).
//
//go:embed openapi.json
var document string

const versionMark = `"{{version}}"`

// Document returns the OpenAPI document of a server of the given version.
func Document(version string) []byte {
	return []byte(strings.Replace(document, versionMark, string(codec.AppendString(nil, version)), 1))
}

// optional are paths of the document that a server may do without.
var optional = map[string]bool{metricsPath: true}

// Check reports where the document and the routes of a server differ: in paths, in methods, or in whether a key is needed.
func Check(list []routes.Route) error {
	var doc struct {
		Paths map[string]map[string]struct {
			Security *[]map[string]any `json:"security"`
		} `json:"paths"`
	}
	if err := codec.Unmarshal([]byte(document), &doc); err != nil {
		return fmt.Errorf("OpenAPI document: %w", err)
	}
	var errs []error
	served := map[string]bool{}
	for _, r := range list {
		path, name := r.Path, r.Method+" "+r.Path
		if r.Prefix {
			path = prefixed(doc.Paths, r.Path)
		}
		op, ok := doc.Paths[path][strings.ToLower(r.Method)]
		if !ok {
			errs = append(errs, fmt.Errorf("%s is served and not documented", name))
			continue
		}
		served[path+" "+strings.ToLower(r.Method)] = true
		open, keyed := op.Security != nil && len(*op.Security) == 0, op.Security == nil
		if op.Security != nil {
			for _, way := range *op.Security {
				open = open || len(way) == 0
				keyed = keyed || len(way) > 0
			}
		}
		if r.Open && !open || !r.Open && !keyed {
			errs = append(errs, fmt.Errorf("%s: the document is wrong on whether it needs a key", name))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for method := range doc.Paths[path] {
			if !served[path+" "+method] && !optional[path] {
				errs = append(errs, fmt.Errorf("%s %s is documented and not served", strings.ToUpper(method), path))
			}
		}
	}
	return errors.Join(errs...)
}

// prefixed is the documented path that stands for all that begin with prefix.
func prefixed[V any](paths map[string]V, prefix string) string {
	for path := range paths {
		if rest, ok := strings.CutPrefix(path, prefix); ok && strings.HasPrefix(rest, "{") && strings.HasSuffix(rest, "}") {
			return path
		}
	}
	return ""
}
