"""The page's one response: its headers, its hashes, and that nothing in it comes from elsewhere."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from importlib import resources

import pytest
from windlass import chat_page
from windlass.chat_page import page

LONGEST_SOURCE = 400


class Reader(HTMLParser):
    """Collects what a browser would load or run."""

    def __init__(self, html):
        super().__init__()
        self.attributes, self.inline, self.ids, self._open = [], {"script": [], "style": []}, [], None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        self._open = tag

    def handle_data(self, data):
        if self._open in self.inline:
            self.inline[self._open].append(data)
            self._open = None


@pytest.fixture(scope="module")
def html():
    return page()[0].decode()


@pytest.fixture(scope="module")
def read(html):
    return Reader(html)


def policy():
    """The Content-Security-Policy as directive → sources."""
    parts = page()[1]["Content-Security-Policy"].split("; ")
    return {name: sources for name, _, sources in (part.partition(" ") for part in parts)}


def hash_of(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.mark.parametrize(("directive", "tag"), [("script-src", "script"), ("style-src", "style")])
def test_the_policy_names_what_the_page_holds_by_hash(read, directive, tag):
    """One style and one script, each allowed by its own hash and nothing else."""
    assert len(read.inline[tag]) == 1
    assert policy()[directive] == hash_of(read.inline[tag][0])


def test_the_policy_allows_nothing_else():
    """Everything is closed but the server itself, and pictures that people attach."""
    rest = {name: sources for name, sources in policy().items() if name not in ("script-src", "style-src")}
    assert rest == {
        "default-src": "'none'",
        "connect-src": "'self'",
        "img-src": "data: 'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def test_the_other_headers():
    headers = page()[1]
    del headers["Content-Security-Policy"]
    assert headers == {
        "Content-Type": "text/html; charset=utf-8",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }


def test_callers_cannot_change_each_others_headers():
    """The server adds its own headers to the dictionary that it gets."""
    page()[1]["X-Mine"] = "1"
    assert "X-Mine" not in page()[1]


def test_the_page_loads_nothing_from_elsewhere(read):
    """Addresses are data: or places within the page; there is no inline handler and no inline style."""
    loads = [value for _, name, value in read.attributes if name in ("src", "href", "action", "srcset", "data")]
    assert [value for value in loads if not value.startswith(("#", "data:image/svg+xml,"))] == []
    assert [name for _, name, _ in read.attributes if name.startswith("on") or name == "style"] == []


def test_a_script_cannot_end_early_and_hashes_see_what_browsers_see(html):
    """No closing tag inside a source, and no carriage return, which browsers drop before they hash."""
    assert "\r" not in html
    assert (html.count("</script"), html.count("</style")) == (1, 1)
    assert "<!--" not in html


def test_model_text_meets_no_html_parser_and_keys_no_store(read):
    """The words that would parse HTML or keep a secret do not occur in the script."""
    parsers = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|new Function"
    stores = r"localStorage|sessionStorage|indexedDB|cookie"
    assert re.findall(f"{parsers}|{stores}", read.inline["script"][0]) == []


def test_every_id_is_one_and_every_action_has_a_row(html, read):
    """Buttons name their action by `data-do`; each name is a row of the script's table."""
    assert len(read.ids) == len(set(read.ids))
    script = read.inline["script"][0]
    table = script[script.index("const ACTIONS = {") : script.index("const exchangeOf")]
    named = {value for _, name, value in read.attributes if name == "data-do"}
    named |= set(re.findall(r'"data-do": "(\w+)"', script))
    assert {name for name in named if not re.search(rf"^  {name}\b", table, re.M)} == set()


def test_the_sources_are_short_and_whole():
    """Every source in the package is in the page, and none is longer than the house allows."""
    files = {file.name: file for file in resources.files(chat_page).iterdir() if file.name.endswith((".css", ".js"))}
    assert set(files) == {*chat_page.STYLES, *chat_page.SCRIPTS}
    assert {name: n for name, file in files.items() if (n := len(file.read_text().splitlines())) > LONGEST_SOURCE} == {}
