"""`windlass chat`: asks a server one question, or talks with it. Streams; says tokens a second."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.errors import ServerError

if TYPE_CHECKING:
    from windlass.chat.conversation import Conversation
    from windlass.chat.stream import ChatServer, Measure

LEAVE = ("/exit", "/quit")


class Output(StrEnum):
    """How the answer is printed."""

    TEXT = "text"
    JSON = "json"


def command(  # noqa: PLR0913, PLR0917  each option of the command line is a parameter
    question: Annotated[str | None, typer.Argument(help="Ask this and leave; without it, talk.")] = None,
    server: Annotated[str, typer.Option(help="Address of the server.")] = "http://127.0.0.1:8501",
    model: Annotated[str | None, typer.Option(help="Model name; the server's first when left out.")] = None,
    system: Annotated[str | None, typer.Option(help="System prompt.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1)] = None,
    temperature: Annotated[float | None, typer.Option(min=0.0)] = None,
    top_p: Annotated[float | None, typer.Option(min=0.0, max=1.0)] = None,
    token: Annotated[str | None, typer.Option(envvar="WINDLASS_API_KEY", help="Bearer key.")] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="text or json (one question only).")] = Output.TEXT,
) -> None:
    """Ask a server one question, or talk with it."""
    from windlass.chat.conversation import Conversation
    from windlass.chat.shown import as_json
    from windlass.chat.stream import ChatServer, Sampling

    talk = Conversation(system, Sampling(max_tokens, temperature, top_p))
    with ChatServer(server, model, token) as asked:
        if question is None:
            _talk(asked, talk)
        elif output is Output.JSON:
            measure = _answer(asked, talk, question, shown=False)
            print(as_json(json.dumps({"model": asked.model, **measure.to_dict()}, ensure_ascii=False)))
        else:
            print(_answer(asked, talk, question, shown=True).line(), file=sys.stderr)


def _answer(server: ChatServer, talk: Conversation, question: str, *, shown: bool) -> Measure:
    from windlass.chat.shown import answer as shown_as
    from windlass.chat.stream import Measure

    measure = Measure()
    talk.add("user", question)
    try:
        for piece in server.stream(talk.messages(), talk.sampling, measure):
            if shown:
                print(shown_as(piece), end="", flush=True)
    except BaseException:
        talk.turns.pop()  # an unanswered question must not be asked again with the next one
        raise
    finally:
        if shown and measure.text:
            print(flush=True)
    talk.add("assistant", "".join(measure.text))
    return measure


def _talk(server: ChatServer, talk: Conversation) -> None:
    from windlass.chat.conversation import HELP
    from windlass.chat.shown import harmless

    print(f"talking with {harmless(server.model)}; {HELP}")
    while True:
        try:
            line = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if line in LEAVE:
            return
        if line.startswith("/"):
            print(talk.command(line))
        elif line:
            _one_turn(server, talk, line)


def _one_turn(server: ChatServer, talk: Conversation, line: str) -> None:
    from windlass.chat.shown import harmless

    try:
        print(f"[{_answer(server, talk, line, shown=True).line()}]")
    except KeyboardInterrupt:
        print("\n[stopped]")
    except ServerError as error:
        print(f"[{harmless(str(error))}]")
