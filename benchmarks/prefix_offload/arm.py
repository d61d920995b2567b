"""What an engine of the benchmark can be asked: the side that lives in the process with vLLM."""

from __future__ import annotations

import logging
import mmap
import time
from collections import deque
from pathlib import Path
from typing import Any

Timed = tuple[float, list[int], int]
"""A request: seconds after the start, its prompt, and tokens of its answer."""
COUNTED = ("prefix_cache", "kv_offload", "prefix_offload")
HIT_LOG = "vllm.windlass.prefix_offload"
IDLE_S = 0.0005


class Arm:
    """One engine."""

    def __init__(self, options: dict[str, Any], in_flight: str = "") -> None:
        """Load it. `in_flight`: a file that holds the number of copies that run now."""
        if in_flight:
            _watch(Path(in_flight))
        from vllm import LLM

        self.llm = LLM(**options)
        self.lines = self._hit_lines()
        self._asked = 0
        self._loads = _loads() if options.get("kv_transfer_config") else []

    def _params(self, tokens: int, logprobs: int | None = None) -> Any:  # noqa: ANN401 - vLLM's own
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        return SamplingParams(
            temperature=0,
            max_tokens=tokens,
            ignore_eos=True,
            detokenize=False,
            logprobs=logprobs,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    def _hit_lines(self) -> list[str]:
        """The lines of `--apc-offload-enable-hit-cnt`; `vllm serve` starts this logger, an `LLM` does not."""
        lines: list[str] = []
        try:
            from windlass.engine.prefix_offload.logger import HitLogger
        except ImportError:
            return lines
        engine = self.llm.llm_engine
        logger, record = HitLogger(engine.vllm_config), engine.logger_manager.record

        def both(**words: Any) -> None:  # noqa: ANN401
            logger.record(**words)
            record(**words)

        engine.logger_manager.record = both
        handler = logging.Handler()
        handler.emit = lambda found: lines.append(found.getMessage())  # type: ignore[method-assign]
        logging.getLogger(HIT_LOG).addHandler(handler)
        logging.getLogger(HIT_LOG).setLevel(logging.INFO)
        return lines

    def hit_lines(self) -> list[str]:
        """All hit-count lines since the start."""
        return list(self.lines)

    def token(self, prompt: list[int]) -> float:
        """Milliseconds to the first token of a prompt, as the caller sees them."""
        begun = time.perf_counter()
        self.llm.generate([{"prompt_token_ids": prompt}], self._params(1), use_tqdm=False)
        return 1000 * (time.perf_counter() - begun)

    def parts(self, prompt: list[int]) -> dict[str, float]:
        """Milliseconds of the parts of a first token whose prefix lies in host memory; together they are `ms`.

        - `taken`: the engine takes the request and hashes its blocks;
        - `found`: from there to the copy's submission: scheduling and looking chunks up;
        - `submitted`: the call that submits the copy;
        - `copied`: the copy beyond that call, by the device's clock;
        - `seen`: from the copy's end to the step that sees it;
        - `stepped`: from there to the first token.
        """
        engine = self.llm.llm_engine
        self._loads.clear()
        begun = time.perf_counter()
        self._asked += 1
        engine.add_request(f"parts-{self._asked}", {"prompt_token_ids": prompt}, self._params(1))
        taken = time.perf_counter()
        while engine.has_unfinished_requests():
            engine.step()
        ended = time.perf_counter()
        found = {"ms": ended - begun, "taken": taken - begun}
        if len(self._loads) == 2:
            (submit, submitted), (copied, seen) = self._loads
            found |= {"found": submit - taken, "submitted": submitted - submit}
            found |= {"copied": copied - (submitted - submit), "seen": seen - submit - copied, "stepped": ended - seen}
        return {name: 1000 * value for name, value in found.items()}

    def answers(
        self, asked: list[tuple[dict[str, Any], str]], tokens: int, *, gaps: bool = False
    ) -> list[tuple[list[int], list[float]]]:
        """Tokens after each prompt, one prompt at a time; with `gaps` how far each is before the second best.

        A prompt comes with the folder of its adapter, or with an empty text.
        """
        from vllm.lora.request import LoRARequest

        found = []
        for prompt, adapter in asked:
            lora = LoRARequest("adapter", 1, adapter) if adapter else None
            params = self._params(tokens, logprobs=2 if gaps else None)
            output = self.llm.generate([prompt], params, use_tqdm=False, lora_request=lora)[0].outputs[0]
            found.append((list(output.token_ids), [_gap(place) for place in output.logprobs or ()]))
        return found

    def gaps(self, asked: tuple[dict[str, Any], str], tokens: int) -> list[float]:
        """How far each token of one answer is before the second best."""
        return self.answers([asked], tokens, gaps=True)[0][1]

    def counted(self) -> dict[str, float]:
        """The engine's own counters of the prefix cache, in tokens and bytes."""
        found: dict[str, float] = {}
        for metric in self.llm.get_metrics():
            if hasattr(metric, "value") and any(word in metric.name for word in COUNTED):
                found[metric.name] = found.get(metric.name, 0) + metric.value
        return found

    def decode(self, prompts: list[list[int]], tokens: int) -> float:
        """Milliseconds a token, from each request's first token on."""
        asked = [{"prompt_token_ids": prompt} for prompt in prompts]
        return _ms_a_token(self.llm.generate(asked, self._params(tokens), use_tqdm=False))

    def timed(self, asked: list[Timed]) -> list[dict[str, float]]:
        """Each request at its time; ms from then to its first token and to its last one, and ms a token between."""
        engine, waiting, due = self.llm.llm_engine, deque(asked), {}
        found: list[dict[str, float]] = []
        begun = time.monotonic()
        while waiting or engine.has_unfinished_requests():
            while waiting and begun + waiting[0][0] <= time.monotonic():
                at_s, prompt, tokens = waiting.popleft()
                self._asked += 1
                name = f"timed-{self._asked}"
                due[name] = begun + at_s
                engine.add_request(name, {"prompt_token_ids": prompt}, self._params(tokens))
            if not engine.has_unfinished_requests():
                time.sleep(IDLE_S)
                continue
            for output in engine.step():
                if output.finished:
                    found.append(_times(output, due[output.request_id]))
        return found

    def beside(self, prompts: list[list[int]], tokens: int, loads: list[Timed]) -> dict[str, float]:
        """Milliseconds a token of `prompts`, which start at once, while others come in between; and their TTFT."""
        rows = self.timed([*((0.0, prompt, tokens) for prompt in prompts), *loads])
        others = [row for row in rows if row["tokens"] > 1]
        firsts = sorted(row["first_ms"] for row in rows if row["tokens"] == 1)
        middle = firsts[len(firsts) // 2] if firsts else 0.0
        return {"ms": sum(row["ms_a_token"] for row in others) / len(others), "came": len(firsts), "first_ms": middle}

    def churn(self, prompts: list[list[int]]) -> int:
        """One token after each prompt, all at once; how many."""
        self.llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], self._params(1), use_tqdm=False)
        return len(prompts)

    def reset(self, host: bool) -> bool:
        """Empty the card's prefix cache, and host memory with it where `host` says so."""
        return bool(self.llm.reset_prefix_cache(reset_connector=host))

    def memory(self) -> dict[str, float]:
        """MiB of this process: resident, of that anonymous and shared memory."""
        lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
        wanted = {"VmRSS:": "resident", "RssAnon:": "anonymous", "RssShmem:": "shared"}
        return {wanted[words[0]]: int(words[1]) / 1024 for words in lines if words and words[0] in wanted}

    def copy(self, size: int) -> float:
        """Milliseconds of one copy of so many bytes from pinned host memory; the least of five."""
        import torch

        source, target = (
            torch.empty(size, dtype=torch.int8, pin_memory=True),
            torch.empty(size, dtype=torch.int8, device="cuda"),
        )
        times = []
        for _ in range(5):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            target.copy_(source, non_blocking=True)
            torch.cuda.synchronize()
            times.append(1000 * (time.perf_counter() - begun))
        return min(times)


def _loads() -> list[tuple[float, float]]:
    """A list that gets, for each copy from host memory, when it was submitted (from, to), and its seconds and end."""
    from vllm.v1.kv_offload.cpu.gpu_worker import CPUOffloadingWorker as Worker

    noted: list[tuple[float, float]] = []
    submit, finished, under_way = Worker.submit_load, Worker.get_finished, set[int]()

    def submitted(worker: Any, job: int, *values: Any) -> Any:  # noqa: ANN401
        under_way.add(job)
        begun = time.perf_counter()
        done = submit(worker, job, *values)
        noted.append((begun, time.perf_counter()))
        return done

    def seen(worker: Any) -> Any:  # noqa: ANN401
        done = finished(worker)
        noted.extend((one.transfer_time, time.perf_counter()) for one in done if one.job_id in under_way)
        return done

    Worker.submit_load, Worker.get_finished = submitted, seen
    return noted


def _times(output: Any, due: float) -> dict[str, float]:  # noqa: ANN401 - vLLM's own
    times, count = output.metrics, len(output.outputs[0].token_ids)
    return {
        "first_ms": 1000 * (times.first_token_ts - due),
        "last_ms": 1000 * (times.last_token_ts - due),
        "ms_a_token": 1000 * (times.last_token_ts - times.first_token_ts) / max(1, count - 1),
        "due": due,
        "tokens": count,
        "prompt": len(output.prompt_token_ids),
    }


def _ms_a_token(outputs: list[Any]) -> float:
    spent, made = 0.0, 0
    for output in outputs:
        times, count = output.metrics, len(output.outputs[0].token_ids)
        spent += times.last_token_ts - times.first_token_ts
        made += count - 1
    return 1000 * spent / max(1, made)


def _gap(place: dict[int, Any]) -> float:
    best = sorted((one.logprob for one in place.values()), reverse=True)
    return float(best[0] - best[1]) if len(best) > 1 else 0.0


def _watch(path: Path) -> None:
    """Keep the number of copies between submission and completion in the first byte of a file."""
    from vllm.v1.kv_offload.cpu.gpu_worker import CPUOffloadingWorker as Worker

    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), mmap.PAGESIZE)
    submits, finished = (Worker.submit_store, Worker.submit_load), Worker.get_finished

    def counting(submit: Any) -> Any:  # noqa: ANN401
        def submitted(*values: Any, **words: Any) -> Any:  # noqa: ANN401
            shared[0] = min(255, shared[0] + 1)
            return submit(*values, **words)

        return submitted

    def counted(*values: Any) -> Any:  # noqa: ANN401
        done = finished(*values)
        shared[0] = max(0, shared[0] - len(done))
        return done

    Worker.submit_store, Worker.submit_load = (counting(submit) for submit in submits)
    Worker.get_finished = counted
