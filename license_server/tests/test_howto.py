"""The commands of docs/how-to/license.md that need no cluster, run as they stand there."""

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/how-to/license.md"
PROGRAM = "windlass-license"
LISTING = "".join(f"GPU {number}: NVIDIA L20 (UUID: GPU-{number:08x})\n" for number in range(16))
DATE = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+08:00")


def block(command: str) -> list[tuple[list[str], str]]:
    """The block of the page that has the command: each command's words, and what the page shows below it."""
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    (found,) = [one for one in blocks if command in one]
    commands = found.replace("\\\n", " ").removeprefix("$ ").split("\n$ ")
    return [(line.split(), shown) for line, _, shown in (one.partition("\n") for one in commands)]


def run(words: list[str], folder: Path, expires: str) -> str:
    """One command of the page, with a time to come in the place of the page's."""
    line = DATE.sub(expires, " ".join(words)).replace(PROGRAM, str(Path(sys.executable).with_name(PROGRAM)), 1)
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def expires() -> str:
    return (datetime.now(UTC) + timedelta(days=300)).strftime("%Y-%m-%dT%H:%M:%S+08:00")


def like(shown: str, expires: str) -> str:
    """The page's output as a pattern: any key and any serial have the place of the page's."""
    pattern = re.escape(DATE.sub(expires, shown).strip())
    return re.sub(r"[0-9a-f]{16}", "[0-9a-f]{16}", re.sub(r"(Serial:\\ )\d+", r"\1\\d+", pattern))


def test_a_vendor_s_commands_print_what_the_page_shows(tmp_path: Path, expires: str) -> None:
    """Keys are made, a license is issued and verified."""
    (tmp_path / "machine1.txt").write_text(LISTING)
    commands = block(f"$ {PROGRAM} verify")
    assert [words[1] for words, _ in commands] == ["keygen", "issue", "verify"]
    for words, shown in commands:
        assert re.fullmatch(like(shown, expires), run(words, tmp_path, expires).strip())


def test_a_license_for_one_server_s_answers_is_issued(tmp_path: Path, expires: str) -> None:
    """`--answer-key` takes the server's public key, here another one of ours."""
    (tmp_path / "machine1.txt").write_text(LISTING)
    for folder in ("keys", "server"):
        run([PROGRAM, "keygen", "--out", folder], tmp_path, expires)
    (tmp_path / "answer.pem").write_bytes((tmp_path / "server/public.pem").read_bytes())
    (words,) = [words for words, _ in block("--answer-key answer.pem") if words[0] == PROGRAM]
    run(words, tmp_path, expires)
    assert PROGRAM in run([PROGRAM, "inspect", "license.dat", "&&", "echo", PROGRAM], tmp_path, expires)
    assert "answer" in run([PROGRAM, "inspect", "license.dat"], tmp_path, expires).lower()
