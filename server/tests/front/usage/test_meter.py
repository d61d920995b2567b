"""What the meter reports of an answer, however its parts are cut and whenever its client leaves."""

import pytest
from windlass.front.usage.meter import OVERLAP, Meter, Outcome
from windlass.front.usage.read import Tokens

WHOLE = b'{"choices":[1,2,3],"usage":{"prompt_tokens":50,"completion_tokens":70,"total_tokens":120}}'
DELTA = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
START = b'data: {"type":"message_start","message":{"usage":{"input_tokens":20,"output_tokens":0}}}\n\n'
LAST = b'data: {"type":"message_delta","usage":{"input_tokens":20,"output_tokens":9}}\n\n'
SAID = b'data: {"choices":[{"delta":{"content":"data: [DONE]"}}]}\n\n'


async def reported(parts: list[bytes], type_: bytes, *, ends: bool = True) -> list[tuple[Outcome, int]]:
    """Each report, and how many parts were sent before it."""
    found: list[tuple[Outcome, int]] = []
    sent: list[bytes] = []

    async def send(message) -> None:
        if message["type"] == "http.response.body":
            sent.append(message["body"])

    meter = Meter(send, lambda outcome: found.append((outcome, len(sent))), hides_usage=False)
    await meter({"type": "http.response.start", "status": 200, "headers": [(b"content-type", type_)]})
    for number, part in enumerate(parts, 1):
        await meter({"type": "http.response.body", "body": part, "more_body": not ends or number < len(parts)})
    meter.end()
    assert sent == parts
    return found


@pytest.mark.parametrize("size", [1, 16, 30, 40, len(WHOLE)])
async def test_a_whole_answer_in_parts(size: int) -> None:
    """A count that is cut between parts, or longer than several of them, is read all the same."""
    parts = [WHOLE[at : at + size] for at in range(0, len(WHOLE), size)]
    expected = [(Outcome(Tokens(50, 70)), len(parts) - 1)]
    assert await reported(parts, b"application/json") == expected
    assert await reported([*parts, b""], b"application/json") == [(Outcome(Tokens(50, 70)), len(parts))]


async def test_a_long_answer_in_parts() -> None:
    """Its end is kept, and its begin, which may fall into a nested object, proves nothing."""
    pad = b'{"pad":"' + b"a" * OVERLAP + b'",'
    assert await reported([pad, WHOLE[1:]], b"application/json") == [(Outcome(Tokens(50, 70)), 1)]


@pytest.mark.parametrize(
    ("parts", "ends", "expected", "before"),
    [
        ([START, DELTA, DELTA], False, Outcome(Tokens(20), 3, is_final=False), 3),
        ([START, DELTA, DELTA], True, Outcome(Tokens(20), 3, is_final=False), 2),
        ([START, DELTA, LAST, b""], True, Outcome(Tokens(20, 9), 3), 2),
        ([DELTA, SAID, DELTA, b"data: [DONE]\n\n"], False, Outcome(None, 5, is_final=False), 3),
    ],
    ids=["left", "broken off", "whole", "text that says DONE"],
)
async def test_a_stream(parts: list[bytes], ends: bool, expected: Outcome, before: int) -> None:
    """A count that comes before the answer is not final, and what ends the stream is an event."""
    assert await reported(parts, b"text/event-stream; charset=utf-8", ends=ends) == [(expected, before)]
