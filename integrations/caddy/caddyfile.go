package kvsteercaddy

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/yamlnode"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// registerDirective gives the directive its place: with the other one that ends a chain.
func registerDirective() {
	httpcaddyfile.RegisterHandlerDirective("kvsteer", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		handler := new(Handler)
		err := handler.UnmarshalCaddyfile(h.Dispenser)
		return handler, err
	})
	httpcaddyfile.RegisterDirectiveOrder("kvsteer", httpcaddyfile.Before, "reverse_proxy")
}

// option takes in the arguments of one option of a Caddyfile.
type option struct {
	usage string // of its arguments
	set   func(h *Handler, args []string) error
	many  bool                     // may be given more than once
	block func() map[string]option // what may stand in a block behind it
}

func caddyfileOptions() map[string]option {
	return map[string]option{
		"fleet":  text("FILE", func(h *Handler) *string { return &h.Fleet }),
		"policy": text("FILE or DIRECTORY", func(h *Handler) *string { return &h.Policy }),
		"record": text("FILE", func(h *Handler) *string { return &h.Record }),
		"tenant": text("PLACEHOLDER", func(h *Handler) *string { return &h.Tenant }),
		"qos":    text("PLACEHOLDER", func(h *Handler) *string { return &h.QoS }),
		"pool":   text("PLACEHOLDER", func(h *Handler) *string { return &h.Pool }),
		"worker": {usage: "NAME URL [EVENTS [REPLAY]]", set: setWorker, many: true},
		"model":  {usage: "NAME DIRECTORY", set: setModel, many: true},
		"ready_path": {usage: "PATH...", many: true, set: func(h *Handler, args []string) error {
			h.ReadyPath = append(h.ReadyPath, args...)
			return atLeast(1, args)
		}},
		"redis":    {usage: "ADDRESS and perhaps a block", set: setRedis, block: redisOptions},
		"snapshot": text("FILE", func(h *Handler) *string { return &h.Snapshot }),
		"snapshot_from": {usage: "URL...", many: true, set: func(h *Handler, args []string) error {
			h.SnapshotFrom = append(h.SnapshotFrom, args...)
			return atLeast(1, args)
		}},
		"max_body":           {usage: "SIZE, such as 64MiB", set: setMaxBody},
		"max_attempts":       number("COUNT", func(h *Handler) *int { return &h.MaxAttempts }),
		"ready_timeout":      duration(func(h *Handler) *caddy.Duration { return &h.ReadyTimeout }),
		"first_byte_timeout": duration(func(h *Handler) *caddy.Duration { return &h.FirstByteTimeout }),
		"idle_timeout":       duration(func(h *Handler) *caddy.Duration { return &h.IdleTimeout }),
		"queue": {usage: "and perhaps a block", block: queueOptions, set: func(h *Handler, args []string) error {
			h.Queue = &Queue{}
			return exactly(0, args)
		}},
	}
}

func redisOptions() map[string]option {
	return map[string]option{
		"channel": text("CHANNEL", func(h *Handler) *string { return &h.Redis.Channel }),
		"name":    text("NAME", func(h *Handler) *string { return &h.Redis.Name }),
	}
}

func queueOptions() map[string]option {
	return map[string]option{
		"hold":        duration(func(h *Handler) *caddy.Duration { return &h.Queue.Hold }),
		"max_wait":    duration(func(h *Handler) *caddy.Duration { return &h.Queue.MaxWait }),
		"max_waiting": number("COUNT", func(h *Handler) *int { return &h.Queue.MaxWaiting }),
	}
}

// UnmarshalCaddyfile implements caddyfile.Unmarshaler:
//
//	kvsteer [<matcher>] {
//		fleet              <file>
//		worker             <name> <url> [<events> [<replay>]]
//		policy             <file or directory>
//		model              <name> <directory>
//		queue {
//			hold           <duration>
//			max_waiting    <count>
//			max_wait       <duration>
//		}
//		redis <address> {
//			channel        <channel>
//			name           <name>
//		}
//		snapshot           <file>
//		snapshot_from      <url...>
//		record             <file>
//		tenant             <placeholder>
//		qos                <placeholder>
//		pool               <placeholder>
//		ready_path         <path...>
//		ready_timeout      <duration>
//		max_body           <size>
//		max_attempts       <count>
//		first_byte_timeout <duration>
//		idle_timeout       <duration>
//	}
//
// See [Config] and [Options] for what they mean.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if args := d.RemainingArgs(); len(args) > 0 {
		return d.Errf("kvsteer takes no arguments but a matcher: write its options in a block, such as { fleet %s }", args[0])
	}
	if err := h.block(d, "kvsteer", caddyfileOptions()); err != nil {
		return err
	}
	if h.Fleet == "" && len(h.Workers) == 0 {
		return d.WrapErr(h.check()) // what is missing belongs to the block as a whole
	}
	return nil
}

// block reads the options of a block. Errors name the line of the option.
func (h *Handler) block(d *caddyfile.Dispenser, of string, options map[string]option) error {
	seen := map[string]int{}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name, line := d.Val(), d.Line()
		o, known := options[name]
		if !known {
			return d.Errf("%s has no option %q; %s", of, name, yamlnode.Suggest(name, slices.Sorted(maps.Keys(options))))
		}
		if before, again := seen[name]; again && !o.many {
			return d.Errf("%s is given twice, first in line %d; keep one", name, before)
		}
		seen[name] = line
		if err := o.set(h, d.RemainingArgs()); err != nil {
			return d.Errf("%s: %w; it takes %s", name, err, o.usage)
		}
		// What lacks so far may yet come; everything else is known where it stands.
		if err := h.check(); err != nil && (h.Fleet != "" || len(h.Workers) > 0) {
			return d.WrapErr(err)
		}
		if o.block == nil {
			continue
		}
		if err := h.block(d, name, o.block()); err != nil {
			return err
		}
	}
	return nil
}

func text(usage string, field func(*Handler) *string) option {
	return option{usage: usage, set: func(h *Handler, args []string) error {
		if err := exactly(1, args); err != nil {
			return err
		}
		if args[0] == "" {
			return errors.New("the value is empty")
		}
		*field(h) = args[0]
		return nil
	}}
}

func number(usage string, field func(*Handler) *int) option {
	return option{usage: usage, set: func(h *Handler, args []string) error {
		if err := exactly(1, args); err != nil {
			return err
		}
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return fmt.Errorf("%q is no whole number", args[0])
		}
		*field(h) = n
		return nil
	}}
}

func duration(field func(*Handler) *caddy.Duration) option {
	return option{usage: "DURATION, such as 30s", set: func(h *Handler, args []string) error {
		if err := exactly(1, args); err != nil {
			return err
		}
		v, err := caddy.ParseDuration(args[0])
		if err != nil {
			return fmt.Errorf("%q is no duration", args[0])
		}
		*field(h) = caddy.Duration(v)
		return nil
	}}
}

func setMaxBody(h *Handler, args []string) error {
	if err := exactly(1, args); err != nil {
		return err
	}
	n, err := humanize.ParseBytes(args[0])
	if err != nil || n > math.MaxInt64 {
		return fmt.Errorf("%q is no size", args[0])
	}
	h.MaxBody = int64(n)
	return nil
}

func setRedis(h *Handler, args []string) error {
	if err := exactly(1, args); err != nil {
		return err
	}
	h.Redis = &Redis{URL: args[0]}
	return nil
}

func setWorker(h *Handler, args []string) error {
	if err := atLeast(2, args); err != nil {
		return err
	}
	if len(args) > 4 {
		return fmt.Errorf("%d arguments are too many", len(args))
	}
	w := fleet.Worker{Name: args[0], URL: args[1]}
	if len(args) > 2 {
		w.Events = []follow.Endpoint{{Events: args[2]}}
	}
	if len(args) > 3 {
		w.Events[0].Replay = args[3]
	}
	h.Workers = append(h.Workers, w)
	return nil
}

func setModel(h *Handler, args []string) error {
	if err := exactly(2, args); err != nil {
		return err
	}
	if _, again := h.Models[args[0]]; again {
		return fmt.Errorf("the model %q is given twice", args[0])
	}
	if h.Models == nil {
		h.Models = map[string]string{}
	}
	h.Models[args[0]] = args[1]
	return nil
}

func exactly(n int, args []string) error {
	if len(args) != n {
		return fmt.Errorf("%d arguments are given", len(args))
	}
	return nil
}

func atLeast(n int, args []string) error {
	if len(args) < n {
		return fmt.Errorf("%d arguments are given", len(args))
	}
	return nil
}
