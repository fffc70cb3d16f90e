//go:build !unix

package ledger_test

const childFile = "KVSTEER_LEDGER_CHILD"

func child(string) {}
