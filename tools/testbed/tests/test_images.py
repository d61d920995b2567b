"""Each image's Dockerfile against the repository: what it copies is there, sent to the builder, and part of its tag."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from windlass_testbed.cases import every_case
from windlass_testbed.images import IMAGES, Image
from windlass_testbed.paths import REPOSITORY

IGNORED = (REPOSITORY / ".dockerignore").read_text().split()


def instructions(image: Image) -> list[str]:
    text = re.sub(r"^\s*#.*\n", "", (REPOSITORY / image.dockerfile).read_text(), flags=re.M)
    for name, value in image.arguments:
        text = text.replace(f"${{{name}}}", value)
    return re.sub(r"\\\n\s*", " ", text).splitlines()


def copied(image: Image) -> Iterator[str]:
    """Files and folders of the repository that the Dockerfile copies or mounts."""
    for line in instructions(image):
        if line.startswith("COPY ") and "--from=" not in line:
            yield from (word for word in line.split()[1:-1] if not word.startswith("--"))
        for mount in re.findall(r"--mount=(type=bind\S*)", line):
            if "from=" not in mount:
                yield mount.partition("source=")[2].partition(",")[0]


def is_sent(path: str) -> bool:
    """Whether .dockerignore lets the file or folder through; each of its rows is a path, or a name in any folder."""
    places = [path, *map(str, Path(path).parents)]
    return not any(fnmatchcase(place, row) or fnmatchcase(f"/{place}", row[2:]) for row in IGNORED for place in places)


@every_case("image", IMAGES)
def test_what_is_copied_is_there_is_sent_and_is_part_of_the_tag(image):
    for path in copied(image):
        assert (REPOSITORY / path).exists(), path
        assert is_sent(path), path
        assert any(f"{path}/".startswith(f"{one}/") or one.startswith(f"{path}/") for one in image.sources), path


@every_case("image", IMAGES)
def test_a_wheel_is_made_of_folders_that_were_copied(image):
    lines = [line for line in instructions(image) if "/pip wheel " in line]
    made = {word.removeprefix("./") for line in lines for word in line.split() if word.startswith("./")}
    assert {path for path in made if not (REPOSITORY / path / "pyproject.toml").exists()} == set()
    assert {path for path in made if not any(f"{one}/".startswith(f"{path}/") for one in copied(image))} == set()


def test_tests_and_pages_are_not_sent():
    assert [is_sent(path) for path in ("lib/api/tests/new.py", "docs/new.md", "lib/api/new.py")] == [False, False, True]
