//go:build unix && !linux

package sqlledger_test

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
