"""Looking at a model directory: whole ones give facts, others a sentence that says what is there."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest
import safetensors as safetensors_library
from windlass_sizing.errors import CheckpointError
from windlass_sizing.files.checkpoint import REASONS, CheckpointReport, inspect
from windlass_sizing.files.source import read_facts

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000, "max_position_embeddings": 256,
}  # fmt: skip


SIZES = {"BF16": 2, "F32": 4, "F16": 2}


def safetensors(size: int, dtype: str = "BF16", name: str = "w") -> bytes:
    header = json.dumps(
        {"__metadata__": {}, name: {"dtype": dtype, "shape": [size // SIZES[dtype]], "data_offsets": [0, size]}}
    ).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume with one whole model, `good`, of two shards."""
    root = tmp_path / "volume"
    good = root / "good"
    good.mkdir(parents=True)
    (good / "config.json").write_text(json.dumps(CONFIG))
    (good / "tokenizer.json").write_text("{}")
    shards = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    for shard in shards:
        (good / shard).write_bytes(safetensors(1000))
    weight_map = {f"layer{number}": shard for number, shard in enumerate(shards)}
    (good / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return root


def refused(volume: Path, path: str = "good") -> CheckpointReport:
    report = inspect(volume, path, "pvc/models")
    assert not report.ok
    assert report.reason in REASONS
    assert CheckpointReport.from_dict(json.loads(report.to_json())) == report
    return report


def test_a_whole_checkpoint_gives_its_facts(volume):
    """Bytes and number format are those of the files."""
    report = inspect(volume, "/good/", "pvc/models")
    assert report.ok
    assert (report.facts.weights_bytes, report.facts.stored_dtype, report.facts.params) == (2000, "bfloat16", 1000)
    assert CheckpointReport.from_dict(json.loads(report.to_json())) == report


def test_the_root_of_a_volume_can_be_the_model(volume):
    """An empty path is the volume itself."""
    assert inspect(volume / "good").ok


def test_a_wrong_path_says_what_there_is(volume):
    """The nearest existing parent is listed."""
    report = refused(volume, "god/x")
    assert report.reason == "PathNotFound"
    assert report.message == 'source.path "god/x" is not in PVC models; / has: good'


def test_a_directory_without_config_says_what_it_has(volume):
    """The sentence of the house style, to the letter."""
    assert refused(volume, "").message == 'source.path "" has no config.json in PVC models; it has: good'
    (volume / "params.json").write_text('{"dim": 4096, "n_layers": 32}')
    way = "params.json, Mistral's form, is not read: put the model's config.json beside it"
    assert refused(volume, "").message == f'source.path "" has no config.json in PVC models; {way}'
    with pytest.raises(CheckpointError, match=re.escape(f"{volume} has no config.json; {way}")):
        read_facts(volume)


def test_long_listings_stay_short(volume):
    """Twenty names and how many more; the line fits a termination message, whatever the names."""
    for number in range(3000):
        (volume / f"{number:04d}-{'ü' * 40}").mkdir()
    report = refused(volume, "nothing")
    assert "and 2981 more" in report.message
    assert len(report.to_json().encode()) <= 4000


def test_a_file_is_not_a_directory(volume):
    """A path to config.json itself is a common slip."""
    assert (
        "is a file, not a directory, in PVC models; /good has: config.json"
        in refused(volume, "good/config.json").message
    )


def test_a_path_that_goes_up_is_refused(volume):
    """Neither in words nor through a link."""
    (volume / "link").symlink_to("/")
    assert refused(volume, "good/../..").reason == "PathEscapes"
    assert refused(volume, "link/etc").reason == "PathEscapes"


def test_a_link_inside_the_volume_is_followed(volume):
    """`latest -> good` is how people switch models."""
    (volume / "latest").symlink_to("good")
    assert inspect(volume, "latest").ok


def test_a_shard_that_links_out_of_the_directory_is_refused(volume):
    """The hub's cache layout links to ../../blobs, which the server's mount does not hold."""
    (volume / "blob").write_bytes(safetensors(1000))
    shard = volume / "good" / "model-00001-of-00002.safetensors"
    shard.unlink()
    shard.symlink_to("../blob")
    report = refused(volume)
    assert report.reason == "PathEscapes"
    assert "copy the file itself" in report.message


@pytest.mark.parametrize("text", ["{", "[]", "", "\x00"], ids=["cut", "a list", "empty", "binary"])
def test_a_broken_config_is_reported(volume, text):
    """Not JSON, or not an object."""
    (volume / "good" / "config.json").write_text(text)
    report = refused(volume)
    assert report.reason == "ConfigBroken"
    assert 'source.path "good" in PVC models: config.json' in report.message


def test_a_config_that_says_too_little_names_the_keys(volume):
    """The facts' own error, with the path in front."""
    (volume / "good" / "config.json").write_text('{"model_type": "llama"}')
    assert "config.json does not say hidden_size" in refused(volume).message


def test_missing_shards_are_named(volume):
    """By the index, and by the numbers in the names when there is no index."""
    (volume / "good" / "model-00002-of-00002.safetensors").unlink()
    assert "1 of 2 weight files are missing: model-00002-of-00002.safetensors" in refused(volume).message
    (volume / "good" / "model.safetensors.index.json").unlink()
    assert refused(volume).reason == "ShardMissing"


def test_a_shard_cut_short_is_found_by_its_header(volume):
    """A download that stopped."""
    shard = volume / "good" / "model-00001-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-10])
    report = refused(volume)
    assert report.reason == "ShardBroken"
    assert "model-00001-of-00002.safetensors is not whole: it has" in report.message


@pytest.mark.parametrize(
    "content",
    [b"", b"version https://git-lfs.github.com/", b"<html>404</html>", b"\x10" + bytes(7) + b"not json 123456"],
    ids=["empty", "LFS pointer", "a web page", "no JSON"],
)  # fmt: skip
def test_what_is_not_weights_is_reported(volume, content):
    """Everything that lands in the place of a shard."""
    (volume / "good" / "model-00001-of-00002.safetensors").write_bytes(content)
    assert refused(volume).reason == "ShardBroken"


def test_an_index_that_cannot_be_read_is_reported(volume):
    """Its own reason, for it is its own file."""
    (volume / "good" / "model.safetensors.index.json").write_text("{}")
    assert refused(volume).reason == "IndexBroken"


def test_bin_shards_are_weights_too(volume):
    """PyTorch files have no header: their size is their size, and the trainer's own files are none."""
    good = volume / "good"
    for path in good.glob("model*"):
        path.unlink()
    assert refused(volume).reason == "WeightsMissing"
    (good / "training_args.bin").write_bytes(b"x")
    assert refused(volume).reason == "WeightsMissing"
    (good / "pytorch_model.bin").write_bytes(bytes(5000))
    assert inspect(volume, "good").facts.weights_bytes == 5000


def test_a_missing_tokenizer_is_reported(volume):
    """The server would find out only after loading the weights."""
    (volume / "good" / "tokenizer.json").unlink()
    assert refused(volume).reason == "TokenizerMissing"


def test_quantization_beside_the_config_is_read(volume):
    """Older GPTQ exports say it in a file of its own."""
    (volume / "good" / "quantize_config.json").write_text('{"bits": 4, "group_size": 128}')
    facts = inspect(volume, "good").facts
    assert (facts.quantization, facts.quantization_bits) == ("gptq", 4)


def test_what_may_not_be_read_is_reported(volume, monkeypatch):
    """A directory of another user; the tests run as root, so the refusal is played."""

    def refuse(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("windlass_sizing.files.documents.os.open", refuse)
    report = refused(volume)
    assert report.reason == "PathUnreadable"
    assert "config.json: Permission denied; the server runs as user 10001" in report.message


def bytes_of(*tensors: tuple[str, list[int], int, int], more: int = 0) -> bytes:
    """A file of tensors: format, shape, place; and so many bytes after the last."""
    header = json.dumps(
        {
            f"w{number}": {"dtype": one[0], "shape": one[1], "data_offsets": one[2:]}
            for number, one in enumerate(tensors)
        }
    ).encode()
    return len(header).to_bytes(8, "little") + header + bytes(max(one[3] for one in tensors) + more)


WHOLE = (("F32", [8, 8], 0, 256), ("BF16", [4, 8], 256, 320))
NOT_WHOLE = {
    "longer than its header": bytes_of(*WHOLE, more=64),
    "a hole": bytes_of(WHOLE[0], ("BF16", [4, 8], 320, 384)),
    "an overlap": bytes_of(WHOLE[0], ("BF16", [4, 8], 192, 256)),
    "bytes before the first": bytes_of(("F32", [8, 8], 64, 320)),
    "another shape": bytes_of(("F32", [8, 9], 0, 256), WHOLE[1]),
    "half a value": bytes_of(("F32", [8, 8], 0, 256), ("F4", [3], 256, 258)),
}


@pytest.mark.parametrize("content", NOT_WHOLE.values(), ids=NOT_WHOLE.keys())
def test_a_file_that_its_header_does_not_cover_is_broken(volume, content):
    """As the engine's own reader refuses it: a download that was resumed wrongly leaves such files."""
    with pytest.raises(safetensors_library.SafetensorError):
        safetensors_library.deserialize(content)
    (volume / "good" / "model-00001-of-00002.safetensors").write_bytes(content)
    assert refused(volume).reason == "ShardBroken"


def test_a_file_that_its_header_covers_is_whole(volume):
    """In any order of the names, with formats that we do not know and tensors of no values."""
    content = bytes_of(WHOLE[1], WHOLE[0], ("F32", [0], 256, 256), ("F4", [4], 320, 322))
    assert len(safetensors_library.deserialize(content)) == 4
    (volume / "good" / "model-00001-of-00002.safetensors").write_bytes(content)
    assert inspect(volume, "good").facts.weights_bytes == 1000 + 322


def of_good(volume: Path, *names: str) -> Path:
    """The good model with these weight files of 1000 bytes, and no others."""
    good = volume / "good"
    for path in good.glob("model*"):
        path.unlink()
    for name in names:
        (good / name).write_bytes(safetensors(1000))
    return good


SERIES = {
    "from zero, to the count": [f"model-0000{number}-of-00002.safetensors" for number in (0, 1, 2)],
    "from zero, before the count": [f"model-0000{number}-of-00003.safetensors" for number in (0, 1, 2)],
    "of one digit": [f"model-{number}-of-3.safetensors" for number in (1, 2, 3)],
    "of six digits": [f"model-00000{number}-of-000003.safetensors" for number in (1, 2, 3)],
    "with underscores": [f"model_{number:02d}_of_03.safetensors" for number in (1, 2, 3)],
}


@pytest.mark.parametrize("names", SERIES.values(), ids=SERIES.keys())
def test_a_series_is_counted_whole_however_it_is_numbered(volume, names):
    """Every file, and the one that is missing by its name."""
    good = of_good(volume, *names)
    assert inspect(volume, "good").facts.weights_bytes == 3000
    (good / names[1]).unlink()
    assert f"1 of 3 weight files are missing: {names[1]}" in refused(volume).message


def an_index(good: Path, name: str, *files: str) -> None:
    (good / name).write_text(json.dumps({"weight_map": {f"w{number}": file for number, file in enumerate(files)}}))


def test_an_index_without_its_files_leaves_what_is_there(volume):
    """The engine takes the first kind of files that lies there; an index sorts out files of its kind alone."""
    good = of_good(volume)
    shards = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    an_index(good, "model.safetensors.index.json", *shards)
    assert f"2 of 2 weight files are missing: {', '.join(shards)}" in refused(volume).message
    pickles = [f"pytorch_model-0000{number}-of-00002.bin" for number in (1, 2)]
    for name in pickles:
        (good / name).write_bytes(bytes(700))
    assert inspect(volume, "good").facts.weights_bytes == 1400
    an_index(good, "pytorch_model.bin.index.json", *pickles)
    assert inspect(volume, "good").facts.weights_bytes == 1400
    (good / shards[0]).write_bytes(safetensors(1000))
    assert "1 of 2 weight files are missing" in refused(volume).message


def test_mistrals_own_file_is_counted_once(volume):
    """It is what the engine reads, beside the same weights under transformers' names, whole or not."""
    good = volume / "good"
    (good / "consolidated.safetensors").write_bytes(safetensors(1900, "F32"))
    (good / "params.json").write_text("{}")
    facts = inspect(volume, "good").facts
    assert (facts.weights_bytes, facts.stored_dtype) == (1900, "float32")
    (good / "model-00002-of-00002.safetensors").unlink()
    assert inspect(volume, "good").ok
    (good / "consolidated.safetensors").write_bytes(safetensors(1900)[:-1])
    assert refused(volume).reason == "ShardBroken"


def test_mistrals_own_file_in_a_folder_is_refused(volume):
    """The engine would look for such files alone, and find none."""
    inner = volume / "good/original"
    inner.mkdir()
    (inner / "consolidated.safetensors").write_bytes(safetensors(1900))
    report = refused(volume)
    assert report.reason == "ShardMissing"
    assert "original/consolidated.safetensors in a folder inside makes the engine look for" in report.message


def test_an_index_of_other_pickles_leaves_those_that_are_there(volume):
    """The engine reads no index of .bin files."""
    good = of_good(volume)
    (good / "pytorch_model.bin").write_bytes(bytes(900))
    an_index(good, "pytorch_model.bin.index.json", "pytorch_model-00001-of-00001.bin")
    assert inspect(volume, "good").facts.weights_bytes == 900


def test_an_archive_whose_end_speaks_of_two_disks_is_broken(volume):
    """Python 3.11 raises for such an end where later ones answer that it is no archive."""
    good = volume / "odd"
    good.mkdir()
    (good / "config.json").write_text(json.dumps(CONFIG))
    (good / "tokenizer.json").write_text("{}")
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, 0, 2)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0, 0, 0, 0, 0)
    (good / "pytorch_model.bin").write_bytes(b"PK\x03\x04" + bytes(100) + locator + end)
    report = refused(volume, "odd")
    assert report.reason == "ShardBroken"
    assert "pytorch_model.bin is not whole: its end is missing; download it again" in report.message
