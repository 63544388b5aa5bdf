package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
	"golang.org/x/sync/errgroup"

	"amplifier-agent/pipeline"
)

// enumerateTimeout is how long one provider may take to list its models (rulings 5).
const enumerateTimeout = 15 * time.Second

// ErrNoModels is returned by Enumerate when no provider listed any.
var ErrNoModels = errors.New("no provider yielded a model")

// Registry holds the models that are served, in the order of the providers and then their own. It does not change.
type Registry struct {
	list []pipeline.Served
	byID map[string]int // also <provider>/<id> of each
}

// Listing is what a provider said when it was asked for its models.
type Listing struct {
	Provider pipeline.Provider
	Models   []pipeline.Model
	Err      error // nil with no models means that it has none
}

// List asks all providers at once for their models, each for as long as it may take.
func List(ctx context.Context, providers ...pipeline.Provider) []Listing {
	lists := make([]Listing, len(providers))
	var g errgroup.Group
	for i, p := range providers {
		g.Go(func() error {
			ctx, cancel := context.WithTimeoutCause(ctx, enumerateTimeout, fmt.Errorf("no answer within %s", enumerateTimeout))
			defer cancel()
			models, err := p.Models(ctx)
			lists[i] = Listing{p, models, err}
			return nil
		})
	}
	_ = g.Wait() // the functions report through lists
	return lists
}

// Register makes a registry of what providers have listed, which may be nothing. If two serve one id, the first keeps it bare and
// the others serve it as <provider>/<id>, which is accepted for each (rulings 12).
func Register(lists []Listing) *Registry {
	r := &Registry{byID: map[string]int{}}
	for _, l := range lists {
		if l.Err != nil {
			continue
		}
		for _, m := range l.Models {
			r.add(l.Provider, m)
		}
	}
	return r
}

// Enumerate is List and then Register. A provider that fails or lists nothing is logged and skipped; the error, which tells what
// each failed with, comes only if none is left.
func Enumerate(ctx context.Context, log *slog.Logger, providers ...pipeline.Provider) (*Registry, error) {
	lists := List(ctx, providers...)
	var errs []error
	for _, l := range lists {
		switch name := l.Provider.Name(); {
		case l.Err != nil:
			err := fmt.Errorf("%s: %w", name, l.Err)
			errs = append(errs, err)
			log.Error("provider skipped: it cannot list its models", "provider", name, "error", err)
		case len(l.Models) == 0:
			errs = append(errs, fmt.Errorf("%s: it lists no models", name))
			log.Warn("provider skipped: it lists no models", "provider", name)
		}
	}
	r := Register(lists)
	if len(r.list) == 0 {
		return nil, errors.Join(append(errs, ErrNoModels)...)
	}
	return r, nil
}

// Reseller is implemented by providers that may serve the models of others. Reseller returns who it is, for people, or "" if it is
// none. A reseller's models are always served under its name, so that they never take the place of their maker's (rulings 12).
type Reseller interface {
	Reseller() string
}

// Resolver is implemented by providers that know their models under more names than the ids that they list. Resolve returns the id
// that a name means, "" if it means none or several. Requests name ids all the same (rulings 12): it is for hints.
type Resolver interface {
	Resolve(name string) string
}

func (r *Registry) add(p pipeline.Provider, m pipeline.Model) {
	s := pipeline.Served{ID: m.ID, Provider: p, Model: m}
	full := p.Name() + "/" + m.ID
	label := ""
	if reseller, ok := p.(Reseller); ok {
		label = reseller.Reseller()
	}
	if label != "" {
		if s.Model.Name == "" {
			s.Model.Name = m.ID
		}
		if suffix := " (" + label + ")"; !strings.HasSuffix(s.Model.Name, suffix) {
			s.Model.Name += suffix
		}
	}
	if _, taken := r.byID[s.ID]; taken || label != "" {
		s.ID = full
	}
	if _, taken := r.byID[s.ID]; taken {
		return // listed twice by its provider, or another's bare id looks like its full one
	}
	r.byID[s.ID] = len(r.list)
	if _, taken := r.byID[full]; !taken {
		r.byID[full] = len(r.list)
	}
	r.list = append(r.list, s)
}

// All returns the models that are served. The caller does not change it.
func (r *Registry) All() []pipeline.Served { return r.list }

// Get returns the model that is served as id, which matches exactly.
func (r *Registry) Get(id string) (pipeline.Served, bool) {
	i, ok := r.byID[id]
	if !ok {
		return pipeline.Served{}, false
	}
	return r.list[i], true
}

// Lookup implements stages.ModelSet.
func (r *Registry) Lookup(model string) (pipeline.Provider, string, error) {
	s, ok := r.Get(model)
	if !ok {
		return nil, "", &pipeline.Error{Code: pipeline.CodeUnknownModel, Origin: pipeline.OriginClient, Param: "model", Message: fmt.Sprintf(
			"model '%s' is not served by this instance. Call GET /v1/models for the list of served models.%s", pipeline.Short(model), r.hint(model))}
	}
	return s.Provider, s.Model.ID, nil
}

// hint names the id that was most likely meant.
func (r *Registry) hint(model string) string {
	if len(model) > 200 {
		return ""
	}
	if id := r.resolve(model); id != "" {
		return didYouMean(id)
	}
	best, bestDistance := "", len(model)/2+1
	lower := strings.ToLower(model)
	for _, s := range r.list {
		id := strings.ToLower(s.ID)
		d := levenshtein.ComputeDistance(lower, id)
		if strings.HasSuffix(id, "/"+lower) {
			d = 0
		}
		if d < bestDistance {
			best, bestDistance = s.ID, d
		}
	}
	if best == "" {
		return ""
	}
	return didYouMean(best)
}

func didYouMean(id string) string { return " Did you mean '" + id + "'?" }

// resolve asks the providers which of their models a name means, with or without the provider's own before it. It returns the id
// under which that model is served.
func (r *Registry) resolve(model string) string {
	asked := "" // models of one provider stand together
	for _, s := range r.list {
		p, ok := s.Provider.(Resolver)
		if !ok || s.Provider.Name() == asked {
			continue
		}
		asked = s.Provider.Name()
		id := p.Resolve(strings.TrimPrefix(model, asked+"/"))
		if id == "" {
			continue
		}
		for _, s := range r.list {
			if s.Model.ID == id && s.Provider.Name() == asked {
				return s.ID
			}
		}
	}
	return ""
}
