"""What is found on disk."""

import json
import os
from pathlib import Path

import pytest
from windlass.engine.adapters import base, read
from windlass.engine.adapters.model import FOUND, Asked
from windlass.errors import ModelError, UsageError
from windlass_sizing.settings.lora_modules import Given


@pytest.fixture
def model(tmp_path: Path, disk) -> Path:
    return disk.base(tmp_path / "model", {"q.weight": disk.numbers(3, 4)})


def look(path: Path, **more: object):
    return read.look(Asked(str(path), **more))


def test_a_model_without_adapters(model: Path) -> None:
    """Nothing is found, and the base is where the model is."""
    adapters, where = look(model)
    assert (adapters.own, adapters.found, adapters.given, adapters.shards) == (None, (), (), ())
    assert where == str(model)


def test_folders_of_the_model_directory(model: Path, disk) -> None:
    """Direct ones and one level deeper, by their names; hidden ones are none."""
    for name in ("direct", "lora/sql", "lora/poet", "a/b/too-deep", ".hidden"):
        disk.adapter(model / name, rank_pattern={"q": 5})
    found = look(model)[0].found
    assert [(adapter.name, adapter.origin, adapter.rank) for adapter in found] == [
        ("direct", FOUND, 5), ("poet", FOUND, 5), ("sql", FOUND, 5)
    ]  # fmt: skip
    assert [adapter.path for adapter in found][1] == str(model / "lora/poet")
    assert look(model, discovers=False)[0].found == ()


def test_given_ones(model: Path, disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is one inside the model directory when it leads to an adapter there."""
    disk.adapter(model / "lora/sql")
    disk.adapter(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    asked = (Given("a", "lora/sql"), Given("b", "elsewhere"), Given("c", str(tmp_path / "elsewhere")))
    given = look(model, given=asked, origin="flag")[0].given
    assert [adapter.path for adapter in given] == [
        str(model / "lora/sql"), str(tmp_path / "elsewhere"), str(tmp_path / "elsewhere")
    ]  # fmt: skip
    assert {(adapter.origin, adapter.problem) for adapter in given} == {("flag", "")}


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-5])


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        pytest.param(lambda d: (d / "adapter_config.json").unlink(), "has no adapter_config.json; ", id="no-config"),
        pytest.param(lambda d: (d / "adapter_config.json").write_text("{"), "is broken: adapter_config.json: Expecting",
                     id="config"),
        pytest.param(lambda d: (d / "adapter_config.json").write_text("[]"), "is broken: adapter_config.json holds no",
                     id="config-list"),
        pytest.param(lambda d: (d / "adapter_model.safetensors").unlink(),
                     "has no weights (adapter_model.safetensors or adapter_model.bin); copy it again", id="no-weights"),
        pytest.param(lambda d: cut(d / "adapter_model.safetensors"),
                     "is broken: adapter_model.safetensors: it is cut short by 5 bytes; copy it again", id="cut"),
        pytest.param(lambda d: (d / "adapter_model.safetensors").write_text("version https://git-lfs"),
                     "is broken: adapter_model.safetensors: it is no safetensors file", id="pointer"),
        pytest.param(lambda d: (d / "adapter_model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0[]"),
                     "is broken: adapter_model.safetensors: its header is damaged", id="header"),
        pytest.param(lambda d: (d / "adapter_model.safetensors").rename(d / "adapter_model.bin").write_bytes(b""),
                     "is broken: adapter_model.bin is empty; download it again", id="empty-bin"),
    ],
)  # fmt: skip
def test_a_broken_one(model: Path, disk, break_it, said: str) -> None:
    """The sentence says which file, and neither door opens."""
    broken = disk.adapter(model / "x")
    break_it(broken)
    (adapter,) = look(model, given=(Given("x", str(broken)),))[0].given
    assert adapter.problem.startswith(said)
    assert adapter.problem == adapter.merge_problem


def test_an_unreadable_one(model: Path, disk) -> None:
    """It is told as whom it was tried."""
    config = disk.adapter(model / "x") / "adapter_config.json"
    config.unlink()
    config.mkdir()
    (adapter,) = look(model, given=(Given("x", str(model / "x")),))[0].given
    assert adapter.problem == (
        f"cannot be used: adapter_config.json cannot be read as user {os.getuid()}: "
        "it is a directory, not a regular file; check the volume"
    )


def test_the_model_directory_is_an_adapter(tmp_path: Path, disk) -> None:
    """Its base is a neighbour of the name that it gives; its own checkpoints are not served beside it."""
    here = disk.adapter(tmp_path / "out/adapter", base_model_name_or_path="Qwen/Qwen2-7B")
    disk.adapter(here / "checkpoint-10")
    (here / "chat_template.jinja").write_text("x")
    there = disk.base(tmp_path / "Qwen2-7B", {"q.weight": disk.numbers(3, 4)})
    adapters, where = look(here)
    assert (where, adapters.found, adapters.chat_template) == (str(there), (), str(here / "chat_template.jinja"))
    assert adapters.own is not None
    assert (adapters.own.name, adapters.own.path) == ("adapter", str(here))


def test_a_config_of_the_base_beside_an_adapter_changes_nothing(tmp_path: Path, disk) -> None:
    """Some trainers copy it; without weights it is no base."""
    there = disk.base(tmp_path / "base", {"q.weight": disk.numbers(3, 4)})
    here = disk.adapter(tmp_path / "adapter", base_model_name_or_path=str(there))
    (here / "config.json").write_text("{}")
    assert look(here)[1] == str(there)


def test_files_without_weights_make_an_adapter_no_model(tmp_path: Path, disk) -> None:
    """An empty file, a link that leads nowhere, a folder of such a name, and a trainer's *.pt."""
    there = disk.base(tmp_path / "base", {"q.weight": disk.numbers(3, 4)})
    here = disk.adapter(tmp_path / "adapter", base_model_name_or_path=str(there))
    (here / "model.safetensors").touch()
    (here / "gone.safetensors").symlink_to(tmp_path / "nowhere")
    (here / "x.bin").mkdir()
    (here / "state.pt").write_bytes(b"1")
    adapters, where = look(here)
    assert (where, adapters.own is not None) == (str(there), True)


def test_an_adapter_among_a_models_weights_is_reported(model: Path, disk) -> None:
    """It cannot be served from there: the engine would take its weights for the model's."""
    disk.adapter(model / "x")
    for file in (model / "x").iterdir():
        file.rename(model / file.name)
    adapters, where = look(model)
    assert (adapters.own, where) == (None, str(model))
    assert adapters.notes[0].startswith(f"the adapter among the weights of {model} is not served; move")


def test_a_missing_base(tmp_path: Path, disk) -> None:
    """What is missing, where it was looked for, what to do."""
    here = disk.adapter(tmp_path / "adapter", base_model_name_or_path="/opt/base/qwen")
    with pytest.raises(ModelError) as raised:
        look(here)
    said = str(raised.value)
    assert said.startswith(f'model directory {here} is a LoRA adapter of "/opt/base/qwen", and that base model is not')
    assert f"(looked in /opt/base/qwen, {here}/qwen, " in said
    assert said.endswith("mount the base model and name its directory with --base-model or BASE_MODEL")


def test_a_base_that_is_not_named(tmp_path: Path, disk) -> None:
    """The usual neighbours are looked at all the same."""
    here = disk.adapter(tmp_path / "adapter")
    with pytest.raises(ModelError, match=r"that does not name its base \(base_model_name_or_path\)"):
        look(here)
    there = disk.base(tmp_path / "base_model", {"q.weight": disk.numbers(3, 4)})
    assert look(here)[1] == str(there)


def test_a_base_that_was_named(tmp_path: Path, model: Path, disk) -> None:
    """--base-model alone counts, for a directory that holds adapters only too."""
    here = disk.adapter(tmp_path / "here", base_model_name_or_path=str(model))
    with pytest.raises(UsageError, match=r"--base-model is /nope, which has no config\.json; name"):
        look(here, base="/nope")
    disk.adapter(tmp_path / "many/sql")
    adapters, where = look(tmp_path / "many", base=str(model))
    assert (where, [adapter.name for adapter in adapters.found]) == (str(model), ["sql"])
    with pytest.raises(UsageError, match="is a complete model; leave one of them out"):
        look(model, base=str(model))


def test_an_adapter_of_another_base(tmp_path: Path, disk) -> None:
    """Told by its shapes before anything starts; tensors that meet no partner prove nothing."""
    base = disk.base(tmp_path / "base", {"model.q.weight": disk.numbers(3, 8), "model.other.weight": disk.numbers(2)})
    disk.adapter(base / "wrong")
    disk.adapter(base / "elsewhere", {"x.y.lora_A.weight": disk.numbers(2, 4), "x.y.lora_B.weight": disk.numbers(2, 2)})
    elsewhere, wrong = look(base)[0].found
    assert (elsewhere.name, elsewhere.problem) == ("elsewhere", "")
    assert wrong.problem == wrong.merge_problem
    assert wrong.problem == (
        "does not fit the base: the adapter's base_model.model.model.q.lora_B.weight · "
        "base_model.model.model.q.lora_A.weight is 3×4 and the base's model.q.weight is 3×8; "
        "is it the base that it was trained on?"
    )


def test_packed_weights_have_shapes_of_their_own(tmp_path: Path, disk) -> None:
    """Of a quantized base nothing can be told by shapes."""
    base = disk.base(tmp_path / "base", {"model.q.weight": disk.numbers(6, 1)}, dtype="I64")
    disk.adapter(base / "x")
    assert look(base)[0].found[0].problem == ""


def test_only_a_merge_reads_bytes(model: Path, disk) -> None:
    """Bytes of the adapter that is meant, sizes and times of the base's weights."""
    disk.adapter(model / "sql")
    disk.adapter(model / "poet", lora_alpha=9)
    adapters = look(model, merge="sql")[0]
    assert [bool(adapter.digest) for adapter in adapters.found] == [False, True]
    stat = (model / "model.safetensors").stat()
    assert [(shard.name, shard.size, shard.mtime_ns) for shard in adapters.shards] == [
        ("model.safetensors", stat.st_size, stat.st_mtime_ns)
    ]
    before = {adapter.digest for adapter in look(model, merge="true")[0].found}
    (model / "sql/adapter_config.json").write_text(
        json.dumps({**json.loads((model / "sql/adapter_config.json").read_text()), "lora_alpha": 5})
    )
    after = {adapter.digest for adapter in look(model, merge="true")[0].found}
    assert (len(before), len(before & after)) == (2, 1)


def test_places_of_a_base() -> None:
    """The named one first, then beside the adapter, then one and two levels up."""
    found = base.places("/data/out/adapter", "Qwen/Qwen2-7B")
    assert found[:4] == (
        "/data/out/adapter/Qwen/Qwen2-7B",
        "/data/out/adapter/Qwen2-7B",
        "/data/out/adapter/base_model",
        "/data/out/adapter/base",
    )
    assert {"/data/out/Qwen2-7B", "/data/Qwen/Qwen2-7B", "/data/base_model"} <= set(found)
    assert base.places("/data/adapter", "/opt/qwen")[0] == "/opt/qwen"
    assert "/data/adapter" not in base.places("/data/adapter", "adapter")


@pytest.mark.parametrize("name", ["tokenizer.json", "adapter_model.safetensors", "notes"])
def test_a_pipe_in_an_adapters_folder_is_reported(model: Path, disk, name: str) -> None:
    """Its reader would wait for ever; the adapter is left out, or ends the start where it was named."""
    disk.adapter(model / "sql")
    (model / "sql" / name).unlink(missing_ok=True)
    os.mkfifo(model / "sql" / name)
    (found,) = look(model)[0].found
    assert found.problem == f"cannot be used: {name} is a named pipe, not a regular file; copy it again"
    assert found.merge_problem == found.problem
