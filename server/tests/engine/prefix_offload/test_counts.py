"""A8: what the engine's API writes of its hits is what the supervisor reads."""

import json
from pathlib import Path

import pytest
from windlass.engine.prefix_offload import counts
from windlass.engine.prefix_offload.hits import HitCount
from windlass.launch.model import Machine, ModelFiles
from windlass.launch.resolve import RUN, resolve
from windlass.license.model import Gpu
from windlass.supervisor.board import EngineFacts, FactsBoard

QWEN = ModelFiles("/m", "qwen2", 4096, attention_heads=28, architecture="Qwen2ForCausalLM")
CARD = Machine("cuda", (Gpu("GPU-0", "NVIDIA L20"),), memory_bytes=2**36, shared_bytes=2**35)


def test_engines_are_summed(tmp_path: Path) -> None:
    """Each engine behind the port has a file, which a later count replaces."""
    assert counts.read(tmp_path) is None
    counts.write(tmp_path, 0, HitCount(16, 100, 10, 20))
    counts.write(tmp_path, 1, HitCount(16, 300, 100, 50))
    counts.write(tmp_path, 1, HitCount(16, 400, 200, 60))
    assert counts.read(tmp_path) == {"promptTokens": 500, "gpuTokens": 210, "hostTokens": 80}
    counts.clear(tmp_path)
    assert counts.read(tmp_path) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"promptTokens": "much", "gpuTokens": 1, "hostTokens": 1}'])
def test_what_is_no_count_is_none(tmp_path: Path, text: str) -> None:
    """A file that a full disk cut short says nothing."""
    (tmp_path / "0.json").write_text(text)
    assert counts.read(tmp_path) is None


def test_a_directory_that_cannot_be_written_loses_the_figures_alone(tmp_path: Path) -> None:
    """The engine goes on."""
    (tmp_path / "file").write_text("")
    counts.write(tmp_path / "file", 0, HitCount(16, 1, 1, 0))
    assert (tmp_path / "file").read_text() == ""


def test_the_board_finds_the_folder_in_the_command_line(tmp_path: Path) -> None:
    """What an earlier process left there is not counted."""
    environment = {"HOME": "/cache", "TMPDIR": str(tmp_path)}
    words = ("--enable-prefix-cache-offload", "--port", "9000")
    folder = counts.of_words(resolve(words, environment, QWEN, CARD, RUN).engine_args)
    assert folder == tmp_path / "windlass-prefix-9000"
    counts.write(folder, 0, HitCount(16, 7, 0, 0))
    board = FactsBoard("qwen", EngineFacts("vllm", "", ()))
    board.set_counts(folder)
    assert "prefixCache" not in board.to_dict()
    counts.write(folder, 0, HitCount(16, 160, 32, 64))
    assert json.loads(json.dumps(board.to_dict()))["prefixCache"] == {
        "promptTokens": 160, "gpuTokens": 32, "hostTokens": 64,
    }  # fmt: skip


@pytest.mark.parametrize(
    "words", [(), ("--kv-transfer-config",), ("--kv-transfer-config", "{"), ("--kv-transfer-config", '{"a": 1}')]
)
def test_other_connectors_have_no_folder(words: tuple[str, ...]) -> None:
    """Nor does an engine without one."""
    assert counts.of_words(words) is None
