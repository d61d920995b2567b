"""Every product gets tiles that the card can run, or is dequantized; split no further than it has stages."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from windlass.quantization.kernels.choice import (
    FUSED_ROWS,
    MANY,
    PACKED_STREAMS,
    STREAMS,
    TABLES,
    choose,
    choose_fp8,
    choose_stream,
    dequantized_us,
    fits_fp8,
    fused_us,
)
from windlass.quantization.kernels.tiling import FP8, FP8_BF16, Few, PackedStream, Wide

RESULTS = Path(__file__).parents[3] / "benchmarks/quantization/results"
MEASURED = {8: "2026-11-21-h100-chosen.json", 4: "2026-11-21-h100-chosen-nf4-512.json"}
SHAPES = {"qkv": (4608, 3584), "o": (3584, 3584), "gate_up": (37888, 3584), "down": (3584, 18944)}
H100 = 132, 9

SHARED_BYTES = {7: 0, 8: 99 * 1024, 9: 227 * 1024, 12: 99 * 1024}  # of a block: the least of each generation


def _whole(unit):
    return st.integers(1, 200_000 // unit).map(lambda count: count * unit)


def shares(tiling, shape, processors):
    """Every block has some, and the kernel can reckon with it."""
    m, rows, columns = shape
    assert columns % tiling.step == 0
    steps = columns // tiling.step * tiling.tiles(m, rows)
    blocks = tiling.blocks(m, rows, columns, processors)
    assert 1 <= blocks <= steps
    assert steps * (blocks + 1) < 2**32
    if tiling.per_tile:
        assert blocks == tiling.per_tile * tiling.tiles(m, rows) <= max(processors, blocks // tiling.per_tile)


@given(
    bits=st.sampled_from((4, 8)), m=st.integers(1, 5000), rows=_whole(16), columns=_whole(64),
    processors=st.integers(20, 160), major=st.sampled_from((7, 8, 9, 12)),
)  # fmt: skip
def test_the_tiles_fit_the_card_and_the_matrix(bits, m, rows, columns, processors, major):
    tiling = choose(bits, (m, rows, columns), processors, major)
    if tiling is None:
        assert major == 7 or m > (256 if major == 9 else 64)
        return
    assert tiling.shared_bytes(bits) <= SHARED_BYTES[major]
    assert tiling.threads <= 1024
    if isinstance(tiling, PackedStream):
        assert major == 9
        shares(tiling, (m, rows, columns), processors)
        return
    assert 1 <= tiling.splits <= -(-columns // tiling.step)
    assert major == 9 or not isinstance(tiling, Wide)
    across, down, deep = tiling.grid(m, rows)
    assert max(down, deep) <= 65535
    covered = {"few_gemm": (deep, across), "wide_gemm": (across, down)}[tiling.name]
    assert covered[0] * tiling.block[0] >= m
    assert covered[1] * tiling.block[1] >= rows


@given(
    m=st.integers(1, 300), rows=_whole(16), columns=_whole(64), processors=st.integers(20, 160),
    major=st.sampled_from((8, 9, 12)),
)  # fmt: skip
def test_few_rows_times_fp8_are_ours_and_many_the_engines(m, rows, columns, processors, major):
    tiling = choose_fp8((m, rows, columns), processors, major)
    if tiling is None:
        assert m > 8
        return
    assert isinstance(tiling, Few)
    assert all(tiling.shared_bytes(kind) <= SHARED_BYTES[major] for kind in (FP8, FP8_BF16))
    assert 1 <= tiling.splits <= -(-columns // tiling.step)
    assert tiling.block[0] * tiling.grid(m, rows)[2] >= m
    assert tiling.block[1] * tiling.grid(m, rows)[0] >= rows
    assert major == 9 or not tiling.ahead


@given(
    m=st.integers(1, 300), rows=_whole(16), columns=_whole(64), processors=st.integers(20, 160),
    major=st.sampled_from((8, 9, 12)),
)  # fmt: skip
def test_some_rows_are_streamed_on_hopper(m, rows, columns, processors, major):
    tiling = choose_stream((m, rows, columns), processors, major)
    assert (tiling is not None) == (major == 9 and columns % 128 == 0 and m <= 64)
    if tiling is None:
        return
    assert tiling.shared_bytes(FP8) <= SHARED_BYTES[9]
    assert tiling.bm >= m
    shares(tiling, (m, rows, columns), processors)


@pytest.mark.parametrize("bits", PACKED_STREAMS)
def test_packed_streams_can_be_compiled(bits):
    """What the kernel asserts, too: whole boxes, blocks read two ahead, and registers that the launch has."""
    ranges = PACKED_STREAMS[bits]
    assert [range_.most for range_ in ranges] == sorted({range_.most for range_ in ranges})
    for range_ in ranges:
        for tiling in {range_.narrow, range_.broad} - {None}:
            assert tiling.kb >= 2
            assert tiling.kb % tiling.box_blocks(bits) == 0
            assert tiling.in_flight in {2, 4}
            assert tiling.wg * tiling.r <= 4
            assert tiling.threads == 32 + 128 * tiling.wg or tiling.wg == 2 or tiling.r * tiling.bm < 256
            assert tiling.bm >= min(range_.most, 128)


@pytest.mark.parametrize(
    ("bits", "m", "blocks"),
    [(8, 10, (108, 112, 112, 132)), (4, 10, (120, 114, 114, 132)), (4, 64, (108, 112, 112, 132)),
     (8, 256, (132, 112, 112, 132))],
)  # fmt: skip
def test_packed_weights_are_shared_as_was_fastest(bits, m, blocks):
    """As many blocks for each tile as there is room for, or an even share where that leaves too much idle (H200)."""
    shapes = [SHAPES[name] for name in ("qkv", "o", "down", "gate_up")]
    found = [choose(bits, (m, *shape), *H100) for shape in shapes]
    assert blocks == tuple(one.blocks(m, *shape, H100[0]) for shape, one in zip(shapes, found, strict=True))


@pytest.mark.parametrize(("name", "blocks"), [("qkv", 72), ("o", 56), ("down", 112), ("gate_up", 132)])
def test_a_stream_is_shared_as_was_fastest(name, blocks):
    """One block for each tile of a short product, two of a long one, an even share of a broad one (H200)."""
    tiling = choose_stream((10, *SHAPES[name]), *H100)
    assert tiling.blocks(10, *SHAPES[name], H100[0]) == blocks


def test_streams_ascend():
    assert [rows for rows, *_ in STREAMS] == sorted(tiles.bm for _, *both in STREAMS for tiles in both[:1])
    assert all(tiles.bm == rows for rows, *both in STREAMS for tiles in both)


@pytest.mark.parametrize("table", TABLES.values())
def test_rows_of_a_table_ascend(table):
    assert sorted(row.m for row in table) == [row.m for row in table]


@pytest.mark.parametrize("m", [1, 4, 8])
def test_a_narrow_product_is_split_and_a_broad_one_is_not(m):
    assert choose(4, (m, 3584, 18944), 108, 8).splits > 1
    assert choose(4, (m, 37888, 3584), 108, 8).splits == 1


def measured(bits):
    """Microseconds by shape, rows of x and method; `fused` is what the tables of that day picked."""
    rows = json.loads((RESULTS / MEASURED[bits]).read_text())["rows"]
    names = {f"chosen{bits}": "fused", f"dequantize{bits}": "dequantized"}
    found = {(row["shape"], row["m"], names[row["method"]]): row["us"] for row in rows if row["method"] in names}
    return {key: us for key, us in found.items() if key[0] in SHAPES and 256 < key[1] < 2048}  # 2048 was not fused


@pytest.mark.parametrize("bits", MEASURED)
def test_with_many_rows_the_quicker_way_is_taken(bits):
    """Of what one run measured on an H100, nothing is chosen that took 5 % longer than the other way."""
    times = measured(bits)
    cases = {key[:2] for key in times}
    assert len(cases) == 8
    for shape, m in cases:
        tiling = choose(bits, (m, *SHAPES[shape]), *H100)
        if isinstance(tiling, PackedStream):
            continue  # which that run had not
        us = {way: times[shape, m, way] for way in ("fused", "dequantized")}
        way = "dequantized" if tiling is None else "fused"
        assert us[way] <= 1.05 * min(us.values()), (shape, m, us)


@pytest.mark.parametrize("bits", MEASURED)
def test_what_is_reckoned_is_near_what_was_measured(bits):
    for (shape, m, way), us in measured(bits).items():
        product = (m, *SHAPES[shape])
        if way == "dequantized":
            assert dequantized_us(bits, product, H100[0]) == pytest.approx(us, rel=0.2)
        elif isinstance(tiling := choose(bits, product, *H100), Wide):
            (rate,) = [rate for rate in MANY[bits, 9] if rate.tiling.block == tiling.block]
            assert fused_us(rate, tiling.splits, product, H100[0]) == pytest.approx(us, rel=0.2)


@pytest.mark.parametrize("bits", FUSED_ROWS)
def test_a_long_prompt_has_the_matrix_made_float16(bits):
    assert choose(bits, (FUSED_ROWS[bits] + 1, 37888, 3584), *H100) is None


@pytest.mark.parametrize(
    ("columns", "rows", "fits"),
    [(3584, 4608, True), (3420, 1280, False), (1280, 6840, False), (9472, 48, True), (65600, 64, False)],
)
def test_fp8_is_ours_where_a_matrix_ends_with_whole_tiles(columns, rows, fits):
    assert fits_fp8(columns, rows) == fits


@given(m=st.integers(257, 8192), shape=st.sampled_from([*SHAPES.values()]), bits=st.sampled_from((4, 8)))
def test_more_rows_never_take_less_time(m, shape, bits):
    def us(rows_of_x):
        product = (rows_of_x, *shape)
        fused = (fused_us(rate, 1, product, 132) for rate in MANY[bits, 9])
        return min(dequantized_us(bits, product, 132), *fused)

    assert us(m) <= us(m + 1)
