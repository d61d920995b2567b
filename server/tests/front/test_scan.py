"""What a body costs is known before it is parsed: exact for JSON, never too little for anything else."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from windlass.front import scan
from windlass.front.refusal import Refusal
from windlass.front.scan import JsonLimits

SMALL = JsonLimits(text_bytes=200, values=64, depth=5)
TEXTS = st.text(alphabet='a"\\[]{},:\u2028é\n', max_size=12)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(TEXTS, inner, max_size=9),
    max_leaves=40,
)


def cost(value: object, depth: int = 0) -> tuple[int, int, int, int]:
    """Values (as the scan counts them: commas and containers), keys, containers and depth of a document."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    if inner is None:
        return 0, 0, 0, depth
    rows = [cost(one, depth + 1) for one in inner] or [(0, 0, 0, depth + 1)]
    values = sum(row[0] for row in rows) + 1 + max(len(inner) - 1, 0)
    keys = sum(row[1] for row in rows) + (len(value) if isinstance(value, dict) else 0)
    return values, keys, sum(row[2] for row in rows) + 1, max(row[3] for row in rows)


def refused(raw: bytes, limits: JsonLimits = SMALL) -> str:
    """Why a body is refused; empty when it is not."""
    try:
        scan.check(raw, limits)
    except Refusal as refusal:
        return refusal.message
    return ""


@given(DOCUMENTS, st.sampled_from([None, 1]))
def test_json_is_measured_exactly(document: object, indent: int | None) -> None:
    """Whatever stands in strings, and however it is written."""
    for ascii_only in (True, False):
        raw = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode()
        values, keys, containers, depth = cost(document)
        is_within = values <= 64 and keys <= 16 and containers <= 16 and depth <= 5 and len(raw) <= 200
        assert (refused(raw) == "") is is_within


@given(st.binary(max_size=300) | st.text(alphabet='"\\[]{},:1e-', max_size=300).map(str.encode))
def test_a_parser_builds_no_more_than_was_measured(raw: bytes) -> None:
    """Of bytes that pass, what a parser makes before its first error is within the limits."""
    if refused(raw):
        return
    made = {"values": 0}

    def count(_: object) -> object:
        made["values"] += 1
        return _

    with contextlib.suppress(ValueError):
        json.loads(raw.decode("utf-8-sig"), object_pairs_hook=count, parse_int=count, parse_float=count)
    assert made["values"] <= 2 * SMALL.values


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(b"[" + b"{}," * 300_000 + b"{}]", "more than 262144 values", id="objects"),
        pytest.param(b"[" + b"{}," * 70_000 + b"{}]", "more than 65536 lists and objects", id="lists and objects"),
        pytest.param(b"{" + b'"a":1,' * 70_000 + b'"b":1}', "more than 65536 keys", id="keys"),
        pytest.param(b"[" * 65 + b"]" * 65, "nested more than 64 deep", id="depth"),
        pytest.param(b'"' * 2**20, "more than 262144 values", id="quotes"),
        pytest.param(b'{"a":"' + b'\\"' * 5 * 2**20 + b'"}', "more than 8 MiB besides media", id="escapes"),
        pytest.param(b'{"n":' + b"1" * 41 + b"}", "a number of more than 40 digits", id="digits"),
        pytest.param(b'{"a":"' + b"a b " * 2**21 + b'"}', "more than 8 MiB besides media", id="text"),
    ],
)
def test_too_much_is_refused(body: bytes, words: str) -> None:
    """Each with its limit."""
    assert words in refused(body, JsonLimits())


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"url": "data:image/png;base64," + "A/+9" * 2**22}, id="an image of 16 MiB"),
        pytest.param({"data": "A/+9" * 2**22}, id="audio of 16 MiB"),
        pytest.param({"prompt": list(range(200_000))}, id="200,000 token ids"),
        pytest.param({"messages": [{"role": "user", "content": "x " * 100}] * 10_000}, id="10,000 messages"),
        pytest.param({"content": '"[{\\' * 2**18}, id="code of 1 MiB"),
    ],
)
def test_what_clients_send_passes(body: dict) -> None:
    """Large, but no more work than it looks."""
    assert refused(json.dumps(body).encode(), JsonLimits()) == ""
