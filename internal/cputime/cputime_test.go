package cputime_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/cputime"
)

// Computing costs a thread and its process time: the loop ends only when both say so.
func TestComputingIsCounted(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	process, thread := cputime.Process(), cputime.Thread()
	for n := 0; cputime.Process()-process < 20*time.Millisecond || cputime.Thread()-thread < 20*time.Millisecond; n++ {
		require.Less(t, n, 1<<30, "nothing is counted")
	}
}

// Waiting does not: at least this thread's own time stands still while it sleeps.
func TestWaitingIsNotCounted(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("of threads only Linux tells")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := cputime.Thread()
	time.Sleep(300 * time.Millisecond)
	require.Less(t, cputime.Thread()-thread, 250*time.Millisecond)
}
