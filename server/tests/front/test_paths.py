"""Paths that two programs may read differently are refused; what is left is compared as a whole."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from windlass.api import routes
from windlass.api.routes import Access
from windlass.front import paths
from windlass.front.refusal import Refusal
from windlass_testbed.cases import every_case


def refused(path: str, raw: bytes = b"") -> bool:
    """Whether a path is refused."""
    try:
        paths.check(path, raw)
    except Refusal as refusal:
        return refusal.status == 400
    return False


@every_case("character", [chr(code) for code in (*range(33), 0x7F, 0x85, 0xA0, 0xAD, 0x200B, 0x2028, 0xFEFF)])
def test_blanks_and_what_is_not_seen_are_refused(character: str) -> None:
    """Before, inside and behind a path."""
    assert all(refused(path) for path in (f"/{character}health", f"/he{character}alth", f"/health{character}"))


@pytest.mark.parametrize(
    "raw", ["/v1%2Fmodels", "/v1%2fmodels", "/v1%5cmodels", "/%2568ealth", "/x/%2e%2e/health", "/./health"]
)
def test_what_a_proxy_may_read_differently_is_refused(raw: str) -> None:
    """Encoded slashes, backslashes, percent signs, and dots."""
    assert refused(unquote(raw), raw.encode())


@pytest.mark.parametrize("path", ["health", "", "*", "http://x/health", "/" + "a" * 1024])
def test_only_absolute_paths_of_a_length(path: str) -> None:
    assert refused(path)


@pytest.mark.parametrize(
    ("path", "tidy"), [("//v1///models/", "/v1/models"), ("/", "/"), ("///", "/"), ("/metrics/", "/metrics")]
)
def test_slips_with_slashes_are_mended(path: str, tidy: str) -> None:
    assert paths.tidy(path) == tidy


@given(st.text(max_size=40))
def test_a_path_has_rows_only_when_it_is_one_of_the_table(text: str) -> None:
    """Nothing that is added to a path keeps its rows, an id's segment excepted."""
    for path in routes.TABLE:
        if "{" not in path and text and not refused(path + text):
            found = routes.find(path + text)
            rows = found.by_method.values() if found else ()
            assert path + text in routes.TABLE or all("{" in row.path for row in rows)


def test_each_path_and_method_has_one_row() -> None:
    """And each path of an id is found by any id."""
    pairs = [(row.path, method) for row in routes.ROWS for method in row.methods]
    assert len(pairs) == len(set(pairs))
    for row in routes.ROWS:
        found = routes.find(routes.WORDS.sub("resp_1-é", row.path))
        assert found and found.row(row.methods[0]) is row


def test_controls_are_closed_for_every_method() -> None:
    """A path that is closed for one method has no open one."""
    for rows in routes.TABLE.values():
        accesses = {row.access for row in rows.by_method.values()}
        assert Access.CLOSED not in accesses or accesses == {Access.CLOSED}


@pytest.mark.parametrize(
    ("host", "fits"),
    [
        ("llm.example.com", True), ("LLM.example.com:8501", True), ("a.b.example.org", True), ("example.org", False),
        ("evil.com", False), ("llm.example.com.evil.com", False), ("llm.example.com:8501:1", False), ("", False),
        ("llm.example.com\n", False), ("127.0.0.1:8501", False),
    ],
)  # fmt: skip
def test_the_host_is_one_of_the_allowed(host: str, fits: bool) -> None:
    """By its whole name; any host where none is named."""
    paths.check_host(host.encode(), ())
    try:
        paths.check_host(host.encode(), ("llm.example.com", "*.example.org"))
    except Refusal as refusal:
        assert (refusal.status, fits) == (421, False)
    else:
        assert fits
