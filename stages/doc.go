// Package stages holds the links of a turn, one file each. A stage is a constructor that takes what it needs and returns a
// pipeline.Stage; where it needs something of the rest of the program it declares its own small interface. The package imports
// codec and pipeline.
//
// The order of a turn, outermost first, is set in cmd/amplifier-agent/wire.go:
//
//	Auth          bearer key; the server runs it for every route that is not open, before it looks for the route
//	Ready         refuses while the server is not able to serve
//	Decode        chat-completions request → Messages, Tools, Model, Stream
//	Model         model → Provider and its own id
//	Mode          the directive in system and developer messages
//	History       splits the conversation into History and Prompt
//	Containment   client system messages become one user message at the head
//	ToolMount     the client's tools: offered upstream, numbered on the way back
//
// and of a round, which the runner applies:
//
//	EventMap      one call per id, whole and in order; how the round really ended; text that is safe to pass on
//	UsageFold     tokens and cost, summed once
package stages
