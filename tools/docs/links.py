"""The links of a Markdown page: which there are, and which page of the site each one becomes.

Pure but for `is_dir` and `is_file`. `hook.py` (the site) and `tools/house/pages.py` (`make check`) call it; it
must not import mkdocs, which the gate does not install.
"""

import os.path
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
DOCS = "docs"
REPOSITORY = "repository"
PAGE_BYTES_MAX = 200_000  # a longer file is copied beside the pages: highlighting it takes seconds
_FENCE = re.compile(r"^ *(```|~~~)")
_CODE_OR_LINK = re.compile(r"(?P<code>(?P<tick>`+).+?(?P=tick)(?!`))|\]\((?P<link>[^()\s]+)\)")
_OUTSIDE = re.compile(r"^[a-z][a-z0-9+.-]*:|^//")


def prose(text: str) -> Iterator[tuple[str, bool]]:
    """Each line of a page, and whether it is outside of code blocks."""
    inside = False
    for line in text.splitlines(keepends=True):
        fence = _FENCE.match(line) is not None
        inside ^= fence
        yield line, not (inside or fence)


def targets(text: str) -> Iterator[str]:
    """The target of each link that stays in this repository."""
    for line, is_prose in prose(text):
        if is_prose:
            for found in _CODE_OR_LINK.finditer(line):
                if found["link"] and not _OUTSIDE.match(found["link"]):
                    yield found["link"]


def anchors(text: str) -> set[str]:
    """The names of a page's headings, as GitHub and the site make them."""
    found: set[str] = set()
    for line, is_prose in prose(text):
        if is_prose and (heading := re.match(r"#{1,6} +(.*?)[ #]*$", line)):
            shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1])
            name = re.sub(r"[^\w\- ]", "", shown.replace("`", "").replace("*", "")).strip().lower().replace(" ", "-")
            found.add(next(each for each in (name, *(f"{name}-{n}" for n in range(1, 99))) if each not in found))
    return found


def resolve(page: str, target: str) -> tuple[str, str]:
    """The path in the repository and the anchor that a link on `page` leads to."""
    path, _, anchor = target.partition("#")
    here = PurePosixPath(page)
    return (os.path.normpath(here.parent / path) if path else page), anchor


def placed(path: str) -> str:
    """The file of the site's sources that shows `path` of the repository."""
    if path == DOCS or path.startswith(f"{DOCS}/"):
        inner = os.path.relpath(path, DOCS)
        return "index.md" if inner == "." else f"{inner}/index.md" if (ROOT / path).is_dir() else inner
    full = ROOT / path
    if full.is_dir():
        return placed(f"{path}/README.md") if (full / "README.md").is_file() else f"{REPOSITORY}/{path}/index.md"
    is_copied = full.suffix == ".md" or full.stat().st_size > PAGE_BYTES_MAX or not _is_text(full)
    return f"{REPOSITORY}/{path}" + ("" if is_copied else ".md")


def _is_text(full: Path) -> bool:
    """Whether a page can show the file; packed rows and pictures are copied."""
    try:
        full.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return True


def rewritten(page: str, text: str) -> str:
    """The page with each link that leaves docs/ pointed at the site's copy."""
    here = PurePosixPath(placed(page)).parent

    def moved(found: re.Match[str]) -> str:
        if found["link"] is None or _OUTSIDE.match(found["link"]) or found["link"].startswith("#"):
            return found[0]
        path, anchor = resolve(page, found["link"])
        if not (ROOT / path).exists():
            return found[0]  # mkdocs names it
        return f"]({os.path.relpath(placed(path), here)}{'#' + anchor if anchor else ''})"

    return "".join(_CODE_OR_LINK.sub(moved, line) if is_prose else line for line, is_prose in prose(text))
