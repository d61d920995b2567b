"""The limit of the instruction set: which image it takes."""

import pytest
from windlass_testbed.errors import BedError
from windlass_testbed.images import IMAGE
from windlass_testbed.instruction_sets import LIMITED, SERVING, VARIABLE, image_name


def test_without_a_limit_each_image_is_itself() -> None:
    assert [image_name(name, {}) for name in IMAGE] == list(IMAGE)


@pytest.mark.parametrize("limit", LIMITED)
def test_a_limit_takes_another_serving_image_and_no_other(limit: str) -> None:
    """It stands on the serving image, so it holds the same code."""
    changed = {name: image_name(name, {VARIABLE: limit}) for name in IMAGE}
    assert {name for name, taken in changed.items() if taken != name} == {SERVING}
    assert IMAGE[changed[SERVING]].base == SERVING


def test_an_unknown_limit_is_refused() -> None:
    with pytest.raises(BedError, match="WINDLASS_ISA=sse is unknown; there is avx2"):
        image_name(SERVING, {VARIABLE: "sse"})
