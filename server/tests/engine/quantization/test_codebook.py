"""NF4's values are those of its paper, and the float16 ones are the nearest."""

import struct

import pytest
from windlass.engine.quantization import codebook

# as printed in appendix E of the QLoRA paper
PAPER = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip


def test_the_derivation_gives_the_paper_s_values():
    assert list(PAPER) == pytest.approx(list(codebook.NF4), abs=1e-6)


def test_the_values_ascend_with_an_exact_zero_and_ones():
    assert sorted(codebook.NF4) == list(codebook.NF4)
    assert (codebook.NF4[0], codebook.NF4[7], codebook.NF4[15]) == (-1.0, 0.0, 1.0)


def test_float16_values_are_within_half_a_unit_in_the_last_place():
    for value, half in zip(codebook.NF4, codebook.NF4_FLOAT16, strict=True):
        assert abs(value - half) <= abs(value) * 2**-11
        assert struct.pack("<e", half) == struct.pack("<H", codebook.float16_bits(value))
