"""The words that vLLM's client is started with."""

from dataclasses import replace

import pytest
from windlass.bench.serving import command
from windlass.bench.serving.load import Api, DataSet, Load, Point

from .samples import LOAD

TEN = Point("02-concurrency-10", 6, 10)
FILE = replace(LOAD, dataset=DataSet.JSONL, dataset_path="/data/q.jsonl")
SHAREGPT = replace(FILE, dataset=DataSet.SHAREGPT)
PREFIX = replace(LOAD, dataset=DataSet.SHARED_PREFIX)


def test_every_word() -> None:
    """A whole command of random prompts, as a shell has it."""
    line = " ".join(command.argv(replace(LOAD, goodput=("ttft:200", "tpot:50"), metadata=("gpu=L20",)), TEN, "/out/2"))
    assert line == (
        "-P -m vllm.entrypoints.cli.main bench serve --backend openai-chat --base-url http://127.0.0.1:8501"
        " --endpoint /v1/chat/completions --model llama --served-model-name llama --tokenizer /models/llama"
        " --dataset-name random --random-input-len 128 --random-output-len 128 --random-range-ratio 0.0"
        " --request-rate inf --burstiness 1.0 --max-concurrency 10 --num-prompts 200 --seed 6"
        " --save-result --result-dir /out/2 --result-filename result.json --label 20241220_llama"
        " --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 90,99"
        " --goodput ttft:200 tpot:50 --metadata gpu=L20"
    )


@pytest.mark.parametrize(
    ("load", "part"),
    [
        (replace(LOAD, request_rate=2.5, burstiness=0.5), "--request-rate 2.5 --burstiness 0.5"),
        (replace(LOAD, temperature=0.0), "--tokenizer /models/llama --temperature 0.0"),
        (
            replace(LOAD, api=Api.COMPLETIONS),
            "--backend openai --base-url http://127.0.0.1:8501 --endpoint /v1/completions",
        ),
        (SHAREGPT, "--dataset-name sharegpt --dataset-path /data/q.jsonl --no-oversample --request-rate"),
        (replace(SHAREGPT, output_len=9), "--no-oversample --sharegpt-output-len 9"),
        (FILE, "--dataset-name custom --dataset-path /data/q.jsonl --no-oversample --skip-chat-template"),
        (FILE, "--skip-chat-template --custom-output-len -1"),
        (replace(FILE, api=Api.COMPLETIONS, output_len=7), "--no-oversample --custom-output-len 7"),
        (
            PREFIX,
            "--dataset-name prefix_repetition --prefix-repetition-prefix-len 256 --prefix-repetition-suffix-len 128"
            " --prefix-repetition-num-prefixes 10 --prefix-repetition-output-len 128 --ignore-eos",
        ),
    ],
)
def test_words_of_an_option(load: Load, part: str) -> None:
    """Each option of ours stands in vLLM's words."""
    assert part in " ".join(command.argv(load, TEN, "/out"))


def test_no_limit_of_concurrency() -> None:
    """Without one, requests go when their time has come."""
    assert "--max-concurrency" not in command.argv(LOAD, Point("01-open", 0), "/out")


def test_warm_up_sends_other_prompts_and_saves_nothing() -> None:
    """Its prompts must not be in the prefix cache when the measured ones come."""
    words = command.warmup(replace(PREFIX, warmup=3), TEN)
    assert words[words.index("--num-prompts") + 1] == "3"
    assert words[words.index("--seed") + 1] == str(command.WARMUP_SEED)
    assert words[words.index("--prefix-repetition-num-prefixes") + 1] == "3"
    assert "--save-result" not in words
