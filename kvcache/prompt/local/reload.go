package local

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// watch looks at the files at intervals.
func (s *Source) watch(ctx context.Context) {
	t := time.NewTicker(s.opts.Reload)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.reload(ctx)
		}
	}
}

func (s *Source) reload(ctx context.Context) {
	for name, e := range s.models {
		if ctx.Err() != nil {
			return
		}
		if name == e.name { // not an alias
			s.refresh(ctx, e)
		}
	}
}

// refresh loads a model's files anew if they changed. What is in force stays so
// when they can't be used.
func (s *Source) refresh(ctx context.Context, e *entry) {
	now := e.now.Load()
	dir, err := resolveDir(e.model.Dir, e.model.Revision)
	var stamps []stamp
	if err == nil {
		_, stamps, err = list(dir)
	}
	if err == nil && dir == now.dir && slices.Equal(stamps, now.stamps) {
		e.failed = nil
		s.note(ctx, e, nil)
		return
	}
	if err == nil && e.failed != nil && slices.Equal(stamps, e.failed) {
		return // said already
	}
	var f *files
	if err == nil {
		f, err = readFiles(dir)
	}
	if err != nil {
		s.note(ctx, e, err)
		return
	}
	a := new(assets)
	if *a = *now; f.hash == now.hash {
		a.dir, a.stamps = f.dir, f.stamps
	} else if a, err = build(e.model, f, &s.opts); err != nil {
		e.failed = f.stamps
		s.note(ctx, e, err)
		return
	}
	e.failed = nil
	e.now.Store(a)
	s.note(ctx, e, nil)
	if a.hash != now.hash && s.opts.Logger != nil {
		s.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "model files reloaded",
			slog.String("model", e.name), slog.String("assets", a.hash))
	}
}

// note remembers how an attempt went, and says so when that is new.
func (s *Source) note(ctx context.Context, e *entry, err error) {
	old := e.err.Load()
	if err == nil {
		e.err.Store(nil)
		return
	}
	e.err.Store(&err)
	if s.opts.Logger == nil || old != nil && (*old).Error() == err.Error() {
		return
	}
	s.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "model files can't be used; the former ones stay in force",
		slog.String("model", e.name), slog.String("dir", e.model.Dir), slog.Any("error", err))
}

// Status is what serves one model.
type Status struct {
	// Model is its name in Options.Models.
	Model string
	// Dir is the directory that the files were read from.
	Dir string
	// Assets identifies the files' contents, as in [prompt.Encoding].
	Assets string
	// Type is config.json's model_type; Class the tokenizer class of transformers
	// that they make.
	Type, Class string
	// Template is false when the model has no chat template: it then serves
	// completions only.
	Template bool
	// Dated is set when the template prints the date: prompts then depend on
	// Model.TimeZone being the engine's.
	Dated bool
	// Err is why the files as they are now can't be used, nil if they are in force.
	Err error
}

// Status returns what serves each model, sorted by name.
func (s *Source) Status() []Status {
	var out []Status
	for name, e := range s.models {
		if name != e.name {
			continue
		}
		a := e.now.Load()
		st := Status{Model: name, Dir: a.dir, Assets: a.hash, Type: a.modelType, Class: a.class, Template: a.plain != nil}
		for _, t := range [...]*chatTemplate{a.plain, a.tools} {
			st.Dated = st.Dated || t != nil && t.UsesClock()
		}
		if err := e.err.Load(); err != nil {
			st.Err = *err
		}
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b Status) int { return strings.Compare(a.Model, b.Model) })
	return out
}
