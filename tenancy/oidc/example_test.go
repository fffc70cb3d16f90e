package oidc_test

import (
	"context"
	"fmt"
	"time"

	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/oidc"
)

// Tokens of a Keycloak realm, and API keys for what has no token. Only the first token
// makes the Resolver ask the issuer for its keys.
func ExampleNew() {
	tokens, err := oidc.New(oidc.Options{
		Issuers: []oidc.Issuer{{
			URL:       "https://id.example/realms/acme",
			Audiences: []string{"llm-gateway"},
			Claims:    oidc.Claims{Tenant: "azp", Key: "sub", Groups: "/realm_access/roles"},
			Identity:  tenancy.Identity{Org: "acme"},
		}},
		Leeway: 30 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = tokens.Close() }()
	keys, err := tenancy.NewKeys(tenancy.KeysOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	who := tenancy.Chain{tokens, keys} // Keys refuses what it doesn't know: it is the last

	const unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1c2VyLTcifQ."
	_, err = who.Resolve(context.Background(), bearer(unsigned))
	fmt.Println(err)
	// Output: tenancy: jwt: the algorithm is not allowed
}
