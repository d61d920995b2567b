"""The sum itself, against the plainest way to write it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from windlass.engine.adapters import arithmetic
from windlass.engine.adapters.arithmetic import Product, added, converted, from_float32, to_float32

SPACING = {"F32": 2.0**-23, "F16": 2.0**-10, "BF16": 2.0**-7}
"""Distance of neighbours at 1."""
SIZES = st.integers(1, 9)
DTYPES = st.sampled_from(sorted(SPACING))


def drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@given(st.tuples(SIZES, SIZES, SIZES, SIZES), st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 16 / 8**0.5]), DTYPES)
@settings(deadline=None)
def test_the_sum(sizes: tuple[int, int, int, int], seed: int, scale: float, dtype: str) -> None:
    """W + scale · B · A to within one rounding of the stored kind, however many blocks it is cut into."""
    rows, columns, rank, block_rows = sizes
    before = from_float32(drawn(seed, rows, columns), dtype)
    left, right = drawn(seed + 1, rows, rank), drawn(seed + 2, rank, columns)
    exact = to_float32(before, dtype).reshape(rows, columns).astype(np.float64)
    exact = exact + np.float64(scale) * (left.astype(np.float64) @ right.astype(np.float64))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arithmetic, "BLOCK_BYTES", block_rows * columns * 4)
        blocks = list(added(before, dtype, Product(left, right, scale), dtype))
    assert len(blocks) == -(-rows // block_rows)
    found = to_float32(np.concatenate(blocks), dtype).reshape(rows, columns)
    terms = 1 + np.abs(exact) + abs(scale) * (np.abs(left) @ np.abs(right))
    assert np.all(np.abs(found - exact) <= SPACING[dtype] * np.abs(exact) + 16 * SPACING["F32"] * terms + 1e-7)


@given(st.lists(st.integers(0, 2**16 - 1), min_size=1), st.sampled_from(["F16", "BF16"]))
def test_reading_and_writing_loses_nothing(bits: list[int], dtype: str) -> None:
    """Every finite number of 16 bits comes back bit for bit."""
    raw = np.array(bits, np.uint16).view(np.uint8)
    values = to_float32(raw, dtype)
    kept = np.isfinite(values)
    assert np.array_equal(from_float32(values[kept], dtype).view(np.uint16), raw.view(np.uint16)[kept])


def test_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole tensors of an adapter are stored as the base stores its own, in blocks."""
    monkeypatch.setattr(arithmetic, "BLOCK_BYTES", 16)
    values = drawn(0, 10)
    blocks = list(converted(values.view(np.uint8), "F32", "F16"))
    assert [len(block) for block in blocks] == [8, 8, 4]
    assert np.array_equal(values.astype(np.float16), np.concatenate(blocks).view(np.float16))
    doubled = Product(values.reshape(5, 2), np.eye(2, dtype=np.float32), 1.0)
    blocks = list(added(values.astype(np.float16).view(np.uint8), "F16", doubled, "BF16"))
    assert np.allclose(2 * values, to_float32(np.concatenate(blocks), "BF16"), rtol=2.0**-7)


@pytest.mark.parametrize(
    ("value", "stored"),
    [(1.0, 0x3F80), (1 + 2.0**-8, 0x3F80), (1 + 3 * 2.0**-8, 0x3F82), (1 + 2.0**-8 + 2.0**-20, 0x3F81), (-0.0, 0x8000)],
)
def test_bfloat16_rounds_ties_to_even(value: float, stored: int) -> None:
    """As the hardware does."""
    assert stored == int(from_float32(np.array([value], np.float32), "BF16").view(np.uint16)[0])


@pytest.mark.parametrize(("value", "dtype"), [(70000.0, "F16"), (3.4e38, "BF16"), (np.inf, "F32"), (np.nan, "BF16")])
def test_what_cannot_be_stored_is_reported(value: float, dtype: str) -> None:
    """No infinity and no NaN gets into a checkpoint."""
    with pytest.raises(OverflowError):
        from_float32(np.array([1.0, value], np.float32), dtype)
