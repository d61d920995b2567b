"""In the image: vLLM's own parser reads the words of every kind of load; prints what it could not read."""

import json
import math
from dataclasses import replace

from vllm.benchmarks.serve import add_cli_args
from vllm.utils.argparse_utils import FlexibleArgumentParser
from windlass.bench.serving import command
from windlass.bench.serving.load import Api, DataSet, Load, Point, Ramp

LOAD = Load(server="http://127.0.0.1:8501", tokenizer="/data/model", model="demo", name="a name", warmup=2)
LOADS = [
    replace(LOAD, dataset=dataset, api=api, dataset_path="/q.jsonl", output_len=length)
    for dataset in DataSet
    for api in Api
    for length in (None, 7)
]
LOADS.append(replace(LOAD, request_rate=2.5, burstiness=0.5, temperature=0.0, goodput=("ttft:1", "tpot:2")))
LOADS.append(replace(LOAD, ramp=Ramp("linear", 1, 20), ignore_eos=True))
LOADS.append(replace(LOAD, metadata=("gpu=H100", "note=a b"), request_rate=math.inf))


def main() -> None:
    """One line: how many commands were read, and the datasets and metadata that came out."""
    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    read = []
    for load in LOADS:
        for words in (command.argv(load, Point("01", 3, 10), "/out"), command.warmup(load, Point("01", 3, 10))):
            read.append(parser.parse_args(words[len(command.CLIENT) :]))
    last = read[-2]
    print(
        "RESULT",
        json.dumps(
            {
                "commands": len(read),
                "datasets": sorted({one.dataset_name for one in read}),
                "metadata": last.metadata,
                "seed": last.seed,
                "saved": (last.result_dir, last.result_filename, last.max_concurrency),
            }
        ),
    )


if __name__ == "__main__":
    main()
