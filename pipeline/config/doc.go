// Package config is what a program around the engine needs to know of its surroundings: the home folder, the host config and
// workspace slugs, credentials. It reads files, and writes credentials.json under a lock; it does no other I/O. It imports codec,
// atomicfile and secret. A Host is the caller's own memory.
//
// # Files
//
//	host.go       Host, Default, Load: the host config with defaults filled in
//	keys.go       Keys, the one table of what may stand in it
//	parse.go      Parse, which holds a file against the table
//	syntax.go     what must be right before that: UTF-8, JSON, no key twice
//	errors.go     Error, its codes, and the hints at what was meant
//	show.go       JSON and Show, a Host as a file again
//	home.go       Home, File
//	credentials.go       Resolve: what a provider is reached with, and where that was found
//	credentials_file.go  credentials.json, read and written
//	workspace.go  Workspace, CheckWorkspace
package config
