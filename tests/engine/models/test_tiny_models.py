"""The tiny models: complete by our own inspection, the same bytes twice, and loaded by transformers and by vLLM."""

import hashlib
from pathlib import Path

import pytest
from windlass_sizing.files import checkpoint

HERE = Path(__file__).parent
KINDS = "gqa mha untied head-dim moe mla vision fp32 sharded gemma gemma2 gemma3 phi3 glm4 bin lora".split()
SAMPLE = ("gqa", "bin", "moe")  # what the gate loads in vLLM; `make test-tiny` loads every kind


def digests(folder: Path) -> dict[str, str]:
    """The files' hashes; torch's zip format holds no time stamps."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_every_kind_is_made_and_the_same_seed_gives_the_same_bytes(engine, tiny, tmp_path):
    engine.python("/repo/models/tiny/make.py", "/out", mounts={tmp_path: "/out"})
    assert sorted(KINDS) == sorted(path.name for path in tiny.iterdir())
    assert digests(tiny) == digests(tmp_path)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lora"])
def test_our_inspection_finds_it_complete(tiny, kind):
    report = checkpoint.inspect(tiny, kind, "pvc/models")
    assert (report.ok, report.message) == (True, "")


def test_transformers_finds_every_weight(engine, tiny):
    """Nothing missing, nothing left over, nothing of another shape."""
    found = engine.result("/repo/tests/engine/models/load_tiny.py", "transformers", mounts={tiny: "/models:ro"})
    assert {kind: [] for kind in KINDS if kind != "lora"} == found


def test_vllm_serves_it(engine, tiny, request):
    """Greedy tokens come out, the same from one checkpoint in one file and in parts; the adapter changes them."""
    wanted = [kind for kind in KINDS if kind != "lora"] if request.config.getoption("--all-tiny") else SAMPLE
    found = engine.result("/repo/tests/engine/models/load_tiny.py", "vllm", *wanted, mounts={tiny: "/models:ro"})
    assert set(wanted) <= set(found)
    assert all(len(tokens) == 8 for tokens in found.values())
    assert found["gqa"] != found["lora"]
