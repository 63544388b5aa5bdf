// Package engine runs turns. Runner is the single path on which a turn reaches a model; every face uses it. The library API
// around it (engine-api.md) joins it here. The package imports codec and pipeline and touches neither stdin nor stdout.
package engine
