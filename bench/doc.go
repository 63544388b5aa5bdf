// Package bench measures the translation from the upstream's bytes to the client's frames, in memory and over loopback, and the
// transport to the upstream. Each claim of speed stands beside something measured in the same run. README.md keeps the figures,
// dated.
package bench
