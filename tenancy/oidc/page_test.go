package oidc_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/oidc"
)

// The code in docs/tenancy.md; internal/docscheck looks for it here. Nothing is asked of
// the issuer before there is a token.
func TestPage(t *testing.T) {
	tokens, err := oidc.New(oidc.Options{Issuers: []oidc.Issuer{{
		URL:       "https://id.example/realms/acme", // exactly the claim iss
		Audiences: []string{"llm-gateway"},          // one of which the claim aud must have
		Claims:    oidc.Claims{Tenant: "azp", Key: "sub", Groups: "/realm_access/roles"},
		Identity:  tenancy.Identity{Org: "acme"}, // what is in no claim
	}}})
	require.NoError(t, err)
	err = tokens.Close()
	require.NoError(t, err)
}
