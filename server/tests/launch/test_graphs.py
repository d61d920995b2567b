"""`windlass run` has short prompts run as CUDA graphs."""

from dataclasses import replace

import pytest
from windlass.launch.graphs import FLAG
from windlass.launch.model import LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import NATIVE, RUN, Style, resolve
from windlass.license.model import Gpu

ONE = Machine("cuda", (Gpu("GPU-0", "NVIDIA L20"),), memory_bytes=64 * 2**30)
LLAMA = ModelFiles("/m", "llama", 8192, attention_heads=32, architecture="LlamaForCausalLM")


def launch(words: str, machine: Machine = ONE, style: Style = RUN) -> LaunchPlan:
    return resolve(tuple(words.split()), {"HOME": "/cache"}, LLAMA, machine, style)


def captured(plan: LaunchPlan) -> list[str]:
    words = plan.engine_args
    return [words[at + 1] for at, word in enumerate(words) if word == FLAG]


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        ("--max-num-seqs 32", ["1024"]),
        ("--max-num-seqs 255 --quantization fp8", ["1024"]),
        ("", ["1024"]),
        ("--max-num-seqs 32 --enforce-eager", []),
        ("--max-num-seqs 32 --use-lookahead", []),
        ('--max-num-seqs 32 --speculative-conf {"method":"ngram","num_speculative_tokens":2}', []),
    ],
)
def test_graphs_reach_1024_tokens(words: str, tokens: list[str]) -> None:
    """With drafts, and without graphs, the engine decides."""
    assert captured(launch(words)) == tokens


@pytest.mark.parametrize(
    "said",
    [
        '--compilation-config {"cudagraph_capture_sizes":[1,2]}',
        "--compilation-config.mode=0",
        "-cc.mode=3",
        "-O1",
        "--max_cudagraph_capture_size=64",
        '--compilation-conf {"cudagraph_capture_sizes":[1,2]}',
        "--cudagraph-capture-s 1 2",
        "--performance-mode interactivity",
    ],
)
def test_what_the_user_says_of_graphs_stays(said: str) -> None:
    """It reaches the engine alone."""
    plan = launch(f"--max-num-seqs 32 {said}")
    assert FLAG not in plan.engine_args
    assert said.split(maxsplit=1)[0] in plan.engine_args


def test_the_engines_own_command_and_the_cpu_are_left_alone() -> None:
    """Neither fills in a default of the engine."""
    assert captured(launch("--max-num-seqs 32", style=NATIVE)) == []
    assert captured(launch("--max-num-seqs 32", replace(ONE, engine="cpu"))) == []
