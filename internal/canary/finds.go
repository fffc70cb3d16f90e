//go:build planted

package canary

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/kvsteer/kvsteer/internal/planted"
)

// Leak is one that was put into the code on purpose (see package planted).
type Leak struct {
	Name string
	// Test must fail with it, and say what matches Says. That must name the field that came out,
	// and where: the test could fail for something else.
	Test, Says string
}

// Finds shows that tests of canaries find leaks: each fails with one, and passes without. Every
// run is a process of its own.
func Finds(t *testing.T, leaks ...Leak) {
	t.Helper()
	if os.Getenv(planted.Variable) != "" {
		t.Skip("this is the process of one leak")
	}
	sound := make(map[string]bool)
	for _, l := range leaks {
		if !sound[l.Test] {
			sound[l.Test] = true
			if out, err := run(t, "none", l.Test); err != nil {
				t.Errorf("%s fails without any leak: %v\n%s", l.Test, err, out)
			}
		}
		out, err := run(t, l.Name, l.Test)
		var exit *exec.ExitError
		found := regexp.MustCompile(l.Says).FindString(out)
		if !errors.As(err, &exit) || found == "" {
			t.Errorf("%s does not find %s (%v):\n%.4000s", l.Test, l.Name, err, out)
			continue
		}
		t.Logf("%s: %s fails: %.200s", l.Name, l.Test, found)
	}
}

func run(t *testing.T, leak, test string) (out string, err error) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run", "^"+test+"$", "-test.v", "-test.timeout", "10m")
	cmd.Env = append(os.Environ(), planted.Variable+"="+leak)
	raw, err := cmd.CombinedOutput()
	return string(raw), err
}
