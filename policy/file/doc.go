// Package file is a [policy.Source] that reads policies from YAML or JSON files and
// follows their changes.
//
// Open takes a file or a directory, of which all files *.yaml, *.yml and *.json count,
// in directories below it as well, but for names that begin with a dot. All of them
// make one [policy.Set].
//
// Files are polled, not watched by the system: that works on every file system and
// with every way of replacing a file, among them the symbolic links of a Kubernetes
// ConfigMap. What changed takes effect, as a whole, when two looks in a row see the
// same: half of a file is often a policy too, with fewer rules. [Source.Reload] looks
// at once, for who knows that everything is written.
//
// Files that are wrong or missing change nothing: what was in force stays, and
// [Source.Status], Options.OnError and the log say what is wrong and where.
package file
