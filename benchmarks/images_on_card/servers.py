"""Starts the image's commands as processes, waits for them, asks them, and ends them by their process id."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "processes"))

import httpx
import keeper
from rows import ADAPTER, CHAT, DRAFTS, KEYED, LICENSED, REFUSED, TOKENS, TOOL, Row

BIN = "/opt/windlass/bin"
KEY = "mock_api_key"
PORT, FACTS_PORT = 8501, 18501
STOP_S, REFUSED_S, STACKS_S = 40, 60, 3
MOST_TOKENS = 64
# FlashInfer's sampler and all-reduce are compiled with nvcc at the first start: the engine has others.
LIKE_THE_IMAGE = {
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_ALLREDUCE_USE_FLASHINFER": "0",
    "PYTHONUNBUFFERED": "1",
    "PYTHONFAULTHANDLER": "1",
}
QUESTION = "What does os.path.join do?"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
            "required": ["city", "unit"],
        },
    },
}


@dataclass(slots=True)
class Server:
    """A running row: its process, its ports, its log, when it was started."""

    row: Row
    process: subprocess.Popen[bytes]
    port: int
    log: Path
    begun: float = field(default_factory=time.monotonic)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log_end(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-1500:]


def start(
    row: Row, number: int, work: Path, image: dict[str, str], words: tuple[str, ...] = (), before: tuple[str, ...] = ()
) -> Server:
    """Run a row's command with the image's variables; `number` moves its ports where others run beside it.

    `before` are words in front of the command, which must become the command by exec: the process id stays.
    """
    command = list(words or shlex.split(row.line))
    command = [str(work / "models" / row.model) if word == "/data/model" else word for word in command]
    port = PORT + number
    if number and "--port" not in command:  # the first one has the port of the image
        command += ["--port", str(port)]
    own = {"MODEL": str(work / "models" / row.model), "WINDLASS_FACTS_PORT": str(FACTS_PORT + number)}
    own |= {"WINDLASS_LICENSE_REQUIRED": "true" if {LICENSED, REFUSED} & set(row.asks) else "false"}
    own |= {"PATH": f"{BIN}:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"} | LIKE_THE_IMAGE
    log = work / f"{row.name.replace(' ', '-')}.log"
    command[0] = f"{BIN}/{command[0]}"
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # ours, for the planner
    env = inherited | image | own | row.variables
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*before, *command],
            stdout=file,
            stderr=file,
            env=env,
            cwd="/cache",
            start_new_session=True,
            preexec_fn=keeper.end_with_parent,  # noqa: PLW1509 - no thread of ours runs while a server starts
        )
    return Server(row, process, port, log)


def wait(server: Server, deadline: float) -> float | None:
    """Seconds from the start until the server answers; None when it ended or the deadline (monotonic) passed."""
    while time.monotonic() < deadline and server.process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{server.url}/health", timeout=5).is_success:
                return round(time.monotonic() - server.begun, 1)
        time.sleep(0.5)
    return None


def end(server: Server) -> float | None:
    """Tell the server to end; the seconds it took, or None where what was left of it had to be killed.

    Whoever is left writes its Python stacks into the log first (SIGABRT, by faulthandler). The supervisor is spared
    that, because the output of the others goes through it.
    """
    everyone = [server.process.pid, *descendants(server.process.pid)]
    began = time.monotonic()
    server.process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.process.wait(STOP_S)
    seconds = round(time.monotonic() - began, 1)
    left = [pid for pid in everyone if Path(f"/proc/{pid}/fd").exists() and pid != os.getpid()]
    for number, patience_s in ((signal.SIGABRT, STACKS_S), (signal.SIGKILL, 0)):
        for pid in left:
            if number == signal.SIGKILL or pid != server.process.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        time.sleep(patience_s if left else 0)
    server.process.wait(STOP_S)
    return None if left else seconds


def descendants(pid: int) -> list[int]:
    """The children of a process and theirs, whatever session they are in."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(word) for word in children.read_text().split()]
    return found + [one for child in found for one in descendants(child)]


def facts(server: Server) -> dict[str, Any]:
    """What the facts port says."""
    number = server.port - PORT + FACTS_PORT
    found: dict[str, Any] = httpx.get(f"http://127.0.0.1:{number}/windlass/facts", timeout=5).json()
    return found


def answer_of(http: httpx.Client, model: str, text: str = QUESTION, **more: object) -> dict[str, Any]:
    """One greedy answer, with its usage."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": MOST_TOKENS,
        **more,
    }
    answer = http.post("/v1/chat/completions", json=body)
    if answer.is_error:
        raise ValueError(f"{answer.status_code}: {answer.text[:300]}")
    found: dict[str, Any] = answer.json()
    return found


def chat(http: httpx.Client, model: str, text: str = QUESTION, **more: object) -> dict[str, Any]:
    """One greedy answer's message."""
    message: dict[str, Any] = answer_of(http, model, text, **more)["choices"][0]["message"]
    return message


def models(http: httpx.Client) -> list[str]:
    """The served names."""
    return [row["id"] for row in http.get("/v1/models").json()["data"]]


def _chat(server: Server, http: httpx.Client) -> dict[str, object]:
    began = time.monotonic()
    text = str(chat(http, models(http)[0])["content"])
    return {"ok": bool(text.strip()), "answer": text[:80], "first_answer_s": round(time.monotonic() - began, 2)}


def _tokens(server: Server, http: httpx.Client) -> dict[str, object]:
    """Of random weights: most of their tokens have no text, so that tokens are counted."""
    began = time.monotonic()
    count = answer_of(http, models(http)[0], ignore_eos=True)["usage"]["completion_tokens"]
    return {"ok": count == MOST_TOKENS, "tokens": count, "first_answer_s": round(time.monotonic() - began, 2)}


def _tool(server: Server, http: httpx.Client) -> dict[str, object]:
    said = chat(http, models(http)[0], "What is the weather in Paris in celsius?", tools=[WEATHER], max_tokens=80)
    called = [call["function"] for call in said.get("tool_calls") or ()]
    return {"ok": [call["name"] for call in called] == ["get_weather"], "called": called}


def _adapter(server: Server, http: httpx.Client) -> dict[str, object]:
    names = models(http)
    said = {name: str(chat(http, name)["content"])[:60] for name in names}
    return {"ok": len(names) == 2 and len(set(said.values())) == 2, "answers": said}


def _drafts(server: Server, http: httpx.Client) -> dict[str, object]:
    said = [chat(http, models(http)[0])["content"] for _ in range(3)]
    counts = {
        name: sum(float(line.split()[-1]) for line in http.get("/metrics").text.splitlines()
                  if line.startswith(f"vllm:spec_decode_num_{name}_tokens_total"))
        for name in ("draft", "accepted")
    }  # fmt: skip
    return {"ok": counts["accepted"] > 0, "same_answers": len(set(said)) == 1, **counts}


def _licensed(server: Server, http: httpx.Client) -> dict[str, object]:
    license_ = facts(server)["license"]
    return {"ok": license_["required"] and bool(license_["gpus"]), "license": license_}


def _keyed(server: Server, http: httpx.Client) -> dict[str, object]:
    without = httpx.get(f"{server.url}/v1/models", timeout=10).status_code
    return {"ok": without == 401, "without_key": without}


ASKS = {
    CHAT: _chat,
    TOKENS: _tokens,
    TOOL: _tool,
    ADAPTER: _adapter,
    DRAFTS: _drafts,
    LICENSED: _licensed,
    KEYED: _keyed,
}


def ask(server: Server) -> dict[str, object]:
    """Every ask of the row, and what the facts port says of the start and the memory."""
    found: dict[str, object] = {}
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=120) as http:
        for name in server.row.asks:
            try:
                found[name] = ASKS[name](server, http)
            except (httpx.HTTPError, KeyError, ValueError) as error:
                found[name] = {"ok": False, "error": f"{type(error).__name__}: {error}"}
    seen = facts(server)
    engine = {name: value for name, value in seen["engine"].items() if name != "argv"}
    return {"asks": found, "engine": engine, "phases": seen["phases"], "argv": shlex.join(seen["engine"]["argv"])}


def refused(server: Server) -> dict[str, object]:
    """A server that must end by itself with a sentence."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.process.wait(REFUSED_S)
    code = server.process.poll()
    last = (server.log_end.strip().splitlines() or [""])[-1]
    return {"asks": {REFUSED: {"ok": bool(code) and "license" in last.lower(), "code": code, "said": last[:300]}}}


def load_image(file: Path) -> dict[str, str]:
    """The variables of the built image."""
    found: dict[str, str] = json.loads(file.read_text())
    return {name: value for name, value in found.items() if name != "PATH"}
