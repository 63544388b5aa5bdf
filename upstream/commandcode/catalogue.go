package commandcode

import (
	_ "embed"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed catalogue.tsv
var catalogueTSV string

// known is what is known of a model beyond the gateway's own list, which tells names and context windows only.
type known struct {
	vision, thinking bool
	context, output  int64    // tokens, 0 if unknown
	efforts          []string // that reasoning_effort may name, the least first; none if it takes none
}

// catalogue are the models of the vendor's own client, by id. Columns: id, input modalities, context, output, efforts, reasoning.
var catalogue = sync.OnceValue(func() map[string]known {
	rows := strings.Split(strings.TrimSpace(catalogueTSV), "\n")
	m := make(map[string]known, len(rows))
	for _, row := range rows[1:] {
		f := strings.Split(row, "\t")
		context, _ := strconv.ParseInt(f[2], 10, 64)
		output, _ := strconv.ParseInt(f[3], 10, 64)
		k := known{vision: strings.Contains(f[1], "image"), thinking: f[4] != "" || f[5] == "yes", context: context, output: output}
		if f[4] != "" {
			k.efforts = strings.Split(f[4], ",")
		}
		m[f[0]] = k
	}
	return m
})

// catalogueIDs are the ids of the catalogue.
var catalogueIDs = sync.OnceValue(func() *ids { return newIDs(slices.Sorted(maps.Keys(catalogue()))) })

// capabilities of a model in the words of GET /v1/models. All models of the gateway take tools.
func (k known) capabilities() []string {
	list := []string{"tools"}
	if k.vision {
		list = append(list, "vision")
	}
	if k.thinking {
		list = append(list, "thinking")
	}
	return list
}
