"""The table of suites against what is there: what tests import, and which files of the repository they name."""

import ast
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from windlass_testbed.paths import REPOSITORY
from windlass_testbed.suites import machine
from windlass_testbed.suites.table import ROWS, SUITES, Suite, first_row, readers

FILES = frozenset(machine.digests(REPOSITORY))
FOLDERS = frozenset(str(parent) for file in FILES for parent in Path(file).parents)
SOURCES = tuple(sorted(file for file in FOLDERS if file.endswith("/src") and not file.startswith("images/")))
HERE = ("tools/testbed/tests/suites/", "tests/house/")
"""Tests that name files which they do not read."""
OTHERS = {"models/tiny", "docs/img"}
"""A repository of the hub in tests of the download, and the folder that `make demo-console` writes."""
WITH_TESTS = [suite for suite in SUITES if suite.tests]
ALL = {suite.name for suite in SUITES}
RULES = {"check", "house"}


@cache
def tree_of(file: str) -> ast.Module:
    return ast.parse((REPOSITORY / file).read_text(encoding="utf-8"))


def own_files(suite: Suite) -> list[str]:
    """Tests of a suite and what lies beside them; not the programs of other targets, which begin with `run`."""
    below = tuple(f"{folder}/" for folder in suite.tests)
    own = [
        file
        for file in FILES
        if (file in suite.tests or file.startswith(below)) and file.endswith(".py") and "/run" not in file
    ]
    return own + [f"{folder}/conftest.py" for folder in FOLDERS if f"{folder}/conftest.py" in FILES and
                  any(test.startswith(f"{folder}/") for test in suite.tests)]  # fmt: skip


@cache
def modules(name: str, folder: str) -> frozenset[str]:
    """Files of a module and of the packages above it, in our distributions or beside the file that imports it."""
    parts = name.split(".")
    stems = ("/".join((place, *parts[:end])) for place in (*SOURCES, folder) for end in range(1, len(parts) + 1))
    return FILES & {f"{stem}{end}" for stem in stems for end in (".py", "/__init__.py")}


@cache
def imported(file: str) -> frozenset[str]:
    return frozenset(_imported(file))


def _imported(file: str) -> Iterator[str]:
    for node in ast.walk(tree_of(file)):
        folder = os.path.dirname(file)  # noqa: PTH120 - of names, not of files
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = Path(file).parents[max(node.level - 1, 0)]
            folder = str(above)
            start = [node.module] if node.module else []
            names = [".".join([*start, alias.name]) for alias in node.names] + start
        else:
            continue
        for name in names:
            yield from modules(name, folder)


@cache
def closure(suite: Suite) -> set[str]:
    found: set[str] = set()
    todo = own_files(suite)
    while todo:
        file = todo.pop()
        if file not in found:
            found.add(file)
            todo.extend(imported(file))
    return found


def spelled(node: ast.AST) -> str:
    """The path that a string, or a chain of `folder / "name"`, names as far as it is constant."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and (right := spelled(node.right)):
        left = spelled(node.left)
        return f"{left}/{right}" if left else right
    return ""


@cache
def named(file: str) -> frozenset[str]:
    """Names of the repository's files and folders in a test: with a slash, or behind one of Path's."""
    return frozenset(_named(file))


def _named(file: str) -> Iterator[str]:
    for node in ast.walk(tree_of(file)):
        text = spelled(node).removeprefix("/repo/").rstrip("/")
        if ("/" in text or isinstance(node, ast.BinOp)) and text not in OTHERS and text in FILES | FOLDERS:
            yield text


@pytest.mark.parametrize("suite", WITH_TESTS, ids=lambda suite: suite.name)
def test_what_a_suite_imports_is_its_input(suite):
    assert sorted(file for file in closure(suite) if suite.name not in readers(file)) == []


@pytest.mark.parametrize("suite", WITH_TESTS, ids=lambda suite: suite.name)
def test_what_the_tests_of_a_suite_name_is_its_input(suite):
    """A folder: some file below it is."""
    tests = [file for file in closure(suite) if "/src/" not in file and readers(file) != ALL]
    names = {name for file in tests if not file.startswith(HERE) for name in named(file)}
    lacking = {name for name in names & FILES if suite.name not in readers(name)}
    for folder in names & FOLDERS:
        if not any(suite.name in readers(file) for file in FILES if file.startswith(f"{folder}/")):
            lacking.add(folder)
    assert sorted(lacking) == []


def test_every_suite_runs_something_of_the_tree():
    assert [folder for suite in SUITES for folder in suite.tests if folder not in FILES | FOLDERS] == []


def test_every_row_names_suites_and_counts_for_a_file():
    assert [row for row in ROWS if not set(row[1].split()) <= ALL] == []
    counting = {first_row(file) for file in FILES}
    assert [row for row in ROWS if row not in counting] == []


@pytest.mark.parametrize(
    "file",
    [
        *("Makefile", "conftest.py", "tests/conftest.py", "requirements.lock", "pyproject.toml", "tools/bootstrap"),
        *("images/build.lock", "images/server-cpu/Dockerfile", ".gitignore", "tools/cpp.lock", "new-folder/new.py"),
        *("tools/testbed/src/windlass_testbed/suites/table.py", "new.md", ".ci/run"),
    ],
)
def test_what_has_no_row_is_everybodys(file):
    assert readers(file) == ALL


@pytest.mark.parametrize(
    ("file", "suites"),
    [
        ("docs/how-to/cluster.md", "contract"),
        ("docs/reference/console-api.md", "contract console"),
        ("clients/console/src/windlass_console/pages/list.js", "console apiserver"),
        ("server/src/windlass/engine/quantization/kernels/stream.cu", "testbed server"),
        ("lib/sizing/tests/data/models.json", "contract shared engine"),
        ("charts/windlass/templates/rbac.yaml", "contract testbed operator kind apiserver"),
        ("crds/llmservices.serving.windlass.dev.yaml", "contract attack testbed shared operator kind apiserver"),
        ("server/lookahead/core/drafter.h", "contract attack testbed server sanitize engine kind"),
        ("license_server/tests/test_codec.py", "license"),
        ("tests/kind/test_e2e_group.py", "kind"),
        ("changelog.d/1.added.md", "testbed"),
    ],
)  # fmt: skip
def test_a_change_of_each_kind_runs_these_suites(file, suites):
    assert readers(file) == RULES | set(suites.split())
