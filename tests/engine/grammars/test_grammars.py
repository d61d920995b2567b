"""A request's grammar is its own, whoever asked before; a server's answers are in `api/test_server.py`."""

GUIDANCE = ("fractional bound", "all of", "draft 4", "multiple")
TOO_WIDE = "ValueError: guidance cannot be used: the tokenizer has more tokens than the model"
"""Of a model whose tokenizer has more tokens than its vocabulary: the masks of guidance do not fit there."""


def test_every_order_has_the_same_outcomes(engine):
    """Each kind first; a right text is taken, a wrong one is not, and what no engine keeps is refused in a sentence."""
    found = engine.result("/repo/tests/engine/grammars/grammars_exactly.py", "/repo/models/demo")
    first, *others = found["orders"].values()
    assert len(others) == 5
    assert others == [first] * 5
    unique = first.pop("unique items")
    assert 'Unimplemented keys: ["uniqueItems"]' in unique
    assert len(first) == 9
    expected = {name: "guidance" if name in GUIDANCE else "xgrammar" for name in first}
    assert first == {name: [backend, True, False, True] for name, backend in expected.items()}
    short = found["short vocabulary"]
    assert short["fractional bound"] == TOO_WIDE
    assert short["regex"] == ["xgrammar", True, False, True]
