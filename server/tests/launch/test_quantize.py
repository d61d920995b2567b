"""Our quantization methods in the plan: the engine's name, the dtype, the loader, and what `auto` comes to."""

from dataclasses import replace

import pytest
from windlass.launch.model import LaunchPlan, Machine, ModelFiles
from windlass.launch.resolve import NATIVE, RUN, resolve
from windlass.license.model import Gpu
from windlass_testbed.cases import every_case

PLAIN = ModelFiles("/data/model", model_type="qwen2", max_model_len=32768, attention_heads=28)
WITH_FILE = replace(PLAIN, has_smoothquant_file=True)
FILE_ALONE = replace(WITH_FILE, has_plain_weights=False)
L20 = Machine("cuda", (Gpu("GPU-0", "NVIDIA L20"),))
BEYOND = "--ignore-engine-limits"
MIXED = Machine("cuda", (Gpu("GPU-0", "NVIDIA L20"), Gpu("GPU-1", "Tesla V100-SXM2-32GB")))
CPU = Machine("cpu")


def words(plan: LaunchPlan) -> dict[str, str]:
    """The engine's words that this is about."""
    pairs = dict(zip(plan.engine_args, plan.engine_args[1:], strict=False))
    names = ("--quantization", "--dtype", "--load-format")
    return {name.removeprefix("--"): pairs[name] for name in names if name in pairs}


@every_case("style", [RUN, NATIVE], ids=["run", "vllm serve"])
@every_case("machine", [L20, CPU], ids=["L20", "CPU"])
@every_case(
    "method, model, engine, loader",
    [
        ("fp8", PLAIN, "windlass_fp8", None),
        ("IFQ", PLAIN, "ifq", "windlass"),
        ("ifq_nf4", PLAIN, "ifq_nf4", "windlass"),
        ("smoothquant", WITH_FILE, "smoothquant", "windlass"),
        ("auto", PLAIN, "ifq", "windlass"),
        ("auto", WITH_FILE, "smoothquant", "windlass"),
        ("none", PLAIN, None, None),
        ("none", WITH_FILE, None, "windlass"),
        ("fp8_per_channel", PLAIN, "fp8_per_channel", None),
    ],
)
def test_methods(style, machine, method, model, engine, loader) -> None:
    """Each name becomes the engine's, by every start command."""
    found = words(resolve(("--quantization", method), {}, model, machine, style))
    assert (engine, loader) == (found.get("quantization"), found.get("load-format"))


@pytest.mark.parametrize("style", [RUN, NATIVE])
@pytest.mark.parametrize("line", ["--quantization ifq_nf4", "--quantization ifq_nf4 --dtype auto"])
def test_dtype_follows_the_method(style, line) -> None:
    """NF4 computes in float16, also where the engine would choose."""
    assert words(resolve(tuple(line.split()), {}, PLAIN, L20, style))["dtype"] == "float16"


@pytest.mark.parametrize("line", ["", "--quantization auto", "--quantization smoothquant", "--quantization none"])
def test_smoothquants_file_alone_is_read_by_its_method(line) -> None:
    """Whether it is asked for or not, and the plan says why."""
    plan = resolve(tuple(line.split()), {}, FILE_ALONE, L20)
    assert words(plan) | {"dtype": ""} == {"quantization": "smoothquant", "load-format": "windlass", "dtype": ""}
    (setting,) = (setting for setting in plan.settings if setting.name == "quantization")
    assert setting.why == "smoothq_model-8bit-auto.safetensors is the model's only weight file"


def test_auto_is_off_where_no_card_can() -> None:
    """Of several cards the least counts, and the plan says why nothing is quantized."""
    plan = resolve(("--quantization", "auto", BEYOND), {}, replace(PLAIN, attention_heads=2), MIXED)
    assert words(plan) == {"dtype": "float16"}
    (setting,) = (setting for setting in plan.settings if setting.name == "quantization")
    assert (setting.value, setting.why[:54]) == ("none", "auto: ifq needs compute capability 7.5, and Tesla V100")


def test_a_users_own_loader_stays() -> None:
    """--load-format dummy measures speed without weights."""
    line = ("--quantization", "ifq", "--load-format", "dummy")
    assert words(resolve(line, {}, PLAIN, L20))["load-format"] == "dummy"
