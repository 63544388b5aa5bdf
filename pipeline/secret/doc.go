// Package secret is the one place that masks: Mask for keys that are known, in logs and in words for clients; JSON for whatever
// looks like a credential in a config that is shown. CleanKey takes off what pasting leaves around a key. It imports codec. What it returns is the caller's own memory, or what it was
// given if there was nothing to mask.
package secret
