"""The chat page: one HTML response with its style and script inside, and the headers that lock it down.

The API server answers `GET /chat` with it. The sources beside this module are plain HTML, CSS and JavaScript that no
tool builds; the Content-Security-Policy names them by hash, so nothing else can run in the page. Reads package data
only; must not import the engine.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources

STYLES = ("page.css", "exchanges.css")
SCRIPTS = (
    "words.js",
    "markdown.js",
    "stream.js",
    "exchanges.js",
    "settings.js",
    "page.js",
)  # one scope, in the order of use
STYLE_PLACE = "<style></style>"
SCRIPT_PLACE = '<script type="module"></script>'


def page() -> tuple[bytes, dict[str, str]]:
    """The page's body and headers, the same for every request."""
    body, headers = _page()
    return body, dict(headers)


@cache
def _page() -> tuple[bytes, dict[str, str]]:
    style, script = _joined(STYLES), _joined(SCRIPTS)
    html = _read("page.html")
    html = html.replace(STYLE_PLACE, f"<style>{style}</style>")
    html = html.replace(SCRIPT_PLACE, f'<script type="module">{script}</script>')
    return html.encode(), _headers(style, script)


def _headers(style: str, script: str) -> dict[str, str]:
    return {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": "; ".join(_policy(style, script)),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",  # a new release must show at once; the back button must still work
    }


def _policy(style: str, script: str) -> tuple[str, ...]:
    return (
        "default-src 'none'",
        f"script-src {_hash(script)}",
        f"style-src {_hash(style)}",
        "connect-src 'self'",
        "img-src data: 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",  # the browser itself refuses innerHTML
        "trusted-types 'none'",
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _joined(names: tuple[str, ...]) -> str:
    return "\n" + "\n".join(_read(name) for name in names)


def _read(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
