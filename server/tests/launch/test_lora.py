"""Adapters in the start command: flags, variables, and what the engine gets."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from windlass import offline
from windlass.engine.adapters.model import FOUND, Adapter, Adapters
from windlass.errors import ModelError, UsageError
from windlass.launch import probe
from windlass.launch.model import LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import NATIVE, RUN, Style, looked_for, resolve
from windlass.license.model import Gpu
from windlass_sizing.settings.lora_modules import Given

L20 = Machine("cuda", (Gpu("GPU-a", "NVIDIA L20"),))
SQL = Adapter("sql", "/data/model/lora/sql", FOUND, rank=8, digest="d")
POET = Adapter("poet", "/data/model/lora/poet", FOUND, rank=24, digest="e")
OWN = Adapter("adapter", "/data/model", FOUND, rank=16, digest="f")
MODEL = ModelFiles("/data/model", model_type="qwen2", max_model_len=4096)


def launch(line: str = "", *, adapters: Adapters, style: Style = RUN, base: str = "", **variables: str) -> LaunchPlan:
    return resolve(tuple(line.split()), variables, replace(MODEL, adapters=adapters, base=base), L20, style)


def after(plan: LaunchPlan, flag: str) -> tuple[str, ...]:
    """The words that follow a flag."""
    if flag not in plan.engine_args:
        return ()
    words = plan.engine_args[plan.engine_args.index(flag) + 1 :]
    return words[: next((at for at, word in enumerate(words) if word.startswith("--")), len(words))]


def api(plan: LaunchPlan) -> dict[str, object]:
    return json.loads(plan.variables["WINDLASS_API"])


def test_none() -> None:
    """Without adapters the engine hears nothing of them."""
    plan = launch(adapters=Adapters())
    assert not [word for word in plan.engine_args if "lora" in word]
    assert plan.merge is None


def test_found_ones_are_served() -> None:
    """Names, the smallest rank that the engine allows and that holds them, and room for all in a batch."""
    plan = launch(adapters=Adapters(found=(SQL, POET)))
    assert "--enable-lora" in plan.engine_args
    assert after(plan, "--lora-modules") == ("sql=/data/model/lora/sql", "poet=/data/model/lora/poet")
    assert (after(plan, "--max-lora-rank"), after(plan, "--max-loras")) == (("32",), ("2",))
    assert api(plan)["lora_names"] == ["sql", "poet"]
    (row,) = [setting for setting in plan.settings if setting.name == "lora-modules"]
    assert (row.source, row.why) == (
        "model directory",
        "sql: model directory, rank 8; poet: model directory, rank 24",
    )


def test_many() -> None:
    """A batch holds four; all of them stay in memory."""
    found = tuple(replace(SQL, name=f"a{i}", path=f"/data/model/a{i}") for i in range(6))
    plan = launch(adapters=Adapters(found=found))
    assert (after(plan, "--max-loras"), after(plan, "--max-cpu-loras")) == (("4",), ("6",))


@pytest.mark.parametrize(("asked", "kept"), [("8", "8"), ("6", "6"), ("5", "6")])
def test_memory_has_a_place_for_each_of_a_batch(asked: str, kept: str) -> None:
    """The engine refuses fewer places in memory than in one step."""
    found = tuple(replace(SQL, name=f"a{i}", path=f"/data/model/a{i}") for i in range(6))
    plan = launch(f"--max-loras {asked}", adapters=Adapters(found=found))
    assert (after(plan, "--max-loras"), after(plan, "--max-cpu-loras")) == ((asked,), (kept,))


def test_given_words_stay() -> None:
    """A rank or a number that the user names is not overruled."""
    plan = launch("--max-lora-rank 64 --max-loras 9 --max-cpu-loras 20", adapters=Adapters(found=(SQL,)))
    assert [after(plan, f"--max-{name}") for name in ("lora-rank", "loras", "cpu-loras")] == [("64",), ("9",), ("20",)]
    with pytest.raises(UsageError, match="--max-lora-rank 8 is less than the rank 24"):
        launch("--max-lora-rank 8", adapters=Adapters(found=(POET,)))


def test_switched_off() -> None:
    """No adapter of the model directory is served then."""
    assert "--no-enable-lora" in launch("--no-enable-lora", adapters=Adapters(found=(SQL,))).engine_args


def test_the_model_directory_is_an_adapter() -> None:
    """The engine loads the base; the model's name, and a request without one, mean the adapter."""
    plan = launch(adapters=Adapters(own=OWN), base="/data/Qwen2-7B", MODEL_ID="sql-writer")
    assert (after(plan, "--model"), after(plan, "--served-model-name")) == (("/data/Qwen2-7B",), ("Qwen2-7B",))
    assert after(plan, "--lora-modules") == ("sql-writer=/data/model",)
    assert api(plan)["served_names"] == ["sql-writer", "Qwen2-7B"]
    (row,) = [setting for setting in plan.settings if setting.name == "model"]
    assert (row.source, row.why) == ("adapter_config.json", "base of the adapter /data/model")


@pytest.mark.parametrize(("line", "expected"), [("", "/data/model/x.jinja"), ("--chat-template /mine", "/mine")])
def test_a_chat_template_beside_the_adapter(line: str, expected: str) -> None:
    """The adapter was trained with it; one that was named wins."""
    adapters = Adapters(own=OWN, chat_template="/data/model/x.jinja")
    assert after(launch(line, adapters=adapters, base="/b"), "--chat-template") == (expected,)
    matched = launch("--conv-template qwen", adapters=adapters, base="/b")
    assert after(matched, "--chat-template") != ("/data/model/x.jinja",)


def test_merged() -> None:
    """The engine loads the merged weights and knows of no adapter; both names mean the model."""
    plan = launch("--merge-lora sql", adapters=Adapters(found=(SQL,)), WINDLASS_CACHE="/cache")
    assert plan.merge is not None
    assert (after(plan, "--model"), plan.model_path) == ((plan.merge.target,), plan.merge.target)
    assert plan.merge.target.startswith("/cache/merged/")
    assert after(plan, "--served-model-name") == ("model", "sql")
    assert not [word for word in plan.engine_args if "lora" in word]
    assert api(plan)["served_names"] == ["model", "sql"]


def test_merged_by_the_form_of_the_resource() -> None:
    """What the operator writes: a list, in which one adapter says so itself."""
    given = Given("sql", "lora/sql", merge=True)
    variable = '[{"name": "sql", "path": "lora/sql", "merge": true}]'
    adapters = Adapters(given=(replace(SQL, origin="variable LORA_MODULES", given=given),))
    assert looked_for((), {"LORA_MODULES": variable}).merge == "sql"
    plan = launch(adapters=adapters, LORA_MODULES=variable)
    assert plan.merge is not None
    assert not [word for word in plan.engine_args if "lora" in word]


def test_merged_with_the_engines_own_command() -> None:
    """The name stays the path that was said, not that of the cache."""
    adapters = Adapters(given=(replace(SQL, given=Given("sql", SQL.path)),))
    line = f"--model /data/model --merge-lora sql --lora-modules sql={SQL.path}"
    plan = launch(line, adapters=adapters, style=NATIVE)
    assert after(plan, "--served-model-name") == ("/data/model", "sql")


def test_what_is_looked_for() -> None:
    """Flags win over variables; the engine's own commands find nothing by themselves and read no variable."""
    variables = {"MODEL": "/m", "LORA_MODULES": "a=/a b=/b", "BASE_MODEL": "/base", "MERGE_LORA": "a"}
    asked = looked_for((), variables)
    assert (asked.model, asked.base, asked.merge, asked.discovers) == ("/m", "/base", "a", True)
    assert (asked.given, asked.origin) == ((Given("a", "/a"), Given("b", "/b")), "variable LORA_MODULES")
    words = ("--lora-modules", "c=/c", "d=/my dir", "--base-model=/other", "--merge-lora", "no")
    asked = looked_for(words, variables)
    assert (asked.base, asked.merge, asked.origin) == ("/other", "", "flag")
    assert asked.given == (Given("c", "/c"), Given("d", "/my dir"))
    asked = looked_for(("/m",), variables, NATIVE)
    assert (asked.base, asked.merge, asked.given, asked.discovers) == ("", "", (), False)
    assert looked_for(("--merge-lora", "yes"), {}).merge == "true"
    assert not looked_for(("--no-enable-lora",), {}).discovers
    assert looked_for(("/m", "--no-enable-lora", "--merge-lora", "a"), {}, NATIVE).discovers


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--lora-modules", "sql"),
            '--lora-modules is "sql", which is no list of adapters; write name=path …, or {"name',
        ),
        (("--lora-modules",), "--lora-modules needs a value"),
        (
            ("--merge-lora", "a", "--lora-modules", '{"name": "b", "path": "/b", "merge": true}'),
            "only one adapter can be merged, and a and b are to be; choose one",
        ),
    ],
)
def test_bad_words(words: tuple[str, ...], said: str) -> None:
    """A sentence that says what to write."""
    with pytest.raises(UsageError) as error:
        looked_for(words, {})
    assert str(error.value).startswith(said)


def test_files_of_an_adapter_and_its_base(tmp_path: Path) -> None:
    """Sizes and lengths are the base's; the platform's own file beside the adapter names the model."""
    adapter, base = tmp_path / "adapter", tmp_path / "base"
    for folder in (adapter, base):
        folder.mkdir()
    (base / "config.json").write_text(json.dumps({"model_type": "new", "vocab_size": 7}))
    (base / "model.safetensors").write_bytes(b"x")
    (adapter / "adapter_config.json").write_text(json.dumps({"r": 8, "lora_alpha": 8, "target_modules": ["q"]}))
    (adapter / "ti_model_config.json").write_text(json.dumps({"model_id": "mine"}))
    files = probe.look(looked_for((str(adapter),), {}))
    assert (files.path, files.weights_path, files.vocab_size, files.model_id) == (str(adapter), str(base), 7, "mine")
    assert files.adapters.own is not None
    assert files.adapters.own.problem.startswith("has no weights")
    with pytest.raises(ModelError, match=r'adapter "adapter" \(.*\) has no weights'):
        resolve((str(adapter),), {}, files, L20)


def test_no_words_at_all_are_reported_as_before(tmp_path: Path) -> None:
    """A directory without any config is no adapter either."""
    (tmp_path / "x").mkdir()
    with pytest.raises(ModelError, match=r"has no config\.json; it has: x; check the model's path"):
        probe.look(looked_for((str(tmp_path),), {}))


def on_disk(folder: Path, **files: dict[str, object]) -> Path:
    """A directory of JSON files, and weights that hold no tensor."""
    folder.mkdir()
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    kind = "adapter_model" if "adapter_config" in files else "model"
    (folder / f"{kind}.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    return folder


def test_without_a_server(tmp_path: Path) -> None:
    """The engine's class is told to expect adapters; names are for servers, and an adapter is no model to load."""
    cpu = {"WINDLASS_ENGINE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1"}
    adapter_config = {"r": 8, "lora_alpha": 8, "target_modules": ["q"]}
    base = on_disk(tmp_path / "base", config={"model_type": "new"})
    on_disk(base / "sql", adapter_config=adapter_config)
    words = offline.engine_options(str(base), {}, cpu)
    assert (words["model"], words["enable_lora"], words["max_lora_rank"]) == (str(base), True, 8)
    assert "lora_modules" not in words
    adapter = on_disk(tmp_path / "adapter", adapter_config=adapter_config)
    with pytest.raises(UsageError, match=r"adapter is a LoRA adapter, and LLM loads complete models; load .*base with"):
        offline.engine_options(str(adapter), {}, cpu)
