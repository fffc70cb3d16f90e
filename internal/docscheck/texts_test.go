package docscheck

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/kvsteer/kvsteer"
)

var (
	texts   = regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|.*\\|.*\\|$")
	aText   = regexp.MustCompile("`([^`]+)`")
	inQuote = regexp.MustCompile(`"\s*\+\s*\n?\s*"`)
)

// unspoken returns the texts of a page's tables, in their first cells, of which no source
// has a piece.
func unspoken(page string, sources []string) (bad []string, found int) {
	for _, row := range texts.FindAllStringSubmatch(page, -1) {
		for _, m := range aText.FindAllStringSubmatch(row[1], -1) {
			found++
			for piece := range strings.SplitSeq(m[1], "…") {
				piece = strings.TrimSpace(strings.Trim(piece, ";:,"))
				said := false
				for _, source := range sources {
					said = said || strings.Contains(source, piece)
				}
				if !said {
					bad = append(bad, m[1]+": nothing says "+piece)
				}
			}
		}
	}
	return bad, found
}

// What docs/troubleshooting.md says that a user meets, the code says.
func TestTroubleshooting(t *testing.T) {
	var code []string
	for folder, files := range read(t) {
		if strings.HasPrefix(folder, "internal/docscheck") {
			continue
		}
		for _, file := range files {
			if !strings.Contains(file, "\nimport \"testing\"") && !strings.Contains(file, "\n\t\"testing\"\n") {
				code = append(code, inQuote.ReplaceAllString(file, ""))
			}
		}
	}
	bad, found := unspoken(text(t, "docs", "troubleshooting.md"), code)
	for _, what := range bad {
		t.Error(what)
	}
	const least = 70
	if found < least {
		t.Errorf("%d texts found: is the tables' form still the one that is read here?", found)
	}
	if bad, found := unspoken("| `so … it is`, `not` | a | b |\n", []string{`"so %s"`, `"not"`}); len(bad) != 1 || found != 2 {
		t.Errorf("%q of %d", bad, found)
	}
}

// Every code has a row in docs/troubleshooting.md, with its status.
func TestTroubleshootingCodes(t *testing.T) {
	page, seen := text(t, "docs", "troubleshooting.md"), 0
	for code := kvsteer.CodeBadRequest; code.HTTPStatus() != kvsteer.Code(255).HTTPStatus(); code++ {
		seen++
		name := strings.ReplaceAll(code.String(), " ", "_")
		row := regexp.MustCompile(fmt.Sprintf("(?m)^\\| %d \\| [^|]*`%s`", code.HTTPStatus(), name))
		if code != kvsteer.CodeCanceled && !row.MatchString(page) { // whose client is gone
			t.Errorf("no row has the status %d and the code %s", code.HTTPStatus(), name)
		}
	}
	if seen < int(kvsteer.CodeUnavailable) {
		t.Errorf("%d codes seen", seen)
	}
}
