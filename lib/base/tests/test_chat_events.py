"""The reader of streamed chats: whole events out of bytes, and nothing without a bound."""

import json

import pytest
from windlass_base.chat_events import (
    EVENT_MAX,
    TOKENS_MAX,
    WORD_MAX,
    EventReader,
    UnusableEventError,
    failure,
    finish_reason,
    is_step,
    pieces,
    tokens,
)

EVENT = {"choices": [{"delta": {"content": "Hello"}, "finish_reason": None}]}


def line(event: object) -> bytes:
    return f"data: {json.dumps(event)}\n\n".encode()


def test_events_are_whole_however_their_bytes_come() -> None:
    """One byte at a time gives what all at once gives; comments, other fields and the last mark are no events."""
    text = b": ping\nevent: x\r\n" + line(EVENT) + line({"usage": {"prompt_tokens": 3}}) + b"data: [DONE]\n\n"
    reader = EventReader()
    slowly = [event for number in range(len(text)) for event in reader.feed(text[number : number + 1])]
    assert slowly == list(EventReader().feed(text)) == [EVENT, {"usage": {"prompt_tokens": 3}}]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"data: " + b"x" * EVENT_MAX, "sends an event of more than 1 MiB"),
        (b"data: {\n", "sends an answer that cannot be read: not JSON"),
        (b"data: " + b"[" * 100_000 + b"\n", "sends an answer that cannot be read: "),
        (b'data: {"a":' + b"[" * 70 + b"]" * 70 + b"}\n", "sends an answer that cannot be read: nested deeper than 64"),
        (b"data: []\n", "sends an answer that is no JSON object"),
    ],
    ids=["no end", "no JSON", "a tower", "too deep", "a list"],
)
def test_what_is_no_event_is_one_predicate(data: bytes, words: str) -> None:
    """The caller puts its own name of the server in front."""
    with pytest.raises(UnusableEventError) as error:
        list(EventReader().feed(data))
    assert str(error.value).startswith(words)


@pytest.mark.parametrize("choices", [None, 3, {}, [None], [3], [{"delta": 1}], [{"delta": {"content": 5}}]])
def test_a_choice_of_another_form_is_no_text(choices: object) -> None:
    assert pieces({"choices": choices}) == []
    assert finish_reason({"choices": choices}) == ""


def test_text_reasons_and_steps_are_read() -> None:
    """A token of the model's reasoning is a step without text; half of a surrogate becomes a question mark."""
    assert pieces(EVENT) == ["Hello"]
    assert pieces({"choices": [{"delta": {"content": "a\ud800"}}]}) == ["a?"]
    assert is_step({"choices": [{"delta": {"reasoning_content": "hm"}}]})
    assert not is_step({"choices": [{"delta": {}}]})
    assert finish_reason({"choices": [{"finish_reason": "x" * 100}]}) == "x" * WORD_MAX


@pytest.mark.parametrize(("value", "count"), [(7, 7), (-1, 0), (True, 0), ("7", 0), (TOKENS_MAX, 0), (None, 0)])
def test_a_count_is_a_whole_number(value: object, count: int) -> None:
    assert tokens({"usage": {"prompt_tokens": value}}, "prompt_tokens") == count


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"error": {"message": "full"}}, "full"),
        ({"error": "full"}, "full"),
        ({"detail": "x"}, "{'detail': 'x'}"),
        ({}, ""),
    ],
)
def test_a_failure_is_its_message(document: object, words: str) -> None:
    assert failure(document) == words
