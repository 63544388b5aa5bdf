package stages

import (
	"context"

	"amplifier-agent/pipeline"
)

var emptySchema = []byte(`{"type":"object","properties":{}}`)

// ToolMount offers the client's tools to the model and numbers the calls on their way back (http-face.md, "Host-provided tools";
// rulings 25). Of two tools with one name the last is mounted, in the place of the first.
func ToolMount() pipeline.Stage {
	return pipeline.Stage{
		Name: "tool mount",
		Request: func(_ context.Context, t *pipeline.Turn) error {
			at := make(map[string]int, len(t.Tools))
			for _, tool := range t.Tools {
				if len(tool.Parameters) == 0 {
					tool.Parameters = emptySchema
				}
				if i, ok := at[tool.Name]; ok {
					t.HostTools[i] = tool
					continue
				}
				at[tool.Name] = len(t.HostTools)
				t.HostTools = append(t.HostTools, tool)
			}
			return nil
		},
		Events: func(_ *pipeline.Turn, in pipeline.Stream) pipeline.Stream {
			return func(yield func(*pipeline.Event, error) bool) {
				calls := 0
				in(func(ev *pipeline.Event, err error) bool {
					if err == nil && ev.Kind == pipeline.ToolCall {
						ev.Index = calls
						calls++
					}
					return yield(ev, err)
				})
			}
		},
	}
}
