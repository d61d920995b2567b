"""Parts of a prompt file: no prompt is in two, all are drawn by the seed, and one file too small is refused."""

import json

import pytest
from windlass.bench.running.shares import shares
from windlass.bench.serving.load import DataSet
from windlass.errors import UsageError

TALKS = json.dumps(
    [{"conversations": [{"value": f"q{n}"}, {"value": "a"}]} for n in range(20)] + [{"conversations": []}, 3]
)
LINES = "".join(json.dumps({"prompt": f"q{n}"}) + "\n" for n in range(20))


@pytest.mark.parametrize(
    ("dataset", "text"), [(DataSet.SHAREGPT, TALKS), (DataSet.JSONL, LINES), (DataSet.DEMO, LINES)]
)
def test_no_prompt_twice(dataset: DataSet, text: str) -> None:
    """Three parts of six; what cannot be sent counts nowhere."""
    found = shares(dataset, text, 3, 100, seed=1)
    assert [share.prompts for share in found] == [6, 6, 6]
    every = [f"q{n}" for n in range(20) if any(f'"q{n}"' in share.text for share in found)]
    assert len(every) == 18
    assert found == shares(dataset, text, 3, 100, seed=1)
    assert found != shares(dataset, text, 3, 100, seed=2)


def test_parts_are_not_larger_than_needed() -> None:
    """Three times the wanted prompts: the client leaves some out."""
    assert [share.prompts for share in shares(DataSet.JSONL, LINES, 2, 2, seed=0)] == [6, 6]


@pytest.mark.parametrize(
    ("dataset", "text", "said"),
    [
        (DataSet.SHAREGPT, "[]", "holds 0 prompts for 2 parts"),
        (DataSet.SHAREGPT, "{", "is no JSON"),
        (DataSet.JSONL, '{"prompt": "a"}\n', "holds 1 prompts"),
    ],
)
def test_refused(dataset: DataSet, text: str, said: str) -> None:
    """One sentence."""
    with pytest.raises(UsageError) as refused:
        shares(dataset, text, 2, 5, seed=0)
    assert said in str(refused.value)
