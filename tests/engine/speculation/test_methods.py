"""A12: drafts by a model, by Eagle, Eagle-3 and Medusa leave every answer as it is, and are accepted and rejected.

On CPUs, with made models whose drafters are right for a known share of tokens (`models/tiny/drafters.py`).
"""

import pytest
from windlass_sizing.model.drafter import ENGINE_HEADS, METHODS

MAKER = "/repo/models/tiny/drafters.py"
APART = 1e-4
"""How far log-probabilities may lie apart in float32: another number of rows is another order of sums."""


@pytest.fixture(scope="module")
def drafters(engine, tmp_path_factory):
    """A target and its drafters, a folder each."""
    folder = tmp_path_factory.mktemp("drafters")
    engine.python(MAKER, "/out", mounts={folder: "/out"})
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def found(engine, drafters):
    return engine.result("/repo/tests/engine/speculation/methods.py", "/drafters", mounts={drafters: "/drafters:ro"})


@pytest.mark.parametrize("method", METHODS)
def test_the_text_is_the_models_own(found, method):
    """Greedy, one request alone and four together, in a schema's grammar, and under rules that change the text."""
    plain, drafted = found["rows"]["none"], found["rows"][method]
    for part in ("alone", "together", "schema", "ruled"):
        assert drafted[part] == plain[part], part
    for text, ruled in zip(plain["together"], plain["ruled"], strict=True):
        assert ruled[0] != text[0]


@pytest.mark.parametrize("method", METHODS)
def test_log_probabilities_are_the_models_own(found, method):
    """Of the token and of the next best, at each place."""
    plain, drafted = found["rows"]["none"]["logprobs"], found["rows"][method]["logprobs"]
    for one, other in zip(plain, drafted, strict=True):
        assert [value for place in other for value in place] == pytest.approx(
            [value for place in one for value in place], abs=APART
        )


@pytest.mark.parametrize("method", METHODS)
def test_drafts_are_accepted_and_rejected(found, method):
    """Or the equal texts would say nothing."""
    counts = found["rows"][method]["counts"]
    assert 0.1 < counts["accepted_tokens"] / counts["draft_tokens"] < 0.95


def test_the_heads_are_those_of_the_engine(found):
    """The lists that `unfit` refuses by are the engine's registry, but for one model that is called so."""
    ours = {name for heads in ENGINE_HEADS.values() for name in heads}
    assert set(found["heads"]) - {"Eagle2_5_VLForConditionalGeneration"} == ours


def test_a_head_is_served_by_its_directory_alone(engine, drafters):
    """The method is read from the files; the log has the flags of the engine."""
    words = ("windlass", "run", "--model", "/drafters/target", "--speculative-model", "/drafters/eagle3")
    with engine.serving(
        *words, "--dtype", "float32", "--max-model-len", "512", mounts={drafters: "/drafters:ro"}
    ) as url:
        assert '"method": "eagle3"' in engine.output(url)
