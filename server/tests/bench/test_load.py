"""Words of a load: what is read, what is refused, and which runs come of it."""

import math
from dataclasses import replace

import pytest
from windlass.bench.serving import load
from windlass.bench.serving.load import Api, DataSet, Point
from windlass.errors import UsageError

from .samples import LOAD


@pytest.mark.parametrize(("text", "numbers"), [(None, ()), ("1", (1,)), ("1, 10,64", (1, 10, 64))])
def test_concurrency(text: str | None, numbers: tuple[int, ...]) -> None:
    """One number, several, or none."""
    assert load.concurrency(text) == numbers


@pytest.mark.parametrize("text", ["", "0", "1,,2", "1,x", "-1", "70000", "1.5", "٣"])
def test_no_concurrency(text: str) -> None:
    """The sentence repeats what was written."""
    with pytest.raises(UsageError, match=r'--concurrency is ".*"; write whole numbers'):
        load.concurrency(text)


@pytest.mark.parametrize(("text", "rate"), [("inf", math.inf), ("2.5", 2.5)])
def test_request_rate(text: str, rate: float) -> None:
    """A number, or all at once."""
    assert load.request_rate(text) == rate


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "fast", "-inf"])
def test_no_request_rate(text: str) -> None:
    """Nothing, less and no number are refused."""
    with pytest.raises(UsageError, match="--request-rate is"):
        load.request_rate(text)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"dataset": DataSet.SHAREGPT}, "--dataset sharegpt needs its file; name it with --dataset-path"),
        ({"dataset_path": "a.json"}, "--dataset random reads no file; leave --dataset-path out"),
        ({"dataset": DataSet.SHARED_PREFIX, "num_prompts": 3}, "--num-prompts 3 is less than --num-prefixes 10"),
        ({"burstiness": 0.5}, "--burstiness shapes a rate, and there is none"),
        ({"name": "-x"}, '--name is "-x"'),
        ({"model": "a\nb"}, '--model is "a'),
        ({"goodput": ("itl:3",)}, '--goodput is "itl:3"; write one of ttft, tpot, e2el'),
        ({"goodput": ("ttft",)}, '--goodput is "ttft"'),
        ({"metadata": ("gpu",)}, '--metadata is "gpu"'),
        ({"metadata": ("--host=x",)}, '--metadata is "--host=x"'),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_words_that_do_not_go_together(changed: dict[str, object], said: str) -> None:
    """Each is one sentence with the option to change."""
    with pytest.raises(UsageError) as refused:
        load.check(replace(LOAD, **changed))  # type: ignore[arg-type]  the rows have fields of Load
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    "changed",
    [
        {"dataset": DataSet.SHAREGPT, "dataset_path": "a.json"},
        {"burstiness": 0.5, "request_rate": 3.0},
        {"goodput": ("ttft:200", "e2el:1000.5"), "metadata": ("gpu=H100", "note=a=b"), "api": Api.COMPLETIONS},
    ],
)
def test_words_that_go_together(changed: dict[str, object]) -> None:
    """Nothing is refused that vLLM's client takes."""
    load.check(replace(LOAD, **changed))  # type: ignore[arg-type]  the rows have fields of Load


def test_each_run_has_prompts_of_its_own() -> None:
    """The same seed at the next concurrency would be answered by the prefix cache."""
    assert load.points(replace(LOAD, concurrency=(1, 10), seed=5)) == [
        Point("01-concurrency-1", 5, 1),
        Point("02-concurrency-10", 6, 10),
    ]
    assert load.points(LOAD) == [Point("01-open", 0, None)]


def test_a_load_gets_its_name() -> None:
    """Day and model, unless one is given; a server's model name is checked as ours are."""
    assert load.named(replace(LOAD, name=""), "team/qwen", "20261125").name == "20261125_qwen"
    assert load.named(LOAD, "team/qwen", "20261125").name == "20241220_llama"
    with pytest.raises(UsageError, match="--model is"):
        load.named(LOAD, "--insecure", "20261125")
