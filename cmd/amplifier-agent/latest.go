package main

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	dashedDate  = regexp.MustCompile(`(^|[-_@:])(20\d\d)-([01]\d)-([0-3]\d)($|[-_@:])`)
	separator   = regexp.MustCompile(`[-_@:]`)
	datePart    = regexp.MustCompile(`^(20\d{6}|\d{4}|\d{6})$`)                            // 20251001, 0613 and 2507, 241022
	sizePart    = regexp.MustCompile(`(?i)^[a-z]?\d+(\.\d+)?(x\d+(\.\d+)?)?[bkm]$`)        // 70b, A22B, 8x7b, 32k, 1M
	versionPart = regexp.MustCompile(`^([[:alpha:]]*?)(\d{1,3}(?:\.\d+)*)([[:alpha:]]*)$`) // 5, v4, 3.1, Qwen3.8, K3, 4o
)

// edition is what a model's id says of the model's age.
type edition struct {
	family  string // the id without versions and dates
	version []int
	date    int
}

// parseEdition takes an id apart: vendor/ stays as it is, and of what follows each part is a date, a size, or may hold a version.
func parseEdition(id string) (e edition) {
	name := id[strings.LastIndexByte(id, '/')+1:]
	e.family = strings.TrimSuffix(id, name)
	name = dashedDate.ReplaceAllString(name, "$1$2$3$4$5")
	for i, part := range separator.Split(name, -1) {
		switch m := versionPart.FindStringSubmatch(part); {
		case datePart.MatchString(part) && i > 0:
			e.date, _ = strconv.Atoi(part) // digits only, and few
		case sizePart.MatchString(part) || m == nil:
			e.family += "-" + part
		default:
			for n := range strings.SplitSeq(m[2], ".") {
				v, _ := strconv.Atoi(n) // too many digits are the largest number there is
				e.version = append(e.version, v)
			}
			if rest := m[1] + m[3]; rest != "" {
				e.family += "-" + rest
			}
		}
	}
	if len(e.version) == 0 && e.date == 0 {
		e.family = "=" + id // its own, also beside ids that lose their version
	}
	return e
}

// newest keeps the newest of each family, at its place in the list. Of equal ones that is the first.
func newest[T any](list []T, id func(T) string) []T {
	best := map[string]int{}
	editions := make([]edition, len(list))
	for i, m := range list {
		e := parseEdition(id(m))
		editions[i] = e
		j, ok := best[e.family]
		if !ok || cmp.Or(slices.Compare(e.version, editions[j].version), cmp.Compare(e.date, editions[j].date)) > 0 {
			best[e.family] = i
		}
	}
	var kept []T
	for i, m := range list {
		if best[editions[i].family] == i {
			kept = append(kept, m)
		}
	}
	return kept
}
