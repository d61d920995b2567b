"""The model that the demo and the tests serve: made by script, the same bytes for the same seed, complete."""

import hashlib
import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from windlass_sizing import checkpoint

from windlass.launch import probe

SCRIPT = Path(__file__).parents[3] / "models" / "demo" / "make_random.py"
SMALL = ("--layers", "2", "--hidden", "128")


def make(out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), str(out), *words], capture_output=True, text=True, check=False)


def digest(directory: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("model") / "demo"
    assert make(out, *SMALL).returncode == 0
    return out


def test_same_seed_same_bytes(model: Path, tmp_path: Path) -> None:
    """A cache keyed by content stays warm; another seed is another model."""
    make(tmp_path / "again", *SMALL)
    make(tmp_path / "other", *SMALL, "--seed", "21")
    assert digest(model) == digest(tmp_path / "again")
    changed = {name for name, value in digest(tmp_path / "other").items() if digest(model)[name] != value}
    assert changed == {"model.safetensors"}


def test_inspection_and_launch_take_it(model: Path) -> None:
    """The operator's inspection finds it complete; the server reads its context."""
    report = checkpoint.inspect(model.parent, model.name, "pvc/models")
    assert (report.ok, report.message) == (True, "")
    assert report.facts is not None
    assert (report.facts.num_attention_heads, report.facts.num_key_value_heads) == (2, 1)
    assert probe.model_files(str(model)).max_model_len == 4096


def test_weights_file_is_well_formed(model: Path) -> None:
    """Offsets are without gaps, shapes match bytes, and the output head is of the vocabulary's size."""
    content = (model / "model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    assert header.pop("__metadata__") == {"format": "pt"}
    at = 0
    for row in header.values():
        begin, end = row["data_offsets"]
        size = 2
        for side in row["shape"]:
            size *= side
        assert (at, begin + size) == (begin, end)
        at = end
    assert len(content) == 8 + length + at
    vocabulary = json.loads((model / "config.json").read_text())["vocab_size"]
    assert header["lm_head.weight"]["shape"] == [vocabulary, 128]


def test_tokenizer_is_complete(model: Path) -> None:
    """Every byte, every merge and every special token has a number of its own; the chat template uses them."""
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    vocabulary, special = tokenizer["model"]["vocab"], tokenizer["added_tokens"]
    numbers = sorted([*vocabulary.values(), *(row["id"] for row in special)])
    assert numbers == list(range(len(numbers)))
    assert [row["content"] for row in special] == ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    assert all("".join(merge.split(" ")) in vocabulary for merge in tokenizer["model"]["merges"])
    config = json.loads((model / "tokenizer_config.json").read_text())
    assert all(word in config["chat_template"] for word in ("<|im_start|>", "<|im_end|>", "add_generation_prompt"))
    assert config["eos_token"] == "<|im_end|>"


def test_bad_shape(tmp_path: Path) -> None:
    """A hidden size without whole heads is refused with one that works."""
    result = make(tmp_path / "x", "--hidden", "100")
    assert (2, "try --hidden 256\n") == (result.returncode, result.stderr[-17:])
