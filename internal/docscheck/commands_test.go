package docscheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// unrun are commands whose programs are not ours, each with what stands for it.
var unrun = map[string]string{
	"vllm":              "internal/e2e/vllm starts servers with these flags, here only its JSON is read",
	"openssl":           "the reader's own; examples/nethttp has tests of certificates",
	"kubectl":           "fleet/kubernetes.TestRealCluster has no kubelet to run pods; the files are read by its tests",
	"xcaddy":            "it fetches itself; integrations/caddy builds the same module",
	"caddy-kvsteer":     "integrations/caddy.TestE2E runs it",
	"\"$(../../scripts": "integrations/extproc/e2e starts Envoy by this script",
	"printf":            "examples/nethttp and tenancy/file read such files in their tests",
	"done":              "the end of a loop",
}

var (
	comment = regexp.MustCompile(`(?m)\s+#.*$|^#.*$`)
	quoted  = regexp.MustCompile(`'(\{.*?\})'(?:\s|;|$)`)
	place   = regexp.MustCompile(`^(?:\./)?(?:examples|cmd|docs|internal|integrations|fleet|policy|kvcache|scripts)(?:/[\w.-]+)+$`)
	flagged = regexp.MustCompile(`^--?([a-z][\w-]*)$`)
	variant = regexp.MustCompile(`^[A-Z]\w*=[^$]*$`)
)

// commands says what is wrong with the commands of a block: they name a target, a
// folder, a file or a flag that there is not, or JSON that is none. They are not run
// here: what they start has tests of its own.
func commands(text string) error {
	var bad []error
	folder := "."
	text = strings.ReplaceAll(comment.ReplaceAllString(text, ""), "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			if !json.Valid([]byte(m[1])) && !strings.HasPrefix(line, "printf") {
				bad = append(bad, fmt.Errorf("not JSON: %s", m[1]))
			}
		}
		within := folder
		for part := range strings.SplitSeq(strings.Trim(line, "()"), "&&") {
			words := strings.Fields(part)
			for len(words) > 1 && variant.MatchString(words[0]) {
				words = words[1:]
			}
			if len(words) > 1 && words[0] == "cd" {
				if within = path.Join(within, words[1]); !isDir(within) {
					bad = append(bad, fmt.Errorf("no such folder: %s", within))
				}
				continue
			}
			bad = append(bad, one(within, words))
		}
		if !strings.HasPrefix(line, "(") {
			folder = within
		}
	}
	return errors.Join(bad...)
}

// one looks at a single command, typed in a folder.
func one(folder string, words []string) error {
	name := path.Base(words[0])
	switch {
	case strings.HasPrefix(words[0], "KEY="), name == "curl", words[0] == "for":
		return nil
	case name == "make":
		return makeTarget(words[1:])
	case name == "go":
		return goCommand(folder, words[1:])
	}
	for known := range unrun {
		if name == known || strings.HasPrefix(words[0], known) {
			return files(folder, words[1:])
		}
	}
	return fmt.Errorf("nothing is known of the command %s; add what stands for it to unrun", name)
}

func makeTarget(words []string) error {
	makefile, err := os.ReadFile(filepath.Join(top, "Makefile"))
	if err != nil {
		return err
	}
	for _, word := range words {
		if !strings.Contains(word, "=") && !strings.Contains(string(makefile), "\n"+word+":") {
			return fmt.Errorf("make %s: no such target", word)
		}
	}
	return nil
}

// goCommand looks for the package that is run, built or tested, and in its folder and
// those below for the flags that it is given.
func goCommand(folder string, words []string) error {
	var program string
	for i, word := range words[1:] {
		if word != "." && !strings.HasPrefix(word, "./") {
			continue
		}
		if program = path.Join(folder, strings.TrimSuffix(word, "/...")); !isDir(program) {
			return fmt.Errorf("no such folder: %s", program)
		}
		if words[0] != "run" {
			return nil
		}
		args := words[i+2:]
		for _, arg := range args {
			if m := flagged.FindStringSubmatch(arg); len(m) > 1 && !declares(program, m[1]) {
				return fmt.Errorf("%s: no such flag: %s", program, arg)
			}
		}
		return files(folder, args)
	}
	return nil
}

// declares reports whether a Go file in a folder or below has a flag's name in quotes.
func declares(folder, flag string) bool {
	found, tree := false, os.DirFS(top)
	_ = fs.WalkDir(tree, folder, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !found && !d.IsDir() && path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") {
			text, _ := fs.ReadFile(tree, name)
			found = strings.Contains(string(text), `"`+flag+`"`)
		}
		return err
	})
	return found
}

// files looks for the arguments that are places in the repository.
func files(folder string, words []string) error {
	for _, word := range words {
		if !place.MatchString(word) {
			continue
		}
		if _, err := os.Stat(filepath.Join(top, folder, word)); err != nil {
			return fmt.Errorf("no such file: %s", word)
		}
	}
	return nil
}

func isDir(name string) bool {
	info, err := os.Stat(filepath.Join(top, name))
	return err == nil && info.IsDir()
}
