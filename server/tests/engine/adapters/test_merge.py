"""Whole checkpoints with an adapter merged into them."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from windlass.engine.adapters import merge, read
from windlass.engine.adapters.model import Asked, Merge
from windlass.errors import ModelError
from windlass_sizing.settings.lora_modules import Given

A, B = "base_model.model.model.{}.lora_A.weight", "base_model.model.model.{}.lora_B.weight"


def planned(base: Path, adapter: Path, target: Path) -> Merge:
    """As the plan would be."""
    adapters, where = read.look(Asked(str(base), given=(Given("x", str(adapter)),), merge="x", discovers=False))
    return Merge(where, adapters.given[0], adapters.shards, str(target))


def merged(base: Path, adapter: Path, folder: Path) -> Path:
    folder.mkdir()
    merge.write(merge.open_checkpoint(planned(base, adapter, folder)), folder, lambda written, total: None)
    return folder


def pair(disk, module: str, shape: tuple[int, int], rank: int, seed: int = 1) -> dict[str, np.ndarray]:
    rows, columns = shape
    return {
        A.format(module): disk.numbers(rank, columns, seed=seed),
        B.format(module): disk.numbers(rows, rank, seed=seed + 1),
    }


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_one_file(tmp_path: Path, disk, dtype: str) -> None:
    """The changed tensor is the rounded sum, every other is byte for byte the base's."""
    base = disk.base(
        tmp_path / "base", {"model.q.weight": disk.numbers(5, 4), "model.norm.weight": disk.numbers(4)}, dtype=dtype
    )
    halves = pair(disk, "q", (5, 4), 2)
    adapter = disk.adapter(tmp_path / "x", halves, lora_alpha=4)
    before = disk.load(base / "model.safetensors")
    folder = merged(base, adapter, tmp_path / "out")
    after = disk.load(folder / "model.safetensors")
    wanted = before["model.q.weight"].astype(np.float64) + 2 * halves[B.format("q")] @ halves[A.format("q")]
    spacing = {"F32": 1e-6, "F16": 2.0**-10, "BF16": 2.0**-7}[dtype]
    assert np.allclose(wanted, after["model.q.weight"], rtol=spacing, atol=1e-6)
    assert not np.array_equal(before["model.q.weight"], after["model.q.weight"])
    assert before["model.norm.weight"].tobytes() == after["model.norm.weight"].tobytes()
    assert {dtype} == {row["dtype"] for row in header(folder / "model.safetensors").values()}
    assert (folder / "config.json").resolve() == base / "config.json"
    assert (folder / "tokenizer.json").resolve() == base / "tokenizer.json"


def header(path: Path) -> dict:
    content = path.read_bytes()
    body = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert body.pop("__metadata__") == {"format": "pt"}
    return body


def test_only_changed_shards_are_written(tmp_path: Path, disk) -> None:
    """The others are links, and the index names all of them."""
    first, second = {"model.q.weight": disk.numbers(3, 4)}, {"model.v.weight": disk.numbers(3, 4)}
    base = disk.base(tmp_path / "base", first, second)
    adapter = disk.adapter(tmp_path / "x", pair(disk, "v", (3, 4), 2))
    folder = merged(base, adapter, tmp_path / "out")
    linked, written = (folder / f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
    assert (linked.is_symlink(), written.is_symlink()) == (True, False)
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    assert index == {"model.q.weight": linked.name, "model.v.weight": written.name}
    assert list(disk.load(written)) == ["model.v.weight"]


def test_rank_stabilized_and_patterns(tmp_path: Path, disk) -> None:
    """Each module has its own rank and factor."""
    base = disk.base(tmp_path / "base", {f"model.{name}.weight": np.zeros((3, 4)) for name in "qv"})
    halves = {**pair(disk, "q", (3, 4), 2), **pair(disk, "v", (3, 4), 4)}
    more = {"use_rslora": True, "lora_alpha": 6, "alpha_pattern": {"v": 10}, "rank_pattern": {"v": 4}}
    folder = merged(base, disk.adapter(tmp_path / "x", halves, **more), tmp_path / "out")
    after = disk.load(folder / "model.safetensors")
    for name, scale in (("q", 6 / 2**0.5), ("v", 10 / 2)):
        wanted = scale * (halves[B.format(name)] @ halves[A.format(name)])
        assert np.allclose(wanted, after[f"model.{name}.weight"], atol=1e-5)


def test_transposed_weights(tmp_path: Path, disk) -> None:
    """An embedding's halves, and a base that keeps inputs × outputs."""
    base = disk.base(
        tmp_path / "base",
        {
            "model.embed_tokens.weight": np.zeros((7, 4)),
            "model.c.weight": np.zeros((4, 6)),
            "lm_head.weight": np.zeros(2),
        },
    )
    embed = "base_model.model.model.embed_tokens.lora_embedding_"
    halves = {
        f"{embed}A": disk.numbers(2, 7),
        f"{embed}B": disk.numbers(4, 2, seed=3),
        **pair(disk, "c", (6, 4), 2, seed=5),
    }
    folder = merged(base, disk.adapter(tmp_path / "x", halves, fan_in_fan_out=True), tmp_path / "out")
    after = disk.load(folder / "model.safetensors")
    assert np.allclose(2 * (halves[f"{embed}B"] @ halves[f"{embed}A"]).T, after["model.embed_tokens.weight"], atol=1e-5)
    assert np.allclose(2 * (halves[B.format("c")] @ halves[A.format("c")]).T, after["model.c.weight"], atol=1e-5)


def test_whole_modules_replace(tmp_path: Path, disk) -> None:
    """modules_to_save, in the base's own kind of number."""
    base = disk.base(
        tmp_path / "base", {"model.q.weight": disk.numbers(3, 4), "lm_head.weight": disk.numbers(6, 4)}, dtype="F16"
    )
    head = disk.numbers(6, 4, seed=9)
    tensors = {**pair(disk, "q", (3, 4), 2), "base_model.model.lm_head.weight": head}
    folder = merged(base, disk.adapter(tmp_path / "x", tensors, modules_to_save=["lm_head"]), tmp_path / "out")
    assert np.array_equal(head.astype(np.float16), disk.load(folder / "model.safetensors")["lm_head.weight"])


def test_a_base_that_only_may_be_read(tmp_path: Path, disk) -> None:
    """Nothing is written beside the base, not even by root: every file and time there stays as it was."""
    base = disk.base(tmp_path / "base", {"model.q.weight": disk.numbers(3, 4)})
    adapter = disk.adapter(base / "lora/x", pair(disk, "q", (3, 4), 2))
    for path in (*base.rglob("*"), base):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (base, *base.rglob("*"))}
    merged(base, adapter, tmp_path / "out")
    assert before == {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (base, *base.rglob("*"))}
    for path in (base, *base.rglob("*")):
        path.chmod(0o755)


def test_a_relative_base_is_linked_to(tmp_path: Path, disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links lead to the base from wherever the result lies."""
    disk.base(tmp_path / "base", {"model.q.weight": disk.numbers(3, 4)})
    disk.adapter(tmp_path / "x", pair(disk, "q", (3, 4), 2))
    monkeypatch.chdir(tmp_path)
    folder = merged(Path("base"), Path("x"), Path("out"))
    assert json.loads((folder / "config.json").read_text())["model_type"] == "qwen2"


def test_other_copies_of_the_weights_are_left_out(tmp_path: Path, disk) -> None:
    """A twin in another format would be served in place of the merged one."""
    base = disk.base(tmp_path / "base", {"model.q.weight": disk.numbers(3, 4)})
    for name in ("pytorch_model.bin", "consolidated.safetensors", "q4.gguf", "pytorch_model.bin.index.json"):
        (base / name).write_bytes(b"x")
    (base / "modeling.py").write_text("")
    folder = merged(base, disk.adapter(tmp_path / "x", pair(disk, "q", (3, 4), 2)), tmp_path / "out")
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "tokenizer.json",
        "modeling.py",
        "model.safetensors",
    }


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        pytest.param(
            {"model.q.weight": np.full((3, 4), 60000)}, "model.q.weight becomes too large for F16", id="large"
        ),
        pytest.param({"model.q.weight": np.ones((5, 4))}, "is 3×4 and the base's model.q.weight is 5×4", id="shape"),
        pytest.param(
            {"model.v.weight": np.ones((3, 4))}, "the base has no tensor for the adapter's base_model", id="none"
        ),
    ],
)
def test_what_cannot_be_merged(tmp_path: Path, disk, tensors: dict[str, np.ndarray], said: str) -> None:
    """The tensor is named."""
    base = disk.base(tmp_path / "base", tensors, dtype="F16")
    halves = {A.format("q"): np.full((2, 4), 100.0), B.format("q"): np.full((3, 2), 100.0)}
    with pytest.raises(ModelError) as raised:
        merged(base, disk.adapter(tmp_path / "x", halves), tmp_path / "out")
    assert said in str(raised.value)


def test_a_base_with_a_broken_index_is_refused_in_its_words(tmp_path: Path, disk) -> None:
    """The weights are there; the refusal names the index."""
    base = disk.base(tmp_path / "base", {"q.weight": disk.numbers(3, 4)})
    (base / merge.INDEX).write_text("{")
    adapter = disk.adapter(tmp_path / "adapter")
    with pytest.raises(ModelError, match=r"base model .* has weights that cannot be read: model\.safetensors\.index"):
        merge.open_checkpoint(planned(base, adapter, tmp_path))


def test_whole_numbers_are_no_weights(tmp_path: Path, disk) -> None:
    """A quantized tensor takes no sum."""
    base = disk.base(tmp_path / "base", {"model.q.weight": np.ones((3, 4))}, dtype="I64")
    with pytest.raises(ModelError, match=r"model\.q\.weight of base model .* is stored as I64, and only F32"):
        merged(base, disk.adapter(tmp_path / "x", pair(disk, "q", (3, 4), 2)), tmp_path / "out")


def test_a_tied_embedding_is_refused(tmp_path: Path, disk) -> None:
    """By the configuration, or because there is no output head."""
    embed = "base_model.model.model.embed_tokens.lora_embedding_"
    adapter = disk.adapter(tmp_path / "x", {f"{embed}A": np.ones((2, 7)), f"{embed}B": np.ones((4, 2))})
    tensors = {"model.embed_tokens.weight": np.ones((7, 4))}
    base = disk.base(tmp_path / "a", tensors)
    with pytest.raises(ModelError, match="for its input and its output alike"):
        merged(base, adapter, tmp_path / "out-a")
    base = disk.base(
        tmp_path / "b", {**tensors, "lm_head.weight": np.ones((7, 4))}, text_config={"tie_word_embeddings": 1}
    )
    with pytest.raises(ModelError, match="for its input and its output alike"):
        merged(base, adapter, tmp_path / "out-b")


def test_memory_stays_bounded(tmp_path: Path, disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor larger than a block is never held whole in float32."""
    monkeypatch.setattr("windlass.engine.adapters.arithmetic.BLOCK_BYTES", 64 * 1024)
    monkeypatch.setattr("windlass.engine.adapters.merge.COPY_BYTES", 64 * 1024)
    size = 1024
    base = disk.base(tmp_path / "base", {f"model.{name}.weight": disk.numbers(size, size) for name in ("q", "other")})
    adapter = disk.adapter(tmp_path / "x", pair(disk, "q", (size, size), 2))
    tracemalloc.start()
    try:
        merged(base, adapter, tmp_path / "out")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (base / "model.safetensors").stat().st_size > 8 * 1024**2
    assert peak < 1024**2
