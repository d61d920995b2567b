"""Prints every route that the engine can have, as RESULT {"routes": [[path, [methods]], …], "isShort": …}.

All tasks, all options, all modes. `isShort`: pieces of a stream of a model that generates may go past the middleware.
"""

import json
import os

os.environ |= {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_PLUGINS": ""}
OPTIONS = (
    *("--enable-scale-out", "--tokens-only", "--enable-fault-tolerance", "--enable-tokenizer-info-endpoint"),
    *(
        "--enable-lora",
        "--enable-offline-docs",
        "--profiler-config",
        '{"profiler": "torch", "torch_profiler_dir": "/tmp"}',
    ),
)


def arguments(options: tuple[str, ...]) -> object:
    """The engine's own arguments, with as many of the options as it knows."""
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = make_arg_parser(FlexibleArgumentParser())
    known = {word for action in parser._actions for word in action.option_strings}
    words = [word for word in options if not word.startswith("--") or word in known]
    return parser.parse_args(words)


def main() -> None:
    from vllm.entrypoints.launchers.app import build_app
    from vllm.tasks import FRONTEND_TASKS, GENERATION_TASKS, POOLING_TASKS
    from windlass.api import shortcut

    found: dict[str, set[str]] = {}
    for options in ((), OPTIONS[:4], OPTIONS[4:]):
        app = build_app(arguments(options), (*GENERATION_TASKS, *POOLING_TASKS, *FRONTEND_TASKS))
        for route in app.routes:
            methods = getattr(route, "methods", None)
            found.setdefault(route.path, set()).update(
                methods or {"websocket" if "WebSocket" in type(route).__name__ else "mount"}
            )
    routes = [[path, sorted(methods)] for path, methods in sorted(found.items())]
    generating = build_app(arguments(("--middleware", "windlass.api.guard.Guard")), GENERATION_TASKS)
    print("RESULT", json.dumps({"routes": routes, "isShort": shortcut.is_open(generating)}))


if __name__ == "__main__":
    main()
