"""How a launch of a fused kernel splits its work: for few rows of x and, on Hopper, for any number; for some in FP8.

The short names are the macros of `few.cu`, `stream.cu` and `stream_packed.cu`, which explain them.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.engine.quantization.codebook import NF4_FLOAT16, float16_bits

Kind = int | str
"""Of weights: the bits of packed ones (4: NF4, 8: INT8), or E4M3 row by row, for x in float16 or in bfloat16."""
FP8, FP8_BF16 = "fp8", "fp8_bf16"
HOPPER = 9  # the major capability
TABLE_BYTES: dict[Kind, int] = {4: 32 * 1024, 8: 0, FP8: 0, FP8_BF16: 0}  # of the pairs of codebook values
_BITS: dict[Kind, tuple[str, ...]] = {FP8: ("BITS=8", "FP8"), FP8_BF16: ("BITS=8", "FP8", "BF16")}
_CODE = ",".join(str(float16_bits(value)) for value in NF4_FLOAT16)


def sources(*names: str) -> tuple[str, ...]:
    """Files of a kernel, behind what all of them begin with."""
    return tuple(f"quantization/kernels/{name}" for name in ("weights.cuh", *names))


def weight_macros(kind: Kind) -> tuple[str, ...]:
    """The macros of weights.cuh."""
    return (*_BITS.get(kind, (f"BITS={kind}",)), f"CODE={_CODE}")


@dataclass(frozen=True, slots=True)
class Few:
    """Up to 64 rows of x in one block: mma.sync, from capability 8.0."""

    mt: int
    nt: int
    wn: int
    wk: int
    u: int
    splits: int = 1
    stages: int = 3
    ahead: bool = False
    """Launched before the kernel in front has ended, to read weights meanwhile: from capability 9.0."""

    name = "few_gemm"
    files = sources("few.cu")

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.wn * self.wk * 32

    @property
    def block(self) -> tuple[int, int]:
        """Rows of x and of W that one block serves."""
        return 8 * self.mt, self.wn * self.nt * 16

    @property
    def step(self) -> int:
        """Columns of a stage, the unit in which K is split."""
        return 64 * self.u * self.wk

    def grid(self, m: int, n: int) -> tuple[int, int, int]:
        """Blocks of a launch."""
        return -(-n // self.block[1]), self.splits, -(-m // self.block[0])

    def shared_bytes(self, kind: Kind) -> int:
        """The table and the stages of x; the sums of the warps along K reuse that room."""
        sums = (self.wk - 1) * self.nt * self.mt * self.wn * 32 * 16
        return max(TABLE_BYTES[kind] + self.stages * 8 * self.mt * (self.step * 2 + 16), sums)

    def macros(self, kind: Kind) -> tuple[str, ...]:
        """The macros of this kernel."""
        names = {"MT": self.mt, "NT": self.nt, "WN": self.wn, "WK": self.wk, "U": self.u, "STAGES": self.stages}
        ahead = ("AHEAD",) if self.ahead else ()
        return (*weight_macros(kind), *(f"{name}={value}" for name, value in names.items()), *ahead)


@dataclass(frozen=True, slots=True)
class Stream:
    """Up to `bm` rows of x in E4M3, as W is: wgmma, Hopper only. Blocks that stand side by side stream W."""

    bm: int
    r: int
    wg: int
    stages: int
    per_tile: int = 0
    """Blocks for each tile of W; 0: one for each multiprocessor, with an even share of all tiles."""

    name = "stream_gemm"
    files = sources("streaming.cuh", "stream.cu")
    step = 128

    @property
    def threads(self) -> int:
        """Threads of a block: a warp more asks for bytes, a whole group of them where the sums take its registers."""
        takes_registers = self.r * self.bm >= 192 or (self.wg == 4 and self.bm >= 64)
        return self.wg * 128 + (128 if takes_registers else 32)

    @property
    def block(self) -> tuple[int, int]:
        """Rows of x and of W that one block serves."""
        return self.bm, self.wg * self.r * 64

    def tiles(self, m: int, n: int) -> int:
        """Of the result."""
        return -(-m // self.bm) * -(-n // self.block[1])

    def blocks(self, m: int, n: int, k: int, processors: int) -> int:
        """Of a launch: none without a step."""
        tiles = self.tiles(m, n)
        return min(self.per_tile * tiles or processors, tiles * (k // self.step))

    @property
    def room(self) -> int:
        """Bytes in which results are turned, and a word."""
        return (self.bm if self.bm % 64 else 64) * (self.block[1] * 2 + 16) + 4

    def shared_bytes(self, _: Kind) -> int:
        """Stages with two barriers each, and the room."""
        return self.stages * ((self.bm + self.block[1]) * self.step + 16) + self.room

    @property
    def sums(self) -> int:
        """Numbers in the two parts of tiles that a block may share with others."""
        return 2 * self.block[0] * self.block[1]

    def macros(self, kind: Kind) -> tuple[str, ...]:
        """The macros of this kernel, with the operands of its wgmma written out."""
        operands = {"A_AT": f"%{self.bm // 2}", "B_AT": f"%{self.bm // 2 + 1}", "ADDS": f"%{self.bm // 2 + 2}"}
        return (*weight_macros(kind), *self._sizes(), *self._operands(operands))

    def _sizes(self) -> tuple[str, ...]:
        names = {"BM": self.bm, "R": self.r, "WG": self.wg, "STAGES": self.stages}
        return tuple(f"{name}={value}" for name, value in names.items())

    def _operands(self, own: dict[str, str]) -> tuple[str, ...]:
        sums = range(self.bm // 2)
        texts = {"SUMS": ",".join(f"%{i}" for i in sums), "COLUMNS": str(self.bm), **own}
        inout = ",".join(f'"+f"(d[{i}])' for i in sums)
        return (*(f'{name}="{text}"' for name, text in texts.items()), f"INOUT={inout}")


@dataclass(frozen=True, slots=True)
class PackedStream(Stream):
    """The same of x in float16 and W packed, whose tiles become float16 in registers."""

    kb: int = 2
    """Blocks of 64 columns in a stage."""
    in_flight: int = 2
    """Products under way while the fragments of the next are made: 2 or 4."""
    pair: int = 1
    """Blocks that have tiles of W side by side and share what they fetch of x: 1 or 2."""

    name = "stream_packed"
    files = sources("streaming.cuh", "stream_packed.cu")

    @property
    def step(self) -> int:  # type: ignore[override]
        """Columns of a stage."""
        return 64 * self.kb

    def tiles(self, m: int, n: int) -> int:
        """Of the result, of a pair's size."""
        return -(-m // self.bm) * -(-n // (self.pair * self.block[1]))

    def blocks(self, m: int, n: int, k: int, processors: int) -> int:
        """Of a launch: none without a step."""
        tiles = self.tiles(m, n)
        return self.pair * min(self.per_tile * tiles or processors // self.pair, tiles * (k // self.step))

    def whole(self, m: int, n: int, blocks: int) -> int:
        """Tiles that nobody shares, as many for every pair: of what is left, each has an even share of one to two."""
        pairs = blocks // self.pair
        return max(0, self.tiles(m, n) // pairs - 1) * pairs

    @property
    def x_box(self) -> tuple[int, int, int]:
        """Bytes of a row, rows, and blocks of 64 columns of x that are asked for at once."""
        if self.kb == 1:
            return 128, self.bm // self.pair, 1
        return 128, self.bm, self.kb // self.pair

    def box_blocks(self, bits: int) -> int:
        """Blocks of 64 columns of W that are asked for at once: at most 2 KiB of a row of tiles."""
        return min(self.kb, 16 // bits)

    def shared_bytes(self, kind: Kind) -> int:
        """Stages with two barriers each, the table, and the room."""
        tile = 544 if kind == 4 else 1024  # of 16 by 64 weights, with NF4's scales
        filled = self.kb * (self.bm * 128 + self.block[1] // 16 * tile)
        stages = self.stages * (-(-filled // 1024) * 1024 + 16)
        return stages + TABLE_BYTES[kind] + self.room

    def macros(self, kind: Kind) -> tuple[str, ...]:
        """The macros of this kernel, with the operands of its wgmma written out."""
        first = self.bm // 2
        fragment = ",".join(f"%{first + i}" for i in range(4))
        operands = {"FRAGMENT": fragment, "B_AT": f"%{first + 4}", "ADDS": f"%{first + 5}"}
        own = (f"KB={self.kb}", f"IN_FLIGHT={self.in_flight}", f"PAIR={self.pair}")
        return (*weight_macros(kind), *self._sizes(), *own, *self._operands(operands))


Tiling = Few | PackedStream
