"""Each command of the tutorial is in CONTRIBUTING's table of what runs in a test, and the table's files are there."""

import re
from pathlib import Path

import pytest
import yaml
from windlass_api.crd.v1alpha1 import LLMService

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs/tutorials").glob("*.md"))
TABLES = (ROOT / "CONTRIBUTING.md").read_text()
TABLE = "| command | where it runs |"


def commands(text: str) -> list[str]:
    """The lines of the page's consoles that begin with a prompt."""
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.M | re.S)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def table(text: str) -> dict[str, str]:
    """The rows of the table: the beginning of a command, and where it runs."""
    rows = text.split(TABLE, 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return {row.split("`")[1]: row.split(" | ", 1)[1].rstrip(" |") for row in rows}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_says_where_it_runs(page: Path) -> None:
    """A command without a row, and a row without a command, would both be claims about nothing."""
    lines, rows = commands(page.read_text()), table(TABLES)
    assert lines
    assert [line for line in lines if not any(row in line for row in rows)] == []
    assert [row for row in rows if not any(row in line for line in lines)] == []


def test_every_place_is_there() -> None:
    """A row names a file, or says that nothing runs the command."""
    for row, where in table(TABLES).items():
        files = re.findall(r"`([\w./-]+\.(?:py|md))`", where)
        assert files or where.startswith("not run: "), row
        assert [file for file in files if not (ROOT / file).is_file()] == [], row


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_service_of_a_tutorial_is_valid(page: Path) -> None:
    """The resource that a reader saves passes the models that the CRD is made from."""
    found = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.M | re.S)]
    assert found
    for document in found:
        LLMService.model_validate(document)
