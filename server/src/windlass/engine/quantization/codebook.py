"""The sixteen values of NF4 (4-bit NormalFloat), derived as its paper states; standard library only.

Source: Dettmers, Pagnoni, Holtzman, Zettlemoyer, "QLoRA: Efficient Finetuning of Quantized LLMs", section 3 and
appendix E (2023): quantiles of a standard normal, eight for the positive half and seven for the negative one, with an
exact zero, scaled so that the outermost values are -1 and 1.
"""

from __future__ import annotations

import struct
from statistics import NormalDist

BLOCK = 64  # weights of a row that share a scale
OUTERMOST = 0.9677083  # the probability of the outermost value: the mean of 1 - 1/(2*15) and 1 - 1/(2*16)


def _half(count: int) -> list[float]:
    """`count` quantiles from the outermost inwards, the zero at 0.5 left out."""
    step = (OUTERMOST - 0.5) / count
    return [NormalDist().inv_cdf(OUTERMOST - i * step) for i in range(count)]


def _nf4() -> tuple[float, ...]:
    values = [*(-value for value in _half(7)), 0.0, *reversed(_half(8))]
    return tuple(value / values[-1] for value in values)


def float16_bits(value: float) -> int:
    """The 16 bits of the nearest float16."""
    return int(struct.unpack("<H", struct.pack("<e", value))[0])


def _float16(value: float) -> float:
    return float(struct.unpack("<e", struct.pack("<e", value))[0])


NF4 = _nf4()
NF4_FLOAT16 = tuple(_float16(value) for value in NF4)  # what a kernel multiplies with
