"""Kept weights: found again only when they are whole and made from the same files in the same way."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from windlass.engine.quantization import keep
from windlass_sizing.quantization.methods import SMOOTHQUANT_FILE

MADE = keep.Made("ifq", "float16", "rows", True, "0/1 0/1", "0.32.0")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "qwen"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(200_000))
    return folder


@pytest.fixture
def kept(model: Path, tmp_path: Path) -> keep.Place:
    found = keep.place({keep.VARIABLE: str(tmp_path / "kept")}, model, MADE)
    assert found is not None
    return found


def published(kept: keep.Place, model: Path, pieces=(b"abc", b"defg")) -> dict[str, object]:
    source = keep.source(model, MADE)
    assert keep.publish(kept, pieces, source, {"head": "embedding"}) == sum(map(len, pieces))
    return source


def test_what_was_kept_is_found(kept, model) -> None:
    source = published(kept, model)
    assert keep.aliases(kept, source) == {"head": "embedding"}
    assert kept.file.read_bytes() == b"abcdefg"
    assert {path.suffix for path in kept.file.parent.iterdir()} == {".safetensors", ".json"}


def test_nothing_kept_is_no_fault(kept, model) -> None:
    with pytest.raises(FileNotFoundError):
        keep.aliases(kept, keep.source(model, MADE))


@pytest.mark.parametrize("damage", ["byte", "short", "long"])
def test_damage_is_noticed(kept, model, damage) -> None:
    source = published(kept, model)
    held = kept.file.read_bytes()
    kept.file.write_bytes({"byte": b"abcdefh", "short": held[:-1], "long": held + b"x"}[damage])
    with pytest.raises(ValueError, match="is damaged"):
        keep.aliases(kept, source)


def test_a_record_that_is_none_is_noticed(kept, model) -> None:
    source = published(kept, model)
    kept.record.write_text("[1")
    with pytest.raises(ValueError):
        keep.aliases(kept, source)


def same_size(model: Path) -> None:
    file = model / "model.safetensors"
    stat = file.stat()
    file.write_bytes(bytes(199_999) + b"x")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        lambda model: (model / "config.json").write_text('{"a": 1}'),
        lambda model: (model / "model.safetensors").write_bytes(bytes(200_001)),
        lambda model: os.utime(model / "model.safetensors", (1, 1)),
        lambda model: (model / "model-2.safetensors").write_bytes(b"more"),
        same_size,
    ],
    ids=["configuration", "size", "time", "a file more", "last byte"],
)
def test_a_changed_checkpoint_is_another(kept, model, change) -> None:
    published(kept, model)
    change(model)
    with pytest.raises(ValueError, match="was made from other files"):
        keep.aliases(kept, keep.source(model, MADE))


@pytest.mark.parametrize("other", [{"method": "ifq_nf4"}, {"rank": "1/2 0/1"}, {"head": False}, {"engine": "0.33.0"}])
def test_each_way_has_a_place_of_its_own(kept, model, other) -> None:
    environment = {keep.VARIABLE: str(kept.file.parent)}
    assert keep.place(environment, model, replace(MADE, **other)) != kept


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({"XDG_CACHE_HOME": "/cache"}, "/cache/windlass/quantized"),
        ({"WINDLASS_CACHE": "/fast", "XDG_CACHE_HOME": "/cache"}, "/fast/quantized"),
        ({keep.VARIABLE: "/kept", "XDG_CACHE_HOME": "/cache"}, "/kept"),
        ({keep.VARIABLE: "model"}, "/data/model/.windlass-quantized"),
        ({keep.VARIABLE: "off", "XDG_CACHE_HOME": "/cache"}, None),
    ],
)
def test_place(environment, directory) -> None:
    found = keep.place(environment, Path("/data/model"), MADE)
    assert directory == (None if found is None else str(found.file.parent))


def test_a_write_that_fails_leaves_nothing_to_find(kept, model) -> None:
    source = published(kept, model)

    def pieces():
        yield b"abc"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        keep.publish(kept, pieces(), source, {})
    with pytest.raises(FileNotFoundError):
        keep.aliases(kept, source)
    assert not list(kept.file.parent.glob("*.part"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(pieces=st.lists(st.binary(max_size=50), min_size=1), chunk=st.integers(1, 40))
def test_checksums_hold_for_any_chunks(kept, model, monkeypatch, pieces, chunk) -> None:
    monkeypatch.setattr(keep, "CHUNK_BYTES", chunk)
    source = published(kept, model, pieces)
    assert keep.aliases(kept, source) == {"head": "embedding"}
    size = len(b"".join(pieces))
    assert len(json.loads(kept.record.read_bytes())["chunks"]) == -(-size // chunk)


def test_what_is_read_ahead(kept, model) -> None:
    """The checkpoint until something is kept of it, and again when it has changed; never smoothquant's file."""
    environment = {keep.VARIABLE: str(kept.file.parent)}
    (model / SMOOTHQUANT_FILE).write_bytes(b"smooth")

    def names(method: str) -> list[str]:
        return [file.path.name for file in keep.ahead(environment, model, method)]

    assert names("ifq") == ["model.safetensors"]
    published(kept, model)
    assert names("ifq") == [kept.file.name]
    assert names("ifq_nf4") == ["model.safetensors"]
    assert names("smoothquant") == [SMOOTHQUANT_FILE]
    (model / "model.safetensors.index.json").write_text('{"weight_map": {"w": "model.safetensors"}}')
    assert names("smoothquant") == [SMOOTHQUANT_FILE]  # no index names it
    os.utime(model / "model.safetensors", (1, 1))
    assert names("ifq") == ["model.safetensors"]
