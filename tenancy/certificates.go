package tenancy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const byCertificate = "mtls"

// CertificateRule says who has a certificate. Exactly one of SPIFFE, DNS and CommonName
// is given: a pattern, in which {name} stands for any one segment; Org, Team, Tenant,
// Key, Groups and Class of the Identity may hold {name} too, for what it stood for.
type CertificateRule struct {
	// SPIFFE is for the certificate's id, such as
	// "spiffe://prod.example/ns/{namespace}/sa/gateway". The trust domain is never {name}.
	SPIFFE string
	// DNS is for each of the certificate's DNS names: "{team}.clients.example". A {name}
	// is no wildcard of a certificate.
	DNS string
	// CommonName is for that of the certificate's subject, and is one segment.
	CommonName string
	// Identity is who it is. By and Spent are set by [Certificates].
	Identity Identity
}

// Certificates is a [Resolver] by client certificates (mTLS). The first rule that
// matches counts; a certificate that no rule knows is left to other Resolvers. It is
// safe for concurrent use.
//
// It takes certificates only that the TLS server has verified, which needs
// tls.VerifyClientCertIfGiven or tls.RequireAndVerifyClientCert: others are refused. For
// servers that verify by a function of their own there is an example.
// What holds is what was verified at the handshake. A connection may live longer than
// the certificate, so bound how long connections live.
//
// Any authority in the server's ClientCAs can vouch for any name, of other SPIFFE trust
// domains as well. Have the authorities of one domain there.
type Certificates struct {
	rules  []certificateRule
	spiffe bool
}

type certificateRule struct {
	pattern pattern
	names   func(*x509.Certificate) []string
	who     Identity
	fixed   bool // nothing of it depends on the certificate
}

var _ Resolver = (*Certificates)(nil)

// NewCertificates returns a Resolver with these rules.
func NewCertificates(rules ...CertificateRule) (*Certificates, error) {
	if len(rules) == 0 {
		return nil, errors.New("tenancy: there are no rules for certificates; give one, or leave Certificates out")
	}
	c := &Certificates{}
	for i := range rules {
		r, err := compileRule(&rules[i])
		if err != nil {
			return nil, fmt.Errorf("tenancy: rule %d for certificates: %w", i, err)
		}
		c.rules = append(c.rules, r)
		c.spiffe = c.spiffe || rules[i].SPIFFE != ""
	}
	return c, nil
}

func compileRule(rule *CertificateRule) (r certificateRule, err error) {
	given := 0
	for _, p := range []struct {
		kind, text, separator string
		names                 func(*x509.Certificate) []string
	}{
		{"SPIFFE", rule.SPIFFE, "/", spiffeNames},
		{"DNS", strings.ToLower(rule.DNS), ".", dnsNames},
		{"CommonName", rule.CommonName, "", func(c *x509.Certificate) []string { return []string{c.Subject.CommonName} }},
	} {
		if p.text == "" {
			continue
		}
		given++
		text := strings.TrimPrefix(p.text, spiffeScheme)
		if r.pattern, err = parsePattern(text, p.separator); err != nil {
			return r, fmt.Errorf("%s %w", p.kind, err)
		}
		if p.kind == "SPIFFE" {
			if _, open := placeholder(r.pattern.segments[0]); open {
				return r, errors.New("SPIFFE leaves the trust domain open; name it")
			}
			// Whatever {name} stands for is a segment like x.
			if err := checkSPIFFE(strings.NewReplacer("/{", "/", "}", "").Replace(p.text)); err != nil {
				return r, fmt.Errorf("SPIFFE %w", err)
			}
		}
		r.names = p.names
	}
	if given != 1 {
		return r, errors.New("give exactly one of SPIFFE, DNS and CommonName")
	}
	r.who = rule.Identity
	r.who.By, r.who.Spent = byCertificate, nil
	r.who.Groups = slices.Clone(r.who.Groups)
	r.who.Models, r.who.Providers = slices.Clone(r.who.Models), slices.Clone(r.who.Providers)
	if err := r.who.Validate(); err != nil {
		return r, err
	}
	if r.who.Org == "" && r.who.Team == "" && r.who.Tenant == "" && r.who.Key == "" {
		return r, errors.New("Identity names nobody; give at least one of Org, Team, Tenant and Key")
	}
	texts := append([]string{r.who.Org, r.who.Team, r.who.Tenant, r.who.Key, r.who.Class}, r.who.Groups...)
	r.fixed = !slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, "{") })
	if err := r.pattern.check(texts...); err != nil {
		return r, fmt.Errorf("Identity %w", err)
	}
	return r, nil
}

func spiffeNames(leaf *x509.Certificate) []string {
	id, err := spiffeID(leaf)
	if err != nil {
		return nil
	}
	return []string{strings.TrimPrefix(id, spiffeScheme)}
}

func dnsNames(leaf *x509.Certificate) []string {
	names := make([]string, len(leaf.DNSNames))
	for i, n := range leaf.DNSNames {
		names[i] = strings.ToLower(n)
	}
	return names
}

// Resolve implements [Resolver]. It doesn't block.
func (c *Certificates) Resolve(_ context.Context, p *Presented) (*Identity, error) {
	if p.TLS == nil || len(p.TLS.PeerCertificates) == 0 && len(p.TLS.VerifiedChains) == 0 {
		return nil, nil //nolint:nilnil // as Resolver's contract has it
	}
	leaf := verifiedLeaf(p.TLS)
	if leaf == nil {
		return nil, &UnverifiedError{
			Kind: byCertificate, Reason: "the TLS server has not verified the certificate; set ClientAuth to VerifyClientCertIfGiven",
		}
	}
	if c.spiffe && hasSPIFFE(leaf) {
		if _, err := spiffeID(leaf); err != nil {
			return nil, &UnverifiedError{Kind: byCertificate, Reason: "the SPIFFE id is not valid", Err: err}
		}
	}
	for i := range c.rules {
		r := &c.rules[i]
		for _, name := range r.names(leaf) {
			if values, ok := r.pattern.match(name); ok {
				return r.identity(values)
			}
		}
	}
	return nil, nil //nolint:nilnil // as Resolver's contract has it
}

func (r *certificateRule) identity(values []string) (*Identity, error) {
	if r.fixed {
		return &r.who, nil
	}
	id := r.who
	for _, field := range []*string{&id.Org, &id.Team, &id.Tenant, &id.Key, &id.Class} {
		*field = r.pattern.expand(*field, values)
	}
	id.Groups = slices.Clone(id.Groups)
	for i := range id.Groups {
		id.Groups[i] = r.pattern.expand(id.Groups[i], values)
	}
	if err := id.Validate(); err != nil {
		return nil, &UnverifiedError{Kind: byCertificate, Reason: "a name in the certificate is not fit", Err: err}
	}
	return &id, nil
}
