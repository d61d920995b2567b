"""The context that is served: what was asked for, within what the model has."""

import pytest
from windlass_deepspeed.errors import UsageError
from windlass_deepspeed.model_files import WITHOUT_LENGTH, ModelFiles


@pytest.mark.parametrize(
    ("asked", "own", "served"),
    [(None, 4096, 4096), (1024, 4096, 1024), (4096, 4096, 4096), (512, None, 512), (None, None, WITHOUT_LENGTH)],
)
def test_the_asked_length_is_served(asked: int | None, own: int | None, served: int) -> None:
    """Else the model's own."""
    assert ModelFiles(context=own).length(asked) == served


def test_more_than_the_model_has_is_refused() -> None:
    """With both figures."""
    with pytest.raises(UsageError, match=r"--max-model-len 4097 is longer than the model's own 4096 tokens"):
        ModelFiles(context=4096).length(4097)
