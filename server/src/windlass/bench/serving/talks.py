"""Conversations as requests: each turn is a prompt that holds the turns before it, as the chat template renders them.

The recorded answers stand in the prompts, not the server's own, so that every server gets the same. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "chatgpt": "assistant"}
Message = dict[str, str]
Render = Callable[[Sequence[Message]], str]


def messages(row: Mapping[str, object]) -> list[Message]:
    """A conversation of a ShareGPT file as messages; nothing for one that does not alternate from a user's turn."""
    found: list[Message] = []
    turns = row.get("conversations")
    for turn in turns if isinstance(turns, list) else ():
        role = ROLES.get(str(turn.get("from", ""))) if isinstance(turn, dict) else None
        if role is None or role != ("user", "assistant")[len(found) % 2]:
            return found if len(found) > 1 else []
        found.append({"role": role, "content": str(turn.get("value", ""))})
    return found


def requests(talks: Sequence[Sequence[Message]], render: Render, block: int, most: int) -> Iterator[str]:
    """Prompts in blocks of conversations: the first turns of a block, then its second ones, and so on.

    A turn is sent when those before it in its conversation have been sent; a block as large as the requests at once
    lets them be answered, too.
    """
    count = 0
    for start in range(0, len(talks), block):
        together = talks[start : start + block]
        for turn in range(0, max(map(len, together)), 2):
            for talk in together:
                if turn >= len(talk) or talk[turn]["role"] != "user":
                    continue
                if count == most:
                    return
                count += 1
                yield render(talk[: turn + 1])


def lines(prompts: Iterator[str], output_tokens: int) -> str:
    """The requests as JSON lines."""
    return "".join(json.dumps({"prompt": prompt, "output_tokens": output_tokens}) + "\n" for prompt in prompts)
