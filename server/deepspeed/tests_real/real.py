"""Serves a model by real DeepSpeed, asks it things at the same time, and prints what came out and what should have.

`python real.py MODEL [--num-gpus N]`: needs the image's environment, and nothing of pytest. The last line is `RESULT`
and JSON: answers beside those of transformers alone, the figures of /metrics, and what became of a client that left.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

START_S = 240
LONG_TOKENS = 60
QUESTIONS = (
    "Hello",
    "What does os.path.join do?",
    "Hi! How are you?",
    "What does math.sqrt do? Please answer in a few words, since I am in a hurry and have to catch a train at noon.",
    "Thanks",
    "Which module has the function namedtuple?",
    "What can you do?",
    "Tell me about json.dumps, and then about json.loads, and about what both have in common with pickle.dumps.",
)


class Server:
    """The command of the image, on a port of this machine."""

    def __init__(self, model: Path, flags: list[str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "windlass_deepspeed", "run", "--model-path", str(model)]
        command += ["--host", "127.0.0.1", "--port", str(port), *flags]
        env = os.environ | {"WINDLASS_ENGINE": "cpu", "OMP_NUM_THREADS": "1", "WINDLASS_FACTS_PORT": "0"}
        self.process = subprocess.Popen(command, env=env)

    def __enter__(self) -> Server:
        end_s = time.monotonic() + START_S
        while time.monotonic() < end_s and self.process.poll() is None:
            try:
                urlopen(f"{self.url}/health", timeout=5).close()
                return self
            except (URLError, ConnectionError):
                time.sleep(0.2)
        self.__exit__()
        raise SystemExit(f"the server did not start: exit code {self.process.poll()}")

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(60)

    def open(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        return urlopen(Request(self.url + path, data, {"content-type": "application/json"}), timeout=300)

    def chat(self, question: str, **fields: Any) -> str:
        """The answer to a question, drawn greedily unless the fields say otherwise."""
        body = {"messages": [{"role": "user", "content": question}], "temperature": 0.0} | fields
        with self.open("/v1/chat/completions", body) as answer:
            return json.load(answer)["choices"][0]["message"]["content"]

    def stream(self, question: str, **fields: Any) -> str:
        """The same, in pieces."""
        body = {"messages": [{"role": "user", "content": question}], "temperature": 0.0, "stream": True} | fields
        with self.open("/v1/chat/completions", body) as answer:
            lines = [line[6:].strip() for line in answer if line.startswith(b"data: ")]
        assert lines.pop() == b"[DONE]"
        return "".join(json.loads(line)["choices"][0]["delta"].get("content", "") for line in lines)

    def figure(self, name: str) -> float:
        """One line of the metrics."""
        with self.open("/metrics") as answer:
            found = re.search(rf"^{re.escape(name)} (\S+)$", answer.read().decode(), re.MULTILINE)
        return float(found[1]) if found else 0.0


class Alone:
    """The same model in transformers, one prompt at a time."""

    def __init__(self, model: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        torch.set_num_threads(1)
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()

    def chat(self, question: str, **options: Any) -> str:
        turns = [{"role": "user", "content": question}]
        given = self.tokenizer.apply_chat_template(
            turns, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        said = self.model.generate(**given, **({"do_sample": False, "max_new_tokens": 200} | options))
        return self.tokenizer.decode(said[0, given["input_ids"].shape[1] :], skip_special_tokens=True)


def main() -> None:
    """Ask, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("flags", nargs=argparse.REMAINDER, help="flags of the server")
    words = parser.parse_args()
    alone = Alone(words.model)
    with Server(words.model, ["--dtype", "float32", *words.flags]) as server:
        result = {
            "together": together(server, alone),
            "joined": joined(server, alone),
            "drawn": drawn(server, alone),
            "gone": gone(server),
            "figures": figures(server),
        }
    print("RESULT " + json.dumps(result | {"exit_code": server.process.returncode}))


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Return when it is true, or when it took too long: then what follows shows it."""
    end_s = time.monotonic() + seconds
    while not condition() and time.monotonic() < end_s:
        time.sleep(0.05)


def together(server: Server, alone: Alone) -> list[tuple[str, str]]:
    """Eight questions of different lengths at once, half of them streamed."""
    asks: list[Callable[..., str]] = [server.chat, server.stream]
    with ThreadPoolExecutor(len(QUESTIONS)) as pool:
        said = [pool.submit(asks[at % 2], question, max_tokens=200) for at, question in enumerate(QUESTIONS)]
    return [(answer.result(), alone.chat(question)) for answer, question in zip(said, QUESTIONS, strict=True)]


def joined(server: Server, alone: Alone) -> list[tuple[str, str]]:
    """Two long answers, and others that come and go while they are made."""
    options = {"max_tokens": LONG_TOKENS, "ignore_eos": True}
    with ThreadPoolExecutor(8) as pool:
        long = [pool.submit(server.chat, question, **options) for question in QUESTIONS[:2]]
        until(lambda: server.figure("windlass_deepspeed_requests_running") == 2)
        short = [pool.submit(server.chat, question) for question in QUESTIONS[2:5]]
    endless = {"eos_token_id": None, "max_new_tokens": LONG_TOKENS}
    pairs = [(said.result(), alone.chat(question, **endless)) for said, question in zip(long, QUESTIONS, strict=False)]
    return pairs + [(said.result(), alone.chat(question)) for said, question in zip(short, QUESTIONS[2:], strict=False)]


def drawn(server: Server, alone: Alone) -> dict[str, tuple[str, str]]:
    """Different ways of drawing in one batch, each with what it must equal."""
    question = QUESTIONS[5]  # the model does not know: its chances are spread
    hot = {"temperature": 2.0, "max_tokens": 30, "ignore_eos": True}
    biased = alone.tokenizer.encode("Join", add_special_tokens=False)[0]
    ways: dict[str, dict[str, Any]] = {
        "top_k": hot | {"top_k": 1},
        "top_p": hot | {"top_p": 1e-6},
        "repetition": {"repetition_penalty": 1.3, "max_tokens": 30, "ignore_eos": True},
        "ngrams": {"no_repeat_ngram_size": 2, "max_tokens": 30, "ignore_eos": True},
        "min_p": hot | {"min_p": 1.0},
        "bias": hot | {"logit_bias": {str(biased): 100}},
        "frequency": {"frequency_penalty": 2.0, "presence_penalty": 2.0, "max_tokens": 30, "ignore_eos": True},
        "seed": hot | {"seed": 7},
        "other seed": hot | {"seed": 8},
        "stop": {"stop": [" "], "max_tokens": 30},
    }
    with ThreadPoolExecutor(len(ways)) as pool:
        said = {name: pool.submit(server.chat, question, **fields) for name, fields in ways.items()}
    endless = {"eos_token_id": None, "max_new_tokens": 30}
    greedy = alone.chat(question, **endless)
    should = {
        "top_k": greedy,
        "top_p": greedy,
        "repetition": alone.chat(question, repetition_penalty=1.3, **endless),
        "ngrams": alone.chat(question, no_repeat_ngram_size=2, **endless),
        "min_p": greedy,
        "bias": alone.tokenizer.decode([biased] * 30),
        "frequency": server.chat(question, **ways["frequency"]),
        "seed": server.chat(question, **ways["seed"]),
        "other seed": server.chat(question, **ways["other seed"]),
        "stop": greedy.partition(" ")[0],
        "greedy": greedy,
    }
    return {name: (answer.result(), should[name]) for name, answer in said.items()} | {"greedy": (greedy, greedy)}


def gone(server: Server) -> dict[str, float]:
    """A client that reads a little of a long answer and leaves."""
    long = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1500, "ignore_eos": True, "stream": True}
    with server.open("/v1/chat/completions", long) as answer:
        for _ in range(5):
            answer.readline()
    until(lambda: server.figure("windlass_deepspeed_requests_running") == 0)
    return {
        "running": server.figure("windlass_deepspeed_requests_running"),
        "gone": server.figure('windlass_deepspeed_requests_total{outcome="gone"}'),
    }


def figures(server: Server) -> dict[str, Any]:
    """What /metrics says of the batches and of the engine."""
    passes = server.figure("windlass_deepspeed_batch_size_count")
    with server.open("/metrics") as answer:
        engine = re.search(r"^windlass_deepspeed_engine_info\{(.*)\} 1.0$", answer.read().decode(), re.MULTILINE)
    return {
        "passes": passes,
        "passes_above_1": passes - server.figure('windlass_deepspeed_batch_size_bucket{le="1.0"}'),
        "passes_above_4": passes - server.figure('windlass_deepspeed_batch_size_bucket{le="4.0"}'),
        "joined": [server.figure(f'windlass_deepspeed_joined_total{{engine="{number}"}}') for number in (0, 1)],
        "engine": dict(re.findall(r'(\w+)="([^"]*)"', engine[1])) if engine else {},
    }


if __name__ == "__main__":
    main()
