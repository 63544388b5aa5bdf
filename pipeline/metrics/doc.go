// Package metrics counts what turns do and what they use, for Prometheus and what reads its text format. It imports pipeline and
// the metrics library, and keeps strings only: nothing of a Turn is retained.
//
// Labels hold names of ours and of the host config: statuses, codes, providers, ids of models that are served. What a client
// writes never becomes one, and each label has a limit on its values, behind which all is "other": the series of a process stay
// below a thousand, whatever happens to it.
package metrics
