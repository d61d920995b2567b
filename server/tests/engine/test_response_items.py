"""Items of the Responses API. With the engine's own types: `tests/engine/api/test_routes.py`."""

import sys
from types import SimpleNamespace

import pytest
from windlass.engine import response_items
from windlass.front.refusal import Refusal

ANSWER = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}


class Strict:
    """In the place of the engine's type: takes what has a type, and counts."""

    seen = 0

    @classmethod
    def model_validate(cls, document: dict) -> None:
        cls.seen += 1
        if "type" not in document["input"][0]:
            raise ValueError


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> type[Strict]:
    """A loaded module of the engine."""
    monkeypatch.setitem(sys.modules, response_items.MODULE, SimpleNamespace(ResponsesRequest=Strict))
    Strict.seen = 0
    return Strict


@pytest.mark.parametrize(
    ("item", "words"),
    [
        pytest.param({}, "item 1 of input has no type of the Responses API", id="no type"),
        pytest.param({"type": "message", "role": "user", "content": [{}] * 2049}, "more than 2048 parts", id="parts"),
    ],
)
def test_a_wrong_item_is_named(engine: type[Strict], item: dict, words: str) -> None:
    with pytest.raises(Refusal, match="item 1 of input") as caught:
        response_items.check([ANSWER, item])
    assert (caught.value.status, caught.value.param) == (400, "input")
    assert words in caught.value.message


def test_the_first_wrong_item_ends_it(engine: type[Strict]) -> None:
    """The others cost nothing."""
    with pytest.raises(Refusal, match="item 0"):
        response_items.check([{}] * 2048)
    assert engine.seen == 1


def test_right_items_and_what_is_no_item_pass(engine: type[Strict]) -> None:
    """Texts and tokens are other routes' input."""
    response_items.check([ANSWER, {"type": "reasoning", "summary": []}, "text", 7, [1, 2]])
    assert engine.seen == 2


def test_nothing_is_asked_where_no_engine_is_loaded() -> None:
    response_items.check([{}])
