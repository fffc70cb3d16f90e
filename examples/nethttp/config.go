package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

// config is what the gateway is told: by flags, or by the file of -config, whose keys
// docs/gateway.md explains. A flag that is given counts more than the file.
type config struct {
	Listen   string       `yaml:"listen"`
	TLS      tlsConfig    `yaml:"tls"`
	Fleet    source       `yaml:"fleet"`
	Policy   string       `yaml:"policy"`
	Outside  string       `yaml:"providers"`
	Tenant   tenants      `yaml:"tenancy"`
	Redis    sharedConfig `yaml:"redis"`
	Snapshot string       `yaml:"snapshot"`
	Record   string       `yaml:"record"`
	Ops      string       `yaml:"ops"`
	Files    files        `yaml:"files"`
	Queue    bool         `yaml:"queue"`
	Notice   duration     `yaml:"notice"`
	Grace    duration     `yaml:"grace"`
}

// source is where the workers are listed: exactly one of its fields.
type source struct {
	File string `yaml:"file"`
	URL  string `yaml:"url"`
}

type tlsConfig struct {
	Cert       string `yaml:"cert"`
	Key        string `yaml:"key"`
	MinVersion string `yaml:"minVersion"`
}

type tenants struct {
	Keys            string `yaml:"keys"`
	Limits          string `yaml:"limits"`
	RefuseAnonymous bool   `yaml:"refuseAnonymous"`
}

// sharedConfig is the Redis that replicas share, and how all of them call their gateway there.
type sharedConfig struct {
	URL  string `yaml:"url"`
	Name string `yaml:"name"`
}

func defaults() config {
	return config{
		Listen: "127.0.0.1:8080", Policy: "kvsteer", Redis: sharedConfig{Name: "kvsteer"},
		Notice: duration(time.Second), Grace: duration(30 * time.Second),
	}
}

// parse reads the arguments, and the file that they name.
func parse(args []string) (config, error) {
	c, path := defaults(), ""
	fs := flags(&c, &path)
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fs.SetOutput(os.Stderr)
			fs.PrintDefaults()
		}
		return config{}, err
	}
	if fs.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q; -help lists the flags", fs.Arg(0))
	}
	if path != "" {
		c = defaults()
		if err := c.load(path); err != nil {
			return config{}, fmt.Errorf("-config: %w", err)
		}
		if fs = flags(&c, &path); fs.Parse(args) != nil { // once more, over the file
			return config{}, errors.New("unreachable: they were parsed before")
		}
	}
	if c.Fleet == (source{}) {
		c.Fleet.File = "fleet.yaml"
	}
	return c, nil
}

// flags binds flags to c, whose values are their defaults.
func flags(c *config, path *string) *flag.FlagSet {
	fs := flag.NewFlagSet("nethttp", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // main says what is wrong
	fs.StringVar(path, "config", "", "`file` of settings (docs/gateway.md); flags count more")
	fs.StringVar(&c.Listen, "listen", c.Listen, "address to serve on")
	fs.StringVar(&c.TLS.Cert, "cert", c.TLS.Cert, "`file` of the server's certificate, and those above it; with -key HTTPS is served")
	fs.StringVar(&c.TLS.Key, "key", c.TLS.Key, "`file` of its key")
	fs.StringVar(&c.TLS.MinVersion, "tls-min", c.TLS.MinVersion, "oldest `version` of TLS to speak: 1.2, the default, or 1.3")
	fs.Func("fleet", "`file` that lists the workers, or a URL that does (default fleet.yaml); it may change while we run", c.Fleet.set)
	fs.StringVar(&c.Policy, "policy", c.Policy, "kvsteer; round-robin or least-requests to compare with; or a `file` or directory of policies")
	fs.StringVar(&c.Outside, "providers", c.Outside, "`file` or directory of external providers, which -policy may send requests to")
	fs.StringVar(&c.Tenant.Keys, "keys", c.Tenant.Keys, "`file` of API keys and whose they are")
	fs.StringVar(&c.Tenant.Limits, "limits", c.Tenant.Limits, "`file` of limits of tenants")
	fs.StringVar(&c.Redis.URL, "redis", c.Redis.URL,
		"`address` or URL of a Redis 7 or Valkey, by which replicas of this gateway know of each other's requests and share limits")
	fs.StringVar(&c.Redis.Name, "redis-name", c.Redis.Name,
		"what the replicas call their gateway there; another gateway on that Redis needs another `name`")
	fs.StringVar(&c.Snapshot, "snapshot", c.Snapshot, "`file` to begin with what is known of caches, and to leave it in at the end")
	fs.StringVar(&c.Record, "record", c.Record, "file to append the decision log to, which kvsteer replay and predictor-eval read")
	fs.StringVar(&c.Ops, "ops", c.Ops, "`address` to serve /metrics and the console on; keep it private")
	fs.Var(&c.Files, "files", "`MODEL=DIR`: compute a model's prompts from its files (tokenizer.json ...) instead of by asking; repeatable")
	fs.BoolVar(&c.Queue, "queue", c.Queue, "hold requests while every worker is busy, and choose when one is free")
	fs.DurationVar((*time.Duration)(&c.Notice), "notice", time.Duration(c.Notice),
		"how long readiness is denied before connections are, for load balancers to notice")
	fs.DurationVar((*time.Duration)(&c.Grace), "grace", time.Duration(c.Grace), "how long streams may go on after a signal to stop")
	return fs
}

// set takes a file or a URL.
func (s *source) set(v string) error {
	*s = source{File: v}
	if strings.HasPrefix(v, "http://") || strings.HasPrefix(v, "https://") {
		*s = source{URL: v}
	}
	return nil
}

// load reads a file of settings, strictly: what it says that nobody knows, or twice, is an
// error that names the line. Paths in it are relative to its own folder.
func (c *config) load(path string) error {
	text, err := os.ReadFile(path) //nolint:gosec // which file is the operator's choice
	if err != nil {
		return err
	}
	if err = yaml.Load(text, c, yaml.WithKnownFields(), yaml.WithUniqueKeys()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if c.Fleet.File != "" && c.Fleet.URL != "" {
		return fmt.Errorf("%s: fleet: give one of file and url", path)
	}
	beside := func(p *string) {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(filepath.Dir(path), *p)
		}
	}
	for _, p := range []*string{&c.TLS.Cert, &c.TLS.Key, &c.Fleet.File, &c.Tenant.Keys, &c.Tenant.Limits, &c.Outside, &c.Snapshot, &c.Record} {
		beside(p)
	}
	if !named(c.Policy) {
		beside(&c.Policy)
	}
	for model, m := range c.Files {
		beside(&m.Dir)
		c.Files[model] = local.Model{Dir: m.Dir}
	}
	return nil
}

// duration is written as in Go, such as 30s.
type duration time.Duration

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v < 0 {
		return fmt.Errorf("line %d: %q is no duration; write one such as 30s", n.Line, n.Value)
	}
	*d = duration(v)
	return nil
}

// files are the folders of models' files by model.
type files map[string]local.Model

// UnmarshalYAML implements yaml.Unmarshaler.
func (f *files) UnmarshalYAML(n *yaml.Node) error {
	var dirs map[string]string
	if err := n.Decode(&dirs); err != nil {
		return err
	}
	*f = files{}
	for model, dir := range dirs {
		(*f)[model] = local.Model{Dir: dir}
	}
	return nil
}

// Set takes MODEL=DIR.
func (f *files) Set(v string) error {
	model, dir, ok := strings.Cut(v, "=")
	if !ok || model == "" || dir == "" {
		return errors.New("want MODEL=DIR")
	}
	if *f == nil {
		*f = files{}
	}
	(*f)[model] = local.Model{Dir: dir}
	return nil
}

func (f *files) String() string { return "" }
