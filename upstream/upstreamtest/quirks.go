package upstreamtest

// Quirk is a row of the table of quirks: something about an upstream that one would not expect, and what the provider does about it.
type Quirk struct {
	Provider string
	What     string
	Test     string // that pins it, in the provider's package
}

// Quirks is the table, but for what is special about presets: that stands in the table of presets. The table is read only.
var Quirks = []Quirk{
	{"commandcode", "On the vendor's own host a surface must be chosen: there is no default.", "TestSurface"},
	{"commandcode", "\"Proxy use detected\", as a 400 or in a stream, switches that surface off until the program is started again; nothing is asked on it meanwhile.", "TestBreaker"},
	{"commandcode", "Model ids tell upper from lower case, and wrong ones are refused with a 403: clients must name them as they are listed, and the error says the id that was meant.", "TestWrongModel"},
	{"commandcode", "Limits of the plan come as a 429 with a window and its end, in seconds, in milliseconds or in words: the client is told until when, and nothing is asked again.", "TestWindows"},
	{"commandcode", "Answers are called `text/event-stream` and are lines of JSON. The parser is not chosen by it; `data:` in front, comments and `[DONE]` do no harm.", "TestOrder"},
	{"commandcode", "A missing `params.system` is replaced by about 7,500 tokens of the gateway's own: it is always sent, a space if there is nothing to say.", "TestRequests"},
	{"commandcode", "`start-step` repeats the whole request. It is passed over without being held, however long it is.", "TestEcho"},
	{"commandcode", "`tool-call` counts, the fragments before it do not; its id is called `toolCallId`, theirs `id`.", "TestCalls"},
	{"commandcode", "`finish` is not the end: a cost may follow, and is waited for 250 ms at most.", "TestCostWait"},
	{"commandcode", "The usage of `finish-step` is that of a step, that of `finish` the total: they are never added.", "TestFinishCompletesTheStep"},
	{"commandcode", "`max_tokens` above 200000 is refused: what is asked for is cut to that.", "TestMaxTokens"},
	{"commandcode", "`max_tokens` above what a model can do is cut to that, where the catalogue knows it.", "TestMaxTokensOfModels"},
	{"commandcode", "`reasoning_effort` `none` is refused, and each model takes some of the others: the nearest below counts.", "TestEffort"},
	{"commandcode", "Models of Google fail on schemas with lists of types that hold `null`: those are rewritten, for them alone.", "TestOnlyGoogleSchemasChange"},
	{"commandcode", "Tokens written to the cache may be told in the words of a model's maker only, in `providerMetadata`.", "TestUsageOfMakers"},
	{"commandcode", "The provider surface is the chat-completions API: its quirks hold there.", "TestChatSurface"},
	{"commandcode", "There is no `tool_choice` `none`: no tools are offered instead.", "TestRequests"},
	{"commandcode", "Images of tools and of the assistant are dropped or refused: they go into a user message behind the batch.", "TestMovedImagesAreLogged"},
	{"commandcode", "`x-session-id` must be a UUID of version 4: it is made from the conversation, and tells nothing about it.", "TestHeaders"},

	{"chat-completions", "`[DONE]` ends nothing: the finish reason does, and without one the answer was cut off.", "TestOrder"},
	{"chat-completions", "Usage follows the finish reason, beside it or in an event of its own: it is waited for 250 ms at most.", "TestTail"},
	{"chat-completions", "Usage in several events: the last counts, nothing is added.", "TestOrder"},
	{"chat-completions", "Reasoning is called `reasoning_content`, `reasoning`, `reasoning_details` or a `thinking` part of the content; some send two of them. One is passed on.", "TestDeltas"},
	{"chat-completions", "Fragments of calls come with all indexes 0, with a new id each, without an id, without an index: they are put together all the same.", "TestCalls"},
	{"chat-completions", "Arguments may be an object instead of a string, `function_call` may stand for `tool_calls`, and one whole `chat.completion` for a stream.", "TestDeltas"},
	{"chat-completions", "An answer may be spread over several choices: all are read as one.", "TestDeltas"},
	{"chat-completions", "An empty list of tools is refused by some: there is none then.", "TestRequests"},
	{"chat-completions", "Images of tools and of the assistant are refused: they go into a user message behind the batch.", "TestRequests"},
	{"chat-completions", "A base URL may bring a query that holds a key, and fields may be configured that do: none of it shows in errors.", "TestSecretsAreMasked"},

	{"anthropic", "Roles alternate, the user's first, and each call has its result in the next message: any history is put into that order.", "TestAnyHistoryIsTaken"},
	{"anthropic", "Ids of calls hold letters, digits, `_` and `-` only, and come once: others are rewritten, the same way each time.", "TestIDsOfAPrefixStay"},
	{"anthropic", "Blank text is refused: it is left out, and a `.` stands where there must be one.", "TestRequests"},
	{"anthropic", "`max_tokens` is required: it is the client's wish, or the configured number, up to what the list of models allows.", "TestMaxTokens"},
	{"anthropic", "Temperatures end at 1, and `top_p` is refused beside one by newer models: what is beyond is cut, what is beside is left out.", "TestRequests"},
	{"anthropic", "Reasoning of earlier turns needs a signature that is not kept: it is not replayed.", "TestRequests"},
	{"anthropic", "The usage of `message_delta` is that of the whole message: it takes the place of that of `message_start`.", "TestUsageReachesTheTurn"},
	{"anthropic", "The API's own tools are run by it: their calls never reach the client.", "TestEvents"},
	{"anthropic", "An account without credit is a 400 `invalid_request_error`; it is told by its words.", "TestRefusals"},

	{"replay", "Models are the files: recordings, and bare streams of `/alpha/generate`.", "TestModels"},
	{"replay", "A recording is played through the provider that it was made by, a refusal as a refusal.", "TestRecordAndReplay"},
	{"replay", "However a file is cut, it means the same.", "TestCutAtEveryByte"},
}
