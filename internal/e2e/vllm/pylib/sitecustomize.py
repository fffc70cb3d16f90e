"""Put on PYTHONPATH by launch.py: makes a vLLM server one thing to kill.

A vLLM server is an API process, an EngineCore and a Worker. When only the API
process is killed with SIGKILL, the other two live on and keep the event ports.
So every child asks the kernel to be killed with its parent. The resource
tracker is left out: it ends by itself and unlinks the shared memory.
"""
import ctypes
import os
import signal
import sys

if os.environ.get("KVSTEER_DIE_WITH_PARENT") == str(os.getppid()):
    # Our parent is the server process that was launched (or a child of it, see
    # below), not some unrelated process that inherited the environment.
    if not any("resource_tracker" in a for a in sys.orig_argv):
        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == 1:
            os._exit(1)  # the parent ended before the request was made
    os.environ["KVSTEER_DIE_WITH_PARENT"] = str(os.getpid())
