"""Names that start commands, images and installed metadata hold, of this release and of the one before."""

import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import windlass
from windlass.former_names import PACKAGES, TODAY, today

SERVER = Path(__file__).parents[1]
KEPT = (
    "windlass.api.guard:Guard",
    "windlass.cli.main:main",
    "windlass.cli.serve:vllm",
    "windlass.group.leave:stay",
    "windlass.group.ray_nodes:main",
    "windlass.launch.hook:PTH",
    "windlass.license.hold:Lease",
)
"""Names in start commands, images and pods that no release has moved."""
FORMER_ENTRY_POINTS = (
    "windlass.quantization.plugin:register",
    "windlass.lookahead.plugin:register",
    "windlass.sampling.plugin:register",
    "windlass.grammars.plugin:register",
    "windlass.progress.logger:StepLogger",
    "windlass.prefix_offload.logger:HitLogger",
)
"""Of release 0.1, as metadata beside a newer source still has them."""


@pytest.mark.parametrize("name", KEPT)
def test_a_name_that_pods_hold_is_there(name: str) -> None:
    """Where it was, without the table of former names."""
    module, _, attribute = name.partition(":")
    assert today(name) == name
    assert hasattr(import_module(module), attribute)


@pytest.mark.parametrize("former", TODAY)
def test_a_former_name_finds_the_module_of_today(former: str) -> None:
    """The module exists under today's name alone."""
    assert find_spec(TODAY[former]) is not None
    left = Path(windlass.__file__).with_name(former.split(".")[1])
    assert not list(left.glob("*.py")), "a module has both names"


def test_both_names_are_one_module() -> None:
    """So a class is equal to itself, whichever name a start command has for it."""
    today_module = import_module("windlass.engine.sampling.plugin")
    assert import_module("windlass.sampling.plugin") is today_module
    assert today_module.__spec__.name == "windlass.engine.sampling.plugin"


def test_a_package_of_former_names_has_no_other_modules() -> None:
    """A module that the table does not have is not loaded a second time from the folder of today."""
    assert "windlass.sampling" in PACKAGES
    with pytest.raises(ModuleNotFoundError, match=r"windlass\.sampling\.ngrams"):
        import_module("windlass.sampling.ngrams")


def test_entry_points_name_todays_modules() -> None:
    """And those of release 0.1 become them."""
    points = tomllib.loads((SERVER / "pyproject.toml").read_text())["project"]["entry-points"]
    names = {name for group in points.values() for name in group.values()}
    assert all(find_spec(name.partition(":")[0]) for name in names)
    assert {today(name) for name in FORMER_ENTRY_POINTS} == names


@pytest.mark.parametrize(
    "text, name",
    [
        (
            "windlass.sampling.no_repeat_ngram:NoRepeatNgram",
            "windlass.engine.sampling.no_repeat_ngram:NoRepeatNgram",
        ),
        ("windlass.lookahead.vllm_gpu.DeviceWorker", "windlass.engine.lookahead.vllm_gpu.DeviceWorker"),
        ("windlass.lookahead.vllm_gpus", "windlass.lookahead.vllm_gpus"),
        ("somebody.sampling:Rule", "somebody.sampling:Rule"),
    ],
)
def test_the_name_of_a_class(text: str, name: str) -> None:
    """Dot or colon before the class, as the engine's flags have it."""
    assert today(text) == name
