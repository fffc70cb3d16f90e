//go:build !unix

package sqlledger_test

const childOf = "KVSTEER_SQLLEDGER_CHILD"

func child(string) {}
