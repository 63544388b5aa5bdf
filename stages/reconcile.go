package stages

import (
	"context"
	"log/slog"

	"github.com/rs/xid"

	"amplifier-agent/pipeline"
)

const (
	unnamed   = "http-" // and an id: the session of a client that names none
	encodedID = 20      // bytes of an id in text
)

// Conversations keeps what clients say their conversations are. Begin registers a turn and starts to store messages, which do not
// change any more. Saved waits until they are stored, but not for long; end gives the turn up. Both may be called more than once.
type Conversations interface {
	Begin(ctx context.Context, k pipeline.SessionKey, messages []pipeline.Message, repaired bool) (resumed bool, saved, end func())
}

// Reconciling is what Reconcile works with.
type Reconciling struct {
	Workspace     string
	SessionID     func(header string) string // of a header that is not empty (rulings 32)
	Repair        func([]pipeline.Message) (repaired []pipeline.Message, fixes []string)
	Conversations Conversations // nil stores nothing
	Log           *slog.Logger
}

// Reconcile makes the client's view of the conversation the one that counts (http-face.md, "Client-wins reconciliation"; rulings
// 32, 33): it is repaired where an upstream would refuse it, and stored if the client names a session. The write overlaps with the
// upstream's answer and is over before the turn's end is told, unless the disk hangs.
func Reconcile(r Reconciling) pipeline.Stage {
	return pipeline.Stage{
		Name: "reconcile",
		Request: func(ctx context.Context, t *pipeline.Turn) error {
			var fixes []string
			if t.Messages, fixes = r.Repair(t.Messages); len(fixes) > 0 {
				r.Log.Warn("history repaired", "turn", t.ID, "fixes", fixes)
			}
			if t.Header.SessionID == "" {
				id := make([]byte, len(unnamed)+encodedID)
				xid.New().Encode(id[copy(id, unnamed):])
				t.Session = string(id)
				return nil
			}
			t.Session = r.SessionID(t.Header.SessionID)
			if r.Conversations == nil {
				return nil
			}
			key := pipeline.SessionKey{Workspace: r.Workspace, Session: t.Session}
			var end func()
			t.Resumed, t.Saved, end = r.Conversations.Begin(ctx, key, t.Messages, len(fixes) > 0)
			t.AtEnd(end)
			return nil
		},
		Events: func(t *pipeline.Turn, in pipeline.Stream) pipeline.Stream {
			if t.Saved == nil {
				return in
			}
			return func(yield func(*pipeline.Event, error) bool) {
				in(func(ev *pipeline.Event, err error) bool {
					if err != nil || ev.Kind == pipeline.Finish {
						t.Saved()
					}
					return yield(ev, err)
				})
			}
		},
	}
}
