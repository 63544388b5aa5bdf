package secret

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
)

// Handler returns a handler that masks the message and every attribute of what is logged before h sees it: keys, strings, groups,
// errors and values of any other type, which become strings for that. What was bound with WithAttrs is masked by what is known
// then. Of a nil Mask it is h.
func (m *Mask) Handler(h slog.Handler) slog.Handler {
	if m == nil {
		return h
	}
	return &handler{m, h}
}

type handler struct {
	mask *Mask
	next slog.Handler
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	masked := slog.NewRecord(r.Time, r.Level, h.mask.String(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		masked.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, masked)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.mask, h.next.WithAttrs(h.attrs(attrs))}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.mask, h.next.WithGroup(h.mask.String(name))}
}

func (h *handler) attrs(attrs []slog.Attr) []slog.Attr {
	masked := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		masked[i] = h.attr(a)
	}
	return masked
}

func (h *handler) attr(a slog.Attr) slog.Attr {
	if a.Equal(slog.Attr{}) {
		return a // which handlers leave out
	}
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(h.mask.String(v.String()))
	case slog.KindGroup:
		v = slog.GroupValue(h.attrs(v.Group())...)
	case slog.KindAny:
		// What lies inside shows only in words, and each handler would find its own: so the words are found here.
		switch r := reflect.ValueOf(v.Any()); {
		case !r.IsValid(): // nil
		case r.Kind() == reflect.Slice && r.Type().Elem().Kind() == reflect.Uint8:
			v = slog.StringValue(h.mask.String(string(r.Bytes())))
		default:
			v = slog.StringValue(h.mask.String(fmt.Sprintf("%+v", v.Any())))
		}
	default: // numbers, times and truth values hold no secret
	}
	return slog.Attr{Key: h.mask.String(a.Key), Value: v}
}
