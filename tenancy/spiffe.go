package tenancy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
)

const (
	spiffeScheme = "spiffe://"
	// Lengths that the SPIFFE-ID specification allows, in bytes.
	maxSPIFFE      = 2048
	maxTrustDomain = 255
)

// verifiedLeaf is the peer's certificate if TLS has verified it, else nil.
func verifiedLeaf(state *tls.ConnectionState) *x509.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
		return nil
	}
	return state.VerifiedChains[0][0]
}

// hasSPIFFE reports whether a certificate claims to be of SPIFFE.
func hasSPIFFE(leaf *x509.Certificate) bool {
	for _, u := range leaf.URIs {
		if u.Scheme == "spiffe" {
			return true
		}
	}
	return false
}

// spiffeID returns the id of a leaf certificate, as the X509-SVID specification has it:
// exactly one URI, no authority to sign, a key for signatures.
func spiffeID(leaf *x509.Certificate) (string, error) {
	const signs = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	switch {
	case len(leaf.URIs) != 1:
		return "", errors.New("the certificate has not exactly one URI")
	case leaf.IsCA || leaf.KeyUsage&signs != 0:
		return "", errors.New("the certificate is one of an authority")
	case leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0:
		return "", errors.New("the certificate's key is not for signatures")
	}
	id := leaf.URIs[0].String()
	return id, checkSPIFFE(id)
}

// checkSPIFFE says what is wrong with an id: spiffe://, a trust domain of small letters,
// digits and ".-_", and a path of non-empty segments of letters, digits and ".-_".
func checkSPIFFE(id string) error {
	rest, ok := strings.CutPrefix(id, spiffeScheme)
	domain, path, hasPath := strings.Cut(rest, "/")
	switch {
	case !ok:
		return errors.New("is no SPIFFE id; it must begin with spiffe://")
	case len(id) > maxSPIFFE:
		return errors.New("is longer than the 2048 bytes that a SPIFFE id may have")
	case domain == "" || len(domain) > maxTrustDomain || strings.ContainsFunc(domain, notOfDomain):
		return errors.New("has a trust domain that is not valid; it has 1 to 255 small letters, digits, dots, dashes and underscores")
	case !hasPath:
		return nil
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." || strings.ContainsFunc(segment, notOfPath) {
			return errors.New("has a path that is not valid; its segments have letters, digits, dots, dashes and underscores, and none is empty")
		}
	}
	return nil
}

func notOfDomain(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
}

func notOfPath(r rune) bool { return notOfDomain(r) && (r < 'A' || r > 'Z') }
