"""Which drafts a row gets where a model drafts beside the cache: the kernel's own source, as one thread on the host."""

import ctypes
import random
import re
import subprocess
from importlib import resources
from itertools import accumulate
from operator import mul
from typing import Any

import pytest
from windlass_lookahead.round_trip import CACHE, LATE, MODEL

MOST, STRIDE, PLACES = 4, 6, 5
HOST = """
#include <math.h>
#include <algorithm>
using std::max; using std::min;
#define __global__
#define __device__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __ldcv(where) (*(where))
static struct { int x; } threadIdx, blockDim{1};
static void __syncthreads() {}
static int __shfl_up_sync(unsigned, int value, int) { return value; }
extern "C" unsigned long long clock_ns = 0;
"""
MACROS = {"MOST": MOST, "SPAN": 5, "RECORD_HEADER": 5, "PATIENCE_NS": 0, "ROW_NS": 0, "THREADS": 32, "ROWS": 1}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The kernels as functions of a library; what is in the GPU's own language reads and writes words."""
    source = resources.files("windlass.engine").joinpath("lookahead/kernels.cu").read_text()
    source = source.replace('asm volatile("ld.acquire', 'value = *word; // asm volatile("ld.acquire')
    source = source.replace('asm volatile("mov.u64', 'time = clock_ns += 1000; // asm volatile("mov.u64')
    source = re.sub(r'asm volatile\("st\.release[^\n]*', "*doorbell = step;", source)
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "kernels.cc").write_text(HOST + source)
    macros = [f"-D{name}={value}" for name, value in MACROS.items()]
    library = folder / "kernels.so"
    command = ["g++", "-std=c++17", "-O1", "-w", "-shared", "-fPIC", *macros, str(folder / "kernels.cc"), "-o"]
    subprocess.run([*command, str(library)], check=True)
    return ctypes.CDLL(str(library))


def tokens_saved(sure: list[float]) -> float:
    return sum(accumulate(sure, mul))


def wanted(cached: tuple[list[int], list[float]] | None, model: tuple[list[int], list[float]], count: int) -> Any:
    """Tokens, confidences and source of a row; the model is as sure in each row."""
    made = [(token, sure) if at < count else (0, 0.0) for at, (token, sure) in enumerate(zip(*model, strict=True))]
    own = list(zip(*cached, strict=True)) if cached else [(0, 0.0)] * MOST
    if tokens_saved([sure for _, sure in made]) > tokens_saved([sure for _, sure in own]):
        return made, MODEL
    return own, CACHE if cached else LATE


def drawn(chance: random.Random, rows: int, start: int) -> tuple[list[list[int]], list[list[float]]]:
    """Tokens and confidences of some rows; the confidences are exact in 32 bits."""
    tokens = [[start + MOST * row + at for at in range(MOST)] for row in range(rows)]
    return tokens, [[chance.randrange(9) / 8 for _ in range(MOST)] for _ in range(rows)]


def flat(kind: Any, rows: list[Any]) -> Any:
    values = [value for row in rows for value in row]
    return (kind * len(values))(*values)


@pytest.mark.parametrize("count", range(MOST + 1))
@pytest.mark.parametrize("came", [True, False], ids=["in time", "too late"])
def test_each_row_has_the_better_drafts(kernels: ctypes.CDLL, count: int, came: bool) -> None:
    """Those that save more tokens; the cache's where both save the same, and where the model has not read the row."""
    chance = random.Random(count)  # noqa: S311 - draws cases, no secret
    seen = set()
    for _ in range(200):
        rows = chance.randint(1, PLACES)
        places = chance.sample(range(PLACES), rows)
        cached, (model, (by_place, *_)) = drawn(chance, rows, 100), drawn(chance, rows, 500)
        unread = {row for row in range(rows) if chance.random() < 0.2}
        for row in unread:
            model[row][0] = -1
        ints, floats = ctypes.c_int64 * (PLACES * STRIDE), ctypes.c_float * (PLACES * STRIDE)
        drafts, sure, drafts_by_place, sure_by_place, source = (
            ints(),
            floats(),
            ints(),
            floats(),
            (ctypes.c_int * PLACES)(),
        )
        kernels.take_drafts(
            (ctypes.c_int * 1)(7 if came else 5), flat(ctypes.c_int64, cached[0]), flat(ctypes.c_float, cached[1]),
            (ctypes.c_int64 * rows)(*places), flat(ctypes.c_int64, model), flat(ctypes.c_float, [by_place]),
            drafts, sure, drafts_by_place, sure_by_place, source, STRIDE, rows, 7, count, 0,
        )  # fmt: skip
        for row, place in enumerate(places):
            own = (cached[0][row], cached[1][row]) if came else None
            expected, whose = wanted(own, (model[row], by_place), 0 if row in unread else count)
            seen.add(whose)
            at, to = slice(row * MOST, (row + 1) * MOST), slice(place * STRIDE, place * STRIDE + MOST)
            assert list(zip(drafts[at], sure[at], strict=True)) == expected
            of_place = slice(place * MOST, (place + 1) * MOST)
            assert list(zip(drafts_by_place[to], sure_by_place[of_place], strict=True)) == expected
            assert source[place] == whose
    assert seen == {CACHE if came else LATE} | ({MODEL} if count else set())


@pytest.mark.parametrize(("behind", "waited_us"), [(1, 700), (2, 0), (0, 0)], ids=["next", "two behind", "there"])
def test_a_host_that_drafts_with_a_model_is_waited_for_longer(
    kernels: ctypes.CDLL, behind: int, waited_us: int
) -> None:
    """As many microseconds as the policy says; a host that is two steps behind is not waited for at all."""
    clock_ns = ctypes.c_ulonglong.in_dll(kernels, "clock_ns")
    before, ints, floats = clock_ns.value, ctypes.c_int64 * STRIDE, ctypes.c_float * STRIDE
    kernels.take_drafts(
        (ctypes.c_int * 1)(7 - behind), ints(), floats(), ints(), ints(), floats(),
        ints(), floats(), ints(), floats(), (ctypes.c_int * 1)(), STRIDE, 1, 7, 0, 700,
    )  # fmt: skip
    assert (clock_ns.value - before) / 1000 == pytest.approx(waited_us, abs=3)


def test_the_record_says_whose_the_drafts_were(kernels: ctypes.CDLL) -> None:
    """And the next step's begins anew."""
    ints = ctypes.c_int * 32
    record, source, doorbell = ints(), (ctypes.c_int * 2)(CACHE, MODEL), (ctypes.c_int * 1)()
    kernels.write_record(
        ints(*range(32)), (ctypes.c_int64 * 1)(1), (ctypes.c_int * 2)(9, 3), (ctypes.c_int * 1)(2),
        (ctypes.c_int * 1)(1), source, record, doorbell, 16, 1, 7,
    )  # fmt: skip
    assert list(record[:10]) == [7, 2, 1, 3, MODEL, 18, 17, 16, 0, 0]
    assert (list(source), doorbell[0]) == ([CACHE, CACHE], 7)
