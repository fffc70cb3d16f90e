"""Run vLLM's render server (no weights, no GPU) for several models at once: each
is an application of its own, made by vLLM's own code, below /NAME. One process,
because the imports take longer than everything else.

usage: serve.py PORT NAME=DIR [FLAGS] [NAME=DIR [FLAGS]]...

Every server names its model "m"; FLAGS are vLLM's. Starts as serve.sh does.
"""
import sys

import uvicorn
import uvloop
from fastapi import FastAPI
from vllm import AsyncEngineArgs, envs
from vllm.config import VllmConfig
from vllm.entrypoints.launchers.app import build_app
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.entrypoints.launchers.render.app_state import init_render_app_state
from vllm.utils.argparse_utils import FlexibleArgumentParser

COMMON = ["--served-model-name", "m", "--max-model-len", "32768", "--enable-auto-tool-choice",
          "--tool-call-parser", "hermes", "--disable-uvicorn-access-log"]


def groups(argv):
    for arg in argv:
        if "=" in arg and not arg.startswith("-") and not arg.startswith("{"):
            current = [arg]
            yield current
        else:
            current.append(arg)


async def main():
    root = FastAPI()

    @root.get("/health")
    def health():
        return {}

    for name_dir, *flags in list(groups(sys.argv[2:])):
        name, directory = name_dir.split("=", 1)
        args = make_arg_parser(FlexibleArgumentParser()).parse_args(["--model", directory, *COMMON, *flags])
        validate_parsed_serve_args(args)
        # From here as vllm.entrypoints.launchers.render.entry does.
        engine = AsyncEngineArgs.from_cli_args(args)
        model = engine.create_model_config()
        model.quantization = None
        envs.VLLM_CPU_KVCACHE_SPACE = 0
        config = VllmConfig(model_config=model, logging_config=engine.create_logging_config(),
                            structured_outputs_config=engine.create_structured_outputs_config())
        app = build_app(args, ("render",))
        await init_render_app_state(config, app.state, args)
        root.mount("/" + name, app)
        print("ready:", name, flush=True)
    await uvicorn.Server(uvicorn.Config(root, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning",
                                        timeout_keep_alive=600)).serve()


uvloop.run(main())
