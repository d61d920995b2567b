"""The settings that a plan's pod starts with, each with its source."""

from __future__ import annotations

import pytest
from windlass_api.plan.settings_table import settings_table

from .test_decide import a_spec, planned

LENGTH, TP, SHARE = "max-model-len", "tensor-parallel-size", "gpu-memory-utilization"


def table(**parts: object) -> dict[str, tuple[str, str]]:
    return {one.name: (one.shown, one.source) for one in settings_table(a_spec(**parts), planned(**parts))}


def test_a_plain_service_shows_what_the_plan_chose():
    """Defaults of the server are left out."""
    rows = table()
    assert (rows[LENGTH], rows[TP], rows[SHARE]) == (("8192", "plan"), ("1", "plan"), ("0.9", "plan"))
    assert rows["served-model-name"] == (a_spec().model.id, "field")
    assert "port" not in rows


@pytest.mark.parametrize(
    ("parts", "row", "shown"),
    [
        ({"args": ["--max-model-len", "4K"]}, LENGTH, ("4096", "flag")),
        ({"args": ["--max-model-len", "auto"]}, LENGTH, ("auto", "flag")),
        ({"env": [{"name": "MAX_MODEL_LEN", "value": "2048"}]}, LENGTH, ("2048", "variable MAX_MODEL_LEN")),
        ({"engine": {"maxModelLen": 512}}, LENGTH, ("512", "field")),
        ({"engine": {"gpuMemoryUtilizationPercent": 80}}, SHARE, ("0.8", "field")),
        ({"engine": {"seed": 3}, "env": [{"name": "SEED", "value": "4"}]}, "seed", ("3", "field")),
        ({"engine": {"convTemplate": "chatml"}}, "conv-template", ("chatml", "field")),
        ({"env": [{"name": "OPENAI_API_KEYS", "value": "sk-1"}]}, "api-keys", ("(hidden)", "variable OPENAI_API_KEYS")),
    ],
)  # fmt: skip
def test_each_source_has_its_word(parts, row, shown):
    """Flag, variable, field, plan; a key is hidden."""
    assert table(**parts)[row] == shown


def test_another_server_has_no_table():
    """Another program reads its settings in its own way."""
    assert table(command=["vllm", "serve"]) == table(image={"family": "deepspeed"}) == {}
