"""Each command of a how-to says where it runs: in a comment above its block, a test, a make target or a reason.

`run`: a test runs the commands. `instead`: a test does the same by another program, such as a client in Python in the
place of curl. `not run`: nothing does, for a reason. The comment stands in the page's source; the site does not show
it. `tests/house/test_tutorials.py` holds the tutorials, whose tables readers do see.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs/how-to").glob("*.md"))
FENCE = re.compile(r"^(?P<above>[^\n]*)\n```(?P<kind>\w*)\n(?P<body>.*?)^```", re.M | re.S)
MARK = re.compile(r"<!-- (?P<verdict>run|instead|not run): (?P<where>.+) -->")
NOT_COMMANDS = {"yaml", "json", "python", "promql", "text"}
"""What a reader saves, or what a program prints."""
ANYWHERE = {"kubectl", "windlass", "helm", "make", "docker", "curl", "python", "tools", "eval", "export"}
"""Programs: their names stand in most tests, so they say nothing of a command."""


@dataclass(frozen=True)
class Block:
    """A console of a page: what stands in the line above it, and its commands."""

    page: str
    above: str
    commands: tuple[str, ...]

    @property
    def mark(self) -> re.Match[str] | None:
        return MARK.fullmatch(self.above)

    @property
    def files(self) -> list[str]:
        """The files that the mark names."""
        return re.findall(r"`([\w./-]+\.\w+)`", self.mark["where"]) if self.mark else []

    @property
    def targets(self) -> list[str]:
        """The make targets that the mark names."""
        return re.findall(r"`make ([\w-]+)`", self.mark["where"]) if self.mark else []


def fences(page: Path) -> list[re.Match[str]]:
    return list(FENCE.finditer(page.read_text(encoding="utf-8")))


def commands(body: str) -> tuple[str, ...]:
    """The lines with a prompt, each with the lines that go on after a backslash."""
    lines = body.replace("\\\n", " ").splitlines()
    return tuple(line.removeprefix("$ ") for line in lines if line.startswith("$ "))


BLOCKS = [
    Block(page.stem, found["above"], commands(found["body"]))
    for page in PAGES
    for found in fences(page)
    if found["kind"] == "console"
]


def words(command: str) -> set[str]:
    """What a test that runs the command has to name: its words without flags, paths, values and comments."""
    plain = [word for word in command.partition(" #")[0].split() if re.fullmatch(r"[a-z][a-z-]{2,}", word)]
    return set(plain) - ANYWHERE


def block_id(block: Block) -> str:
    return f"{block.page}: {' '.join(block.commands[0].split()[:4])}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_stands_in_a_console(page: Path) -> None:
    """A fence of another kind holds a file or an output, so no command hides from these tests."""
    assert {found["kind"] for found in fences(page)} <= NOT_COMMANDS | {"console"}


@pytest.mark.parametrize("block", BLOCKS, ids=block_id)
def test_every_block_says_where_its_commands_run(block: Block) -> None:
    """A command that nothing runs says so; a command that something runs names a file or a make target."""
    assert block.commands
    assert block.mark, f"no mark above the block; it is: {block.above!r}"
    assert block.mark["verdict"] == "not run" or block.files or block.targets


@pytest.mark.parametrize("block", BLOCKS, ids=block_id)
def test_every_place_is_there(block: Block) -> None:
    """Files are tracked, targets stand in the Makefile."""
    tracked = subprocess.run(["git", "ls-files", *block.files], cwd=ROOT, capture_output=True, text=True, check=True)
    assert block.files == [] or set(tracked.stdout.split()) == set(block.files)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [target for target in block.targets if not re.search(rf"^{target}:", makefile, re.M)] == []


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.files and one.mark["verdict"] == "run"], ids=block_id)
def test_the_files_know_the_commands(block: Block) -> None:
    """A test that no longer names any word of a command no longer runs it."""
    text = "\n".join((ROOT / file).read_text(encoding="utf-8") for file in block.files)
    if "word for word" in block.mark["where"] or "runs this block" in block.mark["where"]:
        assert f"{block.page}.md" in text
        return
    unknown = [
        command
        for command in block.commands
        if (named := words(command)) and not any(re.search(rf"\b{re.escape(word)}\b", text) for word in named)
    ]
    assert unknown == []


def test_a_block_without_a_mark_is_seen() -> None:
    """Another comment is no mark, and a mark of another block does not count."""
    assert not Block("page", "Do this:", ("kubectl get llm",)).mark
    assert not Block("page", "<!-- later -->", ("kubectl get llm",)).mark
    assert Block("page", "<!-- run: `make demo` -->", ("make demo",)).targets == ["demo"]
    assert words("kubectl windlass plan -f service.yaml # a run") == {"plan"}
