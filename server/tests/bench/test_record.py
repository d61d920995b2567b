"""Records: warnings, CSV, the text block and the page."""

import csv
import io
import re
from dataclasses import replace

import pytest
from windlass.bench.serving.counters import Counted
from windlass.bench.serving.load import DataSet, Point
from windlass.bench.serving.page import across, as_page, ceiling
from windlass.bench.serving.record import Record, warnings
from windlass.bench.serving.tables import as_csv, as_text
from windlass_testbed.cases import every_case

from .samples import COUNTED, LOAD, RESULT, record

SHARED = replace(LOAD, dataset=DataSet.SHARED_PREFIX, num_prefixes=1)
FROM_FILE = replace(LOAD, dataset=DataSet.SHAREGPT, dataset_path="talks.json")
SEED_COLUMNS = """\
Name,Backend,Prefix cache,Cache offload,Hit count,Lookahead,Benchmark duration (s),Total input tokens,\
Total generated tokens,Input token throughput (tok/s),Output token throughput (tok/s),Mean E2E (ms),Median E2E (ms),\
P99 E2E (ms),Mean TTFT (ms),Median TTFT (ms),P99 TTFT (ms),Mean TPOT (ms),Median TPOT (ms),P99 TPOT (ms),\
Mean ITL (ms),Median ITL (ms),P99 ITL (ms)"""
BLOCK = """\
============ Serving Benchmark Result ============
Backend:                                 openai-chat
Traffic request rate:                    inf
Maximum request concurrency:             4
Successful requests:                     4
Failed requests:                         0
Benchmark duration (s):                  9.50
Total input tokens:                      1900
Total generated tokens:                  1600
Request throughput (req/s):              0.42
Request goodput (req/s):                 -
Input token throughput (tok/s):          200.00
Output token throughput (tok/s):         167.08
----------------End-to-End Latency----------------
Mean E2E (ms):                           2390.31
Median E2E (ms):                         2069.78
P99 E2E (ms):                            2500.50
---------------Time to First Token----------------
Mean TTFT (ms):                          656.38
Median TTFT (ms):                        41.38
P99 TTFT (ms):                           2427.64
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          4.35
Median TPOT (ms):                        4.51
P99 TPOT (ms):                           5.50
---------------Inter-token Latency----------------
Mean ITL (ms):                           12.43
Median ITL (ms):                         12.38
P99 ITL (ms):                            13.27
-----------------Engine counters------------------
Prefix cache hit rate (%):               1.00
Offloaded cache hit rate (%):            -
Draft acceptance (%):                    60.00
Acceptance length:                       4.00
==================================================
"""


@every_case(
    "one, said",
    [
        (record(), None),
        (record(counted=None), "the engine's counters could not be read"),
        (record(failed=1), "1 of 5 requests failed"),
        (
            record(counted=replace(COUNTED, prefix_hits=96)),
            "the prefix cache answered 5% of the prompts' tokens, and 0% are",
        ),
        (record(counted=replace(COUNTED, prefix_hits=1843)), "the prefix cache answered 97% of the prompts' tokens"),
        (record(counted=replace(COUNTED, prefix_hits=95)), None),
        (record(replace(COUNTED, prefix_hits=768, prefix_queries=1900), SHARED), None),
        (record(replace(COUNTED, prefix_hits=900, prefix_queries=1900), SHARED), "the prefix cache answered 47%"),
        (record(replace(COUNTED, prefix_hits=120, prefix_queries=2000)), None),  # 100 are the template's
        (record(replace(COUNTED, prefix_hits=1700), FROM_FILE), "the prefix cache answered 89%"),
        (record(counted=replace(COUNTED, generation_tokens=1700)), "the engine generated 1700 tokens and the client"),
        (record(counted=replace(COUNTED, generation_tokens=800)), "the engine generated 800 tokens and the client"),
        (record(counted=replace(COUNTED, generation_tokens=1680)), None),
    ],
)
def test_warnings(one: Record, said: str | None) -> None:
    """A sentence for each thing that makes figures other than they look, and none without cause."""
    assert [sentence[: len(said or "")] for sentence in warnings(one)] == ([said] if said else [])


def test_csv_has_the_manuals_columns_first() -> None:
    """Then ours, and a line a run."""
    heading, line, *rest = as_csv([record()]).splitlines()
    assert (heading.startswith(SEED_COLUMNS + ","), rest) == (True, [])
    row = dict(zip(*csv.reader([heading, line]), strict=True))
    ours = (
        "Prefix cache",
        "Cache offload",
        "Hit count",
        "Lookahead",
        "Prefix cache hit rate (%)",
        "Draft acceptance (%)",
    )
    assert [row[name] for name in ours] == ["true", "false", "true", "true", "1", "60"]
    assert (row["Input token throughput (tok/s)"], row["P99 ITL (ms)"], row["Maximum concurrency"]) == (
        "200",
        "13.27",
        "4",
    )


def test_what_is_unknown_is_empty() -> None:
    """Never a zero, never a NaN; a name cannot add columns."""
    one = record(counted=None, load=replace(LOAD, name='a,"b'), mean_ttft_ms=float("nan"), p99_itl_ms="fast")
    (row,) = csv.DictReader(io.StringIO(as_csv([one])))
    empty = ("Lookahead", "Hit count", "Mean TTFT (ms)", "P99 ITL (ms)", "Acceptance length", "Request goodput (req/s)")
    assert ({row[name] for name in empty}, row["Name"]) == ({""}, 'a,"b')


def test_text_is_the_manuals_block() -> None:
    """Line for line."""
    assert as_text(record()) == BLOCK


@pytest.mark.parametrize(
    ("values", "top"), [([], 1), ([0], 1), ([0.03], 0.032), ([7, 3], 8), ([10], 10), ([101], 120), ([2427.64], 3200)]
)
def test_ceiling(values: list[float], top: float) -> None:
    """The axis ends at a round number that holds every value."""
    assert ceiling(values) == pytest.approx(top)


def test_page() -> None:
    """Three charts with a point a run and line, no address anywhere, and what a server says is text."""
    load = replace(LOAD, model="<script>", concurrency=(1, 4, 16))
    runs = [Record(load, Point(f"0{many}", 0, many), RESULT, Counted()) for many in load.concurrency]
    runs.append(Record(load, Point("04", 0, 64), RESULT | {"median_ttft_ms": None}, None))
    page = as_page(runs)
    assert ("<script" in page, "http" in page.replace("http-equiv", ""), "src=" in page) == (False, False, False)
    charts = page.split("<svg")[1:]
    assert [chart.count("<circle") for chart in charts] == [7, 8, 8]
    assert "04: the engine&#x27;s counters could not be read" in page
    assert re.findall(r'text-anchor="middle">(\d+)<', charts[0]) == ["1", "4", "16", "64"]


def test_a_gap_breaks_the_line() -> None:
    """A run without a figure is not drawn over."""
    runs = [record(), record(median_ttft_ms=None), record()]
    first = as_page(runs).split("<svg")[1]
    assert f"M{across(0, 3):.1f} " in first
    assert f"M{across(2, 3):.1f} " in first


def test_page_without_runs() -> None:
    """A page of nothing is still a page."""
    assert as_page([]).endswith("</html>\n")
