module github.com/kvsteer/kvsteer/tenancy/oidc

go 1.25.0

require (
	github.com/go-jose/go-jose/v4 v4.1.9
	github.com/kvsteer/kvsteer v0.0.0
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace github.com/kvsteer/kvsteer => ../..
