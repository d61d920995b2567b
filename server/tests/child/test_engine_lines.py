"""The engine's text as JSON lines: what each known shape becomes, and pieces that come in any size."""

import io
import json
import logging

import pytest
from windlass.child.engine_lines import LINE_BYTES_MAX, EngineLines, Line, parse
from windlass_base.json_lines import LogSettings

ROWS = {
    "vLLM": (
        "WARNING 11-25 04:24:14 [config/model.py:123] slow",
        Line("slow", logging.WARNING, source="config/model.py:123"),
    ),
    "vLLM's child": (
        "(Worker_TP0 pid=12) INFO 11-25 04:24:14.123 [gpu.py:1] up",
        Line("up", process="Worker_TP0 pid=12", source="gpu.py:1"),
    ),
    "uvicorn": ('INFO:     127.0.0.1:1 - "GET / HTTP/1.1" 200', Line('127.0.0.1:1 - "GET / HTTP/1.1" 200')),
    "DeepSpeed's server": (
        "2026-11-25 04:24:14,123 ERROR windlass_deepspeed one engine ended",
        Line("one engine ended", logging.ERROR, "windlass_deepspeed"),
    ),
    "DeepSpeed": (
        "[2026-11-25 04:24:14,123] [INFO] [real_accelerator.py:1:get] cpu",
        Line("cpu", source="real_accelerator.py:1:get"),
    ),
    "ours": ("windlass: the license is granted", Line("the license is granted", logger="windlass")),
    "a library's print": ("NCCL version 2.27", Line("NCCL version 2.27")),
}


@pytest.mark.parametrize(("text", "expected"), ROWS.values(), ids=ROWS)
def test_parse(text: str, expected: Line) -> None:
    """Level, logger, process and source come from the prefix."""
    assert expected == parse(text)


def written(*chunks: bytes) -> list[dict[str, str]]:
    """The records that these pieces become."""
    out = io.BytesIO()
    lines = EngineLines(out, LogSettings("json"), lambda: 0.0)
    for chunk in chunks:
        lines.write(chunk)
    lines.close()
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_pieces_of_any_size_are_the_same_lines(size: int) -> None:
    """Characters and lines may be cut anywhere."""
    raw = "größer\n\nINFO:     b\rc".encode()
    chunks = [raw[at : at + size] for at in range(0, len(raw), size)]
    assert [one["message"] for one in written(*chunks)] == ["größer", "b", "c"]


def test_an_endless_line_is_cut() -> None:
    """Memory is bounded, whatever a process writes."""
    found = written(b"x" * (LINE_BYTES_MAX + 1), b"y\n")
    assert [len(one["message"]) for one in found] == [LINE_BYTES_MAX, 1]


def test_chained_tracebacks_and_one_without_an_end() -> None:
    """Each exception ends a record; what has no end is written when the stream closes."""
    first = b"Traceback (most recent call last):\n  File 1\nKeyError: 1\n"
    found = written(first, b"\nDuring handling of the above exception, another one\n\n", first[:-12])
    assert [one["message"] for one in found[:2]] == [
        "KeyError: 1",
        "During handling of the above exception, another one",
    ]
    assert found[2]["traceback"].endswith("File 1")
