"""Progress of work that takes minutes."""

import pytest
from windlass_testbed.process import Progress


def test_work_is_named_with_its_seconds_and_a_minute_is_never_silent(capsys: pytest.CaptureFixture[str]) -> None:
    """A reminder names all that is under way and how far it is; any other line puts it off."""
    now = [0.0]
    progress = Progress(lambda: now[0])
    with progress.working("building tools", lambda: "(3 of 19)"):
        now[0] = 59.0
        progress.remind()
        now[0] = 61.0
        progress.remind()
        with progress.working("building image"):
            now[0] = 100.0
            progress.remind()
            now[0] = 181.0
            progress.remind()
    progress.remind()
    assert capsys.readouterr().out.splitlines() == [
        "  building tools …",
        "  … still building tools, 1 min 1 s (3 of 19)",
        "  building image …",
        "  … still building tools, 3 min 1 s (3 of 19); building image, 2 min 0 s",
        "  building image: 120 s",
        "  building tools: 181 s",
    ]


def test_work_that_fails_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    """Its error follows; nothing says that it is done."""
    now = [0.0]
    progress = Progress(lambda: now[0])
    with pytest.raises(OSError, match="full"), progress.working("building"):
        raise OSError("full")
    now[0] = 100.0
    progress.remind()
    assert capsys.readouterr().out == "  building …\n"
