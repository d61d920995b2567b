"""Runs inside the serving image: every row of `flag_rows` through `windlass`, then through vLLM's own parser.

Prints one line of JSON: for each row what was read back at the paths it names, or the sentence and exit code of its
refusal. vLLM is imported once for all rows; no engine is started.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}

import flag_rows  # noqa: E402 - beside this file, wherever it is run
from flag_rows import ROWS, Row  # noqa: E402
from windlass.errors import UsageError  # noqa: E402
from windlass.launch import planned, probe, templates  # noqa: E402
from windlass.launch.model import LaunchPlan, Machine  # noqa: E402
from windlass.launch.resolve import NATIVE, RUN, looked_for, resolve  # noqa: E402
from windlass.license.model import Gpu  # noqa: E402
from windlass_sizing.quantization.methods import SMOOTHQUANT_FILE  # noqa: E402

DEMO = HERE.parents[2] / "models/demo"
FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja")
LONG = {"max_position_embeddings": 32768, "vocab_size": 152064}
QUANTIZED = {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}}
CHANGES: dict[str, dict[str, Any]] = {
    flag_rows.SMALL: {},
    flag_rows.LONG: LONG,
    flag_rows.HUGE: {"max_position_embeddings": 131072},
    flag_rows.GPTQ: QUANTIZED,
    flag_rows.FP8: {"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic"}},
    flag_rows.SMOOTH: {},
    flag_rows.NAMED: {},
    flag_rows.MLLAMA: {"architectures": ["MllamaForConditionalGeneration"], "model_type": "mllama"},
    flag_rows.PLAIN: {},
}
EMPTY_SAFETENSORS = (2).to_bytes(8, "little") + b"{}"
NATIVE_COMMANDS = (("vllm", "serve"), ("python3", "-m", "vllm.entrypoints.openai.api_server"))


@cache
def model(kind: str) -> Path:
    """A model directory without weights, which no configuration needs."""
    folder = Path(tempfile.mkdtemp(prefix=f"{kind}-"))
    for name in FILES:
        if not (kind == flag_rows.PLAIN and name == "chat_template.jinja"):
            shutil.copy(DEMO / name, folder)
    config = json.loads((folder / "config.json").read_text()) | CHANGES[kind]
    (folder / "config.json").write_text(json.dumps(config))
    if kind == flag_rows.SMOOTH:
        (folder / SMOOTHQUANT_FILE).write_bytes(EMPTY_SAFETENSORS)
    if kind == flag_rows.NAMED:
        (folder / "ti_model_config.json").write_text('{"model_id": "Qwen2.5-7B-Instruct"}')
    return folder


def machine(text: str) -> Machine:
    """`cpu`, or a number of cards and their name."""
    if text == flag_rows.CPU:
        return Machine("cpu", has_compiler=False)
    count, name = text.split(" ", 1)
    return Machine("cuda", tuple(Gpu(f"GPU-{number}", name) for number in range(int(count))))


def plan(row: Row) -> LaunchPlan:
    """What `windlass` makes of the row's command."""
    words = tuple(shlex.split(row.line))
    command = next((one for one in NATIVE_COMMANDS if words[: len(one)] == one), ())
    words, style = words[len(command) :], NATIVE if command else RUN
    files = probe.look(replace(looked_for(words, row.variables, style), model=str(model(row.model))))
    return resolve(words, row.variables, files, machine(row.machine), style)


@cache
def parser() -> Any:
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return make_arg_parser(FlexibleArgumentParser())


def parsed(words: tuple[str, ...]) -> Namespace:
    """The words as vLLM's server reads and checks them."""
    from vllm.entrypoints.launchers.cli_args import validate_parsed_serve_args
    from vllm.entrypoints.launchers.launcher import validate_api_server_args

    args: Namespace = parser().parse_args(list(words))
    validate_parsed_serve_args(args)
    validate_api_server_args(args)
    return args


def engine(args: Namespace, row: Row) -> Any:
    """The configuration of an engine of this machine with the row's model."""
    from vllm.engine.arg_utils import AsyncEngineArgs

    there = Namespace(**{**vars(args), "model": str(model(row.model))})
    return AsyncEngineArgs.from_cli_args(there).create_engine_config()


def template(args: Namespace) -> str:
    """The file of ours whose text vLLM loaded; empty for none."""
    from vllm.renderers.chat_utils import load_chat_template

    text = load_chat_template(args.chat_template)
    return next((path.name for path in templates.DIRECTORY.glob("*.jinja") if path.read_text() == text), "")


def stops(args: Namespace, row: Row) -> object:
    """The stop tokens that vLLM adds to every request."""
    return engine(args, row).model_config.try_get_generation_config().get("eos_token_id")


def value(path: str, row: Row, launch: LaunchPlan, args: Namespace) -> object:
    """What stands at a path of `flag_rows`."""
    root, _, rest = path.partition(".")
    match root:
        case "template":
            return template(args)
        case "stops":
            return stops(args, row)
        case "plan":
            return launch.value(rest)
        case "env":
            return launch.variables.get(rest)
        case "lookahead":
            return json.loads(launch.variables["WINDLASS_LOOKAHEAD"])[rest]
        case "front":
            return json.loads(launch.variables["WINDLASS_API"])[rest]
    found: Any = args if root == "args" else engine(args, row)
    for name in rest.split("."):
        found = found.get(name) if isinstance(found, dict) else getattr(found, name)
    return found


def shown(found: object) -> object:
    """As JSON has it."""
    if isinstance(found, list | tuple):
        return [shown(one) for one in found]
    if isinstance(found, dict):
        return {name: shown(one) for name, one in found.items()}
    if hasattr(found, "path") and hasattr(found, "name"):
        return [found.name, found.path]
    return found if found is None or isinstance(found, str | int | float | bool) else str(found)


def outcome(row: Row) -> Mapping[str, object]:
    """What became of a row."""
    try:
        launch = plan(row)
    except UsageError as error:
        sentence = str(error).replace(str(model(row.model)), "{model}")
        return {"refused": sentence, "exit_code": error.exit_code}
    planned.write(launch.files)
    args = parsed(launch.engine_args)
    reads = {path: shown(value(path, row, launch, args)) for path in row.reads}
    return {"reads": reads, "told": list(launch.warnings)}


def main() -> None:
    """Every row, whatever becomes of the others."""
    found: list[Mapping[str, object]] = []
    for row in ROWS:
        try:
            found.append(outcome(row))
        except (Exception, SystemExit) as error:  # told as the failure of the row
            found.append({"failed": f"{type(error).__name__}: {error}"[:2000]})
    print("RESULT " + json.dumps(found))


if __name__ == "__main__":
    main()
