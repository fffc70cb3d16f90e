// Package file reads providers from YAML or JSON files, and follows their changes.
//
// A provider is a document of kind InferenceProvider, the same that Kubernetes has as a
// custom resource and that "kvsteer check" knows names by:
//
//	apiVersion: kvsteer.dev/v1alpha1
//	kind: InferenceProvider
//	metadata:
//	  name: azure-eu
//	spec:
//	  kind: AzureOpenAI              # OpenAI if left out; Anthropic, AzureOpenAI, Gemini, or one of Options.Kinds
//	  options: {apiVersion: 2024-10-21}
//	  url: https://example.openai.azure.com
//	  credentials: {file: /run/secrets/azure}
//	  region: eu-west
//	  labels: {contract: standard}
//	  header: {X-Team: search}
//	  maxConcurrent: 64              # of each model; left out: learned
//	  paths: [/v1/files, /v1/batches]
//	  models:
//	  - name: gpt-4o
//	    upstreamName: prod-gpt-4o    # a deployment
//	    contextWindow: 128000
//	    maxOutput: 16384
//	    supports: {images: true, tools: true}
//	    prices: {input: 2.50, output: 10, cacheRead: 1.25}   # per million tokens
//	  - o3-mini                      # a name alone
//
// [Schema] has every key with what it means, for editors; docs/provider-schema.json is
// its text.
//
// A secret never stands in such a file, and no environment variable is read:
// credentials.file is the path of a file that has it and nothing else, from the manifest's
// directory if it is relative. Programs that get theirs elsewhere set Provider.Credentials
// themselves, in Options.Adjust.
//
// A file may have several documents. Those of other kinds are passed over, so policies
// may stand beside; so may a List of documents. Unknown keys, keys given twice and values
// of the wrong kind are errors with file, line and column. What belongs to secrets is not
// cited in them.
//
// [Follow] takes a file or a directory, of which all files *.yaml, *.yml and *.json count,
// in directories below it as well, but for names that begin with a dot. Files are polled;
// what changed takes effect, as a whole, when two looks in a row see the same. Files that
// are wrong or missing change nothing: the providers that were in force stay, and
// [Source.Status], Options.OnError and the log say what is wrong and where.
package file
