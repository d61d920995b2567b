"""What is kept of the engine's output, and which line of it is the cause."""

import io

import pytest
from windlass.child.output import OutputTail, cause, excerpt, refused_flags

WORKER = "(VllmWorker-0 pid=19332) ERROR 11-21 02:52:14 [multiproc_executor.py:953] "
MEMORY = "ValueError: Available memory on node 0 (12.84/15.21 GiB) on startup is less than desired"

NO_PRIMITIVE = "Exception: could not create a primitive descriptor for the matmul primitive."
NOTES = (
    f"(Worker pid=1) WARNING 11-28 10:00:00 [x.py:1] Failed to create oneDNN linear, fallback. {NO_PRIMITIVE}",
    f"WARNING:torch.distributed: {NO_PRIMITIVE}",
    f"[rank1]:[W1129 05:04:32.240000 1 torch/x.py:29] {NO_PRIMITIVE}",
    f"W1129 05:04:32.240000 1 torch/x.py:29] {NO_PRIMITIVE}",
    f"INFO 11-28 10:00:00 [x.py:1] retried: {NO_PRIMITIVE}",
)
"""Of starts that went well."""


def test_output_passes_through_and_is_kept_by_lines() -> None:
    """Bytes come out as they went in; pieces of lines are put together; progress bars count as lines."""
    stream = io.BytesIO()
    tail = OutputTail(stream)
    for chunk in (b"one\ntw", b"o\n\n50%\r100%\n", b"rest \xff"):
        tail.feed(chunk)
    assert stream.getvalue() == b"one\ntwo\n\n50%\r100%\nrest \xff"
    assert tail.lines == ("one", "two", "50%", "100%", "rest \ufffd")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((f"{WORKER}{MEMORY}", "RuntimeError: Engine core initialization failed. See root cause above."), MEMORY),
        (("(APIServer pid=8) INFO 11-21 03:24:58 [x.py:1] hello",), None),
        (
            (
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for SchedulerConfig",
                "  Value error, max_num_batched_tokens (8) is smaller. [type=value_error, input_value=1]",
            ),
            "ValidationError: max_num_batched_tokens (8) is smaller.",
        ),
        (("torch.OutOfMemoryError: CUDA out of memory. Tried",), "OutOfMemoryError: CUDA out of memory. Tried"),
        ((*NOTES, f"{WORKER}ValueError: Call to add_lora method failed"), "ValueError: Call to add_lora method failed"),
        (NOTES, None),
    ],
)
def test_cause(lines: tuple[str, ...], expected: str | None) -> None:
    """The first error counts, not what other processes make of it."""
    assert expected == cause(lines)


def test_refused_flags() -> None:
    """The engine's parser of flags prints its usage and one sentence."""
    lines = ("usage: api_server.py [-h]", "api_server.py: error: unrecognized arguments: --nope")
    assert refused_flags(lines) == "unrecognized arguments: --nope"
    assert refused_flags(("fine",)) is None


def test_excerpt_is_the_end_without_prefixes() -> None:
    """As many of the last lines as fit."""
    assert excerpt(("first", f"{WORKER}second", "third"), 13) == "second\nthird"
