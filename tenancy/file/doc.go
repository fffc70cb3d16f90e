// Package file is a [tenancy.Resolver] by API keys that reads them from YAML or JSON
// files and follows their changes.
//
// A file has one key, keys, with the hashes of API keys, never the keys themselves, and
// whose they are:
//
//	keys:
//	  - id: search-2027
//	    hash: sha256:4ae1...
//	    org: acme
//	    team: search
//	    tenant: acme-search
//	    groups: [internal]
//	    class: gold
//	    priority: -1
//	    models: [qwen3, "llama-*"]
//	    providers: []
//	    expires: 2027-12-31T23:59:59Z
//	    disabled: false
//
// Only id and hash must be given; all but hash, expires and disabled are the fields of
// [tenancy.Identity] with these names, id being its Key: without models all may be used,
// with an empty list none. To make a key and its hash:
//
//	KEY=kv-$(openssl rand -hex 32)
//	printf %s "$KEY" | sha256sum | sed 's/^/sha256:/; s/ .*//'
//
// Unknown keys, keys given twice and values of the wrong kind are errors that name file,
// line and column, and show no value but ids: it may be an API key that somebody put in the
// wrong place. An empty file is an error, because it is what a half-written one looks
// like; write "keys: []" for none.
//
// Open takes a file or a directory, of which all files *.yaml, *.yml and *.json count,
// in directories below it as well, but for names that begin with a dot. Files are
// polled; what changed takes effect, as a whole, when two looks in a row see the same.
// Files that are wrong or missing change nothing: the keys that were in force stay, and
// [Source.Status], Options.OnError and the log say what is wrong and where. So deleting
// the file locks nobody out; "keys: []" does.
package file
