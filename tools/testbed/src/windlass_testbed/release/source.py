"""The commit that a release is made from: its hash, its time, its tree. Work that is not committed is refused."""

from pathlib import Path

from windlass_testbed.errors import BedError
from windlass_testbed.paths import REPOSITORY
from windlass_testbed.process import run


def git(*words: str) -> str:
    """Run git in the repository and return its output."""
    return run(["git", "-C", REPOSITORY, *words], log="release")


def commit() -> str:
    """Return the commit that is checked out; BedError when files differ from it."""
    if dirty := git("status", "--porcelain").splitlines():
        raise BedError(f"{dirty[0][3:]} and {len(dirty) - 1} more differ from the commit: commit or stash them first.")
    return git("rev-parse", "HEAD").strip()


def epoch() -> int:
    """Return the commit's time in seconds: the time of every file in the artefacts."""
    return int(git("log", "-1", "--format=%ct"))


def day() -> str:
    """Return the commit's date in UTC."""
    return run(["git", "-C", REPOSITORY, "log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%d"], log="release",
               env={"TZ": "UTC"}).strip()  # fmt: skip


def export(target: Path) -> Path:
    """Write the commit's tree into a folder: what git ignores cannot get into an artefact."""
    target.mkdir(parents=True)
    archive = target.with_suffix(".tar")
    git("archive", "--format=tar", f"--output={archive}", "HEAD")
    run(["tar", "-xf", archive, "-C", target], log="release")
    archive.unlink()
    return target
