"""A suite in a small repository of its own: real git, real pytest, real stamps."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from windlass_testbed.paths import Paths
from windlass_testbed.suites import machine
from windlass_testbed.suites.__main__ import Place, run
from windlass_testbed.suites.stamps import Stamp
from windlass_testbed.suites.table import Suite

SERVER = Suite("server", "test-fast", ("server/tests",))
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-p", "no:cacheprovider")
READS = "from pathlib import Path\n\ndef test_one():\n    assert Path({name!r}).read_text()\n\ndef test_two(): pass\n"
FILES = {
    "pytest.ini": "[pytest]\n",
    ".gitignore": "__pycache__\n",
    "server/tests/test_one.py": READS.format(name="server/src/windlass/rows.json"),
    "server/src/windlass/rows.json": "[]\n",
    "docs/how-to/page.md": "A page.\n",
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    root = tmp_path / "tree"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=root, check=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return Place(root, Paths(cache=tmp_path / "cache", run=tmp_path / "run"), environment)


def runs(place: Place, capfd: pytest.CaptureFixture[str], command: tuple[str, ...] = PYTEST) -> tuple[int, str]:
    status = run(place, SERVER, command)
    return status, capfd.readouterr().out


def stamps_of(place: Place) -> list[Stamp]:
    return machine.read_stamps(place.paths, SERVER)


def write(place: Place, name: str, text: str) -> None:
    (place.root / name).parent.mkdir(parents=True, exist_ok=True)
    (place.root / name).write_text(text)


def test_the_second_run_is_skipped_and_says_what_passed(place, capfd):
    _, first = runs(place, capfd)
    assert first.splitlines()[-1].startswith("2 passed in ")
    [stamp] = stamps_of(place)
    status, second = runs(place, capfd)
    assert status == 0
    assert second.startswith(f"suite server is skipped (FORCE=1 runs it): input {stamp.key[:12]} passed on ")
    assert second.rstrip().endswith(stamp.summary)
    assert stamp.summary.startswith("2 passed in ")


def test_force_runs_it(place, capfd):
    runs(place, capfd)
    forced = Place(place.root, place.paths, {**place.environment, "FORCE": "1"})
    assert "▸ suite server" in runs(forced, capfd)[1]


def test_workers_of_xdist_pass_on_what_they_read(place, capfd):
    runs(place, capfd, (*PYTEST, "-n", "2"))
    assert [stamp.passed for stamp in stamps_of(place)] == [2]
    write(place, "server/tests/test_one.py", READS.format(name="docs/how-to/page.md"))
    assert "docs/how-to/page.md" in runs(place, capfd, (*PYTEST, "-n", "2"))[1]


@pytest.mark.parametrize("name", ["server/src/windlass/rows.json", "server/tests/test_one.py", "pytest.ini"])
def test_an_edit_that_is_not_committed_runs_it_again(place, capfd, name):
    runs(place, capfd)
    with (place.root / name).open("a") as file:
        file.write("\n")
    assert "▸ suite server" in runs(place, capfd)[1]


def test_new_and_deleted_files_run_it_again(place, capfd):
    runs(place, capfd)
    write(place, "server/tests/test_new.py", "def test_three(): pass\n")
    assert "3 passed" in runs(place, capfd)[1]
    (place.root / "server/tests/test_new.py").unlink()
    assert "is skipped" in runs(place, capfd)[1]
    (place.root / "server/tests/test_one.py").unlink()
    assert run(place, SERVER, PYTEST) == 5, "pytest's status where no item was collected"


def test_what_a_link_leads_to_is_read_through_it(place, capfd):
    """As `crds/` leads into the chart."""
    (place.root / "server/src/windlass/page.md").symlink_to("../../../docs/how-to/page.md")
    runs(place, capfd)
    write(place, "docs/how-to/page.md", "Another page.\n")
    assert "▸ suite server" in runs(place, capfd)[1]


def test_a_file_of_others_does_not_run_it_again(place, capfd):
    runs(place, capfd)
    write(place, "docs/how-to/page.md", "Another page.\n")
    assert "is skipped" in runs(place, capfd)[1]


def test_a_file_that_no_row_names_runs_it_again(place, capfd):
    runs(place, capfd)
    write(place, "unheard-of.txt", "")
    assert "▸ suite server" in runs(place, capfd)[1]


@pytest.mark.parametrize(
    "text", ["def test_one(): assert False\n", "import nothing_like_this\n", "def test_one(f): pass\n"],
    ids=["failed", "not collected", "error"],
)  # fmt: skip
def test_a_failure_leaves_no_stamp(place, capfd, text):
    write(place, "server/tests/test_one.py", text)
    assert runs(place, capfd)[0] != 0
    assert stamps_of(place) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import pytest\n\n@pytest.mark.skip\ndef test_one(): pass\n", "no item passed"),
        (READS.format(name="docs/how-to/page.md"), "docs/how-to/page.md"),
        ("from pathlib import Path\n\ndef test_one(): Path('server/new').write_text('')\n", "server/new"),
        ("import os\n\ndef test_one(): os._exit(0)\n", "pytest left no record"),
    ],
    ids=["all skipped", "reads a file of others", "changes its input", "ends half-way"],
)
def test_a_run_that_shows_less_leaves_no_stamp(place, capfd, text, reason):
    write(place, "server/tests/test_one.py", text)
    status, out = runs(place, capfd)
    assert (status, stamps_of(place)) == (0, [])
    assert reason in next(line for line in out.splitlines() if line.startswith("suite server is not stamped"))


def test_a_file_read_for_an_images_tag_is_no_obstacle(place, capfd):
    page = "clients/console/src/windlass_console/pages/app.js"
    write(place, page, "export {};\n")
    write(place, "server/tests/test_one.py", READS.format(name=page))
    runs(place, capfd)
    assert "is skipped" in runs(place, capfd)[1]


def test_choosing_tests_leaves_no_stamp(place, capfd):
    chosen = Place(place.root, place.paths, {**place.environment, "PYTEST_ADDOPTS": "-k one"})
    assert "PYTEST_ADDOPTS is set" in runs(chosen, capfd)[1]
    assert stamps_of(place) == []


def test_items_that_do_not_run_leave_no_stamp(place, capfd):
    write(
        place,
        "server/tests/test_one.py",
        "import pytest\n\ndef test_one(): pytest.exit('', 0)\n\ndef test_two(): pass\n",
    )
    assert runs(place, capfd)[0] == 0
    assert stamps_of(place) == []


def test_far_fewer_items_than_at_the_last_stamp_leave_none(place, capfd):
    many = "".join(f"def test_{number}(): pass\n" for number in range(20))
    write(place, "server/tests/test_one.py", many)
    runs(place, capfd)
    write(place, "server/tests/test_one.py", many.partition("def test_10(")[0])
    assert "10 items passed, 20 at its last stamp; FORCE=1" in runs(place, capfd)[1]
    runs(Place(place.root, place.paths, {**place.environment, "FORCE": "1"}), capfd)
    assert [stamp.passed for stamp in stamps_of(place)] == [20, 10]


def test_half_a_stamp_is_none(place, capfd):
    runs(place, capfd)
    [file] = (place.paths.cache / "passed/server").iterdir()
    file.write_text(file.read_text()[:20])
    assert "▸ suite server" in runs(place, capfd)[1]
