"""Every product gets tiles that the card can run, or is dequantized; split no further than it has stages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from windlass.quantization.kernels.choice import TABLES, choose
from windlass.quantization.kernels.tiling import Wide

SHARED_BYTES = {7: 0, 8: 99 * 1024, 9: 227 * 1024, 12: 99 * 1024}  # of a block: the least of each generation


def _whole(unit):
    return st.integers(1, 200_000 // unit).map(lambda count: count * unit)


@given(
    bits=st.sampled_from((4, 8)), m=st.integers(1, 5000), rows=_whole(16), columns=_whole(64),
    processors=st.integers(20, 160), major=st.sampled_from((7, 8, 9, 12)),
)  # fmt: skip
def test_the_tiles_fit_the_card_and_the_matrix(bits, m, rows, columns, processors, major):
    tiling = choose(bits, (m, rows, columns), processors, major)
    if tiling is None:
        assert major == 7 or m > 64
        return
    assert tiling.shared_bytes(bits) <= SHARED_BYTES[major]
    assert 1 <= tiling.splits <= -(-columns // tiling.step)
    assert major == 9 or not isinstance(tiling, Wide)
    assert tiling.threads <= 1024
    across, down, deep = tiling.grid(m, rows)
    assert max(down, deep) <= 65535
    covered = {"few_gemm": (deep, across), "wide_gemm": (across, down)}[tiling.name]
    assert covered[0] * tiling.block[0] >= m
    assert covered[1] * tiling.block[1] >= rows


@pytest.mark.parametrize("table", TABLES.values())
def test_rows_of_a_table_ascend(table):
    assert sorted(row.m for row in table) == [row.m for row in table]


@pytest.mark.parametrize("m", [1, 8, 64])
def test_a_narrow_product_is_split_and_a_broad_one_is_not(m):
    assert choose(4, (m, 3584, 18944), 132, 9).splits > 1
    assert choose(4, (m, 37888, 3584), 132, 9).splits == 1
