// Package sdk has no code of its own. Its tests, behind the build tag e2e, are the official
// Go SDKs of OpenAI and Anthropic as clients: of the fakes in providers/providertest, which
// they must not be able to tell from the services, and, through a gateway of httputil's
// ReverseProxy and kvsteer's Transport, of fakes that speak another API than they do. They
// need no network: make e2e-sdk.
package sdk
