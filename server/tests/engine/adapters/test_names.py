"""Which tensor of the base each tensor of an adapter changes."""

import pytest
from windlass.engine.adapters.names import Change, match
from windlass.errors import ModelError
from windlass_sizing.model.lora_config import LoraConfig

PLAIN = LoraConfig(2, 4.0)
BASE = {
    "model.embed_tokens.weight": (10, 4),
    "model.layers.0.q.weight": (6, 4),
    "model.layers.0.q.bias": (6,),
    "model.norm.weight": (4,),
    "lm_head.weight": (10, 4),
}
Q = "base_model.model.model.layers.0.q"
PAIR = {f"{Q}.lora_A.weight": (2, 4), f"{Q}.lora_B.weight": (6, 2)}
EMBED = "base_model.model.model.embed_tokens"
EMBED_PAIR = {f"{EMBED}.lora_embedding_A": (2, 10), f"{EMBED}.lora_embedding_B": (4, 2)}


def test_a_linear_layer() -> None:
    """Both halves meet at the weight they belong to."""
    found = match(PAIR, BASE, PLAIN, tied=False)
    name = "model.layers.0.q.weight"
    assert found == {name: Change(name, left=f"{Q}.lora_B.weight", right=f"{Q}.lora_A.weight", scale=2.0)}


def test_a_base_without_the_outermost_name() -> None:
    """Some checkpoints leave `model.` out, some adapters do."""
    bare = {name.removeprefix("model."): shape for name, shape in BASE.items()}
    assert list(match(PAIR, bare, PLAIN, tied=False)) == ["layers.0.q.weight"]
    short = {name.replace("model.model.model.", "model.model."): shape for name, shape in PAIR.items()}
    assert list(match(short, BASE, PLAIN, tied=False)) == ["model.layers.0.q.weight"]


def test_an_embedding_is_stored_the_other_way_round() -> None:
    """Its halves multiply to columns × rows."""
    (change,) = match(EMBED_PAIR, BASE, PLAIN, tied=False).values()
    assert (change.tensor, change.is_transposed) == ("model.embed_tokens.weight", True)


def test_whole_tensors_replace() -> None:
    """modules_to_save, trained biases, and an embedding that peft saved beside its halves."""
    wholes = {
        "base_model.model.lm_head.modules_to_save.default.weight": (10, 4),
        f"{Q}.bias": (6,),
        f"{EMBED}.base_layer.weight": (10, 4),
        **EMBED_PAIR,
    }
    found = match(wholes, BASE, PLAIN, tied=False)
    assert {name for name, change in found.items() if change.whole} == {
        "lm_head.weight", "model.layers.0.q.bias", "model.embed_tokens.weight"
    }  # fmt: skip
    assert found["model.embed_tokens.weight"].left


@pytest.mark.parametrize(
    ("adapter", "said"),
    [
        pytest.param({f"{Q}.lora_C.weight": (1,)}, f"the base has no tensor for the adapter's {Q}.lora_C", id="part"),
        pytest.param({"base_model.model.model.layers.9.q.lora_A.weight": (2, 4)}, "the base has no tensor "
                     "for the adapter's base_model.model.model.layers.9.q.lora_A.weight; is it the base", id="layer"),
        pytest.param({f"x{i}.lora_A.weight": (2, 4) for i in range(5)},
                     "the base has no tensor for the adapter's "
                     "x0.lora_A.weight, x1.lora_A.weight, x2.lora_A.weight and 2 more;", id="many"),
        pytest.param({f"{Q}.lora_A.weight": (2, 4)}, f"the adapter has {Q}.lora_A.weight without its other", id="half"),
        pytest.param({**PAIR, f"{Q}.lora_A.weight": (3, 4)}, f"the adapter's {Q}.lora_B.weight (6, 2) and {Q}.lora_A"
                     ".weight (3, 4) are no pair", id="ranks-differ"),
        pytest.param({**PAIR, f"{Q}.lora_A.weight": (2, 5)}, f"the adapter's {Q}.lora_B.weight · {Q}.lora_A.weight is "
                     "6×5 and the base's model.layers.0.q.weight is 6×4; is it the base", id="shape"),
        pytest.param({"base_model.model.lm_head.weight": (12, 4)}, "the adapter's base_model.model.lm_head.weight is "
                     "12×4 and the base's lm_head.weight is 10×4", id="resized"),
    ],
)  # fmt: skip
def test_what_fits_nowhere_is_named(adapter: dict[str, tuple[int, ...]], said: str) -> None:
    """Nothing is dropped in silence."""
    with pytest.raises(ModelError) as raised:
        match(adapter, BASE, PLAIN, tied=False)
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize("adapter", [EMBED_PAIR, {"base_model.model.lm_head.weight": (10, 4)}])
def test_a_shared_embedding_is_not_merged(adapter: dict[str, tuple[int, ...]]) -> None:
    """It would change the other side as well."""
    with pytest.raises(ModelError, match="for its input and its output alike; merging would change both"):
        match(adapter, BASE, PLAIN, tied=True)
