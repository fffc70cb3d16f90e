// Package salt keeps the prompt caches of tenants apart: it derives the value that an
// engine mixes into the first block of a prompt (vLLM's cache_salt), so that nobody can
// find out by timing what another tenant has asked.
//
// A salt is HMAC-SHA-256 under a key that only the gateway knows, over fields that say
// how long each is. Who sees one cannot make another, nor learn whose it is; and no
// organisation and tenant can be named so that they come to another's salt.
package salt
