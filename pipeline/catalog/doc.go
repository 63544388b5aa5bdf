// Package catalog finds the skills and modes of a server: where they lie, what their front matter says, which file of a name runs
// and which ones it shadows, and those that are built in. It imports pipeline and a YAML parser, and reads files.
//
// Discovery happens once, before a server is ready (rulings 5). What it found is held in memory and never changes, so that all
// of it may be used from many goroutines; nothing is read again, and nothing that a file says is ever executed.
//
// One order decides both what is listed and what runs:
//
//	modes   <cwd>/.amplifier/modes · <home>/.amplifier/modes · built in
//	skills  directories of the host config · environment · <cwd>/.amplifier/skills · <home>/.amplifier/skills · built in
//
// A file that cannot be understood costs a warning and claims no name. A root that is there and cannot be read is a failure of
// discovery: the lists are then empty, and Err says why. Skills and modes fail apart from each other.
//
// Users read all this in docs/modes-and-skills.md. Its examples, lists, reasons and limits are tested against this package.
//
// # Files
//
//	catalog.go   Entry, Shadow, the claims on names
//	mode.go      Modes
//	skill.go     Skills
//	expand.go    a skill's body with its arguments
//	walk.go      the SKILL.md files below a root
//	document.go  a Markdown file and its front matter, from untrusted hands
//	fields.go    what the front matter says under a key
//	builtin/     our own modes and skills
package catalog
