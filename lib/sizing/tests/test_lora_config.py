"""Which adapters can be served by name, and which can be merged."""

import math

import pytest
from windlass_sizing.model import lora_config as config

GOOD = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"], "bias": "none"}


def test_a_plain_adapter_passes() -> None:
    """As peft writes it, with rsLoRA and other starts too."""
    for more in ({}, {"use_rslora": True}, {"init_lora_weights": "gaussian"}, {"modules_to_save": ["score"]}):
        assert config.problems({**GOOD, **more}) == ("", "")


@pytest.mark.parametrize(
    ("said", "words", "can_merge"),
    [
        pytest.param({"use_dora": True}, "is a DoRA adapter", False, id="dora"),
        pytest.param({"use_qalora": True}, "is a QALoRA adapter", False, id="qalora"),
        pytest.param({"use_bdlora": {"x": 1}}, "is a block-diagonal LoRA", False, id="bdlora"),
        pytest.param({"alora_invocation_tokens": [1]}, "is an Activated LoRA", False, id="alora"),
        pytest.param({"layer_replication": [[0, 2]]}, "repeats layers", False, id="replication"),
        pytest.param({"lora_bias": True}, "has a bias in its matrices", False, id="lora-bias"),
        pytest.param({"init_lora_weights": "pissa"}, "changed the base's weights", False, id="pissa"),
        pytest.param({"modules_to_save": ["lm_head"]}, "holds whole modules", True, id="modules"),
        pytest.param({"bias": "all"}, "has trained biases", True, id="bias"),
        pytest.param({"r": 513}, "has rank 513, and the engine takes at most 512", True, id="rank"),
        pytest.param({"rank_pattern": {"q": 600}}, "has rank 600", True, id="rank-pattern"),
        pytest.param({"peft_type": "IA3"}, "is a IA3 adapter; only LoRA", False, id="kind"),
        pytest.param({"r": 0}, "has no usable rank (r is 0)", False, id="no-rank"),
        pytest.param({"r": None}, "has no usable rank (r is None)", False, id="rank-missing"),
        pytest.param({"lora_alpha": "x"}, "has no usable lora_alpha", False, id="alpha"),
        pytest.param({"rank_pattern": {"q": "x"}}, "has a rank_pattern or alpha_pattern", False, id="pattern"),
    ],
)
def test_refused_by_name(said: dict[str, object], words: str, can_merge: bool) -> None:
    """One sentence for each kind that the engine refuses; some of them can be merged."""
    by_name, merged = config.problems({**GOOD, **said})
    assert by_name.startswith(words)
    assert can_merge == (merged == "")


def test_scale() -> None:
    """alpha / r, alpha / √r when it is rank-stabilized, and exceptions by the end of a module's name."""
    plain = config.LoraConfig(8, 16.0, alphas={"q_proj": 4, r"layers\.0\.v": 2})
    assert plain.scale("model.layers.0.k_proj", 8) == 2
    assert plain.scale("model.layers.0.q_proj", 8) == 0.5
    assert plain.scale("model.layers.0.v", 8) == 0.25
    assert plain.scale("model.layers.0.kq_proj", 8) == 2
    assert config.LoraConfig(8, 16.0, is_rank_stabilized=True).scale("q", 8) == 16 / math.sqrt(8)


@pytest.mark.parametrize(("rank", "allowed"), [(1, 1), (2, 8), (8, 8), (9, 16), (65, 128), (300, 320), (512, 512)])
def test_engine_rank(rank: int, allowed: int) -> None:
    """The smallest of the engine's ranks that holds it."""
    assert allowed == config.engine_rank(rank)
