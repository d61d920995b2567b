"""Directories that hold traps: the real inspect program ends with a reason, in time and in its container's memory."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CONTAINER_BYTES = 512 * 1024**2
ANSWER_BYTES_MAX = 4096
ENDS_WITHIN_S = 240.0  # ends a hang
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000, "max_position_embeddings": 256,
}  # fmt: skip


def safetensors(size: int) -> bytes:
    header = json.dumps({"w": {"dtype": "BF16", "shape": [size // 2], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A whole model, which each trap bends."""
    directory = tmp_path / "volume" / "model"
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(LLAMA))
    (directory / "tokenizer.json").write_text("{}")
    (directory / "model.safetensors").write_bytes(safetensors(100))
    return directory


def inspected(model: Path, path: str = "model") -> dict[str, object]:
    """What the program leaves for the kubelet, started as the Job starts it, with the container's memory."""
    log = model.parent.parent / "termination-log"
    command = [sys.executable, "-m", "windlass_operator", "inspect", "--root", str(model.parent), f"--path={path}"]
    command += ["--source=pvc/models", "--termination-log", str(log)]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (CONTAINER_BYTES, CONTAINER_BYTES))

    ended = subprocess.run(command, capture_output=True, timeout=ENDS_WITHIN_S, preexec_fn=limit, check=False)
    assert (ended.returncode, b"Traceback" in ended.stderr) == (0, False), ended.stderr[-2000:]
    raw = log.read_bytes()
    assert len(raw) <= ANSWER_BYTES_MAX
    answer: dict[str, object] = json.loads(raw)
    return answer


def replaced(model: Path, name: str) -> Path:
    (model / name).unlink(missing_ok=True)
    return model / name


def a_pipe(name: str) -> Callable[[Path], None]:
    return lambda model: os.mkfifo(replaced(model, name))


def a_socket(name: str) -> Callable[[Path], None]:
    def make(model: Path) -> None:
        before = Path.cwd()
        os.chdir(model)  # a socket's path is at most 108 characters long
        try:
            with socket.socket(socket.AF_UNIX) as one:
                replaced(model, name)
                one.bind(name)
        finally:
            os.chdir(before)

    return make


def a_directory(name: str) -> Callable[[Path], None]:
    return lambda model: replaced(model, name).mkdir()


def a_ring(name: str) -> Callable[[Path], None]:
    return lambda model: replaced(model, name).symlink_to(name)


def content(name: str, raw: bytes) -> Callable[[Path], None]:
    return lambda model: [replaced(model, name).write_bytes(raw), None][1]


def empty_space(name: str, size: int) -> Callable[[Path], None]:
    def make(model: Path) -> None:
        with replaced(model, name).open("wb") as file:
            file.truncate(size)

    return make


def a_header(raw: bytes, said: int | None = None) -> Callable[[Path], None]:
    length = len(raw) if said is None else said
    return content("model.safetensors", length.to_bytes(8, "little") + raw + bytes(100))


def config(**values: object) -> Callable[[Path], None]:
    return content("config.json", json.dumps({**LLAMA, **values}).encode())


def many_files(model: Path) -> None:
    for number in range(40):
        (model / f"w{number:02d}-00001-of-99999.bin").write_bytes(b"x")
    replaced(model, "model.safetensors")


INDEX = "model.safetensors.index.json"
TRAPS: dict[str, tuple[Callable[[Path], None], str]] = {
    "config is a pipe": (a_pipe("config.json"), "NotRegularFile"),
    "config is a socket": (a_socket("config.json"), "NotRegularFile"),
    "config is a directory": (a_directory("config.json"), "NotRegularFile"),
    "config is a ring of links": (a_ring("config.json"), "ConfigMissing"),
    "weights are a pipe": (a_pipe("model.safetensors"), "NotRegularFile"),
    "weights are a directory": (a_directory("model.safetensors"), "NotRegularFile"),
    "weights are a ring of links": (a_ring("model.safetensors"), "ShardMissing"),
    "config nested 100,000 times": (content("config.json", b"[" * 100_000), "ConfigBroken"),
    "config of 200 MiB": (empty_space("config.json", 200 << 20), "ConfigBroken"),
    "config of three million lists": (content("config.json", b"[" + b"[]," * 3_000_000 + b"[]]"), "ConfigBroken"),
    "config of many objects": (content("config.json", b'{"a":[' + b"{}," * 900_000 + b"{}]}"), "ConfigBroken"),
    "config with a number of 5,000 digits": (content("config.json", b'{"a": ' + b"9" * 5000 + b"}"), "ConfigBroken"),
    "config is no text": (content("config.json", bytes(range(256))), "ConfigBroken"),
    "heads of finding 2": (config(num_attention_heads=1_000_000_000_039, head_dim=1), "ConfigImplausible"),
    "layers": (config(num_hidden_layers=10**12), "ConfigImplausible"),
    "hidden size": (config(hidden_size=10**400), "ConfigImplausible"),
    "vocabulary": (config(vocab_size=2**53), "ConfigImplausible"),
    "experts": (config(num_experts=10**9, moe_intermediate_size=1), "ConfigImplausible"),
    "a negative head": (config(head_dim=-4), "ConfigBroken"),
    "sizes of the wrong kind": (config(rope_scaling={"type": "linear", "factor": float("inf")}), "ConfigBroken"),
    "layers that repeat without end": (config(attention_types=[[["global"], 10**18]]), "facts"),
    "an expression without end": (config(quantization_config={"ignore": ["re:(.*)*x"] * 50, "bits": 4}), "facts"),
    "fifty thousand patterns": (
        config(quantization_config={"ignore": [f"{n}*a*b" for n in range(50_000)], "bits": 4}), "ConfigBroken",
    ),
    "names of megabytes": (config(architectures=["x" * 5_000_000]), "ConfigBroken"),
    "a name of half a character": (config(model_type="\ud800"), "ConfigBroken"),
    "header longer than the file": (a_header(b"{}", 2**40), "ShardBroken"),
    "header nested 100,000 times": (a_header(b"[" * 100_000), "ShardBroken"),
    "header of five million lists": (a_header(b"[" + b"[]," * 5_000_000 + b"[]]"), "ShardBroken"),
    "offsets of 400 digits": (a_header(b'{"w":{"dtype":"F32","data_offsets":[0,%d]}}' % (10**400)), "ShardBroken"),
    "offsets without end": (a_header(b'{"w":{"dtype":"F32","data_offsets":[0,1e999]}}'), "ShardBroken"),
    "a dtype of megabytes": (a_header(json.dumps({"w": {"dtype": "F" * 3_000_000, "data_offsets": [0, 9]}}).encode()),
                             "ShardBroken"),
    "an index nested 100,000 times": (content(INDEX, b"[" * 100_000), "IndexBroken"),
    "an index of 100 MiB": (empty_space(INDEX, 100 << 20), "IndexBroken"),
    "an index is a pipe": (a_pipe(INDEX), "facts"),  # no file, so no index
    "an index of impossible names": (
        content(INDEX, json.dumps({"weight_map": {"a": "\ud800", "b": "x" * 300}}).encode()), "PathUnreadable",
    ),
    "an index of 100,000 files": (
        content(INDEX, json.dumps({"weight_map": {n: f"{n}.bin" for n in range(100_000)}}).encode()), "IndexBroken",
    ),
    "four million shards": (many_files, "IndexBroken"),
}  # fmt: skip


@pytest.mark.parametrize("trap", TRAPS, ids=lambda one: one.replace(" ", "-"))
def test_a_trap_ends_in_a_reason(trap, model):
    """Without a traceback, and in no more memory than the container has."""
    make, reason = TRAPS[trap]
    make(model)
    answer = inspected(model)
    assert ("facts" if answer["ok"] else answer["reason"]) == reason, answer
    assert answer.get("message", "x")


def test_a_path_that_begins_with_a_dash_is_a_path(model):
    """It is no flag of the program."""
    model.rename(model.parent / "-x")
    assert inspected(model, "-x")["ok"]


def test_the_jobs_arguments_keep_such_a_path_together(model):
    """As the operator writes them into the Job."""
    from windlass_api.crd.v1alpha1 import LLMService
    from windlass_operator.manifests.inspect_job import inspect_job
    from windlass_operator.manifests.volume import ROOT_PATH

    service = LLMService.model_validate(
        {
            "apiVersion": "serving.windlass.dev/v1alpha1",
            "kind": "LLMService",
            "metadata": {"name": "a", "namespace": "b", "uid": "c"},
            "spec": {"model": {"id": "m", "source": {"pvc": {"claimName": "models", "path": "--help"}}}},
        }
    )
    job = inspect_job(service, "image", "Always")
    assert job["spec"]["activeDeadlineSeconds"] > 0
    args = job["spec"]["template"]["spec"]["containers"][0]["args"]
    log = model.parent.parent / "log"
    args = [str(model.parent) if one == ROOT_PATH else one for one in args]
    at_root = [sys.executable, "-m", "windlass_operator", *args, "--termination-log", str(log)]
    assert subprocess.run(at_root, capture_output=True, timeout=ENDS_WITHIN_S, check=False).returncode == 0
    assert json.loads(log.read_text())["reason"] == "PathNotFound"
