// Package stages holds the links of a turn, one file each. A stage is a constructor that takes what it needs and returns a
// pipeline.Stage; where it needs something of the rest of the program it declares its own small interface. The package imports
// codec and pipeline.
//
// The order of a turn, outermost first, is set in cmd/amplifier-agent/wire.go:
//
//	Auth          bearer key; the server runs it for every route that is not open, before it looks for the route
//	Account       tells the books how the turn ended, whatever becomes of it
//	Ready         refuses while the server is not able to serve
//	Decode        chat-completions request → Messages, Tools, Model, Stream, Sampling
//	Model         model, or a mode's alias → Provider and its own id
//	Mode          the directive in system and developer messages; the mode's instructions and tool policy
//	Images        images that are named by URL, if the host config lets them be fetched
//	Reconcile     the client's history: repaired, and stored under its session
//	History       splits the conversation into History and Prompt
//	Containment   client system messages become one user message at the head, or the system prompt
//	Skill         the text of a skill in place of the words that call it
//	ToolMount     the client's tools: offered upstream, numbered on the way back
//
// and of a round, which the runner applies:
//
//	EventMap      one call per id, whole and in order; how the round really ended; text that is safe to pass on
//	UsageFold     tokens and cost, summed once
package stages
