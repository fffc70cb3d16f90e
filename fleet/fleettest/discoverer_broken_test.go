package fleettest_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
)

// brokenDiscoverer is a way to be wrong, and the case that must notice.
type brokenDiscoverer struct {
	caughtBy string
	follow   func(*registry) fleet.Discoverer
}

// discoverFunc is a Discoverer made of a function.
type discoverFunc func(context.Context, func([]fleet.Worker) error) error

func (f discoverFunc) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	return f(ctx, set)
}

// onList changes every list on its way to set. What it returns as nil is dropped
// in silence. made is called for each Discoverer, so that change may remember.
func onList(made func() func(list []fleet.Worker) []fleet.Worker) func(*registry) fleet.Discoverer {
	return func(r *registry) fleet.Discoverer {
		change := made()
		return discoverFunc(func(ctx context.Context, set func([]fleet.Worker) error) error {
			return r.Discover(ctx, func(list []fleet.Worker) error {
				if list = change(list); list == nil {
					return nil
				}
				return set(list)
			})
		})
	}
}

// onWorker is onList for changes that see one worker alone.
func onWorker(change func(*fleet.Worker)) func(*registry) fleet.Discoverer {
	return onList(func() func([]fleet.Worker) []fleet.Worker {
		return func(list []fleet.Worker) []fleet.Worker {
			for i := range list {
				change(&list[i])
			}
			return list
		}
	})
}

// news passes on a list only if its workers differ from the last one's by what
// key makes of them.
func news(key func(fleet.Worker) string) func(*registry) fleet.Discoverer {
	return onList(func() func([]fleet.Worker) []fleet.Worker {
		var last []string
		return func(list []fleet.Worker) []fleet.Worker {
			keys := []string{}
			for i := range list {
				keys = append(keys, key(list[i]))
			}
			if last != nil && slices.Equal(last, keys) {
				return nil
			}
			last = keys
			return list
		}
	})
}

// around replaces Discover.
func around(f func(r *registry, ctx context.Context, set func([]fleet.Worker) error) error) func(*registry) fleet.Discoverer {
	return func(r *registry) fleet.Discoverer {
		return discoverFunc(func(ctx context.Context, set func([]fleet.Worker) error) error { return f(r, ctx, set) })
	}
}

func forever() { <-make(chan struct{}) }

func brokenDiscoverers() map[string]brokenDiscoverer {
	all := map[string]brokenDiscoverer{}
	for _, group := range []map[string]brokenDiscoverer{brokenLists(), brokenEntries(), brokenOutages(), brokenLives()} {
		maps.Copy(all, group)
	}
	return all
}

func brokenLists() map[string]brokenDiscoverer {
	return map[string]brokenDiscoverer{
		"waits-for-a-change": {"initial", onList(func() func([]fleet.Worker) []fleet.Worker {
			first := true
			return func(list []fleet.Worker) []fleet.Worker {
				if first {
					first = false
					return nil
				}
				return list
			}
		})},
		"sets-twice-at-once": {"initial", around(func(r *registry, ctx context.Context, set func([]fleet.Worker) error) error {
			return r.Discover(ctx, func(list []fleet.Worker) error {
				done := make(chan error, 2)
				for range cap(done) {
					go func() { done <- set(list) }()
				}
				return errors.Join(<-done, <-done)
			})
		})},
		"changes-its-mind": {"initial", around(func(r *registry, ctx context.Context, set func([]fleet.Worker) error) error {
			return r.Discover(ctx, func(list []fleet.Worker) error {
				return errors.Join(set(list), set(list[:len(list)-1]))
			})
		})},
		"takes-none-for-nothing": {"empty", onList(func() func([]fleet.Worker) []fleet.Worker {
			return func(list []fleet.Worker) []fleet.Worker {
				if len(list) == 0 {
					return nil
				}
				return list
			}
		})},
		"looks-once": {"add", onList(func() func([]fleet.Worker) []fleet.Worker {
			var first []fleet.Worker
			return func(list []fleet.Worker) []fleet.Worker {
				if first == nil {
					first = list
				}
				return first
			}
		})},
		"only-adds": {"remove", onList(func() func([]fleet.Worker) []fleet.Worker {
			known := map[string]fleet.Worker{}
			return func(list []fleet.Worker) []fleet.Worker {
				for i := range list {
					known[list[i].Name] = list[i]
				}
				return slices.Collect(maps.Values(known))
			}
		})},
		"doubts-that-all-left": {"remove all", onList(func() func([]fleet.Worker) []fleet.Worker {
			had := false
			return func(list []fleet.Worker) []fleet.Worker {
				if had && len(list) == 0 {
					return nil
				}
				had = had || len(list) > 0
				return list
			}
		})},
		"drops-what-comes-fast": {"flapping", onList(func() func([]fleet.Worker) []fleet.Worker {
			var last time.Time
			return func(list []fleet.Worker) []fleet.Worker {
				if time.Since(last) < time.Hour {
					return nil
				}
				last = time.Now()
				return list
			}
		})},
		"reads-one-page": {"many", onList(func() func([]fleet.Worker) []fleet.Worker {
			return func(list []fleet.Worker) []fleet.Worker { return list[:min(len(list), 100)] }
		})},
		"uses-one-buffer": {"nothing shared", func(r *registry) fleet.Discoverer {
			buffer := make([]fleet.Worker, 0, 2000)
			return onList(func() func([]fleet.Worker) []fleet.Worker {
				return func(list []fleet.Worker) []fleet.Worker {
					buffer = append(buffer[:0], list...)
					return buffer
				}
			})(r)
		}},
		"gives-away-its-cache": {"nothing kept", onList(func() func([]fleet.Worker) []fleet.Worker {
			cache := map[string]fleet.Worker{}
			return func(list []fleet.Worker) []fleet.Worker {
				for i := range list {
					if _, ok := cache[list[i].Epoch]; !ok {
						cache[list[i].Epoch] = list[i]
					}
					list[i] = cache[list[i].Epoch]
				}
				return list
			}
		})},
	}
}

func brokenEntries() map[string]brokenDiscoverer {
	return map[string]brokenDiscoverer{
		"compares-names": {"address", news(func(w fleet.Worker) string { return w.Name + w.Epoch })},
		"knows-addresses": {"address reused", onList(func() func([]fleet.Worker) []fleet.Worker {
			names := map[string]string{}
			return func(list []fleet.Worker) []fleet.Worker {
				for i := range list {
					if _, ok := names[list[i].URL]; !ok {
						names[list[i].URL] = list[i].Name
					}
					list[i].Name = names[list[i].URL]
				}
				return list
			}
		})},
		"ignores-epochs":  {"restart", news(func(w fleet.Worker) string { return w.Name + w.URL })},
		"ignores-drains":  {"drain", onWorker(func(w *fleet.Worker) { w.Draining = false })},
		"forgets-labels":  {"every field", onWorker(func(w *fleet.Worker) { w.Labels = nil })},
		"compares-a-few":  {"field changes", news(func(w fleet.Worker) string { return w.Name + w.Epoch + w.URL })},
		"drops-namesakes": {"listed twice", onList(func() func([]fleet.Worker) []fleet.Worker { return dropNamesakes })},
		"last-one-wins": {"name taken twice", onList(func() func([]fleet.Worker) []fleet.Worker {
			return func(list []fleet.Worker) []fleet.Worker {
				byName := map[string]fleet.Worker{}
				for i := range list {
					byName[list[i].Name] = list[i]
				}
				return append([]fleet.Worker{}, slices.Collect(maps.Values(byName))...)
			}
		})},
		"hides-bad-lists": {"invalid worker", onList(func() func([]fleet.Worker) []fleet.Worker {
			return func(list []fleet.Worker) []fleet.Worker {
				if fleet.Validate(list) != nil {
					return nil
				}
				return list
			}
		})},
		"removes-beside-bad-ones": {"invalid worker", onList(func() func([]fleet.Worker) []fleet.Worker {
			return func(list []fleet.Worker) []fleet.Worker {
				if fleet.Validate(list) != nil {
					return []fleet.Worker{}
				}
				return list
			}
		})},
	}
}

func dropNamesakes(list []fleet.Worker) []fleet.Worker {
	count := map[string]int{}
	for i := range list {
		count[list[i].Name]++
	}
	return slices.DeleteFunc(list, func(w fleet.Worker) bool { return count[w.Name] > 1 })
}

func brokenOutages() map[string]brokenDiscoverer {
	return map[string]brokenDiscoverer{
		"removes-all-on-failure": {"outage", around(func(r *registry, ctx context.Context, set func([]fleet.Worker) error) error {
			had := false
			err := r.Discover(ctx, func(list []fleet.Worker) error {
				had = true
				return set(list)
			})
			if had && ctx.Err() == nil {
				return errors.Join(err, set(nil))
			}
			return err
		})},
		"suffers-in-silence": {"outage", around(func(r *registry, ctx context.Context, set func([]fleet.Worker) error) error {
			for ctx.Err() == nil {
				if err := r.Discover(ctx, set); err != nil && !errors.Is(err, errSource) {
					return err
				}
				pause(ctx)
			}
			return nil
		})},
		"begins-with-none": {"outage at the start", around(func(r *registry, ctx context.Context, set func([]fleet.Worker) error) error {
			if _, err := r.read(ctx); err != nil && ctx.Err() == nil {
				return errors.Join(err, set(nil))
			}
			return r.Discover(ctx, set)
		})},
		"leaves-the-error": {"outages in a row", func(r *registry) fleet.Discoverer {
			var last []fleet.Worker
			failed := false
			return discoverFunc(func(ctx context.Context, set func([]fleet.Worker) error) error {
				err := r.Discover(ctx, func(list []fleet.Worker) error {
					if failed && same(last, list) {
						return nil
					}
					last = slices.Clone(list)
					return set(list)
				})
				failed = ctx.Err() == nil && err != nil
				return err
			})
		}},
		"retries-for-ever": {"context ends in an outage", around(func(r *registry, ctx context.Context, set func([]fleet.Worker) error) error {
			err := r.Discover(ctx, set)
			for {
				if _, failed := r.read(context.Background()); failed == nil {
					return err
				}
				pause(context.Background())
			}
		})},
	}
}

func brokenLives() map[string]brokenDiscoverer {
	return map[string]brokenDiscoverer{
		"ends-early": {"context ends", around(func(r *registry, ctx context.Context, set func([]fleet.Worker) error) error {
			list, err := r.read(ctx)
			return errors.Join(err, set(list))
		})},
		"cries-wolf": {"context ends", around(func(r *registry, ctx context.Context, set func([]fleet.Worker) error) error {
			short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
			defer cancel()
			return errors.Join(r.Discover(short, set), errSource)
		})},
		"ignores-its-context": {"context ends", around(func(r *registry, _ context.Context, set func([]fleet.Worker) error) error {
			return r.Discover(context.Background(), set)
		})},
		"starts-regardless": {"context has ended", around(func(r *registry, ctx context.Context, set func([]fleet.Worker) error) error {
			if ctx.Err() != nil {
				return r.Discover(context.Background(), set)
			}
			return r.Discover(ctx, set)
		})},
		"hangs-after-set": {"context ends in set", around(func(r *registry, ctx context.Context, set func([]fleet.Worker) error) error {
			return r.Discover(ctx, func(list []fleet.Worker) error {
				err := set(list)
				if ctx.Err() != nil {
					forever()
				}
				return err
			})
		})},
		"goes-on-behind": {"silent after return", around(func(r *registry, ctx context.Context, set func([]fleet.Worker) error) error {
			go func() { _ = r.Discover(context.WithoutCancel(ctx), set) }()
			<-ctx.Done()
			return nil
		})},
		"remembers-too-well": {"called again", func(r *registry) fleet.Discoverer {
			var last []fleet.Worker
			return discoverFunc(func(ctx context.Context, set func([]fleet.Worker) error) error {
				return r.Discover(ctx, func(list []fleet.Worker) error {
					if last != nil && same(last, list) {
						return nil
					}
					last = slices.Clone(list)
					return set(list)
				})
			})
		}},
		"sets-its-memory": {"called again", func(r *registry) fleet.Discoverer {
			var last []fleet.Worker
			return discoverFunc(func(ctx context.Context, set func([]fleet.Worker) error) error {
				if last != nil {
					if err := set(last); err != nil {
						return err
					}
				}
				return r.Discover(ctx, func(list []fleet.Worker) error {
					last = slices.Clone(list)
					return set(list)
				})
			})
		}},
		"hides-the-refusal": {"closed fleet", around(func(r *registry, ctx context.Context, set func([]fleet.Worker) error) error {
			if r.Discover(ctx, set) != nil {
				return errors.New("something is wrong")
			}
			return nil
		})},
		"leaves-a-goroutine": {"no goroutine left", around(func(r *registry, ctx context.Context, set func([]fleet.Worker) error) error {
			go forever()
			return r.Discover(ctx, set)
		})},
	}
}
