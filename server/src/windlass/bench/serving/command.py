"""The words that start vLLM's load generator for one point; names of options are those of vLLM 0.32. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

from windlass.bench.serving.load import Api, DataSet, Load, Point

CLIENT = ("-P", "-m", "vllm.entrypoints.cli.main", "bench", "serve")
RESULT = "result.json"
ROUTES = {
    Api.CHAT: ("openai-chat", "/v1/chat/completions"),
    Api.COMPLETIONS: ("openai", "/v1/completions"),
}
"""vLLM's name of the API (its "backend"), and the route."""
OUTPUT_LEN = 128
"""Tokens of an answer to invented prompts, as in the manual's example."""
PERCENTILES = "90,99"
TRACE_BLOCK = 512
"""Tokens that one hash of a Mooncake trace stands for."""
WARMUP_SEED = 1_000_003
"""Added to the seed for prompts that no measured run sends."""


def argv(load: Load, point: Point, folder: str) -> list[str]:
    """The arguments of `python`; the client writes its result into the folder. No API key is among them."""
    words = [*CLIENT, *_server(load), *_data(load), *_rate(load, point)]
    words += ["--num-prompts", str(load.num_prompts), "--seed", str(point.seed)]
    words += ["--save-result", "--result-dir", folder, "--result-filename", RESULT, "--label", load.name]
    words += ["--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", PERCENTILES]
    if load.goodput:
        words += ["--goodput", *load.goodput]
    if load.metadata:
        words += ["--metadata", *load.metadata]
    return words


def warmup(load: Load, point: Point) -> list[str]:
    """The command of the warm-up: its prompts are not measured again, and its figures are dropped."""
    few = replace(load, num_prefixes=min(load.num_prefixes, load.warmup), ramp=None)  # vLLM wants a request a prefix
    if load.dataset is not DataSet.SHARED_PREFIX:  # prompts of a file would be sent again
        few = replace(few, dataset=DataSet.RANDOM, dataset_path=None)
    words = [*CLIENT, *_server(load), *_data(few), *_rate(few, point)]
    return [*words, "--num-prompts", str(load.warmup), "--seed", str(load.seed + WARMUP_SEED)]


def _server(load: Load) -> list[str]:
    backend, route = ROUTES[load.api]
    words = ["--backend", backend, "--base-url", load.server, "--endpoint", route]
    words += ["--model", load.model, "--served-model-name", load.model, "--tokenizer", load.tokenizer]
    if load.ignore_eos and load.dataset not in {DataSet.SHARED_PREFIX, DataSet.TRACE}:  # which have it already
        words.append("--ignore-eos")
    return words if load.temperature is None else [*words, "--temperature", str(load.temperature)]


def _data(load: Load) -> list[str]:
    answer = str(load.output_len or OUTPUT_LEN)
    if load.dataset is DataSet.RANDOM:
        words = ["--dataset-name", "random", "--random-input-len", str(load.input_len)]
        return [*words, "--random-output-len", answer, "--random-range-ratio", str(load.range_ratio)]
    if load.dataset is DataSet.SHARED_PREFIX:
        words = ["--dataset-name", "prefix_repetition", "--prefix-repetition-prefix-len", str(load.prefix_len)]
        words += ["--prefix-repetition-suffix-len", str(load.input_len)]
        words += ["--prefix-repetition-num-prefixes", str(load.num_prefixes)]
        return [*words, "--prefix-repetition-output-len", answer, "--ignore-eos"]
    if load.dataset is DataSet.TRACE:
        return _trace(load)
    # A file that is too short is not sent twice: the prefix cache would answer the second time.
    words = ["--dataset-path", str(load.dataset_path), "--no-oversample"]
    if load.dataset is DataSet.SHAREGPT:
        given = ["--sharegpt-output-len", answer] if load.output_len else []
        return ["--dataset-name", "sharegpt", *words, *given]
    # The chat route puts the template around a prompt itself; -1 takes each line's own output_tokens.
    template = ["--skip-chat-template"] if load.api is Api.CHAT or load.dataset is DataSet.MULTI_TURN else []
    if load.dataset is DataSet.MULTI_TURN:
        return ["--dataset-name", "custom", *words, *template, "--disable-shuffle", "--custom-output-len", "-1"]
    return ["--dataset-name", "custom", *words, *template, "--custom-output-len", str(load.output_len or -1)]


def _trace(load: Load) -> list[str]:
    """Mooncake's fields are the names that vLLM expects; its times are milliseconds."""
    words = ["--dataset-name", "timed_trace", "--dataset-path", str(load.dataset_path), "--ignore-eos"]
    words += ["--timed-trace-chunk-hash-size", str(TRACE_BLOCK)]
    return [*words, "--timed-trace-sec-multiplier", f"{0.001 / load.trace_speed:.9g}"]


def _rate(load: Load, point: Point) -> list[str]:
    if load.ramp:
        words = ["--ramp-up-strategy", load.ramp.shape]
        words += ["--ramp-up-start-rps", str(load.ramp.first), "--ramp-up-end-rps", str(load.ramp.last)]
        words += ["--burstiness", str(load.burstiness)]
        return words if point.concurrency is None else [*words, "--max-concurrency", str(point.concurrency)]
    words = ["--request-rate", "inf" if math.isinf(load.request_rate) else str(load.request_rate)]
    words += ["--burstiness", str(load.burstiness)]
    return words if point.concurrency is None else [*words, "--max-concurrency", str(point.concurrency)]
