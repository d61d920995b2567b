"""vLLM's own API server before an engine that computes nothing: what its process costs is then its own.

    python scripted_engine.py --step-ms 20 MODEL [flags of `vllm serve`]

Everything in the API's process is real: HTTP server, middleware, chat template, tokenizer, input and output processors,
detokenizer, server-sent events, metrics. Only the client of the engine's process is replaced: each step gives every
running request one token, some milliseconds after the step before.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import types
from typing import Any

FIRST_TOKEN, TOKENS = 300, 500
"""Ids that are answered, in turn: plain words of a vocabulary, and none that ends an answer."""
BLOCKS = 4096


class ScriptedCore:
    """What `AsyncLLM` needs of `AsyncMPClient`."""

    engine_ranks_managed = (0,)

    def __init__(self, step_s: float) -> None:
        self.resources = types.SimpleNamespace(engine_dead=False)
        self._step_s = step_s
        self._left: dict[str, int] = {}
        self._came = asyncio.Event()
        self._ids = itertools.cycle(range(FIRST_TOKEN, FIRST_TOKEN + TOKENS))
        self._next_at = 0.0

    async def get_supported_tasks_async(self) -> tuple[str, ...]:
        """It generates text."""
        return ("generate",)

    async def add_request_async(self, request: Any) -> None:  # noqa: ANN401 - the engine's own
        """Answer it from the next step on."""
        self._left[request.request_id] = request.sampling_params.max_tokens
        self._came.set()

    async def abort_requests_async(self, request_ids: list[str]) -> None:
        """Answer these no longer."""
        for request_id in request_ids:
            self._left.pop(request_id, None)

    async def get_output_async(self) -> Any:  # noqa: ANN401
        """The next step."""
        from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs, FinishReason

        loop = asyncio.get_running_loop()
        while not self._left:
            self._came.clear()
            await self._came.wait()
        self._next_at = max(loop.time(), self._next_at + self._step_s)
        await asyncio.sleep(self._next_at - loop.time())
        outputs = []
        for request_id, left in list(self._left.items()):
            end = FinishReason.LENGTH if left == 1 else None
            outputs.append(EngineCoreOutput(request_id, [next(self._ids)], finish_reason=end))
            if end:
                del self._left[request_id]
            else:
                self._left[request_id] = left - 1
        return EngineCoreOutputs(outputs=outputs, finished_requests=set())

    async def reset_mm_cache_async(self) -> None:
        """There is none."""

    def dp_engines_running(self) -> bool:
        """There is one engine."""
        return False

    def get_kv_event_sources(self) -> dict[int, Any]:
        """There are none."""
        return {}

    def shutdown(self, timeout: float | None = None) -> None:
        """There is nothing to end."""


def main() -> None:
    """Serve as `vllm serve` does."""
    import uvloop
    from vllm.entrypoints.launchers.api_server.entry import run_server
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser
    from vllm.v1.engine.core_client import EngineCoreClient

    step_s = float(sys.argv[2]) / 1000

    def made(vllm_config: Any, *_: object, **__: object) -> ScriptedCore:  # noqa: ANN401
        vllm_config.cache_config.num_gpu_blocks = BLOCKS
        return ScriptedCore(step_s)

    EngineCoreClient.make_async_mp_client = staticmethod(made)  # type: ignore[method-assign,assignment]
    wanted = make_arg_parser(FlexibleArgumentParser()).parse_args(["--model", *sys.argv[3:]])
    validate_parsed_serve_args(wanted)
    uvloop.run(run_server(wanted))


if __name__ == "__main__":
    main()
