package sqlledger_test

import "syscall"

// dieWithParent ends the server if the test is killed.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
