"""A12: what a dry run keeps free, and the line of the log."""

from dataclasses import replace

import pytest
from windlass.engine.dry_run.amounts import GIB, Batch, Measured, line

WHOLE = Batch(requests=1024, drafts=4, requests_max=1024, tokens_max=8192)
CUT = Batch(requests=100, drafts=1, requests_max=125, tokens_max=8192)
"""The engine's warm-up gives each prompt one token more than a step verifies."""
FOUND = Measured(
    batch=WHOLE,
    sampling=5 * GIB,
    forward=3 * GIB,
    profiled=2 * GIB,
    staying=GIB // 2,
    graphs=GIB,
    graphs_counted=True,
)


@pytest.mark.parametrize(
    ("found", "gib"),
    [
        (FOUND, 3.5),
        (replace(FOUND, graphs_counted=False), 4.5),
        (replace(FOUND, forward=6 * GIB), 4.5),
        (replace(FOUND, profiled=7 * GIB), 0.5),
        (replace(FOUND, staying=-GIB), 3.0),
        (replace(FOUND, batch=CUT, sampling=4 * GIB), 3.5),
        (replace(FOUND, profiled=5 * GIB, staying=0), 0.0),
        (replace(FOUND, largest=2 * GIB), 5.5),
        (replace(FOUND, largest=2 * GIB, under_way=2), 7.5),
    ],
    ids=[
        "batch",
        "graphs",
        "forward",
        "small batch",
        "given back",
        "a part of the rows",
        "nothing",
        "free pieces",
        "free pieces of two steps",
    ],
)
def test_what_is_kept(found: Measured, gib: float) -> None:
    """The largest step beyond the profile, and what stays; never less than nothing."""
    assert found.kept == gib * GIB


@pytest.mark.parametrize(
    ("batch", "rows", "most"),
    [
        (WHOLE, 5120, 5120),
        (CUT, 200, 250),
        (Batch(1927, 15, 2048, 32768), 30832, 32768),
        (Batch(256, 0, 256, 8192), 256, 256),
        (Batch(1365, 5, 4096, 8192), 8190, 8192),
    ],
)
def test_rows_of_a_batch(batch: Batch, rows: int, most: int) -> None:
    """Each request has a row of logits and one for each draft; a step's tokens limit them."""
    assert (batch.rows, batch.rows_max) == (rows, most)


@pytest.mark.parametrize(
    ("batch", "mib"),
    [
        (Batch(1927, 15, 2048, 32768), 9216),
        (Batch(256, 4, 256, 8192), 720),
        (Batch(1024, 4, 1024, 8192), 1440),
        (Batch(1024, 0, 1024, 8192), 576),
        (Batch(4096, 0, 4096, 8192), 2304),
    ],
    ids=["logits", "copy of few rows", "logits beside a copy in parts", "copy", "copy of all rows"],
)
def test_the_largest_tensor(batch: Batch, mib: int) -> None:
    """With 147,456 words in bfloat16: the logits, or their copy in float32; beside drafts it takes 1 GiB at most."""
    assert batch.largest(147_456, 2) == mib * 2**20


def test_the_logits_of_a_head_in_float32() -> None:
    """They have the size of their copy."""
    assert Batch(256, 0, 256, 8192).largest(131_072, 4) == 128 * 2**20


@pytest.mark.parametrize(
    ("requests", "sizes"), [(2048, (2048, 1536, 2048)), (2, (2, 1, 2)), (1, (1,))], ids=["many", "two", "one"]
)
def test_sizes_of_the_warm_ups(requests: int, sizes: tuple[int, ...]) -> None:
    """A full batch follows on a smaller one."""
    assert Batch(requests, 4, 2048, 8192).sizes == sizes


def test_the_line_of_the_log() -> None:
    """It gives the whole and each part."""
    assert line(FOUND) == (
        "conservative dry run: 3.50 GiB kept free beside the engine's own profile: a step of 1,024 requests with 4 "
        "drafts each 3.00 (5.00, of which the profile has 2.00), kernels and workspaces 0.50; graphs 1.00, in the "
        "engine's own estimate"
    )


@pytest.mark.parametrize(
    ("under_way", "part"), [(1, "the step under way 2.00"), (2, "each of the 2 steps under way 4.00")], ids=["1", "2"]
)
def test_the_line_where_free_memory_is_in_pieces(under_way: int, part: str) -> None:
    """The largest tensor is a part of its own, with the reason."""
    assert (
        f"its largest tensor once more for {part}, because torch cannot join free pieces of memory here "
        "(expandable_segments is off), kernels and workspaces 0.50"
    ) in line(replace(FOUND, largest=2 * GIB, under_way=under_way))


def test_the_line_without_drafts_and_without_the_estimate() -> None:
    """Graphs that the engine does not count are kept too."""
    found = replace(FOUND, batch=Batch(256, 0, 256, 8192), graphs_counted=False)
    assert "a step of 256 requests 3.00" in line(found)
    assert line(found).endswith("graphs 1.00, kept too")
