// Package watch follows files of configuration by looking at them from time to time.
//
// Files are polled, not watched by the system: that works on every file system and with
// every way of replacing a file, among them the symbolic links of a Kubernetes
// ConfigMap. What changed takes effect, as a whole, when two looks in a row see the
// same: half of a file is often valid too. What is wrong or missing changes nothing and
// is reported once.
//
// [Files] does all of that on a goroutine of its own, [Source] also keeps how things
// stand, and logs it; [Read] and [File.Unchanged] are for who has a loop already.
package watch
