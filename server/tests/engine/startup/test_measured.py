"""The engine's own figures of its memory, out of its log."""

import pytest
from windlass.engine.startup.measured import figure

LINES = {
    "(EngineCore pid=7) INFO 01-01 00:00:00 [model_runner.py] Model loading took 14.25 GiB memory and 5.1 seconds": (
        "weightsGiB", 14.25),
    "INFO [gpu_worker.py:760] Available KV cache memory: 21.5 GiB": ("kvGiB", 21.5),
    "INFO Auto set (1.5/22.9) GiB for KV cache on node 0, with 4.6 GiB requested memory": ("kvGiB", 1.5),
    "INFO [kv_cache_utils.py:2328] GPU KV cache size: 402,480 tokens, Maximum concurrency": ("kvTokens", 402480),
    "INFO Loading weights took 3.1 seconds": None,
    "INFO Available KV cache memory: 1.2.3 GiB": None,
    "INFO GPU KV cache size: , tokens": None,
}  # fmt: skip


@pytest.mark.parametrize(("line", "found"), LINES.items(), ids=range(len(LINES)))
def test_a_figure_is_found_in_its_sentence(line: str, found: tuple[str, float] | None) -> None:
    assert figure(line) == found
