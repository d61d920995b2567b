"""The first chat by the supervisor: a real child that lives, and an HTTP server in the place of its API."""

import asyncio
import json
import re
import sys
import threading
from collections.abc import Callable

import pytest
from windlass.engine.startup.chat_template import Template
from windlass.engine.startup.first_chat import CHAT, COMPLETION, Question, chat
from windlass.errors import ChatTemplateError, EngineError, FirstChatError, StartTimeoutError, WindlassError
from windlass.supervisor import termination
from windlass.supervisor.asking import Opening
from windlass.supervisor.board import EngineFacts, FactsBoard
from windlass.supervisor.supervise import Engine, Supervisor
from windlass_testbed.simulated_time import ClockAhead
from windlass_testbed.waiting import HANG_S, wait_until_async

from .conftest import WAIT

STAYS = "import signal; print('up', flush=True); signal.pause()"
PLAIN, WITH_TOOL = chat(None), chat(None, with_tool=True)
OVER = "/windlass/started"


def refusal(message: str) -> str:
    return json.dumps({"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400}})


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.supervisor.asking.HEALTH_EVERY_S", 0.05)
    monkeypatch.setattr("windlass.supervisor.asking.AGAIN_S", 0.05)
    monkeypatch.setattr("windlass.supervisor.supervise.DYING_S", 0.05)


class Start:
    """One start of a child with an API beside it; `paths` are those of its API that were asked, probes left out."""

    def __init__(self, server, *questions: Question, program: str = STAYS, timeout_s: float | None = None) -> None:
        self.server, self.opening = server, Opening.of(questions)
        engine = Engine(
            (sys.executable, "-c", program),
            f"{server.url}/health",
            start_timeout_s=timeout_s,
            opening=self.opening,
        )
        self.board = FactsBoard("qwen", EngineFacts("vllm", "", ()))
        self.supervisor = Supervisor(engine, self.board, None)

    @property
    def paths(self) -> list[str]:
        return [seen.path for seen in self.server.seen if seen.method == "POST"]

    async def serves(self) -> None:
        """Run until it serves, then stop it."""
        work = asyncio.create_task(self.supervisor.run())
        await wait_until_async(lambda: self.board.phase == "serving" or work.done())
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await self.supervisor._child.stop(0.1)
        assert self.board.phase == "serving"

    async def error(self) -> WindlassError:
        """Run until it fails."""
        with pytest.raises(WindlassError) as error:
            await self.supervisor.run()
        return error.value


async def test_ready_comes_after_the_chats(serve) -> None:
    """The chat, then the one with a tool, then the word that the start is over; all with the key of this start."""
    start = Start(serve(lambda seen: (200, "{}")), PLAIN, WITH_TOOL)
    await start.serves()
    assert start.paths == [CHAT, CHAT, OVER]
    assert ["tools" in seen.body for seen in start.server.seen if seen.path == CHAT] == [False, True]
    assert {seen.headers["x-windlass-start"] for seen in start.server.seen} == {start.opening.key}
    phases = [row["phase"] for row in start.board.to_dict()["phases"]]
    assert phases == ["license", "engine", "first-chat"]


async def test_a_failed_chat_is_never_ready(serve) -> None:
    """The engine's own sentence is in the error, the facts and the last words; the start is never over."""
    answers: Callable = lambda seen: (500, refusal("the parser broke")) if "tools" in seen.body else (200, "{}")  # noqa: E731
    start = Start(serve(answers), PLAIN, WITH_TOOL)
    error = await start.error()
    said = "the engine is up and answers a chat with a tool with HTTP 500: the parser broke"
    assert (type(error), error.exit_code, str(error)) == (FirstChatError, 8, said)
    assert start.board.to_dict()["failure"] == {"reason": "FirstChatFailed", "message": said}
    assert json.loads(termination.last_words(error))["reason"] == "FirstChatFailed"
    assert OVER not in start.paths
    assert "serving" not in [row["phase"] for row in start.board.to_dict()["phases"]]


async def test_a_template_that_the_engine_finds_broken(serve) -> None:
    """Its line is named when rendering it here fails alike."""
    template = Template("{{ messages[0].content }}\n{{ messages[0].nothing.more }}", "t.jinja")
    said = refusal("'dict object' has no attribute 'nothing'")
    error = await Start(serve(lambda seen: (400 if seen.path == CHAT else 200, said)), chat(template)).error()
    assert isinstance(error, ChatTemplateError)
    assert str(error).startswith("line 2 of the chat template t.jinja cannot be rendered")


async def test_a_base_model_is_asked_a_completion(serve) -> None:
    """Its API refuses the chat."""
    start = Start(
        serve(lambda seen: (400, refusal("no template")) if seen.path == CHAT else (200, "{}")),
        chat(None, has_template=False),
    )
    await start.serves()
    assert start.paths == [CHAT, COMPLETION, OVER]


async def test_a_model_without_text_is_ready_at_once(serve) -> None:
    """The API has no chats, so the tool is not tried."""
    start = Start(
        serve(lambda seen: (404, refusal("no route")) if seen.path == CHAT else (200, "{}")), PLAIN, WITH_TOOL
    )
    await start.serves()
    assert start.paths == [CHAT, OVER]


async def test_a_busy_engine_is_asked_again(serve) -> None:
    """Until it has a place."""
    answers = iter([(429, refusal("full")), (503, refusal("later")), (200, "{}"), (200, "{}")])
    start = Start(serve(lambda seen: next(answers) if seen.method == "POST" else (200, "")), PLAIN)
    await start.serves()
    assert start.paths == [CHAT, CHAT, CHAT, OVER]


async def test_each_of_several_engines_is_asked(serve) -> None:
    """By vLLM's header; one that fails is named."""
    start = Start(serve(lambda seen: (200, "{}")), chat(None, engines=3))
    await start.serves()
    ranks = [seen.headers.get("x-data-parallel-rank") for seen in start.server.seen if seen.path == CHAT]
    assert sorted(ranks) == ["0", "1", "2"]
    lame: Callable = lambda seen: (500 if seen.headers.get("x-data-parallel-rank") == "1" else 200, refusal("no"))  # noqa: E731
    error = await Start(serve(lame), chat(None, engines=3)).error()
    assert str(error) == "engine 1 is up and answers a chat with HTTP 500: no"


async def test_an_engine_that_ends_at_the_chat_says_why_itself(serve, tmp_path, monkeypatch) -> None:
    """Its exit code and last error count, not the answer that it gave before."""
    monkeypatch.setattr("windlass.supervisor.supervise.DYING_S", HANG_S)
    go = tmp_path / "go"
    program = f"{WAIT}\nwait({str(go)!r}); raise ValueError('CUDA error: an illegal memory access was encountered')"
    start = Start(serve(lambda seen: (500 if seen.path == CHAT else 200, refusal("gone"))), PLAIN, program=program)
    failing = asyncio.create_task(start.error())
    await wait_until_async(lambda: CHAT in start.paths, "the chat")
    go.touch()
    error = await failing
    assert type(error) is EngineError
    assert "illegal memory access" in str(error)


async def test_an_engine_that_hangs_at_the_chat_is_ended_by_the_start_time_out(serve) -> None:
    """As long as it says something new it may compile."""
    release, clock = threading.Event(), ClockAhead()

    def hangs(seen) -> tuple[int, str]:
        if seen.path == CHAT:
            release.wait(HANG_S)
        return 200, "{}"

    start = Start(serve(hangs), PLAIN, timeout_s=1000)
    failing = asyncio.create_task(start.error())
    await wait_until_async(lambda: CHAT in start.paths and start.supervisor.output.lines, "the chat")
    clock.move(1000)
    error = await failing
    release.set()
    assert isinstance(error, StartTimeoutError)
    assert re.match(r"the engine has not answered a chat, and for \d{4} s said nothing new", str(error))
