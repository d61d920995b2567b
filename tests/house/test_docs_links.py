"""Links between pages lead somewhere, every folder of docs/ has its place on the site, and commands are marked as such.

`make docs` builds the site.
"""

import ast
import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools" / "docs"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


links = loaded("links")
# Untracked pages count too: a page and its links are written before they are committed.
PAGES = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=True,
).stdout.split()
BINARY = (
    "benchmarks/front/results/2026-11-28-split.json.gz",
    "benchmarks/quantization/results/2026-11-28-h100-second-of-serving.png",
)
FENCE = re.compile(r"^ *(?:```|~~~) *(\w*)")
# Fragments are read in the change log.
SHOWN_IN = {"changelog.d": "CHANGELOG.md"}


def wrong(page: str) -> list[str]:
    found = []
    for target in links.targets((ROOT / page).read_text(encoding="utf-8")):
        path, anchor = links.resolve(SHOWN_IN.get(Path(page).parts[0], page), target)
        there = ROOT / path
        named = not anchor or not there.is_file() or anchor in links.anchors(there.read_text(encoding="utf-8"))
        found += [] if there.exists() and named else [target]
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if (ROOT / page).exists()])
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    """A link names a file of the repository, and a heading that is there."""
    assert wrong(page) == []


def test_a_link_to_nothing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check sees a missing file and a missing heading, and leaves code and other hosts alone."""
    (tmp_path / "there.md").write_text("# A `word`, and more\n")
    (tmp_path / "page.md").write_text(
        "[1](there.md) [2](there.md#a-word-and-more) [3](https://example.com) `[4](code.md)`\n"
        "```\n[5](block.md)\n```\n[6](gone.md) [7](there.md#gone)\n"
    )
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert wrong("page.md") == ["gone.md", "there.md#gone"]


def test_every_folder_of_the_docs_is_a_section() -> None:
    """A folder without a tab would be pages that nobody finds."""
    (sections,) = [
        ast.literal_eval(node.value)
        for node in ast.parse((TOOLS / "hook.py").read_text()).body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "SECTIONS"
    ]
    folders = {Path(page).parts[1] for page in PAGES if page.startswith("docs/") and len(Path(page).parts) > 2}
    assert folders <= set(sections)


def test_the_site_rewrites_only_what_leaves_the_docs() -> None:
    """A file of the repository becomes a page under repository/; a page of docs/ stays where it is."""
    text = "[a](../how-to/license.md#renew) [b](../../charts/windlass/values.yaml) [c](../../benchmarks/lookahead)\n"
    assert links.rewritten("docs/reference/x.md", text) == (
        "[a](../how-to/license.md#renew) [b](../repository/charts/windlass/values.yaml.md) "
        "[c](../repository/benchmarks/lookahead/README.md)\n"
    )


def test_packed_rows_and_pictures_are_copied() -> None:
    """A page of the site shows text; what is none would end its build."""
    placed = {name: links.placed(name) for name in ("README.md", "Makefile", *BINARY)}
    assert placed["Makefile"] == "repository/Makefile.md"
    assert all(placed[name] == f"repository/{name}" for name in ("README.md", *BINARY))


def unmarked(text: str) -> list[str]:
    """The lines that begin with a prompt in a block that is no console."""
    found, kind = [], ""
    for line in text.splitlines():
        if fence := FENCE.match(line):
            kind = (fence[1] or "text") if not kind else ""
        elif kind not in ("", "console") and line.lstrip().startswith("$ "):
            found.append(line)
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if (ROOT / page).exists()])
def test_a_block_with_a_prompt_is_a_console(page: str) -> None:
    """Anywhere else the copy button would take the prompt with the command."""
    assert unmarked((ROOT / page).read_text(encoding="utf-8")) == []


def test_a_prompt_elsewhere_is_found() -> None:
    """A console may have prompts, and text that begins with a dollar has no blank."""
    assert unmarked("```\n$ a\n```\n```console\n$ b\n```\n```\n$HOME\n```\n$ c\n") == ["$ a"]
