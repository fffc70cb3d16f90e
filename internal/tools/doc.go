// Package tools pins the programs that check this repository, so that they are
// the same for everybody, and keeps what they depend on out of every module
// that users import. It is no part of the workspace.
package tools
