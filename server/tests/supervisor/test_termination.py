"""The container's last words."""

import json
from pathlib import Path

from windlass.errors import EngineError, UsageError
from windlass.supervisor import termination


def test_last_words() -> None:
    """Reason, sentence, exit code."""
    expected = {"reason": "BadFlag", "message": "no", "exitCode": 2}
    assert expected == json.loads(termination.last_words(UsageError("no")))
    words = json.loads(termination.last_words(EngineError("it ended", 137), "last lines"))
    assert words == {"reason": "EngineFailed", "message": "it ended", "exitCode": 137, "excerpt": "last lines"}


def test_last_words_fit_into_kubernetes() -> None:
    """Long words are cut at the excerpt's beginning; a line stays one line of JSON."""
    line = termination.last_words(EngineError("x" * 9000, 1), '"\n€' * 2000 + "the end")
    assert len(line.encode()) <= 4096
    assert "\n" not in line
    assert json.loads(line)["excerpt"].endswith("the end")


def test_written_to_the_given_file(tmp_path: Path) -> None:
    """The variable names the file; a place that cannot be written is no second failure."""
    path = tmp_path / "log"
    termination.write("{}", {"WINDLASS_TERMINATION_LOG": str(path)})
    assert path.read_text() == "{}"
    termination.write("{}", {"WINDLASS_TERMINATION_LOG": str(tmp_path / "no" / "log")})
