package dns

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// name is a whole name in lower case, with the dot at its end.
type name string

const root name = "."

// text is the name as it is written, without the dot.
func (n name) text() string { return strings.TrimSuffix(string(n), ".") }

// String is for messages.
func (n name) String() string { return n.text() }

// newName checks a name and completes it.
func newName(s string) (name, error) {
	const maxName, maxLabel = 253, 63
	bare := strings.TrimSuffix(s, ".")
	problem := ""
	switch {
	case bare == "":
		problem = "empty"
	case len(bare) > maxName:
		problem = fmt.Sprintf("longer than %d bytes", maxName)
	case strings.ContainsFunc(bare, func(r rune) bool { return r <= ' ' || r > '~' }):
		problem = "not plain ASCII; write it in its encoded form (xn--)"
	}
	for label := range strings.SplitSeq(bare, ".") {
		if problem == "" && (label == "" || len(label) > maxLabel) {
			problem = fmt.Sprintf("a part between dots is empty or longer than %d bytes", maxLabel)
		}
	}
	if problem != "" {
		return "", fmt.Errorf("dns: the name %q can't be looked up: %s", s, problem)
	}
	return name(strings.ToLower(bare) + "."), nil
}

// wireName is the name of a message.
func wireName(n dnsmessage.Name) name { return name(strings.ToLower(n.String())) }

// query writes the message that asks for a name. With edns it says that an answer
// over UDP may have udpSize bytes.
func query(id uint16, n name, t dnsmessage.Type, edns bool) ([]byte, error) {
	wire, err := dnsmessage.NewName(string(n))
	if err != nil {
		return nil, fmt.Errorf("the name can't be written: %w", err)
	}
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: id, RecursionDesired: true})
	err = errors.Join(b.StartQuestions(),
		b.Question(dnsmessage.Question{Name: wire, Type: t, Class: dnsmessage.ClassINET}))
	if edns {
		var h dnsmessage.ResourceHeader
		err = errors.Join(err, b.StartAdditionals(), h.SetEDNS0(udpSize, dnsmessage.RCodeSuccess, false),
			b.OPTResource(h, dnsmessage.OPTResource{}))
	}
	if err != nil {
		return nil, fmt.Errorf("the query can't be written: %w", err)
	}
	return b.Finish()
}
