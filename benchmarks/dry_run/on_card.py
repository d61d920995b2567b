"""A full batch at 95 % of a card, without and with `--conservative-dry-run`: which engine runs out of memory?

    ENGINE=folder with vLLM CORE=folder of windlass_lookahead python3 benchmarks/dry_run/on_card.py OUT.jsonl

Each arm is an engine in a process of its own, behind a keeper, with random weights. A row is written as soon as its
arm ends. `--small` runs the arms on a CPU, where the flag does nothing: a test of this script alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "quantization"))

import keeper
from beside import plugin
from shapes import SMALL, describe

ROOT = Path(__file__).resolve().parents[2]
MIB = 2**20
CARD = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0] or "0"
"""The card that torch calls the first one, as nvidia-smi knows it."""
ROW, STAGE = "ROW ", "STAGE "
WITHOUT, WITH, COLD = "without", "with", "without-warm-up"
ARMS = (WITHOUT, WITH, COLD)
"""The last is without the flag too, and without the engine's warm-up: it comes up, and the first full batch decides."""
WORKER = "windlass.dry_run.worker.ConservativeDryRun"
ALLOCATOR = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
"""Both as `windlass.launch.dry_run` sets them with the flag, and one rank."""
ALLOCATORS = (*ALLOCATOR, "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
SHAPES = json.loads((ROOT / "benchmarks/predictions/shapes.json").read_text())
OF_EACH = {"max_position_embeddings": 32768, "torch_dtype": "bfloat16"}
QUICK = {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY", "cudagraph_capture_sizes": [16, 64, 256, 512]}
"""Graphs without compilation, which takes most of a first start."""
ARM_S_MIN = 45.0
"""Seconds that an arm needs at least; with fewer left it is not begun."""
END_S = 12.0
"""For the end of an arm: patience of its keeper, and the kernel's."""
QUIET = {
    "WINDLASS_LICENSE_REQUIRED": "false", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
    "PYTHONUNBUFFERED": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_ALLREDUCE_USE_FLASHINFER": "0",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "DEBUG",
}  # fmt: skip
"""FlashInfer's sampler is compiled with nvcc at the first start: the engine has another."""
LOGGED = (
    "conservative dry run", "Available KV cache memory", "KV cache size", "Graph capturing finished",
    "CUDA graph pool memory", "Model loading took", "Memory profiling takes", "CUDA graph memory profiling",
)  # fmt: skip
"""Lines of the engine's log that a row keeps."""
ANSWER = 8
PROMPTS = {"batch": (32,), "second batch": tuple(range(16, 49))}
"""Tokens of the prompts in turn: requests of the second batch begin at different times, so its steps differ in rows."""


@dataclass(frozen=True)
class Setting:
    """One engine and its batch."""

    arm: str
    work: str
    log: str
    requests: int
    drafts: int
    tokens: int
    utilization: float
    shape: str
    quantization: str
    is_compiled: bool
    is_small: bool


def main() -> int:
    """Run the arms one after another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="rows are appended here, one for each arm")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=262, help="of the whole run")
    parser.add_argument("--arms", default=",".join(ARMS), help="of these, in this order")
    parser.add_argument("--work", type=Path, default=Path("/tmp/dry-run"), help="models, caches and logs")  # noqa: S108
    parser.add_argument("--requests", type=int, default=2048, help="of the batch (--max-num-seqs)")
    parser.add_argument("--drafts", type=int, default=15, help="of each request, from its own text (ngram_gpu)")
    parser.add_argument("--tokens", type=int, default=32768, help="of one step (--max-num-batched-tokens)")
    parser.add_argument("--utilization", type=float, default=0.95, help="--gpu-memory-utilization")
    parser.add_argument("--arm-seconds", type=float, default=125, help="of one arm")
    parser.add_argument("--shape", choices=[*SHAPES], default="qwen2.5-1.5b", help="of the model")
    parser.add_argument("--compiled", action="store_true", help="with torch.compile, as the engine starts by itself")
    parser.add_argument("--quantization", default="", help="a method's name; empty: bfloat16")
    parser.add_argument("--small", action="store_true", help="a tiny model on a CPU")
    wanted = parser.parse_args()
    if wanted.child:
        return _child(Setting(**json.loads(wanted.child)))
    until = time.monotonic() + wanted.seconds
    wanted.out.parent.mkdir(parents=True, exist_ok=True)
    wanted.work.mkdir(parents=True, exist_ok=True)
    describe(wanted.work / "model", SMALL if wanted.small else SHAPES[wanted.shape] | OF_EACH)
    for arm in wanted.arms.split(","):
        left = until - time.monotonic() - END_S
        if left < (10 if wanted.small else ARM_S_MIN):
            row: dict[str, Any] = {"arm": arm, "outcome": "not begun", "why": f"{left:.0f} s are left"}
        else:
            row = _run(_setting(wanted, arm), min(left, wanted.arm_seconds))
        with wanted.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row, indent=1), flush=True)
    return 0


def _setting(wanted: argparse.Namespace, arm: str) -> Setting:
    small = wanted.small
    return Setting(
        arm=arm,
        work=str(wanted.work.resolve()),
        log=str(wanted.out.resolve().parent / f"{arm}.log"),
        requests=8 if small else wanted.requests,
        drafts=3 if small else wanted.drafts,
        tokens=512 if small else wanted.tokens,
        utilization=wanted.utilization,
        shape="tiny" if small else wanted.shape,
        quantization=wanted.quantization,
        is_compiled=wanted.compiled,
        is_small=small,
    )


# The side that starts engines and watches the card.


def _run(setting: Setting, limit_s: float) -> dict[str, Any]:
    """One arm; its row, however it ends."""
    begun, card = time.monotonic(), Card()
    row: dict[str, Any] = {**asdict(setting), "outcome": "ended without a word", "card": card.name}
    row["allocator"] = next((value for name in ALLOCATOR if (value := _variables(setting).get(name))), "")
    row = {name: value for name, value in row.items() if name not in ("work", "log")}
    command = [sys.executable, str(Path(__file__).resolve()), "-", "--child", json.dumps(asdict(setting))]
    with Path(setting.log).open("a") as log:
        child = keeper.start(
            command, patience_s=5, stdout=subprocess.PIPE, stderr=log, env=_variables(setting), text=True
        )
        reader = threading.Thread(target=_read, args=(child, row, card, log), daemon=True)
        reader.start()
        try:
            code = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            row["outcome"] = f"stopped after {limit_s:.0f} s"
            child.terminate()
            code = None
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = child.wait(END_S - 2)
        reader.join(2)
    card.close()
    row |= {"exit_code": code, "seconds": round(time.monotonic() - begun, 1), "free_least_mib": card.least}
    row["ended_in"] = card.stage
    if row["outcome"] not in ("finished", "out of memory"):
        row["log_end"] = _end_of(Path(setting.log))
    return row


def _read(child: subprocess.Popen[str], row: dict[str, Any], card: Card, log: TextIO) -> None:
    """Take the child's lines: the stage that begins, the fields of its row, and the engine's log."""
    assert child.stdout  # noqa: S101 - a pipe
    begun = time.monotonic()
    row |= {"stages_s": {}, "log_lines": []}
    for line in child.stdout:
        if line.startswith(STAGE):
            card.stage = line.removeprefix(STAGE).strip()
            row["stages_s"][card.stage] = round(time.monotonic() - begun, 1)
        elif line.startswith(ROW):
            with contextlib.suppress(ValueError):
                row.update(json.loads(line.removeprefix(ROW)))
        else:
            with contextlib.suppress(ValueError, OSError):  # closed, when the arm was stopped
                log.write(line)
                log.flush()
            if any(part in line for part in LOGGED):
                row["log_lines"].append(line.strip()[-400:])


def _end_of(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace")[-2500:]
    return ""


def _variables(setting: Setting) -> dict[str, str]:
    work = Path(setting.work)
    folders = [str(plugin(work / "beside")), *(str(ROOT / f"{one}/src") for one in ("server", "base", "sizing"))]
    folders += [folder for name in ("CORE", "ENGINE", "PYTHONPATH") if (folder := os.environ.get(name))]
    own = {"PYTHONPATH": ":".join(folders), "XDG_CACHE_HOME": str(work / "home")}
    own |= {"VLLM_CACHE_ROOT": str(work / "cache"), "TRITON_CACHE_DIR": str(work / "triton")}
    if setting.is_small:
        own |= {"VLLM_CPU_KVCACHE_SPACE": "1", "TORCHDYNAMO_DISABLE": "1"}
    if setting.arm == WITH:
        own |= ALLOCATOR
    return {name: value for name, value in os.environ.items() if name not in ALLOCATORS} | QUIET | own


class Card:
    """The least free memory of the engine's card in each stage, asked of nvidia-smi ten times a second."""

    def __init__(self) -> None:
        self.stage, self.name = "import", ""
        self.least: dict[str, int] = {}
        self._poll: subprocess.Popen[str] | None = None
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            named = ["nvidia-smi", "-i", CARD, "--query-gpu=name,memory.total", "--format=csv,noheader"]
            self.name = subprocess.run(named, capture_output=True, text=True, timeout=20, check=False).stdout.strip()
            words = [
                "nvidia-smi",
                "-i",
                CARD,
                "--query-gpu=memory.free",
                "--format=csv,noheader,nounits",
                "-lms",
                "100",
            ]
            self._poll = keeper.start(words, patience_s=2, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        """Ask no more."""
        if self._poll:
            self._poll.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._poll.wait(5)

    def _watch(self) -> None:
        assert self._poll  # noqa: S101 - started above
        assert self._poll.stdout  # noqa: S101 - a pipe
        for line in self._poll.stdout:
            with contextlib.suppress(ValueError):
                stage, free = self.stage, int(line.split()[0]) if line.split() else 0
                if free:
                    self.least[stage] = min(free, self.least.get(stage, free))


# The side with the engine.


def _child(setting: Setting) -> int:
    out: dict[str, Any] = {}
    try:
        _stage("import")
        from vllm import LLM

        _stage("start")
        llm = LLM(**_words(setting))
        out["kv_blocks"] = llm.llm_engine.vllm_config.cache_config.num_gpu_blocks
        for name, lengths in PROMPTS.items():
            _report(out)
            _stage(name)
            out[name] = _batch(llm, setting, lengths)
        out["outcome"] = "finished"
    except Exception as error:  # the outermost place: the row says how the arm ended
        text = f"{type(error).__name__}: {error}"
        out["outcome"] = "out of memory" if _is_memory(error) else "failed"
        out["why"] = text[:600]
        out["trace"] = traceback.format_exc()[-2500:]
    out |= _counts()
    _report(out)
    sys.stdout.flush()
    os._exit(0)


def _is_memory(error: BaseException | None) -> bool:
    """Whether an error, or its cause, is a card without memory."""
    while error is not None:
        if "OutOfMemory" in type(error).__name__ or "out of memory" in str(error).lower():
            return True
        error = error.__cause__ or error.__context__
    return False


def _words(setting: Setting) -> dict[str, Any]:
    """The words of the engine, as the start command gives them."""
    draft = {"method": "ngram_gpu", "num_speculative_tokens": setting.drafts,
             "prompt_lookup_min": 2, "prompt_lookup_max": 4}  # fmt: skip
    words: dict[str, Any] = {
        "model": f"{setting.work}/model",
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "dtype": "bfloat16",
        "max_model_len": 512 if setting.is_small else 2048,
        "max_num_seqs": setting.requests,
        "max_num_batched_tokens": setting.tokens,
        "enable_prefix_caching": False,
        "gpu_memory_utilization": setting.utilization,
    }
    if setting.quantization:
        from windlass.launch.quantize import METHOD, engine_value
        from windlass.quantization.plugin import register

        register()
        words["quantization"] = engine_value(METHOD, setting.quantization)
    if setting.is_small:
        return words | {"enforce_eager": True, "dtype": "float32", "distributed_executor_backend": "uni"}
    words["speculative_config"] = draft
    if not setting.is_compiled:
        words["compilation_config"] = QUICK
    if setting.arm == WITH:
        words["worker_cls"] = WORKER
    if setting.arm == COLD:
        words["kernel_config"] = {"enable_jit_warmup": False}
    return words


def _batch(llm: Any, setting: Setting, lengths: tuple[int, ...]) -> dict[str, Any]:  # noqa: ANN401 - vLLM's own
    """A full batch of sampled text, with all that a request may ask of the sampler."""
    from vllm import SamplingParams

    params = SamplingParams(
        temperature=1.0, top_p=0.9, top_k=50, frequency_penalty=0.5, presence_penalty=0.5, repetition_penalty=1.1,
        logprobs=5, prompt_logprobs=1, max_tokens=ANSWER, ignore_eos=True, detokenize=False,
    )  # fmt: skip
    prompts = [
        {"prompt_token_ids": [(7 * place + number) % 1000 + 1 for place in range(lengths[number % len(lengths)])]}
        for number in range(setting.requests)
    ]
    begun = time.monotonic()
    answers = llm.generate(prompts, params, use_tqdm=False)
    return {
        "answers": len(answers),
        "answer_tokens": sum(len(one.outputs[0].token_ids) for one in answers),
        "seconds": round(time.monotonic() - begun, 1),
    }


def _counts() -> dict[str, Any]:
    """What torch counted of the card's memory."""
    with contextlib.suppress(Exception):
        import torch

        if torch.cuda.is_available():
            stats = torch.cuda.memory_stats()
            return {
                "torch_peak_mib": int(stats["reserved_bytes.all.peak"]) // MIB,
                "torch_retries": int(stats["num_alloc_retries"]),
                "torch_out_of_memory": int(stats["num_ooms"]),
            }
    return {}


def _stage(name: str) -> None:
    print(STAGE + name, flush=True)


def _report(fields: dict[str, Any]) -> None:
    print(ROW + json.dumps(fields), flush=True)


if __name__ == "__main__":
    sys.exit(main())
