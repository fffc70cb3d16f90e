// Package replay decides recorded requests again, by another policy or with another
// predictor, and tells what would have been different. Nothing in it depends on the
// time or on chance: the same log gives the same report.
package replay
