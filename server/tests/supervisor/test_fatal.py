"""The sentence about an engine that ended in order because one of its processes did not."""

import io

import pytest
from windlass.child.output import OutputTail
from windlass.supervisor.fatal import reason

WORKER = "(Worker pid=1794) ERROR 11-21 20:25:42 [multiproc_executor.py:1063] "
CORE = "(EngineCore_DP0 pid=28062) ERROR 11-21 20:19:56 [multiproc_executor.py:315] "
API = "(APIServer pid=27940) ERROR 11-21 20:19:56 [async_llm.py:906] "
MAIN = "(MainProcess pid=18) ERROR 11-21 20:50:45 [multiproc_executor.py:315] "
GONE = "Worker proc VllmWorker-0 died unexpectedly (exit code: None), shutting down executor."
CONSEQUENCE = "RuntimeError: Executor failed."
OUTER = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above)"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param((CORE + GONE, CORE + CONSEQUENCE, API + OUTER), "its process VllmWorker-0 was killed or crashed",
                     id="a-worker-was-killed"),
        pytest.param((WORKER + "RuntimeError: CPU Generator does not use offset", CORE + GONE, API + OUTER),
                     "RuntimeError: CPU Generator does not use offset", id="a-worker-failed"),
        pytest.param((API + OUTER,), "its process EngineCore was killed or crashed", id="the-core-was-killed"),
        pytest.param((MAIN + GONE,), "its process VllmWorker-0 was killed or crashed", id="a-worker-of-a-follower"),
        pytest.param((API + "ValueError: a client's mistake",), None, id="an-error-of-the-api-is-no-reason"),
        pytest.param((), None, id="silence"),
    ],
)  # fmt: skip
def test_reason(lines: tuple[str, ...], expected: str | None) -> None:
    """The innermost error counts; a request's own error does not end an engine."""
    assert expected == reason(lines)


def test_a_flood_of_requests_does_not_push_the_reason_out() -> None:
    """The engine logs one line a request; they are passed on, not kept."""
    tail = OutputTail(io.BytesIO())
    tail.feed(f"{CORE}{GONE}\n".encode())
    for port in range(1000):
        tail.feed(
            f'INFO:     127.0.0.1:{port} - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error\n'.encode()
        )
    assert (reason(tail.lines), len(tail.lines)) == ("its process VllmWorker-0 was killed or crashed", 1)
