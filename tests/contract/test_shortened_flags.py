"""Shortened flags of the engine: plan and server read the same setting where the engine's parser takes a beginning."""

from __future__ import annotations

import pytest
from windlass.launch.model import Gpu, Machine, ModelFiles
from windlass.launch.resolve import resolve
from windlass_api.crd.v1alpha1 import LLMServiceSpec
from windlass_api.plan.overrides import SETTINGS, Setting, engine_in_force
from windlass_sizing import engine_flags
from windlass_sizing.settings.flags import BY_NAME, Flag
from windlass_sizing.settings.legacy import NAMES
from windlass_sizing.settings.parse import SHORT as ONE_DASH
from windlass_sizing.settings.parse import parse
from windlass_testbed.cases import every_case

MODEL = ModelFiles("/data/model", model_type="qwen2", max_model_len=131072, attention_heads=64)
NODE = Machine("cuda", tuple(Gpu(f"GPU-{n}", "NVIDIA L20") for n in range(8)))
TEXTS = {"dtype": "bfloat16", "kv_cache_dtype": "fp8", "gpu_memory_utilization_percent": "0.5"}
SHORT = {
    flag: flag[:length]
    for setting in SETTINGS for flag in setting.flags
    for length in range(3, len(flag))
    if flag.startswith("--") and engine_flags.record().meant(flag[:length]) == flag
}  # fmt: skip
"""The longest beginning of each flag that is read by the plan and can be shortened."""
FIELDS = {flag: setting for setting in SETTINGS for flag in setting.flags}


def a_spec(**parts: object) -> LLMServiceSpec:
    return LLMServiceSpec.model_validate({"model": {"id": "m", "source": {"pvc": {"claimName": "c"}}}, **parts})


def test_most_flags_can_be_shortened() -> None:
    """Else the tests below test nothing."""
    assert {"--max-model-len", "--tensor-parallel-size", "--enforce-eager", "--gpu-memory-utilization"} < set(SHORT)


@pytest.mark.parametrize(("flag", "short"), SHORT.items())
def test_the_plan_reads_a_beginning(flag: str, short: str) -> None:
    """As it reads the whole flag, with a value behind it, joined to it, and with underscores."""
    field = FIELDS[flag].field
    text = TEXTS.get(field, "true" if field == "enforce_eager" else "2")
    whole = getattr(engine_in_force(a_spec(args=[flag, text])), field)
    assert whole not in {None, getattr(a_spec().engine, field)}
    ways = ([short, text], [f"{short}={text}"], ["--" + short[2:].replace("-", "_"), text])
    assert [getattr(engine_in_force(a_spec(args=words)), field) for words in ways] == [whole] * len(ways)


@pytest.mark.parametrize(("flag", "short"), [pair for pair in SHORT.items() if pair[0].removeprefix("--") in BY_NAME])
def test_the_server_checks_a_beginning_as_the_whole(flag: str, short: str) -> None:
    """It is no word that passes by the server's own setting to the engine, which takes the last."""
    name = BY_NAME[flag.removeprefix("--")].name
    text = TEXTS.get(FIELDS[flag].field, "true" if name == "enforce-eager" else "2")
    plans = [resolve((MODEL.path, word, text), {}, MODEL, NODE) for word in (flag, short)]
    assert plans[0].engine_args == plans[1].engine_args
    assert plans[0].value(name) == plans[1].value(name)


@every_case("name", sorted({*BY_NAME, *NAMES}))
def test_a_flag_of_ours_is_no_beginning_of_another(name: str) -> None:
    """Or the plan would read it as the engine's."""
    assert engine_flags.record().meant(f"--{name}") == f"--{name}"


def test_a_beginning_of_several_is_none() -> None:
    """The server refuses it, and names them; the plan does not guess."""
    assert engine_in_force(a_spec(args=["--max-num", "7"])) == a_spec().engine


def spellings(row: Flag) -> set[str]:
    """By which the server takes one of its flags: the name, the other names, and those of one dash."""
    names = {name for name, flag in BY_NAME.items() if flag is row}
    return {*(f"--{name}" for name in names), *(word for word in ONE_DASH if word.removeprefix("-") in names)}


ROWS = [
    (setting, BY_NAME[flag.strip("-")]) for setting in SETTINGS for flag in setting.flags[:1] if flag[2:] in BY_NAME
]


@every_case("setting, row", ROWS, ids=[row.name for _, row in ROWS])
def test_every_spelling_of_the_server_is_the_plans(setting: Setting, row: Flag) -> None:
    """Or it would plan another server than the one that starts."""
    assert spellings(row) <= {*setting.flags}
    for word in spellings(row):
        assert parse((word, "1")).said == {row.name: "1"}, word


def test_most_settings_are_flags_of_the_server() -> None:
    """One is the engine's own, which has no short form."""
    assert [setting.field for setting in SETTINGS if setting.flags[0][2:] not in BY_NAME] == ["kv_cache_dtype"]
    assert spellings(BY_NAME["tp"]) == {"--tensor-parallel-size", "--num-gpus", "--tp", "-tp"}


def test_deepspeeds_flags_are_its_own() -> None:
    """vLLM's record says nothing of them."""
    spec = a_spec(args=["--max-mod", "512"], image={"family": "deepspeed"})
    assert engine_in_force(spec).max_model_len is None
